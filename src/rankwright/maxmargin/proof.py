"""What a bound on the loss proves of the measure itself, on the training queries.

    mean Δ(ŷ) ≤ mean bound,   so   mean measure ≥ 1 − mean bound

Hinge and ramp both lie above the loss of the ranking that the weights make, however ties in it are broken. The measure
is that of the labels as training sees them: relevant or not, unless the loss uses the grades.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, some_queries
from rankwright.data.order import query_chunks
from rankwright.data.places import place_of
from rankwright.maxmargin.losses import grades_of, pair_target, parse_losses, weight_table
from rankwright.maxmargin.problem import BUNDLE, SolverSettings, Target, solve_once
from rankwright.measures import Rankings
from rankwright.models.linear import LinearModel
from rankwright.rankers.facts import Kind, Notice, Proof

if TYPE_CHECKING:
    from rankwright.maxmargin.bundle import Check

_DOCS = 1 << 16  # documents whose measure is computed at a time


def prove(
    data: RankingData,
    targets: Sequence[Target],
    weights: Array,
    coef: Array,
    slack: float,
    *,
    shared: bool,
    device: str = "cpu",
) -> Proof | None:
    """The mean of the measure on the training queries, and what is proved of it; None without a measure.

    `data`, `targets`, `weights`: as `Problem` takes them. `coef`: weights of the raw features. `slack`: the bound,
    (1/|Q|) Σ_q Σ_l c_l μ_q R_q, as training reports it. `shared`: whether the largest of several losses counts, not
    their sum. `device` ({"cpu", "cuda"}): where documents are scored and ranked.
    """
    if any(target.measure is None for target in targets):
        return None
    order_of = place_of(data, device).orders(LinearModel(coef, data.feature_names))
    costs = np.array([target.weight * weights * target.useful for target in targets])
    losses = np.zeros_like(costs)
    for first, last in query_chunks(data.indptr, _DOCS):
        docs = slice(data.indptr[first], data.indptr[last])
        indptr = data.indptr[first : last + 1] - data.indptr[first]
        order = order_of(docs, indptr)
        for row, target in enumerate(targets):
            assert target.measure is not None
            judged = Rankings(target.labels[docs], indptr)
            values = target.measure.resolve("letor").value(Rankings(judged.labels[order], indptr, judged))
            losses[row, first:last] = np.where(target.useful[first:last], 1.0 - values, 0.0)
    together = np.max if shared else np.sum
    total, lost = float(together(costs, axis=0).sum()), float(together(costs * losses, axis=0).sum())
    names = [_name(target, data.labels) for target in targets]
    named = names[0] if len(names) == 1 else f"{'lowest' if shared else 'mean'} of {', '.join(names)}"
    return Proof(named, 1.0 - lost / total, max(0.0, 1.0 - slack * data.n_queries / total))


def _name(target: Target, labels: Array) -> str:
    """The measure, and whether grades count in it that training does not see."""
    assert target.measure is not None
    measure = target.measure.resolve("letor")
    seen = np.array_equal(measure.worth(target.labels), measure.worth(labels))
    return f"{target.measure}{'' if seen else ' of 0/1 labels'}"


# Whether max-margin weights are any better than weights of 0, and what does learn from the data where they are not.
#
# Some hinges cannot be lowered on some data: the most violated ranking is as bad for all weights as it is for none.
# Their optimum is proved all the same, and useless. Slack and objective, relative to weights of 0, show it. Whether a
# larger C, or another loss, would do better is tried out: training for a few passes, until the objective is 2 %
# lower.


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


def can_learn(data: RankingData, targets: Sequence[Target], weights: Array, settings: SolverSettings, C: float) -> bool:
    """Whether a few passes lower the objective by 2 %."""
    at_zero: list[float] = []

    def falls(check: Check) -> bool:
        at_zero.append(check.primal)
        return check.primal < _LEARNT * at_zero[0]

    settings = replace(settings, solver=BUNDLE, max_passes=_PASSES, callback=falls)
    return bool(solve_once(data, targets, weights, settings, C).figures["objective_ratio"] < _LEARNT)


def learners(
    data: RankingData, weights: Array, settings: SolverSettings, relevant_from: float, but: str
) -> tuple[list[str], list[str]]:
    """The methods that learn from the data, and those that were tried and do not; ``but`` is left out."""
    methods: tuple[list[str], list[str]] = [], []
    for method in (*_LOSSES, "rank-svm"):
        if method == but:
            continue
        target, C = _pairs(data) if method == "rank-svm" else (_target(method, data, relevant_from), 1.0)
        useful = target.useful & (weights > 0)
        if not useful.any():
            continue
        kept = data if useful.all() else some_queries(data, useful)
        of_kept = target if useful.all() else target.of(useful, data)
        learns = can_learn(kept, [of_kept], weights[useful], replace(settings, slack="separate"), C)
        methods[0 if learns else 1].append(method)
    return methods


def _target(method: str, data: RankingData, relevant_from: float) -> Target:
    return parse_losses(_LOSSES[method])[0].target(data, relevant_from)


def _pairs(data: RankingData) -> tuple[Target, float]:
    """Ranking SVM, and a C for hinges that are summed over pairs."""
    values, grades = grades_of(data)
    return pair_target(grades, data.has_order, weight_table(values, None)), 10.0 / float(
        np.mean(data.sizes.astype(np.float64) ** 2)
    )


def learn_pairs(data: RankingData, weights: Array, settings: SolverSettings) -> Array:
    """The weights of a Ranking SVM, where no query has both relevant and other documents."""
    target, C = _pairs(data)
    target_of_useful = target.of(target.useful, data)
    return solve_once(some_queries(data, target.useful), [target_of_useful], weights[target.useful], settings, C).coef


def useless_notice(
    row: Mapping[str, float], gap: float, *, larger: bool | None, learn: Sequence[str], fail: Sequence[str]
) -> Notice:
    """The notice of weights that are no better than 0.

    `row`: the row of ``C_path_`` of the C that was kept. `gap`: of the certificate. `larger`: whether a larger C lowers
    the objective; None if unknown. `learn`, `fail`: methods that were tried on the data.
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
