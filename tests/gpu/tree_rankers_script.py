"""On the device: rankers of trees, from arrays to a model and its scores."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright import LambdaMART, McRank
from rankwright.gpu import device
from rankwright.gpu.scoring import model_scores
from rankwright.measures.base import BinaryMeasure, Rankings

NODES = ("feature", "threshold", "missing_left", "left", "value", "count", "subset", "sets")
SMALL = {"max_leaves": 3, "min_rows": 3}


@dataclass(frozen=True)
class TopIsGood(BinaryMeasure):
    """A measure of somebody's own, which has nothing compiled."""

    name: ClassVar[str] = "TopIsGood"

    def value(self, rankings: Rankings) -> np.ndarray:
        return (rankings.labels > 0)[rankings.indptr[:-1]].astype(float)


RANKERS = {
    "lambdamart": lambda **given: LambdaMART(2, truncation=5, **SMALL, **given),
    "drawn": lambda **given: LambdaMART(
        1, categorical=[2], monotone={0: 1}, randomize_nodes=0.8, measure="map", **SMALL, **given
    ),
    "clicks": lambda **given: LambdaMART(1, **SMALL, **given),
    "mcrank": lambda **given: McRank(1, **SMALL, **given),
    "mcrank-ordinal": lambda **given: McRank(1, link="ordinal", tree_rows=0.8, **SMALL, **given),
}


NOT_SIMULATED = {"own measure": lambda **given: LambdaMART(1, measure=TopIsGood(), **SMALL, **given)}


def rankers():
    """Those that can be trained here: gradients of the CPU are compiled, so not simulated."""
    return RANKERS if device.is_simulated() else RANKERS | NOT_SIMULATED


def fitted(name, given, **settings):
    """A ranker on arrays, with validation data and weights, or with clicks."""
    ranker = (RANKERS | NOT_SIMULATED)[name](**settings)
    valid = (given["X_valid"], given["y_valid"], given["q_valid"])
    own = {"query_weight": given["w"], "eval_set": valid}
    if name == "clicks":
        own = {"position": given["position"], "propensities": {rank: 1.0 / rank for rank in range(1, 11)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of code that is not compiled in the simulator
        return ranker.fit(given["X"], given["y"] if name != "clicks" else given["y"] > 1, given["q"], **own)


def forests(model):
    return getattr(model, "forests", None) or (model.forest,)


def main(given):
    found = {}
    for name in rankers():
        ranker = fitted(name, given, device="cuda")
        for at, forest in enumerate(forests(ranker.model_)):
            found |= {f"{name} {at} {part}": getattr(forest, part) for part in NODES}
        found[f"{name} path"] = np.array([row.value for row in ranker.path_])
        found[f"{name} scores"] = model_scores(ranker.model_, given["X_valid"])
    return found
