"""`rankwright features`: a feature file from an index and queries, or from the runs of several systems.

`rankwright fuse`: the runs of several systems as one, by rank or by normalised score.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.files import (
    check_missing,
    check_target,
    columns_by_file,
    engine_started,
    matched,
    read_judgements,
    read_queries,
)
from rankwright.cli.options import (
    FILE,
    Integer,
    depth_option,
    duplicates_option,
    engine_option,
    given_options,
    label_options,
    measure_option,
    normalize_option,
    output_option,
    part_option,
    threads_option,
)
from rankwright.cli.printing import counted, inform, listed, note, progress, reading, warn
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.trec_table import Duplicates, TrecTable
    from rankwright.io.roles import Columns
    from rankwright.text.features import MadeFeatures
    from rankwright.text.index import Index

_NUMBERS = "numbers"
_DEPTH_TO_TRAIN = 100  # of 1,000 nearly all would be unjudged; see docs/text.md
_SETS = ("base", "sigir06", _NUMBERS)
_OF_AN_INDEX = ("sets", "names", "per_field", "table", "candidates", "depth", "part", "threads", "engine")
_SET_HELP = (
    "base: 5 retrieval functions × 3 analysers; sigir06: seven sums from SIGIR'06; numbers: all numbers of the "
    "documents. May be repeated.  [default: base]"
)
_FEATURE_HELP = (
    "A feature, such as 'bm25(k1=0.9)[porter]', or a number, such as price or 'price(missing=0)'; may be repeated. "
    "Without --set, these are the only ones."
)
_CANDIDATES_HELP = "Documents of a query: the top ones of every function, the judged ones, or those of a TREC run."
_DEPTH_HELP = f"Documents taken from each function.  [default: {_DEPTH_TO_TRAIN} with --qrels, else 1000]"
_FEW_JUDGED = 0.05  # of the rows: fewer are worth a warning
_FUSIONS = click.Choice(["rrf", "isr", "logisr", "rbc", "borda", "condorcet", "combsum", "combmnz"])
_FUSION_HELP = "How to combine ranks or, for combsum and combmnz, scores."
_K_HELP = "For rrf: the larger, the less the first ranks stand out.  [default: 60]"
_CHOOSE_HELP = "For rrf: choose k by these judgements, of other queries than those to test on."


@click.command("features")
@click.argument("sources", metavar="INDEX QUERIES", nargs=-1, required=True, type=FILE)
@output_option("The feature file.")
@click.option("--qrels", type=FILE, help="Relevance judgements, for the labels.")
@click.option("--set", "sets", multiple=True, type=click.Choice(_SETS), help=_SET_HELP)
@click.option("--feature", "names", multiple=True, metavar="NAME", help=_FEATURE_HELP)
@click.option("--per-field", is_flag=True, help="Add the sets for each field of the documents.")
@click.option("--table", type=FILE, help="Features of documents: a header line, then rows of id, TAB, numbers.")
@click.option("--candidates", default="union", metavar="union|judged|RUN", help=_CANDIDATES_HELP)
@click.option("--depth", type=Integer(1), help=_DEPTH_HELP)
@part_option
@threads_option(1, "Does not affect the output.")
@engine_option
@label_options
@duplicates_option
@click.option("--runs", is_flag=True, help="Make features from TREC runs, given as arguments.")
@normalize_option("With --runs: normalisation of the scores of a query.")
def command(
    sources: tuple[Path, ...],
    target: Path,
    qrels: Path | None,
    runs: bool,
    normalize: str,
    columns: Columns | None,
    duplicates: Duplicates,
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
    of_qrels, of_queries = columns_by_file(columns, qrels, None if runs else sources[1])
    if qrels is not None:
        judgements = read_judgements(qrels, of_qrels)
    if runs:
        from rankwright.data.fusion import runs_to_data

        names = [source.name.removesuffix(".gz").removesuffix(".run") for source in sources]
        if len(set(names)) < len(names):
            names = [str(source) for source in sources]
        tables = dict(zip(names, _read_runs(sources, duplicates), strict=True))
        data, notes = runs_to_data(tables, judgements, normalize=normalize), []
    else:
        made = _from_index(sources[0], sources[1], judgements, qrels, of_queries, duplicates=duplicates, **options)
        data, notes = made.data, _notes(made)
        check_missing(data, target, ", or the feature {name}(missing=0)")
    write_data(data, target)
    for text in notes:
        note(text)
    if not runs and judgements is not None:
        _show_judged(made, judgements)
    size = f"{data.n_queries:,} queries, {data.n_docs:,} documents, {data.n_features:,} features"
    relevant = "" if judgements is None else f", {int((data.labels > 0).sum()):,} documents with a label above 0"
    inform(f"wrote {target}: {size}{relevant}")


def _show_judged(made: MadeFeatures, judgements: TrecTable) -> None:
    """Say how many rows have judgements, loudly if few do and there is a remedy: the others' labels are a guess."""
    n_rows, n_judged = made.data.n_docs, made.judged_documents
    if n_judged < n_rows:
        share = f"{n_judged:,} of {n_rows:,} rows ({n_judged / n_rows:.1%}) are judged, the others get label 0"
        one_sided = bool((judgements.values > 0).all())  # nothing to order among judged ones alone
        remedy = "all judgements are of relevant documents" if one_sided else "only judged ones: --candidates judged"
        (warn if n_judged < _FEW_JUDGED * n_rows and not one_sided else note)(f"{share}; {remedy}")


def _check_usage(sources: Sequence[Path], runs: bool) -> None:
    given = given_options()
    if not runs:
        if len(sources) != 2:
            raise click.UsageError(f"{len(sources)} arguments; expected an index and a file of queries, or --runs")
        if "normalize" in given:
            raise click.UsageError("--normalize needs --runs")
        return
    for name in _OF_AN_INDEX:
        if name in given:
            raise click.UsageError(f"{given[name]} needs an index; with --runs, expected only runs and --qrels")
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
    columns: Columns | None,
    *,
    duplicates: Duplicates,
    sets: tuple[str, ...],
    names: tuple[str, ...],
    per_field: bool,
    table: Path | None,
    candidates: str,
    depth: int | None,
    part: str,
    threads: int,
    engine: str | None,
) -> MadeFeatures:
    from rankwright.text.features import DEPTH, make_features, read_document_table
    from rankwright.text.features import Columns as FeatureColumns
    from rankwright.text.index import Index

    index = Index.open(folder)
    fields = index.fields if per_field and len(index.fields) > 1 else ()
    of_sets = [name for set_ in sets or (() if names else ("base",)) for name in _set_of(set_, index, fields)]
    features = FeatureColumns(index, list(dict.fromkeys((*of_sets, *names))))
    queries = read_queries(file, part, columns)
    if judgements is not None and qrels is not None:
        judgements = matched(judgements, queries, qrels)
    is_run = candidates not in ("union", "judged")
    chosen = _read_runs([Path(candidates)], duplicates)[0] if is_run else candidates
    documents = None if table is None else read_document_table(table, index)
    with engine_started(engine) as started, progress("making features") as update:
        return make_features(
            index,
            queries,
            features=features,
            qrels=judgements,
            candidates=chosen,
            depth=depth or (DEPTH if judgements is None else _DEPTH_TO_TRAIN),
            table=documents,
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


def _read_runs(sources: Sequence[Path], duplicates: Duplicates) -> list[TrecTable]:
    from rankwright.io.trec import read_run

    tables = []
    for source in sources:
        with reading(source) as update:
            tables.append(read_run(source, update, duplicates=duplicates))
    return tables


def _notes(made: MadeFeatures) -> list[str]:
    left_out = ((made.without_judgements, "no judgements"), (made.without_candidates, "no document found"))
    notes = [
        f"{counted(len(queries), 'query', 'queries')} left out: {reason} ({listed(queries)})"
        for queries, reason in left_out
        if queries
    ]
    if made.unknown_documents:
        notes.append(f"{counted(made.unknown_documents, 'document', 'documents')} left out: not in the index")
    if made.missed_documents:
        missed = counted(made.missed_documents, "relevant document is", "relevant documents are")
        notes.append(f"{missed} not among the candidates")
    return notes


@click.command("fuse")
@click.argument("sources", metavar="RUN...", nargs=-1, required=True, type=FILE)
@output_option("Run to write.")
@click.option("--method", type=_FUSIONS, default="rrf", help=_FUSION_HELP)
@click.option("-k", "k", type=click.FloatRange(0), help=_K_HELP)
@click.option("--choose-k", "qrels", type=FILE, metavar="QRELS", help=_CHOOSE_HELP)
@measure_option("What --choose-k chooses by.  [default: nDCG@10]")
@click.option("--phi", type=click.FloatRange(0, 1), default=0.8, help="For rbc: patience of a user.")
@normalize_option("For combsum and combmnz: how scores are normalised within a query.")
@depth_option(1000, "Maximum documents per query.")
@duplicates_option
def fuse_command(
    sources: tuple[Path, ...],
    target: Path,
    method: str,
    k: float | None,
    qrels: Path | None,
    measure: str | None,
    phi: float,
    normalize: str,
    depth: int,
    duplicates: Duplicates,
) -> None:
    """Combine TREC runs into one, for `evaluate` and `compare`.

    With n runs that have a document: rrf is the sum of 1 / (k + rank); isr n times the sum of 1 / rank², logisr ln(n)
    times it; rbc the sum of (1 − φ) φ^(rank − 1); borda counts the documents below; condorcet lets the runs vote on
    pairs; combsum is the sum of scores, combmnz n times it.

    The result is the baseline for a learned combination of the same runs. FILE is compressed if its name ends in .gz,
    and appears only when it is complete.

    \b
    Example:
      rankwright fuse bm25.run dirichlet.run -o rrf.run
      rankwright fuse bm25.run dirichlet.run -o rrf.run --choose-k valid.qrels
      rankwright fuse bm25.run dirichlet.run -o combmnz.run --method combmnz
      rankwright compare qrels.txt bm25.run rrf.run combmnz.run
    """
    from rankwright.data.fusion import fuse
    from rankwright.io.trec import write_run

    if qrels is not None and method != "rrf":
        raise InputError(f"--choose-k is for rrf, not {method}; expected --method rrf with it")
    if qrels is not None and k is not None:
        raise InputError("-k and --choose-k exclude each other; expected one of them")
    if measure is not None and qrels is None:
        raise InputError("--measure is what --choose-k chooses by; expected --choose-k QRELS with it")
    check_target(target, [*sources, qrels])
    tables = _read_runs(sources, duplicates)
    if qrels is not None:
        k = _chosen(tables, qrels, measure)
    fused = fuse(tables, method, k=60.0 if k is None else k, phi=phi, normalize=normalize, depth=depth)
    write_run(fused, target, tag=method)
    facts = f"{fused.n_queries:,} queries, {fused.n_docs:,} documents of {len(tables):,} runs"
    inform(f"wrote {target}: {facts}")


def _chosen(tables: list[TrecTable], path: Path, measure: str | None) -> float:
    from rankwright.evaluation.evaluate import choose_k

    choice = choose_k(tables, read_judgements(path), measure or "nDCG@10")
    means = ", ".join(f"{k:g}: {mean:.4f}" for k, mean in choice.means.items())
    queries = counted(choice.queries, "query", "queries")
    inform(f"k is {choice.k:g}, by {choice.measure} of {queries} ({means})")
    return choice.k
