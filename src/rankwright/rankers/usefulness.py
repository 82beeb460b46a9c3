"""Whether max-margin weights are any better than weights of 0, and what does learn from the data where they are not.

Some hinges cannot be lowered on some data: the most violated ranking is as bad for all weights as it is for none. Their
optimum is proved all the same, and useless. Slack and objective, relative to weights of 0, show it. Whether a larger C,
or another loss, would do better is tried out: training for a few passes, until the objective is lower by 2 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import some_queries
from rankwright.rankers.facts import Kind, Notice
from rankwright.rankers.losses import pair_target, parse_losses
from rankwright.rankers.pair_weights import grades_of, weight_table
from rankwright.rankers.problem import BUNDLE, Settings, Target, solve_once

if TYPE_CHECKING:
    from rankwright.solvers.bundle import Check

Array = npt.NDArray[Any]
_LEARNT = 0.98
_PASSES = 8
_LOSSES = {"svm-map": "map", "svm-ndcg-nc": "ndcg"}
USELESS = 0.99
"""Of the slack, or of the objective, at weights of 0."""
OPEN = 0.01
"""A gap above this leaves open how good weights can be."""


def is_useless(figures: Mapping[str, float]) -> bool:
    """Whether slack or objective, in a row of ``C_path_``, is within 1 % of that at weights of 0."""
    return max(figures["slack_ratio"], figures["objective_ratio"]) >= USELESS


def can_learn(data: RankingData, targets: Sequence[Target], weights: Array, settings: Settings, C: float) -> bool:
    """Whether a few passes lower the objective by 2 %."""
    at_zero: list[float] = []

    def falls(check: Check) -> bool:
        at_zero.append(check.primal)
        return check.primal < _LEARNT * at_zero[0]

    settings = replace(settings, solver=BUNDLE, max_passes=_PASSES, callback=falls)
    return bool(solve_once(data, targets, weights, settings, C).figures["objective_ratio"] < _LEARNT)


def learners(
    data: RankingData, weights: Array, settings: Settings, relevant_from: float, own: str
) -> tuple[list[str], list[str]]:
    """The methods that learn from the data, and those that were tried and do not; ``own`` is left out."""
    found: tuple[list[str], list[str]] = [], []
    for method in (*_LOSSES, "rank-svm"):
        if method == own:
            continue
        target, C = _pairs(data) if method == "rank-svm" else (_target(method, data, relevant_from), 1.0)
        useful = target.useful & (weights > 0)
        if not useful.any():
            continue
        some = data if useful.all() else some_queries(data, useful)
        of_some = target if useful.all() else target.of(useful, data)
        learns = can_learn(some, [of_some], weights[useful], replace(settings, slack="separate"), C)
        found[0 if learns else 1].append(method)
    return found


def _target(method: str, data: RankingData, relevant_from: float) -> Target:
    return parse_losses(_LOSSES[method])[0].target(data, relevant_from)


def _pairs(data: RankingData) -> tuple[Target, float]:
    """Ranking SVM, and a C for hinges that are summed over pairs."""
    values, grades = grades_of(data)
    return pair_target(grades, data.has_order, weight_table(values, None)), 10.0 / float(
        np.mean(data.sizes.astype(np.float64) ** 2)
    )


def learn_pairs(data: RankingData, weights: Array, settings: Settings) -> Array:
    """The weights of a Ranking SVM, where no query has both relevant and other documents."""
    target, C = _pairs(data)
    part = target.of(target.useful, data)
    return solve_once(some_queries(data, target.useful), [part], weights[target.useful], settings, C).coef


def useless_notice(
    row: Mapping[str, float], gap: float, *, larger: bool | None, learn: Sequence[str], fail: Sequence[str]
) -> Notice:
    """The notice of weights that are no better than 0.

    Parameters
    ----------
    row : mapping
        The row of ``C_path_`` of the C that was kept.
    gap : float
        Of the certificate.
    larger : bool or None
        Whether a larger C lowers the objective; None if unknown.
    learn, fail : sequence of str
        Methods that were tried on the data.
    """
    values: dict[str, Any] = {name: float(row[name]) for name in ("C", "slack_ratio", "objective_ratio")}
    values |= {"open": gap > OPEN, "larger": larger, "learn": list(learn), "fail": list(fail)}
    return Notice(Kind.NO_BETTER_THAN_ZERO, useless_words(values), values)


def useless_words(values: Mapping[str, Any], C: str = "C") -> str:
    """What such a notice says; ``C`` is what C is called."""
    share = f"{100 * max(values['slack_ratio'], values['objective_ratio']):.1f} %"
    loss = f"its loss is {share} of an untrained model's, whose weights are all 0"
    if values["open"]:
        return f"training ended before the model learnt anything: {loss}"
    if values["larger"]:
        return f"the model learnt next to nothing with C = {values['C']:g}: {loss}. A larger {C} lowers it"
    text = f"the model learnt nothing: {loss}"
    if values["larger"] is not None:
        text += f", and a larger {C} does not change that"
    learn, fail = values["learn"], values["fail"]
    if learn:
        text += f". {_listed(learn)} {'does' if len(learn) == 1 else 'do'} learn from this data"
    elif fail:
        text += f". {_listed(fail)} {'does' if len(fail) == 1 else 'do'} not learn from this data either"
    return text


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
