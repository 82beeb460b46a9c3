"""Training a net: epochs of updates group by group (or batch by batch), keeping the best epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.models.products import kernel_form
from rankwright.nets.kernels import backward, forward, net_space, run_groups, run_task, step

ADAM_RATE = 0.001  # the usual one; on OHSUMED, MQ2008 and MQ2007 half to twice as much is as good, ten times is worse
_FIRST_SCORES = 0.1  # size of the scores before training: small, so that chance does not order rows
_TASK_DOCS = 4096  # approximate rows of a batch per task of a thread
_STRETCH_DOCS = 1 << 16  # rows between checks for Ctrl-C


@dataclass(frozen=True)
class Epoch:
    """One row of the path.

    `epoch`: from 1. `train`: the value on the training data, of the scores that each group had when its turn came.
    `value`: the value on validation data after the epoch; NaN if there is none. `seconds`: wall time since the start.
    """

    epoch: int
    train: float
    value: float
    seconds: float


@dataclass(frozen=True, eq=False)
class TrainedNet:
    """The result: weights of the best epoch, its number, the path, and what ended training early."""

    theta: Array
    best_epoch: int
    path: tuple[Epoch, ...]
    interrupted: bool = False  # by Ctrl-C
    overflow: bool = False  # the rate was too large


class GroupGradients(Protocol):
    """Gradients of the scores of a group of rows, given all its scores."""

    @property
    def indptr(self) -> Array:
        """Group ``q`` owns the places ``indptr[q]:indptr[q+1]`` of ``docs``."""

    @property
    def docs(self) -> Array: ...

    @property
    def kernel(self) -> tuple[Any, Any] | None:
        """A compiled ``function(q, scores, setup, memory, gradients, weights)`` and its setup, if there is one."""

    def space(self, longest: int) -> Any:
        """Memory of the compiled function for groups of up to ``longest`` rows."""

    def one_query(self, q: int, scores: Array) -> tuple[Array, Array]:
        """Gradients and second derivatives of group ``q``, if there is no compiled function."""


class NetTrainer:
    """A net on given data, and its updates.

    `X`: features. `gradients`: the groups of rows and their gradients. `groups`: the groups to train on, in the order
    from which they are shuffled. `costs`: factor for the gradient of each group. `mean`, `scale`: features are used as
    (x − mean) / scale; a scale of inf leaves a feature out. `hidden`: hidden units; 0: a linear model. `batch`: groups
    per update. `rate`: factor for gradients; None: steps by Adam's rule with `ADAM_RATE`. `decay`: weights shrink by
    this times the rate in every update. `seed`: random seed of the first weights and of shuffling. `threads`: threads
    for batches of many rows; the result does not depend on it. `rows`: the row of X of each row of the gradients; by
    default the same. `theta`: the weights.
    """

    def __init__(
        self,
        X: Any,
        gradients: GroupGradients,
        groups: Array,
        costs: Array,
        mean: Array,
        scale: Array,
        *,
        hidden: int,
        batch: int = 1,
        rate: float | None = None,
        decay: float = 0.0,
        seed: int = 0,
        threads: int = 1,
        rows: Array | None = None,
    ) -> None:
        self._gradients, self._groups, self._costs, self._kernel = gradients, groups, costs, gradients.kernel
        self._hidden, self._units, self._batch, self._seed = hidden, max(hidden, 1), batch, seed
        usable = np.flatnonzero(np.isfinite(scale))
        self._mean, self._scale, self._kept, self._n_features = mean[usable], scale[usable], usable, len(scale)
        form = kernel_form(X)
        columns = usable
        if isinstance(form, tuple):
            columns = np.full(self._n_features, -1)
            columns[usable] = np.arange(len(usable))
        docs = gradients.docs if rows is None else rows[gradients.docs]
        self._rows = (form, docs, gradients.indptr, columns, self._mean, 1.0 / self._scale)
        self._seen, self._places = np.zeros(X.shape[0]), rows
        longest = int(np.diff(gradients.indptr).max(initial=1))
        cells = 0 if isinstance(form, tuple) else len(usable)
        units = self._units  # not self: reference cycles stay in memory for a while
        self._new_space = lambda: (net_space(longest, cells, units), gradients.space(longest))
        self._space = self._new_space()
        self.theta = _first_weights(len(usable), hidden, np.random.default_rng([seed, 0]))
        self._steps = (
            np.zeros((2, 0)) if rate is not None else np.zeros((2, len(self.theta) + 1)),
            ADAM_RATE if rate is None else rate,
            decay,
            len(usable) * self._units + hidden,
        )
        self._steps[0][:, len(self.theta) :] = 1.0
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and batch > 1 else None

    @property
    def seen(self) -> Array:
        """Each row's score when its group was last visited."""
        return self._seen if self._places is None else self._seen[self._places]

    def epoch(self, number: int) -> bool:
        """Visit every group once; False if a score is not finite."""
        last_scores = self._seen
        order = np.random.default_rng([self._seed, number]).permutation(self._groups)
        docs = np.concatenate([[0], np.cumsum(np.diff(self._gradients.indptr)[order])])
        if self._batch > 1 or self._kernel is None:
            ends = np.append(np.arange(0, len(order), self._batch), len(order))
            # The tasks of a batch do not depend on the number of threads, so sums are rounded equally.
            tasks = np.union1d(ends, np.searchsorted(docs, np.arange(_TASK_DOCS, docs[-1], _TASK_DOCS)))
            batches = pairwise(np.searchsorted(tasks, ends).tolist())
            return all(self._one_batch(order, tasks[first : last + 1].tolist(), last_scores) for first, last in batches)
        grad = np.empty_like(self.theta)
        looks = np.unique(np.searchsorted(docs, np.arange(0, docs[-1] + _STRETCH_DOCS, _STRETCH_DOCS)))
        return all(
            run_groups(
                self._rows, *self._kernel, order, first, min(last, len(order)), self._costs, self.theta,
                self._hidden, *self._space, grad, last_scores, *self._steps,
            )
            for first, last in pairwise(looks.tolist())
        )  # fmt: skip

    def _one_batch(self, order: Array, tasks: list[int], seen: Array) -> bool:
        def run(task: tuple[int, int]) -> tuple[bool, Array]:
            grad = np.empty_like(self.theta)
            if self._kernel is None:
                return self._one_by_one(order[slice(*task)], grad, seen), grad
            space = self._space if self._pool is None else self._new_space()
            finite = run_task(
                self._rows, *self._kernel, order, *task, self._costs, self.theta, self._hidden, *space, grad, seen
            )
            return bool(finite), grad

        apply: Callable[..., Any] = map if self._pool is None or self._kernel is None else self._pool.map
        total = np.zeros_like(self.theta)
        for finite, grad in apply(run, pairwise(tasks)):
            if not finite:
                return False
            total += grad
        step(self.theta, total, 1.0 / (tasks[-1] - tasks[0]), *self._steps)
        return True

    def _one_by_one(self, groups: Array, grad: Array, seen: Array) -> bool:
        grad[:] = 0.0
        docs, indptr = self._rows[1], self._rows[2]
        space, _ = self._space
        scores, gradients = space[3], space[4]
        for q in groups:
            n = forward(self._rows, q, self.theta, self._hidden, space)
            seen[docs[indptr[q] : indptr[q + 1]]] = scores[:n]
            if not np.isfinite(scores[:n]).all():
                return False
            gradients[:n] = self._gradients.one_query(q, scores[:n])[0]
            backward(self._rows, q, self.theta, self._hidden, self._costs[q], space, grad)
        return True

    def raw_weights(self, theta: Array) -> tuple[Array, Array, Array]:
        """Weights of the raw features (features × units), weights of the units, and their constants."""
        n = len(self._kept) * self._units
        inner = np.zeros((self._n_features, self._units))
        inner[self._kept] = theta[:n].reshape(-1, self._units) / self._scale[:, None]
        outer, constants = theta[n : n + self._hidden], theta[n + self._hidden :]
        if self._hidden:
            constants = constants - (inner[self._kept] * self._mean[:, None]).sum(axis=0)
        return inner, outer, constants

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _first_weights(n_features: int, hidden: int, rng: np.random.Generator) -> Array:
    """0 without hidden units; else random, so that sums in units are about 1 in size and scores smaller."""
    if not hidden:
        return np.zeros(n_features)
    inner = rng.normal(size=n_features * hidden) / np.sqrt(max(n_features, 1))
    outer = rng.normal(size=hidden) * (_FIRST_SCORES / np.sqrt(hidden))
    return np.concatenate([inner, outer, np.zeros(hidden)])


def train_net(
    trainer: NetTrainer,
    *,
    epochs: int,
    train: Callable[[Array], float],
    valid: Callable[[Array], float] | None = None,
    patience: int | None = None,
    callback: Callable[[Epoch], Any] | None = None,
) -> TrainedNet:
    """Train for some epochs; with validation data, keep the best.

    `trainer`: the net to train. `epochs`: maximum number of epochs. `train`: the value of the scores of the training
    data. `valid`: the value on validation data for given weights θ; the epoch with the highest is kept. `patience`:
    stop after this many epochs without a higher value. `callback`: called after every epoch; True stops.
    """
    began = time.perf_counter()
    path: list[Epoch] = []
    best, best_value, theta = 0, -np.inf, trainer.theta.copy()
    try:
        for number in range(1, epochs + 1):
            if not (trainer.epoch(number) and np.isfinite(trainer.theta).all()):
                return TrainedNet(theta, best, tuple(path), overflow=True)
            value = float("nan") if valid is None else valid(trainer.theta)
            path.append(Epoch(number, train(trainer.seen), value, time.perf_counter() - began))
            if valid is None or value > best_value:
                best, best_value, theta = number, value, trainer.theta.copy()
            stop = callback(path[-1]) if callback is not None else False
            if stop is True or (valid is not None and patience is not None and number - best >= patience):
                break
    except KeyboardInterrupt:
        if not path:
            raise
        return TrainedNet(theta, best, tuple(path), interrupted=True)
    return TrainedNet(theta, best, tuple(path))
