"""`rankwright train`: a ranker trained on a feature file, with the proof of how good it is, as one model file.

What is known after the training is one dictionary of facts: ``--json`` prints it, people get it in words. Ctrl-C ends
the training after the pass at hand, and what there is by then is saved.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.training import Watch, must_compile, show
from rankwright.errors import InputError, InputWarning

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.measures import Measure
    from rankwright.models.linear import LinearModel

__all__ = ["command"]

_LOSSES = {
    "svm-map": "map",
    "svm-auc": "auc",
    "svm-ndcg": "ndcg@10",
    "svm-ndcg-nc": "ndcg",
    "svm-mrr": "mrr@10",
    "rank-svm": None,
}
_WITH_CUTOFF = re.compile(r"svm-(ndcg|mrr)@(.*)")
_LISTED = "svm-map, svm-auc, svm-ndcg, svm-ndcg@K, svm-ndcg-nc, svm-mrr, svm-mrr@K, rank-svm"
_DEFAULT_C = 1.0
_NO_PAIRS = "no query has documents of different labels"
_ALL_ZERO = "all weights are 0, which for this C is near enough to the best; a larger --C or a smaller --tol may help"
_FILE = click.Path(path_type=Path)
_METHOD_HELP = f"What to train: {_LISTED}. svm-ndcg is svm-ndcg@10, svm-mrr is svm-mrr@10, -nc is without a cutoff."
_C_HELP = (
    "Weight of the ranking errors against large weights; auto: the value of --C-grid that is best on --valid.  "
    "[default: auto with --valid, else 1]"
)
_GRID_HELP = "Values of C that auto tries.  [default: 0.0001, 0.001, … 1000]"
_MEASURE_HELP = "What C is chosen by, and what is reported.  [default: the measure of the method; nDCG@10 for rank-svm]"
_TOL_HELP = "Stop when the objective is proved to be this close to the best possible (0.001 is 0.1 %)."
_CONTINUE_HELP = "Start from the weights of a saved model, and its C unless --C or --valid is given."
_SOLVER_HELP = "Two ways to the same model."


@click.command("train")
@click.argument("features", metavar="FEATURES", type=_FILE)
@click.option("--method", required=True, metavar="METHOD", help=_METHOD_HELP)
@click.option("-o", "--output", "target", required=True, type=_FILE, metavar="FILE", help="The model, such as m.rkw.")
@click.option("--C", "cost", metavar="NUMBER|auto", help=_C_HELP)
@click.option("--C-grid", "grid", metavar="0.01,0.1,1", help=_GRID_HELP)
@click.option("--valid", type=_FILE, metavar="FILE", help="Validation data.")
@click.option("--measure", metavar="NAME", help=_MEASURE_HELP)
@click.option("--relevant-from", type=float, metavar="LABEL", help="Labels from here on are relevant.  [default: 1]")
@click.option("--continue", "start", type=_FILE, metavar="MODEL", help=_CONTINUE_HELP)
@click.option("--no-standardize", is_flag=True, help="Train on the features as they are, as the papers do.")
@click.option("--tol", type=float, default=1e-3, show_default=True, help=_TOL_HELP)
@click.option(
    "--max-passes", type=click.IntRange(1), default=200, show_default=True, help="Passes over the data, per C."
)
@click.option(
    "--solver",
    type=click.Choice(["frank-wolfe", "cutting-plane"]),
    default="frank-wolfe",
    show_default=True,
    help=_SOLVER_HELP,
)
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="The model does not depend on it."
)
@click.option("--group", type=_FILE, metavar="FILE", help="Documents per query, for text without qid.")
@click.option("--valid-group", type=_FILE, metavar="FILE", help="The same for the validation data.")
@click.option("--negative-as-zero", is_flag=True, help="Take labels below 0 as not relevant instead of as an error.")
@click.option("--json", "as_json", is_flag=True, help="Print what is known about the training as one JSON object.")
def command(
    features: Path, target: Path, valid: Path | None, start: Path | None, as_json: bool, **options: Any
) -> None:
    """Train a linear ranker on FEATURES for the measure you are judged by.

    FEATURES is LETOR text, Parquet or a Rankwright folder. Training stops when the weights are proved to be nearly the
    best there are; how near is shown. Ctrl-C stops earlier and keeps the best model so far.

    \b
    Example:
      rankwright train train.txt --method svm-map --C 10 -o model.rkw
      rankwright train train.txt --method svm-ndcg@5 --valid vali.txt -o model.rkw
      rankwright train train.txt --method rank-svm --valid vali.txt --measure nDCG@10 --C-grid 0.01,0.1,1 -o model.rkw
      rankwright rank model.rkw test.txt -o test.run
      rankwright evaluate test.txt test.run
    """
    from rankwright.models.saving import load_model

    ranker, measure = _ranker(has_valid=valid is not None, **options)
    _check_target(target, [features, *([] if valid is None else [valid])])
    saved = None if start is None else load_model(start)
    negative: Literal["error", "zero"] = "zero" if options["negative_as_zero"] else "error"
    data = _read(features, options["group"], negative, measure)
    checked = None if valid is None else _read(valid, options["valid_group"], negative, measure)
    if valid is not None and checked is not None:
        checked = _as_trained(checked, data, valid)
    if start is not None and saved is not None:
        ranker._start_from(_weights_for(saved.model, data, start))
        before = saved.training.get("C")
        if options["cost"] is None and valid is None and isinstance(before, float) and before > 0:
            ranker.C = before
    facts = _train(ranker, data, checked, features, starts=start is not None)
    evaluations = {"training": _evaluated(ranker, data, measure)}
    if checked is not None:
        evaluations["validation"] = _evaluated(ranker, checked, measure)
    measures = {f"{part} {measure}": found.means[str(measure)] for part, found in evaluations.items()}
    ranker.save(target, measures=measures)
    files = {"model": str(target), "features": str(features), "valid": None if valid is None else str(valid)}
    names = {"method": _method_name(_loss(options["method"])), "measure": str(measure)}
    facts = files | names | facts | {"measures": measures, "definitions": _definitions(evaluations)}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        show(facts)
    if facts["interrupted"]:
        raise click.Abort


def _ranker(
    method: str,
    cost: str | None,
    grid: str | None,
    measure: str | None,
    relevant_from: float | None,
    no_standardize: bool,
    tol: float,
    max_passes: int,
    solver: str,
    threads: int,
    has_valid: bool,
    **_: Any,
) -> tuple[Any, Measure]:
    """The estimator that the options describe, and the measure to report."""
    from rankwright.measures import BinaryMeasure, parse_measure

    loss = _loss(method)
    if loss is None and relevant_from is not None:
        raise InputError("--relevant-from is for methods with relevant and not; rank-svm uses all labels as they are")
    asked = parse_measure(measure or loss or "nDCG@10")
    if measure is None and relevant_from is not None and relevant_from > 0 and isinstance(asked, BinaryMeasure):
        asked = dataclasses.replace(asked, rel=int(relevant_from) if relevant_from.is_integer() else relevant_from)
    C = _cost(cost, has_valid)
    if grid is not None and C != "auto":
        raise InputError("--C-grid holds the values that --C auto tries; expected --valid with it, and no other --C")
    from rankwright.rankers.max_margin import RankingSVM, StructuredSVM

    shared: dict[str, Any] = {
        "C": C,
        "tol": tol,
        "max_passes": max_passes,
        "standardize": not no_standardize,
        "solver": solver,
        "C_grid": None if grid is None else _grid(grid),
        "eval_measure": str(asked),
        "n_jobs": threads,
    }
    ranker: Any = RankingSVM(**shared)
    if loss is not None:
        ranker = StructuredSVM(loss, relevant_from=1.0 if relevant_from is None else relevant_from, **shared)
    ranker._check_parameters()
    return ranker, asked


def _loss(method: str) -> str | None:
    """The loss of a method; None for pairs."""
    name = method.strip().lower()
    if name in _LOSSES:
        return _LOSSES[name]
    match = _WITH_CUTOFF.fullmatch(name)
    if match is not None:
        if not (match[2].isdecimal() and int(match[2]) > 0):
            raise InputError(f"the cutoff of the method {method!r} is {match[2]!r}; expected a whole number from 1")
        return f"{match[1]}@{int(match[2])}"
    near = difflib.get_close_matches(name.replace("_", "-").partition("@")[0], _LOSSES, n=3, cutoff=0.55)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"unknown method {method!r}; {hint}methods: {_LISTED}")


def _method_name(loss: str | None) -> str:
    """The method with its cutoff written out."""
    return "rank-svm" if loss is None else "svm-ndcg-nc" if loss == "ndcg" else f"svm-{loss}"


def _cost(text: str | None, has_valid: bool) -> float | str:
    if text is None:
        return "auto" if has_valid else _DEFAULT_C
    if text.strip().lower() == "auto":
        if not has_valid:
            raise InputError("--C auto chooses C on validation data; expected --valid FILE with it")
        return "auto"
    return _positive(text, "--C", "a number above 0, or auto")


def _grid(text: str) -> list[float]:
    return [_positive(part, "--C-grid", "numbers above 0 with commas between them") for part in text.split(",")]


def _positive(text: str, option: str, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f"{option} is given {text.strip()!r}; expected {expected}")
    return value


def _check_target(target: Path, sources: Sequence[Path]) -> None:
    """Refuse before the training what cannot be written after it."""
    if str(target) == "-":
        raise InputError("a model is not text for the standard output; expected a file name after -o")
    if target.is_dir():
        raise InputError("is a folder; expected a file name to write to", target)
    if target.suffix.lower() == ".gz":
        raise InputError("model files are not gzip; expected a name such as model.rkw", target)
    if not target.parent.is_dir():
        raise InputError("cannot be written: No such file or directory", target)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError("cannot be written: Permission denied", target)
    if any(target.exists() and source.exists() and target.samefile(source) for source in sources):
        raise InputError("is what is being read; expected another name for the model", target)


def _read(path: Path, group: Path | None, negative: Literal["error", "zero"], measure: Measure) -> RankingData:
    """The data of a file, whose labels suit the measure."""
    import numpy as np

    from rankwright.cli.progress import reading
    from rankwright.data.formats import read_data
    from rankwright.evaluation.table import evaluate

    with reading(path) as progress:
        data = read_data(path, group=group, negative=negative, progress=progress)
    try:
        evaluate(data, np.zeros(data.n_docs), measures=[measure])
    except InputError as error:
        raise InputError(error.message, path) from None
    return data


def _as_trained(valid: RankingData, data: RankingData, path: Path) -> RankingData:
    """Validation data with the columns of the training data, found as the model will find them."""
    import numpy as np

    from rankwright.models.linear import LinearModel

    model = LinearModel(np.zeros(data.n_features), data.feature_names)
    try:
        columns = model._columns(valid.n_features, valid.feature_names)
    except InputError as error:
        message = error.message.replace("the model was trained on", "the training data has")
        raise InputError(message.replace("the model's", "the training data's"), path) from None
    return valid if columns is None else valid.with_features(valid.X[:, columns], data.feature_names)


def _weights_for(model: LinearModel, data: RankingData, path: Path) -> Any:
    """Weights to start from, in the order of the data's features."""
    names = data.feature_names
    if model.feature_names is not None and names is not None and model.feature_names != names:
        weights = dict(zip(model.feature_names, model.coef.tolist(), strict=True))
        if weights.keys() != set(names):
            raise InputError("was trained on features of other names; expected those of the training data", path)
        import numpy as np

        return np.array([weights[name] for name in names])
    if model.n_features != data.n_features:
        what = f"has {model.n_features:,} features, but the training data {data.n_features:,}"
        raise InputError(f"{what}; expected a model of the same features to start from", path)
    return model.coef


def _train(ranker: Any, data: RankingData, valid: RankingData | None, path: Path, *, starts: bool) -> dict[str, Any]:
    """Fit; what is known afterwards. Warnings become one line each."""
    from rankwright.rankers.max_margin import DEFAULT_GRID

    tried = sorted(ranker.C_grid or DEFAULT_GRID) if ranker.C == "auto" else [ranker.C]
    compiles = must_compile()
    if compiles:
        click.echo("compiling the training code, once on this machine: about 15 seconds …", err=True)
    watch = Watch(tried, starts)
    ranker.callback = watch
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with watch.interruptible():
            ranker.fit(data, eval_set=valid)
    seconds = time.perf_counter() - began
    ranker.callback = None
    if ranker.n_queries_ == 0:
        what = "no query has both relevant and other documents" if hasattr(ranker, "loss") else _NO_PAIRS
        raise InputError(f"{what}: there is nothing to order, and nothing to train on", path)
    for one in caught:
        if not issubclass(one.category, UserWarning):
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
        elif not (watch.stopped and issubclass(one.category, InputWarning) and "interrupted" in str(one.message)):
            click.echo(f"warning: {_in_words(str(one.message))}", err=True)
    if not ranker.coef_.any():
        click.echo(f"warning: {_ALL_ZERO}", err=True)
    return {
        "queries": ranker.n_queries_,
        "queries_skipped": ranker.n_queries_skipped_,
        "documents": data.n_docs,
        "n_features": data.n_features,
        "C": ranker.C_,
        "C_tried": ranker.C_path_ if ranker.C == "auto" else [],
        "C_left": len(tried) - len(ranker.C_path_) if ranker.C == "auto" else 0,
        "objective": ranker.objective_,
        "gap": ranker.gap_,
        "passes": ranker.n_passes_,
        "passes_total": ranker.n_passes_total_,
        "seconds": seconds,
        "compiled": compiles,
        "interrupted": watch.stopped,
    }


def _in_words(text: str) -> str:
    """A warning of the estimator in the words of the command."""
    return text.replace("max_passes=", "--max-passes ").replace("; asked for ", "; --tol asks for ")


def _evaluated(ranker: Any, data: RankingData, measure: Measure) -> Any:
    from rankwright.evaluation.table import evaluate

    return evaluate(data, ranker.predict(data), measures=[measure])


def _definitions(evaluations: dict[str, Any]) -> list[str]:
    """What the values mean, as `evaluate` says it: once what holds for all data, the rest with the name of the part."""
    lines = {part: (*found.definitions, *found.notes) for part, found in evaluations.items()}
    own = [
        line if all(line in of for of in lines.values()) else f"{part}: {line}"
        for part in lines
        for line in lines[part]
    ]
    return list(dict.fromkeys(own))
