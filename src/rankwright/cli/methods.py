"""The options of `rankwright train` as parameters of an estimator: which options go with which method."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwright.errors import InputError
from rankwright.training.methods import ACCURACY, LISTED, LOSSES, PAIRS, ROUNDS, Method, method_name, parse_method

if TYPE_CHECKING:
    from rankwright.measures import Measure

__all__ = ["LISTED", "build", "method_name"]

_WITH_C = (*LOSSES, "svm-combo", *PAIRS, *ACCURACY)
_BINARY = tuple(name for name in LOSSES if not name.startswith("dorm"))
_DEFAULT_C = 1.0
_NOT_SET = ("callback", "background", "n_jobs", "C", "C_grid", "eval_measure")  # there are options for these
# Options that not every method has, and the methods that have them.
_OF = {
    "losses": ("svm-combo",),
    "loss_weights": ("svm-combo",),
    "slack": ("svm-combo",),
    "feature_map": (*LOSSES, "svm-combo"),
    "rank_weights": tuple(PAIRS),
    "query_weights": tuple(PAIRS),
    "lam": tuple(PAIRS),
    "rate": tuple(PAIRS),
    "solver": (*LOSSES, "svm-combo", *PAIRS),
    "tol": (*LOSSES, "svm-combo", *PAIRS),
    "max_passes": (*LOSSES, "svm-combo", *PAIRS),
    "cost": _WITH_C,
    "grid": _WITH_C,
    "no_standardize": (*_WITH_C, "ranknet", "lambdarank", "lambdaboost"),
    "seed": tuple(name for name in ROUNDS if name != "lambdaboost"),
    "background": ("lambdaboost", "lambdamart"),
    "relevant_from": (*_BINARY, "svm-combo", *ACCURACY),
}
_OPTION = {"lam": "--lambda", "cost": "--C", "grid": "--C-grid"}


def build(
    method: str, options: Mapping[str, Any], has_valid: bool, has_background: bool = False
) -> tuple[Any, Measure]:
    """The estimator that the options describe, and the measure to report.

    Options that were not given are None or absent; one that the method does not have is an error.
    """
    from rankwright.measures import parse_measure

    chosen = parse_method(method)
    name = chosen.name
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    if has_background:
        given["background"] = True
    for key in given:
        if key in _OF and name not in _OF[key]:
            option = _OPTION.get(key, "--" + key.replace("_", "-"))
            raise InputError(f"{option} does not go with the method {name}; it is for {', '.join(_OF[key])}")
    given.pop("background", None)
    settings = given.pop("settings", ())
    if name in ROUNDS:
        return _by_rounds(chosen, given, settings)
    losses = None
    if name == "svm-combo":
        losses = _list(given.pop("losses", None), "--losses", "at least two, such as --losses map,mrr@10")
        if len(losses) < 2:
            raise InputError("--losses holds one loss; expected at least two, such as --losses map,mrr@10")
    cost = _cost(given.pop("cost", None), has_valid)
    grid = given.pop("grid", None)
    if grid is not None and cost != "auto":
        raise InputError("--C-grid holds the values that --C auto tries; expected --valid with it, and no other --C")
    asked = given.pop("measure", None)
    measure = chosen.measure(losses, given.get("relevant_from")) if asked is None else parse_measure(asked)
    shared = {
        "C": cost,
        "C_grid": None if grid is None else _numbers(grid, "--C-grid"),
        "eval_measure": str(measure),
        "standardize": not given.pop("no_standardize", False),
    }
    ranker = _with_settings(_estimator(chosen, losses, given, shared), settings)
    ranker._check_parameters()
    return ranker, measure


def _by_rounds(chosen: Method, given: dict[str, Any], settings: Sequence[str]) -> tuple[Any, Measure]:
    """Nets and boosting: their parameters are those of the estimator."""
    from rankwright.measures import parse_measure

    measure = parse_measure(given.get("measure") or "nDCG@10")
    shared: dict[str, Any] = {"eval_measure": str(measure), "n_jobs": given.get("threads")}
    if chosen.name != "lambdaboost":  # it draws nothing
        shared["random_state"] = given.get("seed", 0)
    if given.get("no_standardize"):
        shared["standardize"] = False
    ranker = _with_settings(chosen.make(**shared), settings)
    ranker._check_parameters()
    return ranker, measure


def _with_settings(ranker: Any, settings: Sequence[str]) -> Any:
    """The estimator with NAME=VALUE settings, the values read as Python's numbers, True, False, None, or text."""
    known = {key: value for key, value in ranker.get_params(deep=False).items() if key not in _NOT_SET}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in known:
            raise InputError(f"--set is given {setting!r}; expected NAME=VALUE with one of {', '.join(sorted(known))}")
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            value = text.strip()
        if isinstance(known[key], int | float) and not isinstance(value, int | float) and value is not None:
            raise InputError(f"--set is given {setting!r}; expected a number for {key}")
        ranker.set_params(**{key: value})
    return ranker


def _estimator(chosen: Method, losses: list[str] | None, given: dict[str, Any], shared: dict[str, Any]) -> Any:
    threads = {"n_jobs": given.pop("threads", None)}
    if chosen.name in ACCURACY:
        return chosen.make(**shared, **given)
    if chosen.name in PAIRS:
        if given.get("rank_weights") == "none":
            given["rank_weights"] = None
        if "query_weights" in given:
            given["query_weights"] = given["query_weights"] == "pairs"
        return chosen.make(**shared, **threads, **given)
    if losses is not None:
        given["loss"] = losses
        if "feature_map" in given:
            maps = [part.strip() or None for part in given["feature_map"].split(",")]
            given["feature_map"] = [None if part == "-" else part for part in maps]
    if "loss_weights" in given:
        given["loss_weights"] = _numbers(given["loss_weights"], "--loss-weights")
    return chosen.make(**shared, **threads, **given)


def _cost(text: str | None, has_valid: bool) -> float | str:
    if text is None:
        return "auto" if has_valid else _DEFAULT_C
    if text.strip().lower() == "auto":
        if not has_valid:
            raise InputError("--C auto chooses C on validation data; expected --valid FILE with it")
        return "auto"
    return _positive(text, "--C", "a number above 0, or auto")


def _list(text: str | None, option: str, expected: str) -> list[str]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not parts:
        raise InputError(f"{option} is needed; expected {expected}")
    return parts


def _numbers(text: str, option: str) -> list[float]:
    return [_positive(part, option, "numbers above 0 with commas between them") for part in text.split(",")]


def _positive(text: str, option: str, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f"{option} is given {text.strip()!r}; expected {expected}")
    return value
