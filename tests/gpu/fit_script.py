"""Training on the device, from data to certificate. The bundle solver is for compiled code, so not simulated."""

import numpy as np
import scipy.sparse

from rankwright.data.dataset import RankingData
from rankwright.gpu import device, training
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM

SIMULATED = {"descent": lambda **given: RankingSVM(0.1, solver="gd", learning_rate=0.002, max_passes=4, **given)}
RANKERS = SIMULATED | {
    "pairs": lambda **given: RankingSVM(0.5, **given),
    "map": lambda **given: StructuredSVM("map", 2.0, **given),
    "auc, one slack": lambda **given: StructuredSVM("auc", 2.0, solver="one-slack-cutting-plane", **given),
    "ndcg@3, ramp": lambda **given: StructuredSVM("ndcg@3", 1.0, **given),
    "mrr, ramp": lambda **given: StructuredSVM("mrr", 1.0, feature_map="mrr", **given),
    "dorm@3": lambda **given: StructuredSVM("dorm@3", 1.0, **given),
    "shared": lambda **given: StructuredSVM(["map", "ndcg@3"], 1.0, slack="shared", **given),
    "separate": lambda **given: StructuredSVM(["map", "auc"], 1.0, bound="hinge", **given),
    "auto": lambda **given: StructuredSVM("map", "auto", C_grid=[0.1, 1.0], cv=2, **given),
}


def made(given, form=np.asarray):
    return RankingData.from_arrays(form(given["X"]), given["labels"], group=given["sizes"])


def streamed(given):
    """A training whose features may not stay on the device."""
    room, training.free_bytes = training.free_bytes, lambda: 0
    try:
        ranker = RANKERS["map"](device="cuda")
        ranker.fit_data(made(given), weights=given["weights"])
    finally:
        training.free_bytes = room
    return ranker


def main(given):
    found = {} if device.is_simulated() else {"streamed": np.array(streamed(given).objective_)}
    if not device.is_simulated():
        ranker = RANKERS["map"](device="cuda")
        ranker.fit_data(made(given, scipy.sparse.csr_array), weights=given["weights"])
        found["sparse"] = np.array(ranker.objective_)
    for name, make in (SIMULATED if device.is_simulated() else RANKERS).items():
        weights = given["weights"]
        first, second = make(device="cuda"), make(device="cuda")
        for ranker in (first, second):
            ranker.fit_data(made(given), weights=weights)
        found[name] = np.array([first.objective_, first.gap_])
        found[f"{name} bits"] = np.array(np.array_equal(first.coef_, second.coef_))
    return found
