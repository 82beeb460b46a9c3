"""What `evaluate` and `compare` share: their options, and the evaluation of files.

The first file contains judgements: TREC qrels, or a feature file with labels. The others are the systems: TREC runs, or
files with one score per document of the feature file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from rankwright.cli.completion import complete_measure
from rankwright.cli.engines import open_parted
from rankwright.cli.progress import reading
from rankwright.cli.tables import columns_option, matched, read_judgements, tell_doubt, tell_layout, tell_queries
from rankwright.data.columns import read_columns
from rankwright.data.dataset import RankingData
from rankwright.data.formats import Detected, detected, read_data
from rankwright.data.letor import read_letor_labels
from rankwright.data.roles import Columns
from rankwright.data.trec import TrecTable, read_run
from rankwright.engines.fleet import Transport
from rankwright.errors import InputError
from rankwright.evaluation.render import FORMATS
from rankwright.evaluation.runs import Judgements, evaluate_run
from rankwright.evaluation.table import DEFAULT_MEASURES, Evaluation, evaluate
from rankwright.measures import Measure, parse_measure

__all__ = ["evaluate_files", "measure_options"]

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
_KIND_HELP = "Output format."


def measure_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that evaluates."""
    choice = click.Choice
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.option(
            "-m",
            "--measure",
            "measures",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_measure,
            help=_MEASURE_HELP,
        ),
        click.option("--convention", type=choice(["trec", "letor"]), help=_CONVENTION_HELP),
        click.option("--empty", type=choice(["0", "1", "skip"]), default="0", show_default=True, help=_EMPTY_HELP),
        click.option("--missing", type=choice(["0", "skip"]), default="0", show_default=True, help=_MISSING_HELP),
        click.option("--group", type=click.Path(), metavar="FILE", help=_GROUP_HELP),
        click.option("--negative-as-zero", is_flag=True, help="Read labels below 0 in a feature file as 0."),
        click.option("--subtopics", is_flag=True, help=_SUBTOPICS_HELP),
        click.option("--strata", is_flag=True, help=_STRATA_HELP),
        click.option("--queries", "queries_file", type=click.Path(), metavar="FILE", help=_QUERIES_HELP),
        columns_option,
        click.option("--format", "kind", type=choice(FORMATS), default="text", show_default=True, help=_KIND_HELP),
        click.option("--json", "as_json", is_flag=True, help="Same as --format json."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def evaluate_files(
    judgements: str,
    systems: Sequence[str],
    measures: Sequence[str | Measure],
    convention: str | None,
    empty: str,
    missing: str,
    group: str | None,
    negative_as_zero: bool,
    queries_file: str | None = None,
    columns: Columns | None = None,
    engine: Transport | None = None,
    subtopics: bool = False,
    strata: bool = False,
) -> list[Evaluation]:
    """Evaluate every system file against the judgements; each file is opened once."""
    asked = [parse_measure(measure) for measure in measures or DEFAULT_MEASURES]
    options: dict[str, Any] = {"measures": asked, "empty": _number(empty)}
    data = None
    judged = _pooled(judgements, subtopics, strata, queries_file)
    if judged is None:
        with detected(judgements, columns) as source:
            _check_judgements(source, engine)
            if source.kind == "qrels":
                judged = Judgements(_matched(read_judgements(source.source, columns), queries_file, judgements))
            else:
                data = _labelled(source, group, negative_as_zero, columns, engine)
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
            run = read_run(file.source, progress)
            evaluations.append(evaluate_run(judged, run, missing=_number(missing), name=name, **options))
    if judged is not None and data is not None:  # beside a run, scores are one: by the same rule for ties
        for place, scores in listed.items():
            run = _as_run(data, scores, name := evaluations[place].name)
            evaluations[place] = evaluate_run(judged, run, missing=_number(missing), name=name, **options)
    return evaluations


def _check_judgements(source: Detected, engine: Transport | None) -> None:
    wrong = {"run": "TREC run", "scores": "file of scores", "model": "model"}.get(source.kind)
    if wrong is not None:
        raise InputError(f"is a {wrong}; expected qrels or a feature file as the first argument", source.path)
    if source.kind == "qrels" and engine is not None:
        raise InputError("contains judgements, without features; --engine is for data in parts", source.path)


def _pooled(path: str, subtopics: bool, strata: bool, queries: str | None) -> Judgements | None:
    """Judgements by subtopic or with strata; None if they are neither."""
    if subtopics and strata:
        raise InputError("--subtopics and --strata are for different files; expected one of them")
    if not subtopics and not strata:
        return None
    from rankwright.data.pooled_qrels import read_strata, read_subtopics

    with reading(path) as progress:
        table = read_subtopics(path, progress) if subtopics else read_strata(path, progress)
    return Judgements(_matched(table, queries, path))


def _matched(table: TrecTable, queries: str | None, path: str) -> TrecTable:
    """Judgements with the ids of a file of queries, if there is one."""
    if queries is None:
        return table
    from rankwright.text.reading.queries import read_queries

    asked = read_queries(queries)
    tell_queries(asked, queries)
    return matched(table, asked, Path(path))


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
    names = []
    for system in systems:
        name = Path(system).name.removesuffix(".gz")
        stem, dot, end = name.rpartition(".")
        names.append(stem if dot and stem and end in ("run", "txt", "scores", "trec", "res") else name)
    return names if len(set(names)) == len(names) else [str(system) for system in systems]


def _labelled(
    file: Detected, group: str | None, negative_as_zero: bool, columns: Columns | None, engine: Transport | None
) -> RankingData:
    """The labels of a feature file; features of LETOR text are skipped, which needs no numba."""
    if engine is not None:
        return open_parted(Path(file.path), engine)
    negative: Literal["zero", "error"] = "zero" if negative_as_zero else "error"
    tell_layout(file, columns)
    tell_doubt(file)
    with reading(file.path) as progress:
        if file.kind != "letor":
            return read_data(file, group=group, negative=negative, columns=columns, progress=progress)
        labels, qid, doc_ids = read_letor_labels(file.source, group=group, negative=negative, progress=progress)
    return RankingData.from_arrays(np.empty((len(labels), 0)), labels, qid, doc_ids=doc_ids)


def _as_judgements(data: RankingData, path: str) -> Judgements:
    if data.doc_ids is None:
        raise InputError(
            "has no document ids, which runs need; expected `# docid = …` in every line, or score files", path
        )
    table = TrecTable.from_columns(data.qid, data.doc_ids, data.labels, Path(path).name)
    return Judgements(table)


def _as_run(data: RankingData, scores: Any, name: str) -> TrecTable:
    assert data.doc_ids is not None
    return TrecTable.from_columns(data.qid, data.doc_ids, scores if data.rows is None else scores[data.rows], name)


def _read_scores(file: Detected, data: RankingData, features: str, progress: Any) -> Any:
    chunks = list(read_columns(file.source, ("score",), ("score",), progress))
    scores = np.concatenate([chunk.numbers("score") for chunk in chunks])
    if len(scores) != data.n_docs:
        raise InputError(
            f"{len(scores)} scores, but {features} has {data.n_docs} documents; expected one score per document",
            file.path,
        )
    return scores
