"""The methods of `rankwright train`, by name: which estimator each one is, and which options go with it."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.measures import Measure

__all__ = ["LISTED", "build", "method_name"]

LISTED = (
    "svm-map, svm-auc, svm-ndcg, svm-ndcg@K, svm-ndcg-nc, svm-mrr, svm-mrr@K, dorm, dorm@K, dorm-nc, svm-combo, "
    "rank-svm, rsvm-ir, svm-acc, svm-acc2, svm-acc3, svm-acc4, ranknet, lambdarank, lambdaboost, lambdamart, mcrank, "
    "mcrank-ordinal"
)
_LOSSES = {
    "svm-map": "map",
    "svm-auc": "auc",
    "svm-ndcg": "ndcg@10",
    "svm-ndcg-nc": "ndcg",
    "svm-mrr": "mrr@10",
    "dorm": "dorm@10",
    "dorm-nc": "dorm",
}
_PAIRS = ("rank-svm", "rsvm-ir")
_ACCURACY: dict[str, dict[str, Any]] = {
    "svm-acc": {},
    "svm-acc2": {"balance": True},
    "svm-acc3": {"query_scaling": "percentile"},
    "svm-acc4": {"query_scaling": "minmax"},
}
_ROUNDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ranknet": ("lambda_rank", "RankNet", {}),
    "lambdarank": ("lambda_rank", "LambdaRank", {}),
    "lambdaboost": ("lambda_boost", "LambdaBoost", {}),
    "lambdamart": ("lambda_mart", "LambdaMART", {}),
    "mcrank": ("mc_rank", "McRank", {}),
    "mcrank-ordinal": ("mc_rank", "McRank", {"link": "ordinal"}),
}
_WITH_C = (*_LOSSES, "svm-combo", *_PAIRS, *_ACCURACY)
_BINARY = tuple(name for name in _LOSSES if not name.startswith("dorm"))
_NAMES = (*_WITH_C, *_ROUNDS)
_WITH_CUTOFF = re.compile(r"(svm-ndcg|svm-mrr|dorm)@(.*)")
_DEFAULT_C = 1.0
_NOT_SET = ("callback", "background", "n_jobs", "C", "C_grid", "eval_measure")  # there are options for these
# Options that not every method has, and the methods that have them.
_OF = {
    "losses": ("svm-combo",),
    "loss_weights": ("svm-combo",),
    "slack": ("svm-combo",),
    "feature_map": (*_LOSSES, "svm-combo"),
    "rank_weights": _PAIRS,
    "query_weights": _PAIRS,
    "lam": _PAIRS,
    "rate": _PAIRS,
    "solver": (*_LOSSES, "svm-combo", *_PAIRS),
    "tol": (*_LOSSES, "svm-combo", *_PAIRS),
    "max_passes": (*_LOSSES, "svm-combo", *_PAIRS),
    "cost": _WITH_C,
    "grid": _WITH_C,
    "no_standardize": (*_WITH_C, "ranknet", "lambdarank", "lambdaboost"),
    "seed": tuple(name for name in _ROUNDS if name != "lambdaboost"),
    "background": ("lambdaboost", "lambdamart"),
    "relevant_from": (*_BINARY, "svm-combo", *_ACCURACY),
}
_OPTION = {"lam": "--lambda", "cost": "--C", "grid": "--C-grid"}


def build(
    method: str, options: Mapping[str, Any], has_valid: bool, has_background: bool = False
) -> tuple[Any, Measure]:
    """The estimator that the options describe, and the measure to report.

    Options that were not given are None or absent; one that the method does not have is an error.
    """
    name, loss = _parse(method)
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    if has_background:
        given["background"] = True
    for key in given:
        if key in _OF and name not in _OF[key]:
            option = _OPTION.get(key, "--" + key.replace("_", "-"))
            raise InputError(f"{option} does not go with the method {name}; it is for {', '.join(_OF[key])}")
    given.pop("background", None)
    settings = given.pop("settings", ())
    if name in _ROUNDS:
        return _by_rounds(name, given, settings)
    if name == "svm-combo":
        loss = _list(given.pop("losses", None), "--losses", "at least two, such as --losses map,mrr@10")
        if len(loss) < 2:
            raise InputError("--losses holds one loss; expected at least two, such as --losses map,mrr@10")
    cost = _cost(given.pop("cost", None), has_valid)
    grid = given.pop("grid", None)
    if grid is not None and cost != "auto":
        raise InputError("--C-grid holds the values that --C auto tries; expected --valid with it, and no other --C")
    measure = _measure(given.pop("measure", None), loss, given.get("relevant_from"))
    shared = {
        "C": cost,
        "C_grid": None if grid is None else _numbers(grid, "--C-grid"),
        "eval_measure": str(measure),
        "standardize": not given.pop("no_standardize", False),
    }
    ranker = _with_settings(_estimator(name, loss, given, shared), settings)
    ranker._check_parameters()
    return ranker, measure


def _by_rounds(name: str, given: dict[str, Any], settings: Sequence[str]) -> tuple[Any, Measure]:
    """Nets and boosting: their parameters are those of the estimator."""
    from rankwright.measures import parse_measure

    module, kind, fixed = _ROUNDS[name]
    estimator = getattr(importlib.import_module(f"rankwright.rankers.{module}"), kind)
    measure = parse_measure(given.get("measure") or "nDCG@10")
    shared: dict[str, Any] = {"eval_measure": str(measure), "n_jobs": given.get("threads")}
    if name != "lambdaboost":  # it draws nothing
        shared["random_state"] = given.get("seed", 0)
    if given.get("no_standardize"):
        shared["standardize"] = False
    ranker = _with_settings(estimator(**fixed, **shared), settings)
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


def _estimator(name: str, loss: Any, given: dict[str, Any], shared: dict[str, Any]) -> Any:
    threads = {"n_jobs": given.pop("threads", None)}
    if name in _ACCURACY:
        from rankwright.rankers.accuracy import AccuracySVM

        return AccuracySVM(**_ACCURACY[name], **shared, **given)
    if name in _PAIRS:
        from rankwright.rankers.ranking_svm import RankingSVM

        if name == "rsvm-ir":
            given = {"rank_weights": "ndcg@1", "query_weights": "pairs", **given}
        if given.get("rank_weights") == "none":
            given["rank_weights"] = None
        given["query_weights"] = given.get("query_weights") == "pairs"
        return RankingSVM(**shared, **threads, **given)
    from rankwright.rankers.max_margin import StructuredSVM

    if name == "svm-combo" and "feature_map" in given:
        maps = [part.strip() or None for part in given["feature_map"].split(",")]
        given["feature_map"] = [None if part == "-" else part for part in maps]
    if "loss_weights" in given:
        given["loss_weights"] = _numbers(given["loss_weights"], "--loss-weights")
    return StructuredSVM(loss, **shared, **threads, **given)


def method_name(ranker: Any, method: str) -> str:
    """The method with its cutoff written out."""
    name, _ = _parse(method)
    return name if name in (*_ACCURACY, *_ROUNDS) else str(ranker._method())


def _parse(method: str) -> tuple[str, Any]:
    """The name of a method without its cutoff, and its loss, if it has one."""
    name = method.strip().lower()
    if name in _NAMES:
        return name, _LOSSES.get(name)
    match = _WITH_CUTOFF.fullmatch(name)
    if match is not None:
        if not (match[2].isdecimal() and int(match[2]) > 0):
            raise InputError(f"the cutoff of the method {method!r} is {match[2]!r}; expected a whole number from 1")
        return match[1], f"{match[1].removeprefix('svm-')}@{int(match[2])}"
    near = difflib.get_close_matches(name.replace("_", "-").partition("@")[0], _NAMES, n=3, cutoff=0.55)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"unknown method {method!r}; {hint}methods: {LISTED}")


def _measure(asked: str | None, loss: Any, relevant_from: float | None) -> Measure:
    """What is reported and C chosen by: as asked for, or that of the (first) loss, or nDCG@10."""
    from rankwright.measures import BinaryMeasure, parse_measure

    if asked is not None:
        return parse_measure(asked)
    if loss is None:
        return parse_measure("nDCG@10")
    from rankwright.rankers.losses import parse_losses

    measure = parse_losses(loss)[0].measure
    if relevant_from is not None and relevant_from > 0 and isinstance(measure, BinaryMeasure):
        rel = int(relevant_from) if relevant_from.is_integer() else relevant_from
        return dataclasses.replace(measure, rel=rel)
    return measure


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
