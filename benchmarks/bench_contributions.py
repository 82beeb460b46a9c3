"""Claims about the speed of exact contributions, each as a ratio of CPU times within one run, with the same trees.

LightGBM grows 100 trees on made-up documents in queries of 120 (`bench_lambda_mart.py` describes them), with 31 and
with 127 leaves. Both sides use one thread:

1. Rankwright explains a document against all 120 of its query at least 2× as fast as LightGBM's `pred_contrib`, which
   averages over training rows by their counts.
2. If the package shap is installed: at least 3× as fast as its interventional TreeExplainer, which averages over the
   same 120 documents; the values agree to 0.0001 (shap rounds to float32 on its way).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from bench_lambda_mart import SIZE, make
from rankwright import TreeModel
from rankwright.boosting.forest import Forest, Tree
from timing import best_cpu_seconds, report

Array = npt.NDArray[Any]
TREES = 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10, help="queries to explain")
    parser.add_argument("--training-queries", type=int, default=100)
    given = parser.parse_args()
    X, labels = make(SIZE * given.training_queries)
    X = X.astype(np.float64)
    for leaves in (31, 127):
        booster = grown(X, labels, leaves)
        model = TreeModel(X.shape[1], None, forest_of(booster.dump_model()["tree_info"]))
        rows = X[: SIZE * given.queries]
        np.testing.assert_allclose(model.score(rows), booster.predict(rows), rtol=1e-9, atol=1e-9)
        compare(model, booster, rows, leaves)


def compare(model: TreeModel, booster: Any, rows: Array, leaves: int) -> None:
    """Print the ratios for one model."""
    group = np.full(len(rows) // SIZE, SIZE)
    what = f"{TREES} trees of {leaves} leaves, {len(rows):,} documents"
    ours = best_cpu_seconds(lambda: model.predict_contributions(rows, group=group), 3)
    theirs = best_cpu_seconds(lambda: booster.predict(rows, pred_contrib=True, num_threads=1), 1)
    report(f"{what}, LightGBM", ours, "pred_contrib, by counts of training rows", theirs, 2)
    if find_spec("shap") is None:
        print("shap is not installed")
        return
    query = rows[:SIZE]
    ours = best_cpu_seconds(lambda: model.predict_contributions(query, group=[SIZE]), 3)
    explain = by_shap(model.forest, query)
    theirs = best_cpu_seconds(lambda: explain(query), 1)
    np.testing.assert_allclose(explain(query), model.predict_contributions(query, group=[SIZE])[:, :-1], atol=1e-4)
    report(f"{what[: what.index(',')]}, {SIZE} documents, shap", ours, "the same references", theirs, 3)


def grown(X: Array, labels: Array, leaves: int) -> Any:
    """LightGBM's trees."""
    import lightgbm

    data = lightgbm.Dataset(X, labels, group=np.full(len(X) // SIZE, SIZE))
    settings = {"objective": "lambdarank", "num_leaves": leaves, "num_threads": 1, "verbose": -1}
    return lightgbm.train(settings, data, TREES)


def forest_of(trees: list[dict[str, Any]]) -> Forest:
    """The trees that LightGBM describes; no feature is missing or categorical."""
    return Forest.of([tree_of(tree["tree_structure"]) for tree in trees])


def tree_of(root: dict[str, Any]) -> Tree:
    """A tree, level by level, so that the children of a node are adjacent and come after it."""
    nodes, at = [root], 0
    left = []
    while at < len(nodes):
        is_leaf = "leaf_value" in nodes[at]
        left.append(0 if is_leaf else len(nodes))
        nodes += [] if is_leaf else [nodes[at]["left_child"], nodes[at]["right_child"]]
        at += 1
    return Tree(
        np.array([node.get("split_feature", -1) for node in nodes], np.int32),
        np.array([node.get("threshold", 0.0) for node in nodes]),
        np.array([node.get("default_left", False) for node in nodes]),
        np.array(left, np.int32),
        np.array([node.get("leaf_value", 0.0) for node in nodes]),
        np.array([node.get("split_gain", 0.0) for node in nodes]),
        np.array([node.get("internal_count", node.get("leaf_count", 1)) for node in nodes], np.float64),
    )


def by_shap(forest: Forest, references: Array) -> Callable[[Array], Array]:
    """The interventional explainer of the package shap, for the same trees and references."""
    import shap  # type: ignore[import-not-found, unused-ignore]

    trees, stops = [], [*forest.roots[1:].tolist(), len(forest.feature)]
    for start, stop in zip(forest.roots.tolist(), stops, strict=True):
        inner = forest.feature[start:stop] >= 0
        left = np.where(inner, forest.left[start:stop] - start, -1)
        trees.append(
            {
                "children_left": left,
                "children_right": np.where(inner, left + 1, -1),
                "children_default": left,
                "features": np.where(inner, forest.feature[start:stop], -2),
                "thresholds": forest.threshold[start:stop],
                "values": forest.value[start:stop].reshape(-1, 1),
                "node_sample_weight": forest.count[start:stop],
            }
        )
    masker = shap.maskers.Independent(references, max_samples=len(references))
    explainer = shap.TreeExplainer({"trees": trees}, data=masker, feature_perturbation="interventional")
    return lambda rows: np.asarray(explainer.shap_values(rows, check_additivity=False))


if __name__ == "__main__":
    main()
