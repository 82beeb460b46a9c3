"""What a bound on the loss proves of the measure itself, on the training queries.

    mean Δ(ŷ) ≤ mean bound,   so   mean measure ≥ 1 − mean bound

Hinge and ramp both lie above the loss of the ranking that the weights make, however ties in it are broken. The measure
is that of the labels as training sees them: relevant or not, unless the loss uses the grades.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_chunks
from rankwright.data.dataset import RankingData
from rankwright.data.places import place_of
from rankwright.measures import Rankings
from rankwright.models.linear import LinearModel
from rankwright.rankers.facts import Proof
from rankwright.rankers.problem import Target

Array = npt.NDArray[Any]
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

    Parameters
    ----------
    data, targets, weights
        As `Problem` takes them.
    coef : ndarray
        Weights of the raw features.
    slack : float
        The bound, (1/|Q|) Σ_q Σ_l c_l μ_q R_q, as training reports it.
    shared : bool
        Whether the largest of several losses counts, not their sum.
    device : {"cpu", "cuda"}
        Where documents are scored and ranked.
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
            known = Rankings(target.labels[docs], indptr)
            values = target.measure.resolve("letor").value(Rankings(known.labels[order], indptr, known))
            losses[row, first:last] = np.where(target.useful[first:last], 1.0 - values, 0.0)
    together = np.max if shared else np.sum
    most, lost = float(together(costs, axis=0).sum()), float(together(costs * losses, axis=0).sum())
    names = [_name(target, data.labels) for target in targets]
    named = names[0] if len(names) == 1 else f"{'lowest' if shared else 'mean'} of {', '.join(names)}"
    return Proof(named, 1.0 - lost / most, max(0.0, 1.0 - slack * data.n_queries / most))


def _name(target: Target, labels: Array) -> str:
    """The measure, and whether grades count in it that training does not see."""
    assert target.measure is not None
    measure = target.measure.resolve("letor")
    seen = np.array_equal(measure.worth(target.labels), measure.worth(labels))
    return f"{target.measure}{'' if seen else ' of 0/1 labels'}"
