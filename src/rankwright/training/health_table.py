"""The table that `training_health` returns: its rows, what they say in words, and how it is written."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.evaluation.render import FORMATS, Table, csv_text, draw, figure, plain
from rankwright.training.health_fit import FitHealth
from rankwright.training.health_plot import write_plot

__all__ = ["TrainingHealth"]

_USELESS = 0.99  # of the slack, or of the objective, at weights of 0: weights that leave more are no better than 0
_FALLS = 0.01  # of the slack: a smaller fall is not worth a larger C
_GONE = 1e-3  # of the slack at weights of 0: less counts as none
_HEADER = ("loss", "C", "slack", "obj/obj(0)", "‖w‖", "passes", "gap", "seconds", "oracle", "products", "QP", "rest")
_SHORT = {"training": "train", "validation": "valid"}


@dataclass(frozen=True)
class TrainingHealth:
    """The health of training for every loss and C; made by :func:`rankwright.training_health`.

    Attributes
    ----------
    rows : tuple of FitHealth
        Loss by loss, by ascending C.
    standardize, tol, max_passes
        The settings of the fits.
    definitions : tuple of str
        Definitions of the measures.
    """

    rows: tuple[FitHealth, ...]
    standardize: bool = True
    tol: float = 1e-3
    max_passes: int = 200
    definitions: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses, in the order asked for."""
        return tuple(dict.fromkeys(row.loss for row in self.rows))

    def of(self, loss: str) -> tuple[FitHealth, ...]:
        """The rows of one loss, by C."""
        found = tuple(row for row in self.rows if row.loss == loss)
        if not found:
            raise InputError(f"{loss!r} is not in the table; expected one of {', '.join(self.losses)}")
        return found

    @property
    def findings(self) -> tuple[str, ...]:
        """What the rows prove, in words."""
        return tuple(line for loss in self.losses for line in _findings(self.of(loss), self))

    def to_dict(self) -> dict[str, list[Any]]:
        """The table by columns: ``pandas.DataFrame(health.to_dict())``."""
        records = [_record(row) for row in self.rows]
        return {name: [record[name] for record in records] for name in records[0]}

    def render(self, kind: str = "text") -> str:
        """The table as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``."""
        if kind not in FORMATS:
            raise InputError(f"unknown format {kind!r}; expected one of {', '.join(FORMATS)}")
        columns = self.to_dict()
        if kind == "csv":
            return csv_text(list(columns), list(zip(*columns.values(), strict=True)))
        if kind == "json":
            facts: dict[str, Any] = {"standardize": self.standardize, "tol": self.tol, "max_passes": self.max_passes}
            facts |= {"rows": [_record(row) for row in self.rows], "findings": list(self.findings)}
            return (
                json.dumps(plain(facts | {"definitions": list(self.definitions)}), indent=2, ensure_ascii=False) + "\n"
            )
        return draw(_table(self), kind)

    def plot(self, path: str | Path) -> None:
        """Plot the table into a ``.png`` or ``.svg`` file."""
        write_plot({loss: self.of(loss) for loss in self.losses}, path)

    def __str__(self) -> str:
        return self.render()


def _record(row: FitHealth) -> dict[str, Any]:
    """One row as a flat dictionary."""
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(row) if field.name != "measures"}
    return values | {"objective_ratio": row.objective_ratio} | dict(row.measures)


def _table(health: TrainingHealth) -> Table:
    has_valid = any(not math.isnan(row.own_validation) for row in health.rows)
    asked = [name.partition(" ") for name, _ in health.rows[0].measures]
    header = (*_HEADER, "own train", *(["own valid"] if has_valid else []), *(f"{m} {_SHORT[p]}" for p, _, m in asked))
    rows: list[tuple[str, ...]] = []
    rules = set()
    for loss in health.losses:
        rules.add(len(rows))
        for row in health.of(loss):
            own = [row.own_training, *([row.own_validation] if has_valid else [])]
            values = [figure(value) for value in [*own, *(value for _, value in row.measures)]]
            rows.append((*_cells(row), *values))
    features = "standardised features" if health.standardize else "raw features"
    whose = ", ".join(f"{health.of(loss)[0].own_measure} for {loss}" for loss in health.losses)
    notes = (
        *health.findings,
        f"slack: mean hinge over training queries; obj(0): objective at weights of 0; ‖w‖: on {features}",
        "oracle, products with the features (at most), QP over planes, rest: shares of the seconds",
        f"own: {whose}",
        *health.definitions,
    )
    return Table(header, tuple(rows), notes, 1, frozenset(rules - {0}))


def _cells(row: FitHealth) -> tuple[str, ...]:
    parts = (row.seconds_oracle, row.seconds_products, row.seconds_planes, row.seconds_rest)
    shares = (f"{100 * part / max(row.seconds, 1e-12):.0f}%" for part in parts)
    ratio = f"{row.objective_ratio:.4f}"
    figures = (f"{row.C:g}", f"{row.slack:.4g}", ratio, f"{row.norm:.3g}", str(row.passes), f"{row.gap:.1e}")
    return (row.loss, *figures, f"{row.seconds:.4f}", *shares)


def _findings(rows: Sequence[FitHealth], health: TrainingHealth) -> list[str]:
    """What is certain about one loss."""
    loss = rows[0].loss
    found = [
        _about_use(rows, health),
        _about_weights(rows, health.tol),
        _about_slack(rows),
        _about_gap(rows, health.tol),
        _about_validation(rows),
    ]
    return [f"{loss}: {line}" for line in found if line]


def _is_useless(row: FitHealth) -> bool:
    """Whether the weights are no better than 0."""
    return max(row.slack_ratio, row.objective_ratio) >= _USELESS


def _about_use(rows: Sequence[FitHealth], health: TrainingHealth) -> str:
    """Whether anything was learnt for any C, and what does learn."""
    if not all(_is_useless(row) for row in rows):
        return ""
    lowest = min(max(row.slack_ratio, row.objective_ratio) for row in rows)
    share = f"{100 * lowest:.1f} % or more of that at weights of 0"
    text = f"no better than weights of 0 for any C: slack or objective stays at {share}"
    others = [loss for loss in health.losses if not all(_is_useless(row) for row in health.of(loss))]
    if not others:
        return text
    return f"{text}; {', '.join(others)} {'does' if len(others) == 1 else 'do'} learn from this data"


def _about_weights(rows: Sequence[FitHealth], tol: float) -> str:
    zero = [row.C for row in rows if row.norm == 0]
    if not zero:
        return ""
    where = "for C = " + ", ".join(f"{C:g}" for C in zero)
    if zero == [row.C for row in rows[: len(zero)]] and len(zero) > 1:
        where = f"for every C up to {zero[-1]:g}"
    text = f"all weights are 0 {where}, which leaves all documents tied"
    gap = max(row.gap for row in rows)
    if len(zero) < len(rows) or gap > tol:
        return text
    proof = f"no weights lower the objective by more than {100 * gap:.2g} %"
    return f"{text}: with such C this loss cannot be reduced on this data ({proof})"


def _about_slack(rows: Sequence[FitHealth]) -> str:
    last = rows[-1]
    if last.norm == 0 or all(_is_useless(row) for row in rows):
        return ""
    text = f"average slack falls to {100 * last.slack_ratio:.3g} % of that at weights of 0 by C = {last.C:g}"
    if last.slack_ratio <= _GONE:
        return f"{text}: nearly every training query is ordered with the full margin"
    before = rows[max(0, len(rows) - 2)]
    fall = before.slack - before._slack_error() - last.slack - last._slack_error()
    if fall <= _FALLS * before.slack or _is_useless(last):
        return text
    share = 100 * (1 - last.slack / before.slack)
    text = f"{text} and is still falling (by {share:.2g} % from C = {before.C:g})"
    best = max((row.own_validation for row in rows if not math.isnan(row.own_validation)), default=math.nan)
    return text if best > last.own_validation else f"{text}: a larger C may help"


def _about_gap(rows: Sequence[FitHealth], tol: float) -> str:
    left = [row for row in rows if row.gap > tol]
    if not left:
        return ""
    worst = max(left, key=lambda row: row.gap)
    which = ", ".join(f"{row.C:g}" for row in left)
    reached = f"the largest, at C = {worst.C:g}, is {worst.gap:.2g} after {worst.passes} passes"
    return f"the gap of {tol:g} was not reached for C = {which}; {reached}"


def _about_validation(rows: Sequence[FitHealth]) -> str:
    known = [row for row in rows if not math.isnan(row.own_validation)]
    if not any(row.norm > 0 for row in known):
        return ""
    best = max(known, key=lambda row: row.own_validation)
    text = f"{best.own_measure} on validation data is best at C = {best.C:g} ({best.own_validation:.4f})"
    if len(known) > 1 and best.C in (rows[0].C, rows[-1].C):
        side = "smaller" if best.C == rows[0].C else "larger"
        return f"{text}, an end of the grid: a {side} C may be better"
    return text
