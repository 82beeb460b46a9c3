"""On the card: LambdaMART from arrays to scores, with validation data and weights."""

import warnings

from rankwright import LambdaMART

NODES = ("feature", "threshold", "missing_left", "left", "value", "gain", "count")


def main(given):
    warnings.simplefilter("ignore")  # of code that is not compiled in the simulator
    ranker = LambdaMART(2, max_leaves=3, min_rows=3, truncation=5, device="cuda")
    valid = (given["X_valid"], given["y_valid"], given["q_valid"])
    ranker.fit(given["X"], given["y"], given["q"], query_weight=given["w"], eval_set=valid)
    forest = ranker.model_.forest
    found = {name: getattr(forest, name) for name in NODES}
    return found | {"path": [row.value for row in ranker.path_]}
