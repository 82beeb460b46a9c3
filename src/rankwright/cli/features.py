"""`rankwright features`: a feature file from an index and queries, or from the runs of several systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rankwright.cli.files import check_missing, check_target, engine_started, matched, read_judgements, show_queries
from rankwright.cli.options import (
    FILE,
    Integer,
    columns_option,
    engine_option,
    normalize_option,
    output_option,
    part_option,
    threads_option,
)
from rankwright.cli.printing import counted, progress, reading
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.data.trec_table import TrecTable
    from rankwright.io.roles import Columns
    from rankwright.text.features import MadeFeatures
    from rankwright.text.index import Index

_NUMBERS = "numbers"
_SETS = ("base", "sigir06", _NUMBERS)
_NAMED = 5
_OF_AN_INDEX = {
    "sets": "--set",
    "names": "--feature",
    "per_field": "--per-field",
    "table": "--table",
    "candidates": "--candidates",
    "depth": "--depth",
    "part": "--part",
    "threads": "--threads",
    "engine": "--engine",
}
_SET_HELP = (
    "base: 5 retrieval functions × 3 analysers; sigir06: seven sums from SIGIR'06; numbers: all numbers of the "
    "documents. May be repeated.  [default: base]"
)
_FEATURE_HELP = (
    "A feature, such as 'bm25(k1=0.9)[porter]', or a number, such as price or 'price(missing=0)'; may be repeated. "
    "Without --set, these are the only ones."
)
_CANDIDATES_HELP = "Documents of a query: the top ones of every function, the judged ones, or those of a TREC run."


@click.command("features")
@click.argument("sources", metavar="INDEX QUERIES", nargs=-1, required=True, type=FILE)
@output_option("The feature file.")
@click.option("--qrels", type=FILE, metavar="FILE", help="Relevance judgements, for the labels.")
@click.option("--set", "sets", multiple=True, type=click.Choice(_SETS), help=_SET_HELP)
@click.option("--feature", "names", multiple=True, metavar="NAME", help=_FEATURE_HELP)
@click.option("--per-field", is_flag=True, help="Add the sets for each field of the documents.")
@click.option(
    "--table", type=FILE, metavar="FILE", help="Features of documents: a header line, then rows of id, TAB, numbers."
)
@click.option("--candidates", default="union", metavar="union|judged|RUN", show_default=True, help=_CANDIDATES_HELP)
@click.option("--depth", type=Integer(1), default=1000, show_default=True, help="Documents taken from each function.")
@part_option
@threads_option(1, "Does not affect the output.")
@engine_option
@columns_option
@click.option("--runs", is_flag=True, help="Make features from TREC runs, given as arguments.")
@normalize_option("With --runs: normalisation of the scores of a query.")
def command(
    sources: tuple[Path, ...],
    target: Path,
    qrels: Path | None,
    runs: bool,
    normalize: str,
    columns: Columns | None,
    **options: Any,
) -> None:
    """Make a feature file for training and ranking.

    The input is an index (`rankwright index`) and queries (CSV or JSON with id and text, `id TAB text`, TREC topics)
    or, with --runs, the results of several systems: their scores, normalised within each query, and their reciprocal
    ranks. The suffix of the output decides its format, as for `rankwright convert`; feature names are kept.

    \b
    Example:
      rankwright features docs.index queries.tsv --qrels qrels.txt -o train.txt
      rankwright features docs.index queries.tsv --qrels qrels.txt --set base --set sigir06 --per-field -o train.rank
      rankwright features docs.index queries.tsv --feature "bm25(b=0.4)[porter]" --candidates bm25.run -o test.txt
      rankwright features shop.index queries.tsv --set base --feature price --feature "clicks(missing=0)" -o shop.rank
      rankwright features docs.index queries.tsv --engine processes:2 -o test.txt
      rankwright features --runs bm25.run dense.run --qrels qrels.txt -o fusion.txt
    """
    from rankwright.io.detect import write_data

    _check_usage(sources, runs)
    read = [*sources, *(path for path in (qrels, options["table"]) if path is not None)]
    _check_target(target, [*read, Path(options["candidates"])])
    judgements = None
    if qrels is not None:
        judgements = read_judgements(qrels, columns)
    if runs:
        data, notes = _from_runs(sources, judgements, normalize), []
    else:
        made = _from_index(sources[0], sources[1], judgements, qrels, **options)
        data, notes = made.data, _notes(made)
        check_missing(data, target, ", or the feature {name}(missing=0)")
    write_data(data, target)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    what = f"{data.n_queries:,} queries, {data.n_docs:,} documents, {data.n_features:,} features"
    relevant = "" if judgements is None else f", {int((data.labels > 0).sum()):,} documents with a label above 0"
    click.echo(f"wrote {target}: {what}{relevant}", err=True)


def _check_usage(sources: Sequence[Path], runs: bool) -> None:
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if not runs:
        if len(sources) != 2:
            raise click.UsageError(f"{len(sources)} arguments; expected an index and a file of queries, or --runs")
        if "normalize" in given:
            raise click.UsageError("--normalize needs --runs")
        return
    for name, option in _OF_AN_INDEX.items():
        if name in given:
            raise click.UsageError(f"{option} needs an index; with --runs, expected only runs and --qrels")
    for at, source in enumerate(sources):
        if source in sources[:at]:
            raise click.UsageError(f"duplicate run {source}")


def _check_target(target: Path, sources: Sequence[Path]) -> None:
    from rankwright.io.detect import check_suffix, suffix_of
    from rankwright.io.folder import HEADER

    check_suffix(target)
    if suffix_of(target) == ".qrels":
        raise InputError("has the suffix of judgements, which have no features; expected another suffix", target)
    is_folder = suffix_of(target) == ".rank"
    check_target(target, sources, is_folder=is_folder)
    if is_folder and target.exists() and not (target / HEADER).is_file():
        raise InputError(f"exists and is not a Rankwright folder (no {HEADER} in it); expected a new name", target)


def _from_index(
    folder: Path,
    file: Path,
    judgements: TrecTable | None,
    qrels: Path | None,
    *,
    sets: tuple[str, ...],
    names: tuple[str, ...],
    per_field: bool,
    table: Path | None,
    candidates: str,
    depth: int,
    part: str,
    threads: int,
    engine: str | None,
) -> MadeFeatures:
    from rankwright.io.trec import read_run
    from rankwright.text.features import Columns, make_features, read_document_table
    from rankwright.text.index import Index
    from rankwright.text.queries import read_queries

    index = Index.open(folder)
    fields = index.fields if per_field and len(index.fields) > 1 else ()
    of_sets = [name for one in sets or (() if names else ("base",)) for name in _set_of(one, index, fields)]
    columns = Columns(index, list(dict.fromkeys((*of_sets, *names))))
    with reading(file) as update:
        queries = read_queries(file, part=part, progress=update)
    show_queries(queries, file)
    if judgements is not None and qrels is not None:
        judgements = matched(judgements, queries, qrels)
    chosen: str | TrecTable = candidates
    if candidates not in ("union", "judged"):
        with reading(candidates) as update:
            chosen = read_run(candidates, update)
    more = None if table is None else read_document_table(table, index)
    with engine_started(engine) as started, progress("making features") as update:
        return make_features(
            index,
            queries,
            features=columns,
            qrels=judgements,
            candidates=chosen,
            depth=depth,
            table=more,
            n_jobs=threads,
            engine=started,
            progress=update,
        )


def _set_of(name: str, index: Index, fields: Sequence[str]) -> list[str]:
    from rankwright.text.features import feature_set

    if name != _NUMBERS:
        return feature_set(name, fields)
    if not index.numbers:
        raise InputError("has no numbers; expected some, see `rankwright index --number` and --set-numbers", index.path)
    return list(index.numbers)


def _from_runs(sources: Sequence[Path], judgements: TrecTable | None, normalize: str) -> RankingData:
    from rankwright.data.fusion import runs_to_data
    from rankwright.io.trec import read_run

    names = [source.name.removesuffix(".gz").removesuffix(".run") for source in sources]
    if len(set(names)) < len(names):
        names = [str(source) for source in sources]
    tables = {}
    for name, source in zip(names, sources, strict=True):
        with reading(source) as update:
            tables[name] = read_run(source, update)
    return runs_to_data(tables, judgements, normalize=normalize)


def _notes(made: MadeFeatures) -> list[str]:
    notes = [
        f"{counted(len(queries), 'query', 'queries')} left out: {why} ({_first(queries)})"
        for queries, why in (
            (made.without_judgements, "no judgements"),
            (made.without_candidates, "no document found"),
        )
        if queries
    ]
    if made.unknown_documents:
        notes.append(f"{counted(made.unknown_documents, 'document', 'documents')} left out: not in the index")
    if made.missed_documents:
        what = counted(made.missed_documents, "relevant document is", "relevant documents are")
        notes.append(f"{what} not among the candidates")
    return notes


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
