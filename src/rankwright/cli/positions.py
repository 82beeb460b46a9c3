"""``--position`` and what belongs to it: training on clicks, with columns that say where each row was shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.options import FILE
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.training.methods import Method

__all__ = ["Shown", "position_options"]

_POSITION_HELP = (
    "rank-svm, lambdamart: labels are clicks, queries are pages, and this column says where a document was shown, from "
    "1. Clicks weigh by inverse propensity, in --valid too if it has the column."
)
_PAIR = "pair"
_PAIR_HELP = (
    "With --position: column with a number for each query and document, the same on all pages.  [default: pair, if "
    "there is such a column]"
)
_PROPENSITIES_HELP = "With --position: CSV with position and propensity, as `rankwright clicks` writes it."
_HOW = "over clicks: each as the only relevant document of its page, weighted by inverse propensity"


def position_options(function: Any) -> Any:
    """``--position``, ``--pair`` and ``--propensities``."""
    for option in (
        click.option("--propensities", type=FILE, metavar="FILE", help=_PROPENSITIES_HELP),
        click.option("--pair", metavar="COLUMN", help=_PAIR_HELP),
        click.option("--position", metavar="COLUMN", help=_POSITION_HELP),
    ):
        function = option(function)
    return function


@dataclass(frozen=True)
class Shown:
    """What the options say: the columns, and how likely positions are looked at."""

    position: str | None
    pair: str | None
    propensities: Any

    @classmethod
    def of(cls, options: dict[str, Any], method: Method, engine: str | None = None) -> Shown:
        """Take them out of the options, checked."""
        position, pair, known = (options.pop(name) for name in ("position", "pair", "propensities"))
        if position is None:
            used = "--pair" if pair is not None else "--propensities" if known is not None else None
            if used is not None:
                raise InputError(f"{used} is for --position, which is not given")
            return cls(None, None, None)
        if known is None:
            raise InputError("--position needs the propensities of positions; expected --propensities FILE")
        if method.name not in ("rank-svm", "lambdamart"):
            raise InputError(f"{method.name} takes no --position; expected --method rank-svm or lambdamart")
        if engine is not None:
            raise InputError("--position does not go with --engine; expected one of the two")
        from rankwright.clicks.reading import read_propensities

        return cls(position, pair, read_propensities(Path(known)))

    def apart(
        self, data: RankingData, valid: RankingData | None
    ) -> tuple[RankingData, RankingData | None, dict[str, Any]]:
        """The data without these columns, and the weights of clicks as an argument of a training, if there are any."""
        if self.position is None:
            return data, valid, {}
        from rankwright.rankers.positions import clicks_of
        from rankwright.training.train import TRAINING, VALIDATION, about

        known = self.pair is None and data.feature_names is not None and _PAIR in data.feature_names
        wanted = [name for name in (self.position, _PAIR if known else self.pair) if name is not None]
        with about(TRAINING):
            places = [_column(data, name) for name in wanted]
            position, *pair = (data.to_caller_order(_values(data, at)) for at in places)
            data = _without(data, places)
        shown = None
        with about(VALIDATION):
            if valid is not None and _has(valid, self.position):
                at = [_column(valid, name) for name in wanted if _has(valid, name)]
                shown = valid.to_caller_order(_values(valid, at[0]))
                valid = _without(valid, at)
        with about(TRAINING):
            found = clicks_of(data, valid, position, self.propensities, pair[0] if pair else None, shown)
        for notice in found.notices:
            click.echo(f"warning: {notice.text}", err=True)
        return data, valid, {"clicks": found}

    def described(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts of a training, with what their values mean where labels are clicks."""
        return facts if self.position is None else facts | {"definitions": [_HOW]}


def _has(data: RankingData, name: str) -> bool:
    known = range(1, data.n_features + 1)
    return name in data.feature_names if data.feature_names is not None else name in map(str, known)


def _column(data: RankingData, name: str) -> int:
    """A column by its name, or without names by its number from 1."""
    if not _has(data, name):
        names = data.feature_names
        expected = f"a number from 1 to {data.n_features}" if names is None else f"one of {', '.join(names[-5:])}"
        more = " (the last columns)" if names is not None and len(names) > 5 else ""
        raise InputError(f"has no column {name!r}; expected {expected}{more}")
    return int(name) - 1 if data.feature_names is None else data.feature_names.index(name)


def _values(data: RankingData, at: int) -> Any:
    return data.X[:, [at]].toarray()[:, 0] if data.is_sparse else data.X[:, at]


def _without(data: RankingData, places: list[int]) -> RankingData:
    """The data without some columns; without names those that are not the last become 0, so that numbers stay."""
    import numpy as np

    kept = [at for at in range(data.n_features) if at not in places]
    if not kept:
        raise InputError("has no features besides these columns; expected some")
    if data.feature_names is not None:
        return data.matched_to(len(kept), [data.feature_names[at] for at in kept])
    ones = np.ones(kept[-1] + 1)
    ones[[at for at in places if at <= kept[-1]]] = 0.0
    X = data.X[:, : len(ones)]
    return data.with_features(
        X.multiply(ones).tocsr() if data.is_sparse else np.where(ones > 0, X, 0.0).astype(X.dtype)
    )
