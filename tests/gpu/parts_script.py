"""On the card: the hinges of one part of a data set, whose features may stay there or not."""

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.gpu import training
from rankwright.objectives.canonical import Canonical
from rankwright.rankers.max_margin import StructuredSVM
from rankwright.rankers.parted_hinge import PartHinge, Wanted


def planes(given, device):
    """Losses, planes and values of two losses at some weights; documents in their own order, which needs no search."""
    data = RankingData.from_arrays(given["X"], given["labels"], group=given["sizes"])
    targets = StructuredSVM(["map", "auc"], bound="hinge")._targets(data)
    wanted = Wanted(tuple(target.made_by for target in targets), "separate", standardize=True, device=device)
    queries, ones = np.arange(data.n_queries), np.ones(data.n_queries)
    part = PartHinge(data, 1, queries, [target.labels for target in targets], ones, [ones, 0.5 * ones], wanted)
    rows = np.arange(data.n_docs)
    part._order = Canonical(rows, rows, data.indptr, queries)
    part.build(2, given["scale"])
    try:
        return part.evaluate(given["w"])
    finally:
        part.close()


def main(given):
    found = {f"resident {at}": array for at, array in enumerate(planes(given, "cuda"))}
    training.free_bytes = lambda: 0
    return found | {f"streamed {at}": array for at, array in enumerate(planes(given, "cuda"))}
