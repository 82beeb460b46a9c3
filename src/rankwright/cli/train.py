"""`rankwright train`: a ranker trained on a feature file, with the proof of how good it is, as one model file.

What is known after the training is one dictionary of facts: ``--json`` prints it, people get it in words. Ctrl-C ends
the training after the pass at hand, and what there is by then is saved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.methods import LISTED, build, method_name
from rankwright.cli.training import show, train
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.measures import Measure

__all__ = ["command"]

_FILE = click.Path(path_type=Path)
_METHOD_HELP = f"What to train: {LISTED}. svm-ndcg, svm-mrr and dorm are for the first 10 ranks, -nc for all."
_C_HELP = (
    "Weight of the ranking errors against large weights; auto: the value of --C-grid that is best on --valid.  "
    "[default: auto with --valid, else 1]"
)
_GRID_HELP = "Values of C that auto tries.  [default: 0.0001, 0.001, … 1000]"
_MEASURE_HELP = (
    "What C is chosen by, and what is reported.  [default: the measure of the method, for svm-combo that of the first "
    "loss; nDCG@10 for rank-svm, rsvm-ir and svm-acc]"
)
_MAP_HELP = (
    "What a ranking is described by: mrr or po for svm-mrr; dorm:log2, dorm:sqrt, dorm:sqrt@30 … for dorm; for "
    "svm-combo one for each loss, - for its own."
)
_SET_HELP = "A parameter of the estimator, such as n_trees=500 or hidden=15; an unknown name lists them all."
_RANK_WEIGHTS_HELP = "Weight of a pair by its labels: ndcg@K, the loss of swapping them, or none.  [rsvm-ir: ndcg@1]"
_QUERY_WEIGHTS_HELP = "Weight of a query: pairs, one over its number of pairs, or none.  [rsvm-ir: pairs]"
_TOL_HELP = "Stop when the objective is proved to be this close to the best possible (0.001 is 0.1 %)."
_CONTINUE_HELP = "Start from the weights of a saved model, and its C unless --C or --valid is given."
_BINS_HELP = (
    "Cut every feature into up to N 0/1 features, value ≥ threshold, as SIGIR'07 did with 50; linear methods only."
)
_SOLVER_HELP = "Two ways to the same model; gd, for rank-svm and rsvm-ir, is gradient descent.  [default: frank-wolfe]"


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
@click.option("--bins", type=click.IntRange(1), metavar="N", help=_BINS_HELP)
@click.option("--losses", metavar="map,mrr@10", help="svm-combo: what to train for at once; dorm@10 may be one.")
@click.option("--loss-weights", metavar="1,0.5", help="svm-combo: a weight for each loss.  [default: 1]")
@click.option(
    "--slack", type=click.Choice(["separate", "shared"]), help="svm-combo: add up the losses, or the largest."
)
@click.option("--feature-map", metavar="MAP", help=_MAP_HELP)
@click.option("--rank-weights", metavar="ndcg@K|none", help=_RANK_WEIGHTS_HELP)
@click.option("--query-weights", type=click.Choice(["pairs", "none"]), help=_QUERY_WEIGHTS_HELP)
@click.option("--lambda", "lam", type=float, help="rank-svm, rsvm-ir: the paper's λ instead of --C.")
@click.option("--tol", type=float, help=_TOL_HELP + "  [default: 0.001]")
@click.option("--max-passes", type=click.IntRange(1), help="Passes over the data, per C.  [default: 200]")
@click.option("--solver", type=click.Choice(["frank-wolfe", "cutting-plane", "gd"]), help=_SOLVER_HELP)
@click.option("--rate", type=float, help="Learning rate of --solver gd; a line search unless given.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=_SET_HELP)
@click.option("--background", type=_FILE, metavar="MODEL", help="lambdamart, lambdaboost: start from this model.")
@click.option("--seed", type=int, help="lambdamart, lambdarank …: of all that is drawn.  [default: 0]")
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
    """Train a ranker on FEATURES for the measure you are judged by.

    FEATURES is LETOR text, Parquet or a Rankwright folder. The max-margin methods stop when the weights are proved to
    be nearly the best there are; how near is shown. Trees and nets keep the round that is best on --valid. Ctrl-C stops
    earlier and keeps the best model so far.

    \b
    Example:
      rankwright train train.txt --method svm-map --C 10 -o model.rkw
      rankwright train train.txt --method svm-ndcg@5 --valid vali.txt -o model.rkw
      rankwright train train.txt --method rank-svm --valid vali.txt --measure nDCG@10 --C-grid 0.01,0.1,1 -o model.rkw
      rankwright train train.txt --method svm-combo --losses map,ndcg@10,mrr@10 --valid vali.txt -o model.rkw
      rankwright train train.txt --method svm-map --bins 50 --valid vali.txt -o model.rkw
      rankwright train train.txt --method dorm@10 --feature-map dorm:sqrt@30 --C 10 -o model.rkw
      rankwright train train.txt --method rsvm-ir --rank-weights ndcg@3 --valid vali.txt -o model.rkw
      rankwright train train.txt --method svm-acc2 --valid vali.txt -o model.rkw
      rankwright train train.txt --method lambdamart --valid vali.txt --set max_leaves=10 -o model.rkw
      rankwright train train.txt --method lambdarank --valid vali.txt --set hidden=15 -o model.rkw
      rankwright rank model.rkw test.txt -o test.run
      rankwright evaluate test.txt test.run
    """
    from rankwright.models.saving import load_model

    files = ("group", "valid_group", "negative_as_zero", "method", "background", "bins")
    chosen = {key: value for key, value in options.items() if key not in files}
    ranker, measure = build(options["method"], chosen, valid is not None, options["background"] is not None)
    _check_target(target, [features, *([] if valid is None else [valid])])
    if start is not None and options["bins"] is not None:
        raise InputError("--continue does not go with --bins")
    saved = None if start is None else load_model(start)
    if options["background"] is not None:
        ranker.background = load_model(options["background"])
    negative: Literal["error", "zero"] = "zero" if options["negative_as_zero"] else "error"
    data = _read(features, options["group"], negative, measure)
    checked = None if valid is None else _read(valid, options["valid_group"], negative, measure)
    if valid is not None and checked is not None:
        checked = _as_trained(checked, data, valid)
    if start is not None and saved is not None:
        if not hasattr(ranker, "warm_start"):
            raise InputError(f"--continue does not go with the method {options['method']}")
        ranker._start_from(_weights_for(saved.model, data, start))
        before = saved.training.get("C")
        if options["cost"] is None and valid is None and isinstance(before, float) and before > 0:
            ranker.C = before
    bins = None
    if options["bins"] is not None:
        bins, data, checked = _binned(ranker, options, data, checked)
    facts = train(ranker, data, checked, features, starts=start is not None)
    evaluations = {"training": _evaluated(ranker, data, measure)}
    if checked is not None:
        evaluations["validation"] = _evaluated(ranker, checked, measure)
    measures = {f"{part} {measure}": found.means[str(measure)] for part, found in evaluations.items()}
    ranker.save(target, measures=measures, model=None if bins is None else bins.collapse(ranker.model_))
    paths = {"model": str(target), "features": str(features), "valid": None if valid is None else str(valid)}
    names = {"method": method_name(ranker, options["method"]), "measure": str(measure)}
    facts = paths | names | facts | {"measures": measures, "definitions": _definitions(evaluations)}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        show(facts)
    if facts["interrupted"]:
        raise click.Abort


def _binned(ranker: Any, options: dict[str, Any], data: RankingData, valid: RankingData | None) -> Any:
    """Thresholds found on the training data, and both parts cut up by them."""
    from rankwright.rankers.bins import ThresholdBins

    if not hasattr(ranker, "C") or getattr(ranker, "query_scaling", None):
        raise InputError(
            f"--bins does not go with the method {options['method']}; expected one of the max-margin methods"
        )
    bins = ThresholdBins(options["bins"]).fit(data)
    return bins, bins.transform_data(data), None if valid is None else bins.transform_data(valid)


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
        message = error.message.replace("the model has", "the training data has")
        raise InputError(message.replace("the model's", "the training data's"), path) from None
    return valid if columns is None else valid.with_features(valid.X[:, columns], data.feature_names)


def _weights_for(model: Any, data: RankingData, path: Path) -> Any:
    """Weights to start from, in the order of the data's features."""
    from rankwright.models.linear import LinearModel

    if not isinstance(model, LinearModel):
        raise InputError("holds no linear model over these features; expected one to go on from", path)
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
