"""The losses of structured SVMs, by name: a measure, its feature map, and its weight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.measures import Measure, parse_goal
from rankwright.measures.base import REGISTRY
from rankwright.measures.forms import Oracle, read_only
from rankwright.rankers.problem import Target

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Loss:
    """1 − measure, on a feature map.

    Attributes
    ----------
    measure : Measure
        The measure to train for.
    feature_map : str or None
        Name of the feature map; None: the default of the measure.
    weight : float
        Weight among several losses.
    """

    measure: Measure
    feature_map: str | None = None
    weight: float = 1.0

    @property
    def method(self) -> str:
        """The name of the method, as in `rankwright train`."""
        return self.measure.method_name(self.feature_map)

    def target(self, data: RankingData, relevant_from: float) -> Target:
        """Labels, useful queries and oracle of the loss on given data."""
        make_oracle = partial(_oracle, self.measure, self.feature_map)
        given = (make_oracle, self.weight, self.measure)
        useful = self.useful(data, relevant_from)
        if make_oracle().graded:
            self.measure.resolve("letor").check_labels(data.labels)
            return Target(data.labels.astype(np.float64), useful, *given)
        return Target((data.labels >= relevant_from).astype(np.float64), useful, *given)

    def useful(self, data: RankingData, relevant_from: float) -> Array:
        """Queries with an order to learn."""
        return data.has_order if self.measure.oracle(self.feature_map).graded else data.has_both(relevant_from)


def _oracle(measure: Measure, feature_map: str | None) -> Oracle:
    return measure.oracle(feature_map)


def pair_target(grades: Array, useful: Array, table: Array) -> Target:
    """A hinge for every pair of documents, with a weight for each pair of grades."""
    parameters = np.concatenate([[len(table)], table.ravel()])
    return Target(grades, useful, partial(_pairs, parameters))


def _pairs(parameters: Array) -> Oracle:
    from rankwright.measures.oracles.pairs import pairs

    kept = read_only(parameters)
    return Oracle(pairs, lambda longest: kept, "pairs")


def click_target(weights: Array, useful: Array) -> Target:
    """Hinges of every click with all other documents of its page; a weight per document, 0 for what is not clicked."""
    return Target(weights, useful, _clicks)


def _clicks() -> Oracle:
    from rankwright.measures.oracles.clicks import clicks

    nothing = read_only(np.empty(0))
    return Oracle(clicks, lambda longest: nothing, "pairs")


def parse_losses(loss: Any, feature_map: Any = None, weights: Sequence[float] | None = None) -> list[Loss]:
    """Parse a name, a measure, or a sequence of them."""
    names = [loss] if isinstance(loss, str | Measure) else _listed("loss", loss, "a name such as 'map', or several")
    if not names:
        raise InputError("no loss was given; expected a name such as 'map', or several")
    one_map = feature_map is None or isinstance(feature_map, str)
    maps = [feature_map] * len(names) if one_map else _listed("feature_map", feature_map, "a name, or one per loss")
    factors = [1.0] * len(names) if weights is None else _listed("loss_weights", weights, "one number per loss")
    for what, values in (("feature maps", maps), ("loss_weights", factors)):
        if len(values) != len(names):
            raise InputError(f"{len(names)} losses but {len(values)} {what}; expected one for each")
    for factor in factors:
        if not (isinstance(factor, Real) and 0 < float(factor) < np.inf):
            raise InputError(f"loss_weights contains {factor!s}; expected numbers above 0")
    return [_parse(name, map_, float(factor)) for name, map_, factor in zip(names, maps, factors, strict=True)]


def _listed(what: str, values: Any, expected: str) -> list[Any]:
    if isinstance(values, Iterable) and not isinstance(values, str):
        return list(values)
    raise InputError(f"{what} is {values!r}; expected {expected}")


def _parse(name: str | Measure, feature_map: str | None, weight: float) -> Loss:
    if not isinstance(name, str | Measure):
        raise InputError(f"loss is {name!r}; expected a name such as 'map', or several")
    if isinstance(name, str):
        own, at, cutoff = name.strip().partition("@")
        own = own.strip().lower()
        kind = next((kind for kind in REGISTRY.values() if own in kind.own_losses), None)
        if kind is not None:
            if feature_map is not None and not str(feature_map).startswith(own):
                raise InputError(f"{own.upper()} has the feature map {own}, not {feature_map!r}")
            name, feature_map = f"{kind.name}{at}{cutoff}", feature_map or own
    return Loss(parse_goal(name), feature_map, weight)
