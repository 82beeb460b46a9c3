"""`rankwright evaluate` and `rankwright compare`: measures of systems, and their differences from a baseline.

The first file contains judgements: TREC qrels, or a feature file with labels. The others are the systems: TREC runs, or
files with one score per document of the feature file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from rankwright.cli.files import (
    check_plots,
    columns_by_file,
    engine_started,
    matched,
    open_partitioned,
    read_judgements,
    read_queries,
    show_layout,
)
from rankwright.cli.options import (
    FILE,
    Integer,
    duplicates_option,
    engine_option,
    json_option,
    label_options,
    measure_option,
    seed_option,
    together,
)
from rankwright.cli.printing import counted, inform, print_table, progress, reading, warn
from rankwright.cluster.cluster import Transport
from rankwright.data.dataset import RankingData
from rankwright.data.doubts import doubtful_rows
from rankwright.data.trec_table import Duplicates, TrecTable
from rankwright.errors import InputError
from rankwright.evaluation.comparison import compare, curve_measures, query_curves
from rankwright.evaluation.evaluate import (
    DEFAULT_MEASURES,
    Evaluation,
    Judgements,
    evaluate,
    evaluate_run,
    nothing_in_common,
    system_name,
)
from rankwright.evaluation.render import FORMATS, render
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.io.detect import Detected, detected, read_data
from rankwright.io.letor import read_letor_labels
from rankwright.io.roles import Columns
from rankwright.io.tables import read_fields
from rankwright.io.trec import read_run, read_strata, read_subtopics
from rankwright.measures import Measure, parse_measure

_MEASURE_HELP = (
    "AP, nDCG@10, RR@10, P(rel=2)@5, R@100, AUC, ERR@20, Success@5, Bpref, Rprec, …; repeat for several.  "
    f"[default: {', '.join(DEFAULT_MEASURES)}]"
)
_CONVENTION_HELP = "Default gain of nDCG: rel (trec; default for qrels) or 2^rel−1 (letor; default for feature files)."
_EMPTY_HELP = "Value of a query without a relevant document."
_MISSING_HELP = "Value of a judged query that is missing from a run."
_GROUP_HELP = "Documents per query, one number per line, for a feature file without qid."
_QUERIES_HELP = "The queries, for judgements that name them by their text instead of their id."
_SUBTOPICS_HELP = "The second column of the qrels is the subtopic, for alpha_nDCG and ERR_IA."
_STRATA_HELP = "The qrels have five columns, the fourth of them the stratum, for xinfAP."
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
_TEST_HELP = "Significance test; repeat for several.  [default: all]"
_CORRECTION_HELP = (
    "Correction for the number of systems compared on a measure; fdr is Benjamini and Hochberg's, for the false "
    "discovery rate."
)
_PAIRS_HELP = "Compare all pairs of systems, too, by Tukey's HSD by randomisation; with --format csv, only these."
_RESAMPLES_HELP = "Resamples of the randomisation test and the bootstrap."
_PLOT_HELP = "Plot the systems by depth of the ranking and by query into a .png or .svg file; may be repeated."
_POWER_HELP = "Show how many queries would be needed to see each difference with this probability, such as 0.8."
_RBO_HELP = "Show how alike each run is to the baseline: rank-biased overlap, for example with P 0.9."
_QUERY_HELP = "Draw the curves of this query, too; may be repeated, up to 12 queries."

_measure_options = together(
    measure_option(_MEASURE_HELP, "measures", multiple=True),
    click.option("--convention", type=click.Choice(["trec", "letor"]), help=_CONVENTION_HELP),
    click.option("--empty", type=click.Choice(["0", "1", "skip"]), default="0", help=_EMPTY_HELP),
    click.option("--missing", type=click.Choice(["0", "skip"]), default="0", help=_MISSING_HELP),
    click.option("--group", type=FILE, help=_GROUP_HELP),
    click.option("--negative-as-zero", is_flag=True, help="Read labels below 0 in a feature file as 0."),
    click.option("--subtopics", is_flag=True, help=_SUBTOPICS_HELP),
    click.option("--strata", is_flag=True, help=_STRATA_HELP),
    click.option("--queries", "queries_file", type=FILE, help=_QUERIES_HELP),
    label_options,
    duplicates_option,
    click.option("--format", "kind", type=click.Choice(FORMATS), default="text", help="Output format."),
    json_option("Same as --format json."),
)


@click.command("evaluate")
@click.argument("judgements", metavar="QRELS|FEATURES", type=click.Path())
@click.argument("systems", metavar="RUN|SCORES...", nargs=-1, required=True, type=click.Path())
@_measure_options
@engine_option
@click.option("-q", "--per-query", is_flag=True, help="Show every query, not just the means.")
def command(
    judgements: str,
    systems: tuple[str, ...],
    per_query: bool,
    kind: str,
    as_json: bool,
    engine: str | None,
    **options: Any,
) -> None:
    """Evaluate runs against judgements, or score files against a feature file.

    \b
    Examples:
      rankwright evaluate qrels.txt bm25.run mine.run.gz -m AP -m nDCG@10
      rankwright evaluate test.txt scores.txt -m ndcg@10 -q
      rankwright evaluate big.partitions big.scores --engine processes

    Equal scores are ordered by document id, descending, as in trec_eval. The table ends with the definition of every
    measure.
    """
    with engine_started(engine) as started:
        evaluations = evaluate_files(judgements, systems, engine=started, **options)
    text = render(evaluations, "json" if as_json else kind, per_query=per_query)
    print_table(text, is_csv=kind == "csv" and not as_json)


def evaluate_files(
    judgements: str,
    systems: Sequence[str],
    measures: Sequence[str | Measure],
    convention: str | None,
    empty: str,
    missing: str,
    group: Path | None,
    negative_as_zero: bool,
    queries_file: Path | None = None,
    columns: Columns | None = None,
    engine: Transport | None = None,
    subtopics: bool = False,
    strata: bool = False,
    duplicates: Duplicates = "error",
) -> list[Evaluation]:
    """Evaluate every system file against the judgements; each file is opened once."""
    parsed = [parse_measure(measure) for measure in measures or DEFAULT_MEASURES]
    options: dict[str, Any] = {"measures": parsed, "empty": _number(empty)}
    data = None
    columns, of_queries = _by_file(columns, judgements, queries_file)
    judged = _pooled(judgements, subtopics, strata, queries_file, of_queries)
    if judged is None:
        with detected(judgements, columns) as source:
            _check_judgements(source, engine)
            if source.kind == "qrels":
                table = read_judgements(source.source, columns)
                judged = Judgements(_matched(table, queries_file, judgements, of_queries))
            else:
                data = _labelled(source, group, negative_as_zero, columns, engine)
                for line in doubtful_rows(data):
                    warn(line)
    options["convention"] = convention or ("trec" if data is None else "letor")
    evaluations: list[Evaluation] = []
    listed: dict[int, Any] = {}  # scores, by the place of their system
    for system, name in zip(systems, _names(systems), strict=True):
        with detected(system) as file, reading(system) as progress:
            _check_system(file, data)
            if file.kind == "scores":
                assert data is not None
                listed[len(evaluations)] = scores = _read_scores(file, data, judgements, progress)
                evaluations.append(evaluate(data, scores, name=name, **options))
                continue
            if judged is None:
                assert data is not None
                judged = _as_judgements(data, judgements)
            run = read_run(file.source, progress, duplicates=duplicates)
            problem = nothing_in_common(judged, run)
            if problem:
                raise InputError(f"{problem}; expected the same query ids in both", system)
            evaluations.append(evaluate_run(judged, run, missing=_number(missing), name=name, **options))
    if judged is not None and data is not None:  # beside a run, scores are one: by the same rule for ties
        for place, scores in listed.items():
            assert data.doc_ids is not None
            name, ordered = evaluations[place].name, scores if data.rows is None else scores[data.rows]
            run = TrecTable.from_columns(data.qid, data.doc_ids, ordered, name)
            evaluations[place] = evaluate_run(judged, run, missing=_number(missing), name=name, **options)
    return evaluations


def _check_judgements(source: Detected, engine: Transport | None) -> None:
    content = {"run": "TREC run", "scores": "file of scores", "model": "model"}.get(source.kind)
    if content is not None:
        raise InputError(f"is a {content}; expected qrels or a feature file as the first argument", source.path)
    if source.kind == "qrels" and engine is not None:
        raise InputError("contains judgements, without features; --engine is for data in partitions", source.path)


def _by_file(columns: Columns | None, judgements: str, queries: Path | None) -> list[Columns | None]:
    """The named columns of the judgements and of the queries; without queries all are of the judgements."""
    return [columns, None] if queries is None else columns_by_file(columns, Path(judgements), queries)


def _pooled(
    path: str, subtopics: bool, strata: bool, queries: Path | None, columns: Columns | None
) -> Judgements | None:
    """Judgements by subtopic or with strata; None if they are neither."""
    if subtopics and strata:
        raise InputError("--subtopics and --strata are for different files; expected one of them")
    if not subtopics and not strata:
        return None
    with reading(path) as progress:
        table = read_subtopics(path, progress) if subtopics else read_strata(path, progress)
    return Judgements(_matched(table, queries, path, columns))


def _matched(table: TrecTable, queries: Path | None, path: str, columns: Columns | None) -> TrecTable:
    if queries is None:
        return table
    return matched(table, read_queries(queries, columns=columns), Path(path))


def _check_system(file: Detected, data: RankingData | None) -> None:
    if file.kind == "model":
        raise InputError("is a model; expected the run or scores that `rankwright rank` makes with it", file.path)
    if file.kind not in ("run", "scores"):
        raise InputError("neither a TREC run (6 columns) nor a file of scores (1 column)", file.path)
    if file.kind == "scores" and data is None:
        raise InputError("contains scores without document ids; expected a TREC run to go with qrels", file.path)


def _number(text: str) -> Any:
    return text if text == "skip" else int(text)


def _names(systems: Sequence[str]) -> list[str]:
    """File names without folder and common suffixes; whole paths if those are not unique."""
    names = [system_name(str(system)) for system in systems]
    return names if len(set(names)) == len(names) else [str(system) for system in systems]


def _labelled(
    file: Detected, group: Path | None, negative_as_zero: bool, columns: Columns | None, engine: Transport | None
) -> RankingData:
    """The labels of a feature file; features of LETOR text are skipped, which needs no numba."""
    if engine is not None:
        return open_partitioned(Path(file.path), engine, columns=columns)
    negative: Literal["zero", "error"] = "zero" if negative_as_zero else "error"
    show_layout(file, columns, or_judgements=True)
    with reading(file.path) as progress:
        if file.kind != "letor":
            return read_data(file, group=group, negative=negative, columns=columns, progress=progress)
        labels, qid, doc_ids = read_letor_labels(file.source, group=group, negative=negative, progress=progress)
    return RankingData.from_arrays(np.empty((len(labels), 0)), labels, qid, doc_ids=doc_ids)


def _as_judgements(data: RankingData, path: str) -> Judgements:
    if data.doc_ids is None:
        problem = "has no document ids, which runs need"
        raise InputError(f"{problem}; expected `# docid = …` in every line, or score files", path)
    return Judgements(TrecTable.from_columns(data.qid, data.doc_ids, data.labels, Path(path).name))


def _read_scores(file: Detected, data: RankingData, features: str, progress: Callable[..., Any]) -> Any:
    chunks = list(read_fields(file.source, ("score",), ("score",), progress))
    scores = np.concatenate([chunk.numbers("score") for chunk in chunks])
    if len(scores) != data.n_docs:
        problem = f"{len(scores)} scores, but {features} has {data.n_docs} documents"
        raise InputError(f"{problem}; expected one score per document", file.path)
    return scores


@click.command("compare")
@click.argument("judgements", metavar="QRELS|FEATURES", type=click.Path())
@click.argument("baseline", metavar="BASELINE", type=click.Path())
@click.argument("systems", metavar="RUN|SCORES...", nargs=-1, required=True, type=click.Path())
@_measure_options
@click.option("--test", "tests", multiple=True, type=click.Choice(list(TESTS)), help=_TEST_HELP)
@click.option("--correction", type=click.Choice(list(CORRECTIONS)), default="holm", help=_CORRECTION_HELP)
@click.option("--confidence", type=_SHARE, default=0.95, help="Confidence level of the bootstrap intervals.")
@click.option("--resamples", "n_resamples", type=Integer(1), default=9999, help=_RESAMPLES_HELP)
@seed_option()
@click.option("--power", type=click.FloatRange(0.05, 1, min_open=True, max_open=True), metavar="P", help=_POWER_HELP)
@click.option("--pairs", is_flag=True, help=_PAIRS_HELP)
@click.option("-q", "--per-query", is_flag=True, help="Show every query, too: all values, and differences.")
@click.option("--rbo", type=_SHARE, metavar="P", help=_RBO_HELP)
@click.option("--plot", "plots", multiple=True, type=FILE, help=_PLOT_HELP)
@click.option("--plot-query", "queries", multiple=True, metavar="ID", help=_QUERY_HELP)
def compare_command(
    judgements: str,
    baseline: str,
    systems: tuple[str, ...],
    seed: int,
    plots: tuple[Path, ...],
    queries: tuple[str, ...],
    per_query: bool,
    rbo: float | None,
    kind: str,
    as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Compare runs or score files with a baseline: differences, wins and losses, intervals, significance.

    \b
    Examples:
      rankwright compare qrels.txt bm25.run mine.run yours.run -m nDCG@10
      rankwright compare test.txt old.scores new.scores --test wilcoxon --format latex
      rankwright compare qrels.txt bm25.run mine.run yours.run -m AP --correction fdr --pairs
      rankwright compare test.txt old.scores new.scores -m nDCG@10 --plot curves.png --plot-query 12

    Queries are matched by id. p-values are two-tailed and corrected for the number of systems. --plot draws the first
    measure with a cutoff (or else nDCG@10): its mean by cutoff, and its difference from the baseline on every query.
    """
    if queries and not plots:
        raise InputError("--plot-query adds a query to the plot; expected --plot FILE with it")
    if rbo is not None and not all(Path(path).is_file() for path in (baseline, *systems)):
        raise InputError("--rbo reads the runs twice; expected files, not pipes")
    check_plots(plots, plots, [Path(path) for path in (judgements, baseline, *systems)])
    settings = ("tests", "correction", "confidence", "n_resamples", "power", "pairs")
    tested = {name: options.pop(name) for name in settings}
    tested["tests"] = tested["tests"] or tuple(TESTS)
    shown = [parse_measure(measure) for measure in options.pop("measures") or DEFAULT_MEASURES]
    drawn = next((measure for measure in shown if measure.cutoff is not None), parse_measure("nDCG@10"))
    measures = dict.fromkeys([*shown, *(curve_measures(drawn) if plots else ())])
    evaluations = evaluate_files(judgements, (baseline, *systems), measures=list(measures), **options)
    curves = query_curves(evaluations, drawn) if plots else None
    if curves is not None:
        curves.places(queries)  # unknown ones are rejected before anything is computed
    evaluations = [evaluation.only(shown) for evaluation in evaluations]
    with progress("comparing") as moved:
        result = compare(evaluations, **tested, random_state=seed, progress=moved)
    if rbo is not None:
        result = replace(
            result, notes=(*result.notes, *_overlaps(baseline, systems, rbo, evaluations, options["duplicates"]))
        )
    if curves is not None:
        for plot in plots:
            curves.plot(plot, queries)
    text = render(result, "json" if as_json else kind, compared=evaluations if per_query else ())
    print_table(text, is_csv=kind == "csv" and not as_json)
    for plot in plots:
        inform(f"wrote {plot}")


def _overlaps(
    baseline: str, systems: Sequence[str], p: float, evaluations: Sequence[Evaluation], duplicates: Duplicates
) -> list[str]:
    from rankwright.evaluation.agreement import rank_biased_overlap

    base, notes = read_run(baseline, duplicates=duplicates), []
    for system, evaluation in zip(systems, evaluations[1:], strict=True):
        overlap = rank_biased_overlap(read_run(system, duplicates=duplicates), base, p=p)
        queries = counted(len(overlap.values), "query", "queries")
        value = f"RBO of {evaluation.name} with {evaluations[0].name}: {overlap.mean:.4f}"
        notes.append(f"{value} (p {p:g}, extrapolated, mean of {queries})")
    return notes
