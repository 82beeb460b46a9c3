"""The structured hinge on the card: the interface of `StructuredHinge`, with passes over features that are there.

Every query's loss and hinge, and every block's plane, come back; the solver and its small problem stay on the CPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data.threads import Team
from rankwright.gpu.arranged import Arranged, Launch, launches
from rankwright.gpu.card import blocks, is_simulated, upload
from rankwright.gpu.clipped import further_room
from rankwright.gpu.kernels import ATTAINED, ORACLES
from rankwright.gpu.marking import mark_others
from rankwright.gpu.positions import means_and_gains
from rankwright.gpu.recorded import Recorded
from rankwright.gpu.table import packed_grades
from rankwright.objectives.sample import rows_wanted
from rankwright.objectives.structured import Planes, Scaled, StructuredHinge

Array = npt.NDArray[Any]
_GRID = 4 if is_simulated() else 256  # threads that mark documents


def _launch(kernel: Any, planned: list[Launch], stream: Any, *given: Any) -> None:
    """Launch a kernel for queries of every length."""
    data, found = given[:6], given[6:]
    for one in planned:
        kernel[one.grid, one.threads, stream, one.shared](one.queries, data, found, one.scratch, one.room)


class CudaHinge(StructuredHinge):
    """The objective of a structured SVM, computed on the card.

    Parameters
    ----------
    X : Arranged
        Features and queries on the card.
    labels : device array
        Labels in the order of the arrangement.
    rows, indptr, oracle, cost, scale, blocks, threads
        As for `StructuredHinge`; of ``rows`` the number counts alone.
    """

    X: Arranged
    labels: Any

    def __post_init__(self) -> None:
        self._longest = int(np.diff(self.indptr).max())
        self._parameters = self.oracle.parameters(self._longest)
        self._own_labels = self.labels
        Scaled.__init__(self, self.scale)
        self._team = Team(self.threads)
        n_blocks = len(self.blocks) - 1
        self._planes = Planes(np.empty(n_blocks), np.empty((n_blocks, len(self.scale))), np.empty(n_blocks))
        self._nothing = upload(np.empty(0))
        self._added = self._nothing
        self._given = upload(self._parameters)
        self._costs: tuple[Array, Any] = (np.empty(0), None)
        self._found = cuda.device_array((2, len(self.indptr) - 1), np.float64)
        self._of_queries = self._found[0], self._found[1]
        self._choose_kernel()

    def _choose_kernel(self) -> None:
        """The kernel of the oracle, and labels in the form that it and that of the map take."""
        name, further = self.oracle.kernel.__name__, lambda n: 0
        self._kernel_labels = self._map_labels = self.labels
        self._cpu_oracle: StructuredHinge | None = None
        if name == "ndcg_at":
            cutoff = int(self._parameters[0])
            further = lambda n: further_room(n, cutoff)  # noqa: E731
        if name == "dorm":
            longest = (len(self._parameters) - 2) // 2
            decay, discount = self._parameters[2 : 2 + longest], self._parameters[2 + longest :]
            labels = self.labels.copy_to_host()
            means, gains = means_and_gains(labels, self.indptr, self._parameters)
            self._map_labels = upload(means)
            if np.array_equal(decay, discount):
                name, further = "sorted", lambda n: 1 << max(0, n - 1).bit_length()
                self._kernel_labels = upload(np.concatenate([means, gains]))
            elif (packed := packed_grades(labels, self.indptr, self._parameters, means, gains)) is not None:
                name, further = "table", lambda n: 2 * packed[1]
                self._kernel_labels = upload(packed[0])
        kernel, of_map = ORACLES.get(name), ATTAINED.get(self.oracle.feature_map)
        if kernel is None:
            self._cpu_oracle = self._over_scores()
        planned = launches(np.diff(self.indptr), further)
        self._violated, self._attained_by = (Recorded(partial(_launch, one, planned)) for one in (kernel, of_map))

    def _over_scores(self) -> StructuredHinge:
        """The hinge on the CPU, with the scores as its only feature: for oracles that are not on the card."""
        labels, n_docs = self.labels.copy_to_host(), len(self.rows)
        labels.flags.writeable = False
        every = np.array([0, len(self.indptr) - 1])
        given = (self.indptr, self.oracle, self.cost, np.ones(1), every, self.threads)
        return StructuredHinge(np.empty((n_docs, 1)), np.arange(n_docs), labels, *given)

    def share(self, sharing: int, scores: Any, orders: Any) -> None:
        """Scores are shared by the arrangement."""

    def _cost_there(self, cost: Array) -> Any:
        """Costs on the card."""
        if self._costs[0] is not cost:
            self._costs = (cost, upload(cost))
        return self._costs[1]

    def _pass(
        self, weights: Array, cost: Array, blocks: Array, planes: Planes, attained: bool = False, alone: bool = False
    ) -> None:
        self.X.score(weights)
        found = self._found_for(cost, attained)
        weighed = found * cost
        planes.losses[:] = np.add.reduceat(weighed[0], blocks[:-1])
        planes.values[:] = np.add.reduceat(weighed[1], blocks[:-1])
        if planes.vectors.shape[1] == len(weights):
            planes.vectors[:] = self.X.planes(blocks, self._inverse)

    def _found_for(self, cost: Array, attained: bool) -> Array:
        """Loss and hinge of every query with a cost; the coefficients of documents are left on the card."""
        there = self._cost_there(cost)
        added = self._nothing if attained else self._added
        if attained:
            self._launch(self._attained_by, self._map_labels, there, added)
        elif self._cpu_oracle is None:
            self._launch(self._violated, self._kernel_labels, there, added)
        else:
            return self._found_here(self._cpu_oracle, cost, added)
        found = self._found.copy_to_host()
        return np.where(cost != 0.0, found, 0.0)

    def _launch(self, recorded: Recorded, labels: Any, cost: Any, added: Any) -> None:
        known = (self.X.on_card, self.X.scores, labels, self._given, cost, added)
        recorded(*known, self.X.coef, *self._of_queries)

    def _found_here(self, cpu_oracle: StructuredHinge, cost: Array, added: Any) -> Array:
        """The same, with an oracle of the CPU."""
        scores = cpu_oracle.X[:, 0]
        self.X.scores.copy_to_host(scores)
        coef, losses = cpu_oracle.of_documents(np.ones(1), cost)
        if added.size:
            coef += added.copy_to_host()
        margins = np.add.reduceat(coef * scores, self.indptr[:-1])
        self.X.coef.copy_to_device(coef * np.repeat(cost, np.diff(self.indptr)))
        return np.where(cost != 0.0, np.stack([losses, losses - margins]), 0.0)

    def attained(self, w: Array) -> Array:
        """The coefficient of every document in Ψ(an ideal ranking) − Ψ(the ranking that the weights make)."""
        self.X.score(self.coefficients(w))
        self._launch(self._attained_by, self._map_labels, upload((self.cost != 0.0) * 1.0), self._nothing)
        return np.asarray(self.X.coef.copy_to_host())

    def add(self, coef: Array) -> None:
        """Add a coefficient of every document to those of every ranking, also of the ideal one."""
        self._added = upload(coef)

    def turn_back(self) -> None:
        """Compare with an ideal ranking again."""
        self.labels, self._added = self._own_labels, self._nothing
        if self.oracle.feature_map == "mrr":
            self._kernel_labels = self._map_labels = self.labels

    def _keep_topmost(self, w: Array) -> bool:
        """Let only the topmost good document of every query count; whether that changed anything."""
        self.X.score(self.coefficients(w))
        labels, changes = cuda.device_array_like(self._own_labels), upload(np.zeros(1, np.int64))
        n_queries = len(self.indptr) - 1
        mark_others[blocks(-(-n_queries // _GRID)), _GRID](
            self.X.on_card, self.X.scores, self._own_labels, self.labels, self._cost_there(self.cost), labels, changes
        )
        self.labels = self._kernel_labels = self._map_labels = labels
        return bool(changes.copy_to_host()[0])

    def sample(self, wanted: int | None = None) -> Array:
        """Features of some documents as weights see them, less the means of their queries; about ``wanted``."""
        many = rows_wanted(self.X.n_docs, len(self._kept)) if wanted is None else wanted
        return self.X.sample(self._inverse, self._kept, many)

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """Loss, vector and value of the plane of one block at the weights ``w``: those of a whole pass."""
        planes = self.evaluate(w)
        return float(planes.losses[block]), planes.vectors[block], float(planes.values[block])

    def close(self) -> None:
        """Shut down the thread pool, and forget what was recorded."""
        super().close()
        if self._cpu_oracle is not None:
            self._cpu_oracle.close()
        for recorded in (self._violated, self._attained_by, self.X):
            recorded.close()
