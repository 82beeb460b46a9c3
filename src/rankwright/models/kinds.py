"""The kinds of models that a file can hold, and how each is turned into header facts and arrays and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import checked_categories
from rankwright.data.container import Format
from rankwright.errors import InputError, shown
from rankwright.models.base import Model
from rankwright.models.binned import BinnedModel
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel
from rankwright.models.sum import SumModel
from rankwright.models.trees.forest import SET_WORDS, Forest
from rankwright.models.trees.model import GradeModel, TreeModel

__all__ = ["KINDS", "MODEL", "Kind", "kind_of", "version_of"]

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
_LARGEST = 1e300  # a sum of that size still has room for a few more terms
Read = Callable[[str, Any, tuple[int | None, ...]], Array]
"""Returns the array of a name, type and shape, or raises InputError."""

_WRITERS = "`rankwright train` or `rankwright import`"
MODEL = Format("rankwright-model", "model.json", "model", _WRITERS, is_folder=False, version=2)


@dataclass(frozen=True)
class Kind:
    """How one kind of model is turned into header facts and arrays, and back."""

    model: type[Model]
    to_parts: Callable[[Any], tuple[dict[str, Any], Arrays]]
    from_parts: Callable[[dict[str, Any], Read], Any]


def _names_of(model: Model) -> dict[str, Any]:
    return {"feature_names": None if model.feature_names is None else list(model.feature_names)}


def _names_from(facts: dict[str, Any]) -> tuple[str, ...] | None:
    if "feature_names" not in facts:
        raise InputError("feature_names is missing")
    names = facts["feature_names"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError("the feature names are not strings")
    return None if names is None else tuple(names)


def _whole(facts: dict[str, Any], key: str) -> int:
    number = facts.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise InputError(f"{key} is {shown(number)}; expected a whole number of at least 0")
    return number


def _numbers(read: Read, name: str, shape: tuple[int | None, ...]) -> Array:
    """An array of numbers whose sum is no larger than any of their scores may be."""
    found = read(name, np.float64, shape)
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.abs(found).sum() <= _LARGEST:
            raise InputError(f"{name}.npy holds numbers that are not finite or too large; expected finite numbers")
    return found


def _scaling_of(model: LinearModel | BinnedModel) -> dict[str, str]:
    return {} if model.query_scaling is None else {"query_scaling": model.query_scaling}


def _linear_to_parts(model: LinearModel) -> tuple[dict[str, Any], Arrays]:
    return {**_names_of(model), **_scaling_of(model)}, {"coef": model.coef}


def _linear_from_parts(facts: dict[str, Any], read: Read) -> LinearModel:
    return LinearModel(read("coef", np.float64, (None,)), _names_from(facts), facts.get("query_scaling"))


_FOREST = {
    "roots": np.int64, "feature": np.int32, "threshold": np.float64, "missing_left": np.bool_, "left": np.int32,
    "value": np.float64, "gain": np.float64, "count": np.float64,
}  # fmt: skip
_SUBSETS = {"subset": np.int32, "sets": np.uint64}  # of trees with categorical features only, from version 2 on


def version_of(model: Model) -> int:
    """The version of a model's file: the first one that can hold it."""
    if isinstance(model, SumModel):
        return max(version_of(part) for part in model.parts)
    return 2 if getattr(model, "categories", None) else 1


def _forest_to(forest: Forest, prefix: str, model: TreeModel | GradeModel) -> Arrays:
    names = (*_FOREST, *_SUBSETS) if model.categories else (*_FOREST,)
    return {prefix + name: getattr(forest, name) for name in names}


def _forest_from(read: Read, prefix: str, n_features: int, categories: dict[int, Any]) -> Forest:
    """A forest whose nodes lead only to later nodes of its own, so that no row runs in circles."""
    parts = {"feature": read(f"{prefix}feature", np.int32, (None,))}
    n = len(parts["feature"])
    for name, dtype in (_FOREST | _SUBSETS if categories else _FOREST).items():
        checked = name in ("value", "gain", "count")
        own = (None,) if name == "roots" else (None, SET_WORDS) if name == "sets" else (n,)
        parts[name] = _numbers(read, prefix + name, own) if checked else read(prefix + name, dtype, own)
    forest = Forest(**parts)
    forest.check(n_features, tuple(categories))
    return forest


def _trees_facts(model: TreeModel | GradeModel) -> dict[str, Any]:
    categories = {str(j): list(values) for j, values in model.categories.items()}
    return {**_names_of(model), "n_features": model.n_features} | ({"categories": categories} if categories else {})


def _categories_from(facts: dict[str, Any], n_features: int) -> dict[int, tuple[Any, ...]]:
    found = checked_categories(facts.get("categories", {}), n_features)
    if "categories" in facts and not found:
        raise InputError("its categories are empty; expected those of at least one feature")
    return found


def _trees_to_parts(model: TreeModel) -> tuple[dict[str, Any], Arrays]:
    return _trees_facts(model), _forest_to(model.forest, "", model)


def _trees_from_parts(facts: dict[str, Any], read: Read) -> TreeModel:
    n_features = _whole(facts, "n_features")
    categories = _categories_from(facts, n_features)
    forest = _forest_from(read, "", n_features, categories)
    return TreeModel(n_features, _names_from(facts), forest, categories=categories)


def _grades_to_parts(model: GradeModel) -> tuple[dict[str, Any], Arrays]:
    forests = [_forest_to(forest, f"{at}_", model) for at, forest in enumerate(model.forests)]
    arrays = {name: array for forest in forests for name, array in forest.items()}
    facts = {**_trees_facts(model), "link": model.link, "forests": len(model.forests)}
    return facts, {**arrays, "grades": model.grades, "starts": model.starts}


def _grades_from_parts(facts: dict[str, Any], read: Read) -> GradeModel:
    n_features = _whole(facts, "n_features")
    categories = _categories_from(facts, n_features)
    grades, starts = (_numbers(read, name, (None,)) for name in ("grades", "starts"))
    if _whole(facts, "forests") != len(starts):
        raise InputError(f"{facts['forests']} forests, but starts for {len(starts)}")
    forests = tuple(_forest_from(read, f"{at}_", n_features, categories) for at in range(len(starts)))
    names, link = _names_from(facts), str(facts.get("link"))
    return GradeModel(n_features, names, grades, forests, starts, link, categories=categories)


def _net_to_parts(model: NetModel) -> tuple[dict[str, Any], Arrays]:
    return _names_of(model), {"inner": model.inner, "constants": model.constants, "outer": model.outer}


def _net_from_parts(facts: dict[str, Any], read: Read) -> NetModel:
    inner = _numbers(read, "inner", (None, None))
    constants, outer = (_numbers(read, name, (len(inner),)) for name in ("constants", "outer"))
    return NetModel(inner, constants, outer, _names_from(facts))


_BINNED = {"thresholds": np.float64, "starts": np.int64, "weights": np.float64}


def _binned_to_parts(model: BinnedModel) -> tuple[dict[str, Any], Arrays]:
    return {**_names_of(model), **_scaling_of(model)}, {name: getattr(model, name) for name in _BINNED}


def _binned_from_parts(facts: dict[str, Any], read: Read) -> BinnedModel:
    thresholds, starts = (read(name, _BINNED[name], (None,)) for name in ("thresholds", "starts"))
    weights = _numbers(read, "weights", (None,))
    return BinnedModel(thresholds, starts, weights, _names_from(facts), facts.get("query_scaling"))


def _sum_to_parts(model: SumModel) -> tuple[dict[str, Any], Arrays]:
    parts, arrays = [], {"weights": model.weights}
    for at, part in enumerate(model.parts):
        name, kind = kind_of(part)
        facts, own = kind.to_parts(part)
        parts.append({"kind": name, **facts})
        arrays |= {f"{at}_{key}": array for key, array in own.items()}
    return {"parts": parts}, arrays


def _sum_from_parts(facts: dict[str, Any], read: Read) -> SumModel:
    listed = facts.get("parts")
    if not isinstance(listed, list) or not all(isinstance(own, dict) for own in listed):
        raise InputError(f"its parts are {shown(listed)}; expected a list of models")
    parts = []
    for at, own in enumerate(listed):
        kind = own.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"part {at} is of the kind {shown(kind)}; expected one of: {', '.join(KINDS)}")
        parts.append(KINDS[kind].from_parts(own, _part_of(read, at)))
    return SumModel(tuple(parts), _numbers(read, "weights", (len(parts),)))


def _part_of(read: Read, at: int) -> Read:
    return lambda name, dtype, shape: read(f"{at}_{name}", dtype, shape)


KINDS = {
    "linear": Kind(LinearModel, _linear_to_parts, _linear_from_parts),
    "trees": Kind(TreeModel, _trees_to_parts, _trees_from_parts),
    "grades": Kind(GradeModel, _grades_to_parts, _grades_from_parts),
    "binned": Kind(BinnedModel, _binned_to_parts, _binned_from_parts),
    "net": Kind(NetModel, _net_to_parts, _net_from_parts),
    "sum": Kind(SumModel, _sum_to_parts, _sum_from_parts),
}


def kind_of(model: Any) -> tuple[str, Kind]:
    """The name and kind of a model."""
    for name, kind in KINDS.items():
        if type(model) is kind.model:
            return name, kind
    raise InputError(f"a {type(model).__name__} cannot be saved; expected one of: {', '.join(KINDS)}")
