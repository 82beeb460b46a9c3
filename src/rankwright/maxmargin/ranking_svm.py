"""RankingSVM: a hinge for every pair of documents, with the pair and query weights of Ranking SVM for IR.

    minimise  ½‖w‖² + (C/|Q|) Σ_q μ_q Σ_{z_i > z_j} τ(z_i, z_j) [1 − w·(x_i − x_j)]₊

Q is the queries that have an order to learn. The paper (SIGIR'06) minimises λ‖w‖² + Σ τ μ [·]₊: the same problem for
C = |Q|/(2λ), where a pair costs C_i = τμ/(2λ). Its gradient descent (Figure 3) is w ← w − η ∇(λ‖w‖² + Σ τ μ [·]₊) from
w = 0, all pairs in every step: ``solver="gd"`` with η as ``learning_rate``. svm_rank_learn divides by the number of all
queries, also those without pairs: without weights, its -c (with its default loss, -l 1) is C · n_all / |Q|.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.maxmargin.cost import cost
from rankwright.maxmargin.losses import (
    Target,
    click_target,
    grades_of,
    pair_target,
    query_pair_weights,
    rank_pair_weights,
    weight_table,
)
from rankwright.maxmargin.problem import BUNDLE, DESCENT, SOLVERS, SolverSettings
from rankwright.maxmargin.structured_svm import MaxMarginRanker
from rankwright.measures import Measure
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Kind, Notice
from rankwright.rankers.parameters import FLAG, LINEAR, NONE, POSITIVE, TREES_AND_NETS, Option, Rule, one_of, parameter
from rankwright.rankers.weights import click_weights

if TYPE_CHECKING:
    from rankwright.maxmargin.bundle import Solution

__all__ = ["RankingSVM"]

_MAPPING = Rule("{qid: weight}", lambda value: isinstance(value, Mapping))
_RANK_WEIGHTS = (
    Rule("nDCG@m, such as ndcg@1", lambda value: isinstance(value, str | Measure)),
    Rule("a mapping", lambda value: isinstance(value, Mapping)),
)
_LAMBDA = Option(LINEAR, "rank-svm, rsvm-ir: the paper's λ instead of --C.", after="query_weights", names=("--lambda",))
_RANK_WEIGHTS_OPTION = Option(
    LINEAR,
    "Weight of a pair by its labels: ndcg@K, the loss of swapping them, or none.  [rsvm-ir: ndcg@1]",
    after="feature_map",
    default="",
    metavar="ndcg@K|none",
    read=lambda text: None if text == "none" else text,
)
_QUERY_WEIGHTS_OPTION = Option(
    LINEAR,
    "Weight of a query: pairs, one over its number of pairs, or none.  [rsvm-ir: pairs]",
    after="rank_weights",
    default="",
    choices=("pairs", "none"),
    read=lambda text: text == "pairs",
)
_LEARNING_RATE = Option(
    TREES_AND_NETS,
    "Learning rate of trees and nets; with --solver gd the η of SIGIR'06: steps are η times the gradient of "
    "λ‖w‖² + Σ hinges.",
    after="background",
    default="the method's own; gd: line search",
    names=("--learning-rate", "--eta"),
)


@dataclass(eq=False, repr=False)
class RankingSVM(MaxMarginRanker):
    """Ranking SVM, and Ranking SVM for IR: a hinge for every pair of documents of a query with different labels.

    Pairs are never enumerated: a query of n documents takes O(n log n) time and O(n) memory.

    Parameters
    ----------
    C : float or "auto"
        Weight of the pairs' hinges, summed within a query and averaged over the queries that have an order to learn.
        svm_rank_learn averages over all queries: its -c is C · n_all / n_orderable, here C · (``n_queries_`` +
        ``n_queries_skipped_``) / ``n_queries_``, which is C where no query is skipped.
    lam : float, optional
        The paper's λ, instead of ``C``: minimises λ‖w‖² + Σ hinges, which is C = |Q|/(2λ).
    rank_weights : str, Measure or mapping, optional
        Weight τ of a pair by its two labels. ``"ndcg@1"`` (any nDCG@m): the mean drop of that measure when a document
        of one label and one of the other swap places in a perfect ranking. A mapping {(higher, lower): weight}.
    query_weights : bool or mapping
        Weight μ of a query. True: the largest number of pairs of any query, divided by its own. {qid: weight}. Other
        than the weights given to ``fit``, which are relative, these are factors of C; 0 leaves a query out.
    tol, max_passes, standardize, epsilon, C_grid, cv, warm_start, n_jobs, device, callback
        As for :class:`StructuredSVM`.
    solver : {"bundle", "one-slack-cutting-plane", "n-slack-cutting-plane", "gd"}
        As for :class:`StructuredSVM`; a slack is that of all pairs of a query. ``"gd"``: the paper's full-batch
        gradient descent, which stops when ten passes lower the objective by less than ``tol`` / 10 of it, and says so
        if its ``gap_``, which is valid but far from tight, is above ``tol`` then.
    learning_rate : float, optional
        The paper's η, of ``"gd"``: every step is η times the gradient of λ‖w‖² + Σ hinges, with λ = |Q|/(2C), from
        weights of 0 (or those of a warm start) for every C. Hinges are summed over all pairs, so η is small: of the
        order of 1 / number of pairs. The weights kept are those of the lowest objective seen. Default: a line search
        for every step, (13) in the paper.
    eval_measure : str or Measure, optional
        Measure by which ``C="auto"`` chooses; default nDCG@10.

    Attributes
    ----------
    coef_, objective_, gap_, n_passes_, path_, C_, C_path_, cv_, n_queries_, n_queries_skipped_, training_
        As for :class:`StructuredSVM`.
    rank_weights_ : dict
        τ of every pair of labels, {(higher, lower): weight}.

    Examples
    --------
    >>> import numpy as np
    >>> ranker = RankingSVM(C=1).fit(np.array([[3.0], [2.0], [1.0]]), [2, 1, 0], ["q"] * 3)
    >>> bool(ranker.coef_[0] > 0)
    True

    RSVM-IR of the paper:

    >>> ranker = RankingSVM(rank_weights="ndcg@1", query_weights=True)
    """

    C: float | str = cost()
    _: KW_ONLY
    lam: float | None = parameter(None, POSITIVE, NONE, option=_LAMBDA)
    rank_weights: str | Measure | Mapping[tuple[float, float], float] | None = parameter(
        None, *_RANK_WEIGHTS, NONE, option=_RANK_WEIGHTS_OPTION
    )
    query_weights: bool | Mapping[Any, float] = parameter(False, FLAG, _MAPPING, option=_QUERY_WEIGHTS_OPTION)
    solver: str = parameter(BUNDLE, one_of(*SOLVERS, DESCENT))
    learning_rate: float | None = parameter(None, POSITIVE, NONE, option=_LEARNING_RATE)

    _uses_positions: ClassVar[bool] = True

    def _check_together(self) -> None:
        if self.learning_rate is not None and self.solver != DESCENT:
            raise InputError(f"learning_rate is given with solver={self.solver!r}; expected solver={DESCENT!r} with it")
        if self.lam is not None and self.C == "auto":
            raise InputError("C='auto' chooses C; leave out lam")
        if isinstance(self.rank_weights, str | Measure):  # whether there are pair weights for this measure
            rank_pair_weights(RankingData.from_arrays([[1.0], [0.0]], [1, 0], group=[2]), self.rank_weights)

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "rsvm-ir" if self.rank_weights is not None or self._weighs_queries() else "rank-svm"

    def _weighs_queries(self) -> bool:
        return isinstance(self.query_weights, Mapping) or bool(self.query_weights)

    def _choices(self, n_queries: int) -> list[float]:
        return super()._choices(n_queries) if self.lam is None else [n_queries / (2.0 * float(self.lam))]

    def _settings(self) -> SolverSettings:
        return replace(super()._settings(), rate=self.learning_rate)

    def _notice(self, solution: Solution | None, interrupted: bool) -> Notice | None:
        self._diverged = self.learning_rate is not None and solution is not None and solution.stalled
        if solution is not None and solution.flat and not interrupted and not self._diverged:
            return self._stopped_short(solution)
        if solution is None or interrupted or not self._diverged:
            return super()._notice(solution, interrupted)
        kept = next(row.passes for row in solution.path if row.primal == solution.objective)
        problem = (
            "no step lowered the loss, and the weights are those it began with"
            if kept == 1
            else f"the loss rose above where it began; the weights are the best ones, after {kept - 1} steps"
        )
        text = f"learning_rate={self.learning_rate:g} is too large: {problem}. Without one, training finds its steps"
        return Notice(Kind.OVERFLOW, text, {"learning_rate": self.learning_rate, "kept": kept - 1})

    def _stopped_short(self, solution: Solution) -> Notice:
        """Descent went as far as it does, which is not proved to be near the optimum."""
        text = (
            f"gradient descent stopped after {len(solution.path)} passes, as more hardly lower the objective, with a "
            f"gap of {solution.gap:.2g}; tol={self.tol:g} was not reached; the default solver proves it"
        )
        values = {"max_passes": self.max_passes, "passes": len(solution.path), "stalled": False}
        return Notice(Kind.NOT_CONVERGED, text, values | {"gap": solution.gap, "tol": self.tol})

    def _no_better(self, task: Task) -> Notice | None:
        return None if self._diverged else super()._no_better(task)  # a step that is too long is all there is to say

    def _weigh(self, data: RankingData) -> Any:
        if not self._weighs_queries():
            return super()._weigh(data)
        return query_pair_weights(data, self.query_weights if isinstance(self.query_weights, Mapping) else None)

    def _targets(self, data: RankingData, winning: Array | None = None) -> Sequence[Target]:
        if winning is not None:
            return [self._click_target(data, winning)]
        values, grades = grades_of(data)
        weights = self.rank_weights
        if isinstance(weights, str | Measure):
            weights = rank_pair_weights(data, weights)
        table = weight_table(values, weights)
        self.rank_weights_ = {
            (float(values[a]), float(values[b])): float(table[a, b]) for a in range(len(values)) for b in range(a)
        }
        return [pair_target(grades, data.has_order, table)]

    def _click_target(self, data: RankingData, winning: Array) -> Target:
        """What clicks make of the labels; pairs have no weights of their own then."""
        if self.rank_weights is not None or self.query_weights is True:
            name = "query_weights" if self.rank_weights is None else "rank_weights"
            raise InputError(f"{name} weigh pairs by labels, and position weighs clicks; expected one of the two")
        self.rank_weights_ = {}
        return click_target(data.labels * winning, click_weights(data, winning) > 0)
