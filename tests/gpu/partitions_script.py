"""On the device: the hinges of one part of a data set, whose features may stay there or not."""

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.gpu import training
from rankwright.maxmargin import hinge as partitioned_hinge
from rankwright.maxmargin.hinge import HingeSettings, hinge_of_partition
from rankwright.maxmargin.order import Canonical, LossData
from rankwright.maxmargin.structured_svm import StructuredSVM


def in_their_own_order(data, losses, *_):
    rows = np.arange(data.n_docs)
    return Canonical(rows, rows, data.indptr, np.arange(data.n_queries)), losses.labels, losses.costs


def planes(given, device):
    """Losses, planes and values of two losses at some weights; documents in their own order, which needs no search."""
    data = RankingData.from_arrays(given["X"], given["labels"], group=given["sizes"])
    targets = StructuredSVM(["map", "auc"], bound="hinge")._targets(data)
    settings = HingeSettings(tuple(target.make_oracle for target in targets), "separate", device)
    queries, ones = np.arange(data.n_queries), np.ones(data.n_queries)
    labels = [target.labels for target in targets]
    losses = LossData(labels, [ones, 0.5 * ones], ones, np.zeros(3), np.ones(3))
    orders, partitioned_hinge.in_content_order = partitioned_hinge.in_content_order, in_their_own_order
    try:
        objective = hinge_of_partition(data, 1, queries, losses, 2, given["scale"], settings)
    finally:
        partitioned_hinge.in_content_order = orders
    try:
        found = objective.evaluate(given["w"])
        return found.losses, found.vectors, found.values
    finally:
        objective.close()


def main(given):
    training.in_content_order = in_their_own_order
    found = {f"resident {at}": array for at, array in enumerate(planes(given, "cuda"))}
    training.free_bytes = lambda: 0
    return found | {f"streamed {at}": array for at, array in enumerate(planes(given, "cuda"))}
