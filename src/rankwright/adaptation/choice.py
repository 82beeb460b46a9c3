"""`adapt`: the ways to use background rankers in a new domain, compared on validation data, and one of them chosen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankwright.adaptation.candidates import Adapted
from rankwright.adaptation.methods import IN_DOMAIN
from rankwright.adaptation.ways import Adaptation
from rankwright.data.dataset import RankingData
from rankwright.errors import InputWarning
from rankwright.measures import Measure
from rankwright.rankers.folds import FOLDS

__all__ = ["adapt"]


def adapt(
    background: Any,
    train: RankingData,
    valid: RankingData | None = None,
    *,
    background_data: RankingData | Sequence[RankingData] | None = None,
    method: str = "auto",
    in_domain: str = IN_DOMAIN,
    in_domain_settings: Mapping[str, Any] | None = None,
    weights: str = "powell",
    measure: str | Measure = "ndcg@10",
    leaves: int | Sequence[int] = 10,
    rate: float | Sequence[float] | None = None,
    trees: int | None = None,
    randomize_nodes: bool | Sequence[bool] = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    cv: int = FOLDS,
    progress: Callable[[int, int], Any] | None = None,
) -> Adapted:
    """Adapt a ranker, or several, to a new domain.

    Parameters
    ----------
    background : fitted ranker, model or SavedModel, or several of them
        Trained on the rich domain. Several, in a list or in a dictionary by name: interpolations have each of them as
        a component, and what needs a single one starts from their interpolation.
    train, valid : RankingData
        The little data of the new domain: to train on, and to choose by. Without ``valid``, everything is chosen by
        cross-validation over the queries of ``train``, and then trained on all of them.
    background_data : RankingData or sequence of RankingData, optional
        Data of the rich domains, from which neighbours of the in-domain documents are taken.
    method : {"auto", "interpolate", "lambdaboost", "lambdamart", "augment", "in-domain", "interpolate-3"}
        How to adapt; ``"auto"`` tries every way and prefers the simplest that is not significantly worse than the best
        on ``valid``, or on held-out queries (paired t-test, p < .05).
    in_domain : str
        How the in-domain ranker is trained, and the one with neighbours: any method of `rankwright train`.
    in_domain_settings : mapping, optional
        Its parameters, such as ``{"hidden": 15}`` for ``"lambdarank"``.
    weights : {"powell", "lambdarank"}
        How the weights of interpolations are fitted, see :class:`Interpolation`.
    measure : str or Measure
        Measure to optimise and to choose by.
    leaves, rate, randomize_nodes : int, float, bool, or a sequence
        Of boosting from the background: leaves of LambdaMART's trees, shrinkage, and random nodes. Several values: the
        combination that is best on ``valid``, the first of equal ones. ``rate=None``: the default of each method.
    trees : int, optional
        Most trees, or rounds of LambdaBoost. How many are kept is chosen on ``valid``.
    random_state : int
        Random seed.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    cv : int
        Folds of cross-validation, without ``valid``.
    progress : callable, optional
        Called with (trainings done, trainings in total).

    Examples
    --------
    >>> found = adapt(ranker, train, valid, method="auto")  # doctest: +SKIP
    >>> found.chosen.name, found.reason  # doctest: +SKIP
    """
    adaptation = Adaptation(
        background,
        train,
        valid,
        background_data=background_data,
        in_domain=in_domain,
        in_domain_settings=in_domain_settings or {},
        weights=weights,
        measure=measure,
        leaves=leaves,
        rate=rate,
        trees=trees,
        randomize_nodes=randomize_nodes,
        random_state=random_state,
        n_jobs=n_jobs,
        cv=cv,
    )
    found = adaptation.run(method, progress)
    for notice in found.notices:
        warnings.warn(notice.text, InputWarning, stacklevel=2)
    return found
