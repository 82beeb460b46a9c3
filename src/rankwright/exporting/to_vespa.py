"""Vespa: weights as a rank expression, trees as a LightGBM JSON model; a sum of both is an expression with the model.

Features and sums are float64. Vespa reads the splits of a LightGBM model as ``x < threshold``, or ``!(x >= threshold)``
where missing values go left: what is written is the next number after each threshold. Names must be those of rank
features or functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import named
from rankwright.exporting.float32 import for_below
from rankwright.exporting.form import Form
from rankwright.exporting.naming import repeated_names
from rankwright.exporting.target import Options, Scorer, Target, Written, refuse_others
from rankwright.exporting.walk import Nodes, Rule, linear_scores, tree_scores

__all__ = ["VESPA"]

Array = npt.NDArray[Any]
_NAME = re.compile(r"[A-Za-z_][\w.]*(\([\w.,\"' -]*\)(\.[\w.]+)?)?")
_PROFILE = "rank-profile.txt"
_TERM = re.compile(r"\(?(-?[\d.e+-]+)\)? \* (.+)")


def _refusal(form: Form, options: Options) -> str | None:
    odd = [form.names[j] for j in form.used if not _NAME.fullmatch(form.names[j])]
    if odd:
        return f"{named(odd)} is not the name of a rank feature or function of Vespa; expected one such as bm25(title)"
    return refuse_others(form) or repeated_names(form)


def _write(form: Form, options: Options) -> Written:
    files, terms = {}, [f"{_number(form.weights[j])} * {form.names[j]}" for j in form.linear_features]
    if form.constant or not (terms or form.trees.n_trees):
        terms.append(_number(form.constant))
    if form.trees.n_trees:
        model = f"{re.sub(r'[^A-Za-z0-9_-]', '_', options.name)}.json"
        files[model] = (json.dumps(_lightgbm(form), ensure_ascii=False) + "\n").encode()
        terms.append(f'lightgbm("{model}")')
    profile, features = (re.sub(r"\W", "_", name) for name in (options.name, options.feature_set))
    lines = " +\n                ".join(terms)
    text = f"""rank-profile {profile} inherits {features} {{
    second-phase {{
        rerank-count: 100
        expression {{
                {lines}
        }}
    }}
}}
"""
    notes = ("a missing feature is 0 in Vespa unless its rank feature says otherwise: most default to 0",)
    return Written({_PROFILE: text.encode(), **files}, notes if form.trees.n_trees else ())


def _number(value: float) -> str:
    return f"({float(value)!r})" if value < 0 else repr(float(value))


def _lightgbm(form: Form) -> dict[str, Any]:
    """A model as LightGBM's ``dump_model`` writes it, over the used features."""
    used = form.tree_features.tolist()
    place = {j: at for at, j in enumerate(used)}
    trees, limits = [], for_below(form.trees.threshold, np.float64)
    for at, root in enumerate(form.trees.roots):
        structure, n_leaves = _structure(form, int(root), place, limits)
        facts = {"tree_index": at, "num_leaves": n_leaves, "num_cat": 0, "shrinkage": 1}
        trees.append({**facts, "tree_structure": structure})
    return {
        "name": "tree", "version": "v4", "num_class": 1, "num_tree_per_iteration": 1, "label_index": 0,
        "max_feature_idx": len(used) - 1, "objective": "lambdarank", "average_output": False,
        "feature_names": [form.names[j] for j in used], "tree_info": trees, "pandas_categorical": [],
    }  # fmt: skip


def _structure(form: Form, root: int, place: Mapping[int, int], limits: Array) -> tuple[dict[str, Any], int]:
    trees = form.trees
    top: dict[str, Any] = {}
    todo, n_splits, n_leaves = [(root, top)], 0, 0
    while todo:
        node, made = todo.pop()
        if trees.feature[node] < 0:
            made |= {"leaf_index": n_leaves, "leaf_value": float(trees.value[node])}
            n_leaves += 1
            continue
        below: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        made |= {
            "split_index": n_splits,
            "split_feature": place[int(trees.feature[node])],
            "threshold": float(limits[node]),
            "decision_type": "<=",  # the only one that LightGBM has; Vespa takes it as <
            "default_left": bool(trees.missing_left[node]),
            "missing_type": "NaN",
            "left_child": below[0],
            "right_child": below[1],
        }
        n_splits += 1
        left = int(trees.left[node])
        todo += [(left + 1, below[1]), (left, below[0])]
    return top, n_leaves


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    expression = files[_PROFILE].decode().partition("expression {")[2].partition("}")[0]
    place = {name: j for j, name in enumerate(names)}
    columns: list[int] = []
    weights: list[float] = []
    constant, nodes = 0.0, Nodes()
    for term in (part.strip() for part in expression.split("+\n")):
        weighted = _TERM.fullmatch(term)
        if weighted is not None:
            columns.append(place[weighted[2]])
            weights.append(float(weighted[1]))
        elif term.startswith("lightgbm("):
            nodes = _nodes(json.loads(files[json.loads(term[len("lightgbm(") : -1])]), place)
        else:
            constant += float(term.strip("()"))
    rule = Rule(strict=True, dtype=np.float64)
    return lambda X, _: linear_scores(X, columns, weights, np.float64, constant) + tree_scores(nodes, X, rule)


def _nodes(model: dict[str, Any], place: Mapping[str, int]) -> Nodes:
    nodes = Nodes()
    for tree in model["tree_info"]:
        todo = [(nodes.root(), tree["tree_structure"])]
        while todo:
            node, found = todo.pop()
            if "leaf_value" in found:
                nodes.value[node] = found["leaf_value"]
                continue
            feature = place[model["feature_names"][found["split_feature"]]]
            below = nodes.split(node, feature, found["threshold"], missing_left=found["default_left"])
            todo += [(below[0], found["left_child"]), (below[1], found["right_child"])]
    return nodes


VESPA = Target(
    name="vespa",
    about="Vespa: a rank profile with weights as an expression, and trees as LightGBM JSON for models/",
    rule="left if x < threshold, and sums, in float64; missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
)
