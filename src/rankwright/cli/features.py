"""`rankwright features`: feature files from an index and queries, or from the runs of several systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.trec import TrecTable

__all__ = ["command"]

_SETS = ("base", "sigir06")


@click.command("features")
@click.argument("sources", metavar="INDEX QUERIES", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", "target", required=True, type=click.Path(path_type=Path), help="Where to write.")
@click.option("--qrels", type=click.Path(path_type=Path), metavar="FILE", help="Judgements, for the labels.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    type=click.Choice(_SETS),
    help="base: 5 retrieval functions × 3 analysers; sigir06: the seven sums of SIGIR'06. Repeat for both.  "
    "[default: base]",
)
@click.option("--feature", "names", multiple=True, metavar="NAME", help="One more feature, as bm25(k1=0.9)[porter].")
@click.option("--per-field", is_flag=True, help="The sets also for every field of the documents.")
@click.option(
    "--table", type=click.Path(path_type=Path), metavar="FILE", help="Features of documents: id, TAB, numbers."
)
@click.option(
    "--candidates",
    default="union",
    metavar="union|judged|RUN",
    show_default=True,
    help="Documents of a query: the first of every function, the judged ones, or those of a TREC run.",
)
@click.option("--depth", type=click.IntRange(1), default=1000, show_default=True, help="How many of every function.")
@click.option("--runs", is_flag=True, help="The arguments are TREC runs, each of which gives features.")
@click.option(
    "--normalize",
    type=click.Choice(["minmax", "zscore", "sum", "none"]),
    default="minmax",
    show_default=True,
    help="With --runs: what is done to the scores of a query.",
)
def command(
    sources: tuple[Path, ...],
    target: Path,
    qrels: Path | None,
    sets: tuple[str, ...],
    names: tuple[str, ...],
    per_field: bool,
    table: Path | None,
    candidates: str,
    depth: int,
    runs: bool,
    normalize: str,
) -> None:
    """Make a feature file for training and ranking.

    From an index (`rankwright index`) and queries (JSON lines with id and text, `id TAB text`, or TREC topics); or, with
    --runs, from the results of several systems: their scores, brought to one scale within a query, and their reciprocal
    ranks. The format of the output follows from its name, as for `rankwright convert`; names of features are kept.

    \b
    Example:
      rankwright features docs.index queries.tsv --qrels qrels.txt -o train.txt
      rankwright features docs.index queries.tsv --qrels qrels.txt --set base --set sigir06 --per-field -o train.rank
      rankwright features --runs bm25.run dense.run --qrels qrels.txt -o fusion.txt
    """
    from rankwright.cli.progress import reading
    from rankwright.data.formats import check_suffix, write_data
    from rankwright.data.trec import read_qrels

    check_suffix(target)
    judgements = None
    if qrels is not None:
        with reading(qrels) as progress:
            judgements = read_qrels(qrels, progress)
    if runs:
        if sets or names or per_field or table or candidates != "union":
            raise InputError("--runs takes neither features of an index nor candidates; expected runs and --qrels only")
        data, notes = _from_runs(sources, judgements, normalize)
    else:
        if len(sources) != 2:
            raise InputError(f"{len(sources)} arguments; expected an index and a file of queries, or --runs")
        data, notes = _from_index(*sources, judgements, sets, names, per_field, table, candidates, depth)
    write_data(data, target)
    for note in notes:
        click.echo(note, err=True)
    what = f"{data.n_queries:,} queries, {data.n_docs:,} documents, {data.n_features:,} features"
    relevant = "" if judgements is None else f", {int((data.labels > 0).sum()):,} documents with a label above 0"
    click.echo(f"wrote {target}: {what}{relevant}", err=True)


def _from_index(
    folder: Path,
    file: Path,
    judgements: TrecTable | None,
    sets: tuple[str, ...],
    extra: tuple[str, ...],
    per_field: bool,
    table: Path | None,
    candidates: str,
    depth: int,
) -> tuple[Any, list[str]]:
    from rankwright.cli.progress import progress, reading
    from rankwright.data.trec import read_run
    from rankwright.text.columns import feature_set
    from rankwright.text.features import make_features, read_document_table
    from rankwright.text.index import Index
    from rankwright.text.queries import read_queries

    index = Index.open(folder)
    queries = read_queries(file)
    chosen: str | TrecTable = candidates
    if candidates not in ("union", "judged"):
        with reading(candidates) as update:
            chosen = read_run(candidates, update)
    fields = index.fields if per_field and len(index.fields) > 1 else ()
    columns = [name for one in sets or (() if extra else ("base",)) for name in feature_set(one, fields)]
    with progress("features") as update:
        made = make_features(
            index,
            dict(zip(queries.ids, queries.texts, strict=True)),
            features=[*dict.fromkeys((*columns, *extra))],
            qrels=judgements,
            candidates=chosen,
            depth=depth,
            table=None if table is None else read_document_table(table, index),
            progress=update,
        )
    notes = []
    for left_out, why in (
        (made.without_candidates, "no document was found"),
        (made.without_judgements, "there are no judgements"),
    ):
        if left_out:
            notes.append(f"note: {len(left_out):,} queries left out, as {why} ({_first(left_out)})")
    if made.unknown_documents:
        notes.append(f"note: {made.unknown_documents:,} documents left out, as the index does not hold them")
    return made.data, notes


def _from_runs(sources: tuple[Path, ...], judgements: TrecTable | None, normalize: str) -> tuple[Any, list[str]]:
    from rankwright.cli.progress import reading
    from rankwright.data.run_features import runs_to_data
    from rankwright.data.trec import read_run

    names = [source.name.removesuffix(".gz").removesuffix(".run") for source in sources]
    if len(set(names)) < len(names):
        names = [str(source) for source in sources]
    tables = {}
    for name, source in zip(names, sources, strict=True):
        with reading(source) as update:
            tables[name] = read_run(source, update)
    return runs_to_data(tables, judgements, normalize=normalize), []


def _first(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
