"""Partitions over several workers, all in this process: what travels is pickled, and workers can be lost."""

import pickle
from itertools import pairwise

import numpy as np

from rankwright.cluster.cluster import Cluster, WorkerLost
from rankwright.cluster.dataset import gather_partitions
from rankwright.cluster.worker import Worker
from rankwright.data.dataset import RankingData


class Held:
    """A part that is kept in memory."""

    def __init__(self, data):
        self.data = data

    def load(self):
        return self.data


class _Call:
    def __init__(self, workers, number, packed):
        self._workers, self._number, self._packed = workers, number, packed

    def result(self):
        if self._number not in self._workers:
            raise WorkerLost
        method, arguments, options = pickle.loads(self._packed)
        return pickle.loads(pickle.dumps(getattr(self._workers[self._number], method)(*arguments, **options)))


class Several:
    """Workers in this process; ``losses`` says before which calls the first worker is lost."""

    def __init__(self, n_workers, losses=()):
        self.living = {number: Worker() for number in range(n_workers)}
        self._next, self._calls, self._losses = n_workers, 0, set(losses)

    def workers(self):
        return sorted(self.living)

    def start(self, worker, method, *arguments, **options):
        self._calls += 1
        if self._calls in self._losses:
            del self.living[min(self.living)]
            self.living[self._next] = Worker()
            self._next += 1
        return _Call(self.living, worker, pickle.dumps((method, arguments, options)))

    def close(self):
        for worker in self.living.values():
            worker.close()


def made_up(n_queries=24, n_docs=12, n_features=6, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, n_docs, n_queries)
    X = rng.normal(size=(int(sizes.sum()), n_features)).astype(dtype) * np.arange(1, n_features + 1)
    X[:, -1] = 3.0
    signal = X[:, 0] + 0.3 * X[:, 1] + 0.8 * rng.normal(size=len(X))
    labels = np.digitize(signal, [0.3, 1.2])
    labels[: sizes[0]] = 0  # a query without an order
    qid = np.repeat([f"q{number:03}" for number in range(n_queries)], sizes)
    return RankingData.from_arrays(X, labels, qid)


def cut(data, n_partitions):
    """Parts of a data set, of unequal numbers of queries."""
    bounds = np.unique(np.linspace(0, 1, n_partitions + 1) ** 1.3 * data.n_queries).astype(int)
    return [data.select(np.arange(first, last)) for first, last in pairwise(bounds)]


def in_partitions(parts, transport):
    cluster = Cluster(transport, [Held(part) for part in parts], [part.n_docs for part in parts])
    return gather_partitions(cluster)
