"""Training a net: epochs of updates group by group (or batch by batch), keeping the best epoch.

The rows of a group are standardised into a block of float64, one line per feature, while they are worked on; sparse
rows are used as they are, and their means go into the units' constants. The weights are one vector θ:

    hidden units     W (features × units), then v (units), then b (units):  score = Σ_u v_u tanh(b_u + Σ_j W_ju x_j)
    none             w (features):  score = Σ_j w_j x_j
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numba import njit, types
from numba.extending import overload

from rankwright._types import Arguments, Array, Compiled, Features
from rankwright.caching import INNER
from rankwright.models.products import FASTMATH, kernel_form

# The compiled parts: scores of a group of rows, gradients back through the net, and updates of the weights.


_LANES = 8
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


@njit(**INNER)
def _line(n: int) -> int:
    """Length of a line of ``n`` numbers: an odd number of cache lines, so that lines do not compete for one slot."""
    return _LANES * (((n + _LANES - 1) // _LANES) | 1)


@njit(cache=True)
def net_space(longest: int, n_cells: int, units: int) -> Any:
    """Working memory for groups of up to ``longest`` rows: block, units, gradients, scores, gradients and weights."""
    line = _line(longest)
    block, scores, rise, hessian = (np.zeros(line * n_cells), np.empty(longest), np.empty(longest), np.empty(longest))
    return block, np.empty(line * units), np.empty(line * units), scores, rise, hessian


def _fill_units(
    X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, theta: Array, block: Array, z: Array,
    units: int,
) -> None:  # fmt: skip
    """``z[u, i] += Σ_j W[j, u] x[i, j]`` of standardised rows; the dense ones stay in ``block``."""
    raise NotImplementedError("for compiled code only")


def _add_products(
    X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, block: Array, g: Array, grad: Array,
    units: int,
) -> None:  # fmt: skip
    """``grad[j, u] += Σ_i g[u, i] x[i, j]`` for the rows of the last `_fill_units`."""
    raise NotImplementedError("for compiled code only")


@overload(_fill_units, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _fill_units_of(  # noqa: C901
    X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, theta: Array, block: Array, z: Array,
    units: int,
) -> Any:  # fmt: skip
    if isinstance(X, types.Array):

        def dense(
            X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, theta: Array, block: Array,
            z: Array, units: int,
        ) -> None:  # fmt: skip
            n, d = docs.size, columns.size
            for i in range(n):
                for j in range(d):
                    block[j * line + i] = (X[docs[i], columns[j]] - mean[j]) * inverse[j]
            for j in range(d):
                for i in range(n, line):
                    block[j * line + i] = 0.0
            for u in range(units):
                sums = z[u * line : (u + 1) * line]
                for j in range(0, d - 3, 4):  # four at a time: sums are read and written less often
                    w0, w1 = theta[j * units + u], theta[(j + 1) * units + u]
                    w2, w3 = theta[(j + 2) * units + u], theta[(j + 3) * units + u]
                    at = j * line
                    for i in range(line):
                        sums[i] += (w0 * block[at + i] + w1 * block[at + line + i]) + (
                            w2 * block[at + 2 * line + i] + w3 * block[at + 3 * line + i]
                        )
                for j in range(d - d % 4, d):
                    w0 = theta[j * units + u]
                    for i in range(line):
                        sums[i] += w0 * block[j * line + i]

        return dense

    def csr(
        X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, theta: Array, block: Array,
        z: Array, units: int,
    ) -> None:  # fmt: skip
        values, places, rows = X
        if theta.size > mean.size:  # without hidden units a constant changes nothing
            for u in range(units):
                shift = 0.0
                for j in range(mean.size):
                    shift += mean[j] * inverse[j] * theta[j * units + u]
                for i in range(docs.size):
                    z[u * line + i] -= shift
        for i in range(docs.size):
            for k in range(rows[docs[i]], rows[docs[i] + 1]):
                j = columns[places[k]]
                if j >= 0:
                    x = values[k] * inverse[j]
                    for u in range(units):
                        z[u * line + i] += x * theta[j * units + u]

    return csr


@overload(_add_products, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _add_products_of(
    X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, block: Array, g: Array, grad: Array,
    units: int,
) -> Any:  # fmt: skip
    if isinstance(X, types.Array):

        def dense(
            X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, block: Array, g: Array,
            grad: Array, units: int,
        ) -> None:  # fmt: skip
            for j in range(columns.size):
                row = block[j * line : (j + 1) * line]
                for u in range(units):
                    total = 0.0
                    for i in range(line):
                        total += g[u * line + i] * row[i]
                    grad[j * units + u] += total

        return dense

    def csr(
        X: Any, docs: Array, line: int, columns: Array, mean: Array, inverse: Array, block: Array, g: Array,
        grad: Array, units: int,
    ) -> None:  # fmt: skip
        values, places, rows = X
        for i in range(docs.size):
            for k in range(rows[docs[i]], rows[docs[i] + 1]):
                j = columns[places[k]]
                if j >= 0:
                    x = values[k] * inverse[j]
                    for u in range(units):
                        grad[j * units + u] += x * g[u * line + i]
        if grad.size > mean.size:
            for u in range(units):
                total = 0.0
                for i in range(docs.size):
                    total += g[u * line + i]
                for j in range(mean.size):
                    grad[j * units + u] -= mean[j] * inverse[j] * total

    return csr


@njit(cache=True, nogil=True, fastmath=False)
def forward(rows: Arguments, q: int, theta: Array, hidden: int, space: Arguments) -> int:
    """Score the rows of group ``q``, in order, into ``space[3]``; returns their number."""
    X, docs, indptr, columns, mean, inverse = rows
    block, z, _, scores, _, _ = space
    start = indptr[q]
    n = indptr[q + 1] - start
    line, units, d = _line(n), max(hidden, 1), mean.size
    for u in range(units):
        constant = theta[(d + 1) * units + u] if hidden else 0.0
        for i in range(line):
            z[u * line + i] = constant
    _fill_units(X, docs[start : start + n], line, columns, mean, inverse, theta, block, z, units)
    for i in range(n):
        scores[i] = 0.0 if hidden else z[i]
    for u in range(hidden):
        v = theta[d * units + u]
        for i in range(n):
            z[u * line + i] = math.tanh(z[u * line + i])
            scores[i] += v * z[u * line + i]
    return n


@njit(cache=True, nogil=True, fastmath=False)
def backward(rows: Arguments, q: int, theta: Array, hidden: int, cost: float, space: Arguments, grad: Array) -> None:
    """Add the gradient of θ by the gradients ``space[4]`` of group ``q``, times ``cost``; right after its `forward`."""
    X, docs, indptr, columns, mean, inverse = rows
    block, z, g, _, rise, _ = space
    start = indptr[q]
    n = indptr[q + 1] - start
    line, units, d = _line(n), max(hidden, 1), mean.size
    for u in range(units):
        for i in range(n, line):
            g[u * line + i] = 0.0
        if not hidden:
            for i in range(n):
                g[i] = cost * rise[i]
            continue
        v, of_v, of_b = theta[d * units + u], 0.0, 0.0
        for i in range(n):
            t = z[u * line + i]
            of_v += cost * rise[i] * t
            back = cost * rise[i] * v * (1.0 - t * t)
            of_b += back
            g[u * line + i] = back
        grad[d * units + u] += of_v
        grad[(d + 1) * units + u] += of_b
    _add_products(X, docs[start : start + n], line, columns, mean, inverse, block, g, grad, units)


@njit(cache=True, nogil=True, inline="always")
def run_task(
    rows: Arguments, gradients: Compiled, setup: Arguments, order: Array, first: int, last: int, costs: Array,
    theta: Array, hidden: int, space: Arguments, memory: Arguments, grad: Array, seen: Array,
) -> bool:  # fmt: skip
    """The gradient of the groups ``order[first]`` … ``order[last − 1]``; False if a score is not finite.

    ``gradients(q, scores, setup, memory, rise, hessian)`` sets ``rise`` to how much each score of a group should rise.
    The scores are stored in ``seen``.
    """
    docs, indptr = rows[1], rows[2]
    scores, rise, hessian = space[3], space[4], space[5]
    for k in range(grad.size):
        grad[k] = 0.0
    for place in range(first, last):
        q = order[place]
        n = forward(rows, q, theta, hidden, space)
        for i in range(n):
            seen[docs[indptr[q] + i]] = scores[i]
            if not np.isfinite(scores[i]):
                return False
        gradients(q, scores[:n], setup, memory, rise, hessian)
        backward(rows, q, theta, hidden, costs[q], space, grad)
    return True


@njit(cache=True, nogil=True, inline="always")
def step(theta: Array, grad: Array, share: float, state: Array, rate: float, decay: float, decayed: int) -> None:
    """Move θ along ``share`` times the gradient: by Adam's rule if ``state`` has room for its averages, else by rate.

    The first ``decayed`` weights also shrink by ``rate · decay``.
    """
    if decay > 0.0:
        for k in range(decayed):
            theta[k] -= rate * decay * theta[k]
    if state.shape[1] == 0:
        for k in range(theta.size):
            theta[k] += rate * share * grad[k]
        return
    averages, squares, n = state[0], state[1], theta.size
    averages[n] *= _FIRST  # after the averages: Adam's bias corrections
    squares[n] *= _SECOND
    a, b = 1.0 / (1.0 - averages[n]), 1.0 / (1.0 - squares[n])
    for k in range(n):
        slope = share * grad[k]
        averages[k] += (1.0 - _FIRST) * (slope - averages[k])
        squares[k] += (1.0 - _SECOND) * (slope * slope - squares[k])
        theta[k] += rate * a * averages[k] / (math.sqrt(b * squares[k]) + _TINY)


@njit(cache=True, nogil=True)
def run_groups(
    rows: Arguments, gradients: Compiled, setup: Arguments, order: Array, first: int, last: int, costs: Array,
    theta: Array, hidden: int, space: Arguments, memory: Arguments, grad: Array, seen: Array, state: Array, rate: float,
    decay: float, decayed: int,
) -> bool:  # fmt: skip
    """An update after each of the groups ``order[first]`` … ``order[last − 1]``; False if a score is not finite."""
    for place in range(first, last):
        if not run_task(
            rows, gradients, setup, order, place, place + 1, costs, theta, hidden, space, memory, grad, seen
        ):
            return False
        step(theta, grad, 1.0, state, rate, decay, decayed)
    return True


# Epochs of updates.


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
        X: Features,
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

    def start_at(self, coef: Array) -> None:
        """Start a linear model from weights of the raw features, made so long that scores of a group vary by 1."""
        self.theta[:] = coef[self._kept] * self._scale
        square, rows = 0.0, 0
        for q in self._groups:
            n = forward(self._rows, q, self.theta, self._hidden, self._space[0])
            square += n * float(np.var(self._space[0][3][:n]))
            rows += n
        self.theta /= math.sqrt(square / rows) if square > 0 else 1.0

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
