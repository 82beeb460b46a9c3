"""The kinds of models that a file can hold: how each becomes entries of the header and arrays, and a model again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError
from rankwright.models.binned import BinnedModel
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel
from rankwright.models.sum import SumModel
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import GradeModel, TreeModel

__all__ = ["HEADER", "KINDS", "Kind", "kind_of"]

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
HEADER = "model.json"  # first in the archive: formats.detect looks for it there


@dataclass(frozen=True)
class Kind:
    """How one kind of model becomes entries of the header and arrays, and a model again."""

    model: type
    to_parts: Callable[[Any], tuple[dict[str, Any], Arrays]]
    from_parts: Callable[[dict[str, Any], Arrays], Any]


def _linear_to_parts(model: LinearModel) -> tuple[dict[str, Any], Arrays]:
    names = None if model.feature_names is None else list(model.feature_names)
    scaling = {} if model.query_scaling is None else {"query_scaling": model.query_scaling}
    return {"feature_names": names, **scaling}, {"coef": model.coef}


def _linear_from_parts(header: dict[str, Any], arrays: Arrays) -> LinearModel:
    names, coef = header["feature_names"], arrays["coef"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"the feature names in {HEADER} are not strings")
    if coef.dtype != np.float64 or coef.ndim != 1:
        raise InputError(f"coef.npy holds {coef.dtype} of shape {coef.shape}; expected one float64 per feature")
    return LinearModel(coef, None if names is None else tuple(names), header.get("query_scaling"))


_FOREST = {
    "roots": np.int64, "feature": np.int32, "threshold": np.float64, "missing_left": np.bool_, "left": np.int32,
    "value": np.float64, "gain": np.float64, "count": np.float64,
}  # fmt: skip


def _names_from(header: dict[str, Any]) -> tuple[str, ...] | None:
    names = header["feature_names"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"the feature names in {HEADER} are not strings")
    return None if names is None else tuple(names)


def _tree_header(model: TreeModel | GradeModel) -> dict[str, Any]:
    names = None if model.feature_names is None else list(model.feature_names)
    return {"feature_names": names, "n_features": model.n_features}


def _forest_from(arrays: Arrays, prefix: str, n_features: int) -> Forest:
    """A forest whose nodes lead nowhere but to later nodes of its own, so that no row runs in circles."""
    parts = {}
    for name, dtype in _FOREST.items():
        array = arrays[prefix + name]
        if array.dtype != dtype or array.ndim != 1:
            raise InputError(
                f"{prefix}{name}.npy holds {array.dtype} of shape {array.shape}; expected {dtype.__name__}"
            )
        parts[name] = array
    n = len(parts["feature"])
    feature, left, nodes = parts["feature"], parts["left"], np.arange(n)
    inner = feature >= 0
    sound = all(len(parts[name]) == n for name in _FOREST if name != "roots")
    sound = sound and bool((feature < n_features).all()) and bool((parts["roots"] >= 0).all())
    sound = sound and bool((parts["roots"] < max(n, 1)).all()) and bool((left[inner] > nodes[inner]).all())
    if not (sound and bool((left[inner] < n - 1).all()) and bool(np.isfinite(parts["value"]).all())):
        raise InputError("the arrays of the trees do not fit together")
    return Forest(**parts)


def _trees_to_parts(model: TreeModel) -> tuple[dict[str, Any], Arrays]:
    return _tree_header(model), {name: getattr(model.forest, name) for name in _FOREST}


def _trees_from_parts(header: dict[str, Any], arrays: Arrays) -> TreeModel:
    n_features = int(header["n_features"])
    return TreeModel(n_features, _names_from(header), _forest_from(arrays, "", n_features))


def _grades_to_parts(model: GradeModel) -> tuple[dict[str, Any], Arrays]:
    arrays = {f"{at}_{name}": getattr(forest, name) for at, forest in enumerate(model.forests) for name in _FOREST}
    header = {**_tree_header(model), "link": model.link, "forests": len(model.forests)}
    return header, {**arrays, "grades": model.grades, "starts": model.starts}


def _grades_from_parts(header: dict[str, Any], arrays: Arrays) -> GradeModel:
    n_features = int(header["n_features"])
    forests = tuple(_forest_from(arrays, f"{at}_", n_features) for at in range(int(header["forests"])))
    return GradeModel(n_features, _names_from(header), arrays["grades"], forests, arrays["starts"], header["link"])


_NET = {"inner": 2, "constants": 1, "outer": 1}  # dimensions


def _net_to_parts(model: NetModel) -> tuple[dict[str, Any], Arrays]:
    names = None if model.feature_names is None else list(model.feature_names)
    return {"feature_names": names}, {name: getattr(model, name) for name in _NET}


def _net_from_parts(header: dict[str, Any], arrays: Arrays) -> NetModel:
    for name, dimensions in _NET.items():
        array = arrays[name]
        if array.dtype != np.float64 or array.ndim != dimensions:
            raise InputError(f"{name}.npy holds {array.dtype} of shape {array.shape}; expected float64")
    return NetModel(arrays["inner"], arrays["constants"], arrays["outer"], _names_from(header))


_BINNED = {"thresholds": np.float64, "starts": np.int64, "weights": np.float64}


def _binned_to_parts(model: BinnedModel) -> tuple[dict[str, Any], Arrays]:
    names = None if model.feature_names is None else list(model.feature_names)
    return {"feature_names": names}, {name: getattr(model, name) for name in _BINNED}


def _binned_from_parts(header: dict[str, Any], arrays: Arrays) -> BinnedModel:
    for name, dtype in _BINNED.items():
        array = arrays[name]
        if array.dtype != dtype or array.ndim != 1:
            raise InputError(f"{name}.npy holds {array.dtype} of shape {array.shape}; expected {dtype.__name__}")
    return BinnedModel(arrays["thresholds"], arrays["starts"], arrays["weights"], _names_from(header))


def _sum_to_parts(model: SumModel) -> tuple[dict[str, Any], Arrays]:
    headers, arrays = [], {"weights": model.weights}
    for at, part in enumerate(model.parts):
        name, kind = kind_of(part)
        facts, own = kind.to_parts(part)
        headers.append({"kind": name, **facts})
        arrays |= {f"{at}_{key}": array for key, array in own.items()}
    return {"parts": headers}, arrays


def _sum_from_parts(header: dict[str, Any], arrays: Arrays) -> SumModel:
    parts = []
    for at, facts in enumerate(header["parts"]):
        if facts.get("kind") not in KINDS:
            raise InputError(f"part {at} is of the kind {facts.get('kind')!r}; expected one of: {', '.join(KINDS)}")
        own = {key.partition("_")[2]: array for key, array in arrays.items() if key.partition("_")[0] == str(at)}
        parts.append(KINDS[facts["kind"]].from_parts(facts, own))
    return SumModel(tuple(parts), arrays["weights"])


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
