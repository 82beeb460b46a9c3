"""Partitions, objects and transports for the tests of engines; worker processes import this file, too."""

import os
import time

import numpy as np

from rankwright.cluster.cluster import WorkerLost
from rankwright.cluster.worker import Worker
from rankwright.errors import InputError

SIZES = (3, 9, 1, 6, 4)


class Numbers:
    """A partition: whole numbers from a seed."""

    def __init__(self, seed, size):
        self.seed, self.size = seed, size

    def load(self):
        return np.random.default_rng(self.seed).integers(0, 100, self.size)


class Heavy(Numbers):
    """A partition that no worker survives."""

    def load(self):
        os._exit(9)


class Sums:
    """Beside a partition: its numbers, changed by calls."""

    def __init__(self, data, threads, factor, shift=0):
        self.values, self.threads = data * factor + shift, threads

    def total(self):
        return int(self.values.sum()), self.values[:1] * 2

    def mean(self):
        return float(self.values.mean())

    def times(self, own, factor):
        return own, self.values * factor

    def add(self, number):
        self.values = self.values * 3 + number
        return len(self.values)

    def slow(self, seconds):
        time.sleep(seconds)
        return self.values.tolist()

    def process(self):
        return os.getpid()

    def fail(self):
        raise InputError("no such thing", "some.file", 7)

    def refuse(self):
        class Odd(Exception):
            pass

        raise Odd("cannot travel")

    def write(self, given):
        given += 1
        return given.flags.writeable, given


def sources(kind=Numbers):
    return [kind(seed, size) for seed, size in enumerate(SIZES)]


class Scripted:
    """Workers in this process that are lost when a script says so: at the n-th call."""

    def __init__(self, n, lost_at=(), late=False):
        self.living = {number: Worker() for number in range(n)}
        self.lost_at = dict(lost_at)  # number of the call: the worker that is lost before it
        self.calls = 0
        self.next = n
        self.late = late  # whether nothing takes the place of a lost worker

    def workers(self):
        return sorted(self.living)

    def come(self):
        """A new worker."""
        self.living[self.next] = Worker()
        self.next += 1

    def start(self, worker, method, *arguments, **options):
        self.calls += 1
        lost = self.lost_at.get(self.calls)
        if self.living.pop(lost, None) is not None and not self.late:
            self.come()
        return Scheduled(self.living.get(worker), method, arguments, options)

    def close(self):
        self.living.clear()


class Scheduled:
    def __init__(self, worker, *asked):
        self.worker, self.asked = worker, asked

    def result(self):
        if self.worker is None:
            raise WorkerLost
        method, arguments, options = self.asked
        return getattr(self.worker, method)(*arguments, **options)


def story(cluster):
    """All that a driver can do with groups, as a list of results."""
    first = cluster.make(Sums, 2, own=[(partition + 1,) for partition in range(cluster.n_partitions)])
    second = cluster.make(Sums, 5)
    told = [first.update("add", 1), second.update("add", 7), first.update("add", 2)]
    found = [first.call("times", np.arange(1), own=[(partition,) for partition in range(cluster.n_partitions)])]
    second.close()
    told.append(first.update("add", 3))
    found += [first.call("mean"), first.sum("total"), first.call("slow", 0.0)]
    first.close()
    return repr((told, found))
