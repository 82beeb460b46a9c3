"""LightGBM's text model: ``x <= threshold`` in float64, missing values by split, sets of categories as bits.

Thresholds and leaves are written as they are, so scores are the same to the last bit. LightGBM takes features up to
1e-35 as 0, and sends categories that it does not know right: a split that sends them left is turned around.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import for_at_most
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, tree_scores
from rankwright.exporting.ensemble import CODING_NOTE, Ensemble, allowed_names, coded, coding_files, left_codes
from rankwright.exporting.target import Consumer, ExportFiles, ExportTarget, Options, Scorer, refuse_all_but_trees

_MODEL = "model.txt"
_CATEGORICAL, _MISSING_LEFT, _KNOWS_MISSING = 1, 2, 8  # bits of decision_type
_NOT_IN_NAMES = re.compile(r'[\s"\[\]{},:]')  # separate names, or are special in JSON
_ZERO = 1.0000000180025095e-35  # values up to it are 0
_WORD = 32  # bits
_SPLIT = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    names, notes = allowed_names(ensemble.names, _NOT_IN_NAMES)
    limits = for_at_most(ensemble.trees.threshold, np.float64)
    trees = [_tree(ensemble, at, int(root), limits) for at, root in enumerate(ensemble.trees.roots)]
    if ensemble.constant or not trees:
        trees.append(_text_of_tree(len(trees), [ensemble.constant], {key: [] for key in _SPLIT}, []))
    head = {
        "version": "v4", "num_class": 1, "num_tree_per_iteration": 1, "label_index": 0,
        "max_feature_idx": len(names) - 1, "objective": "lambdarank", "feature_names": " ".join(names),
        "feature_infos": " ".join(["[-1e308:1e308]"] * len(names)),
        "tree_sizes": " ".join(str(len(tree.encode())) for tree in trees),
    }  # fmt: skip
    text = "tree\n" + "".join(f"{key}={value}\n" for key, value in head.items()) + "\n" + "".join(trees)
    text += "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n\npandas_categorical:null\n"
    files = {_MODEL: text.encode(), **coding_files(ensemble)}
    if len(files) > 1:
        notes.append(CODING_NOTE)
    return ExportFiles(files, tuple(notes))


def _tree(ensemble: Ensemble, at: int, root: int, limits: Array) -> str:
    """A tree, splits in the order that they are met and leaves from left to right."""
    trees = ensemble.trees
    splits: dict[str, list[Any]] = {key: [] for key in _SPLIT}
    leaves: list[float] = []
    sets: list[list[int]] = []
    todo: list[tuple[int, int, str]] = [(root, -1, "")]
    while todo:
        node, above, side = todo.pop()
        is_leaf = trees.feature[node] < 0
        number = -1 - len(leaves) if is_leaf else len(splits["threshold"])
        if above >= 0:
            splits[side][above] = number
        if is_leaf:
            leaves.append(float(trees.value[node]))
            continue
        left, right = int(trees.left[node]), int(trees.left[node]) + 1
        missing_left = bool(trees.missing_left[node])
        if trees.subset[node] >= 0:
            held, others = left_codes(ensemble, node)
            if missing_left:  # unknown categories go right
                held, left, right = others, right, left
            threshold, decision = str(len(sets)), _CATEGORICAL | _KNOWS_MISSING
            sets.append(held)
        else:
            threshold = repr(_outside_zero(float(limits[node])))
            decision = _KNOWS_MISSING | (_MISSING_LEFT if missing_left else 0)
        for key, value in zip(_SPLIT, (int(trees.feature[node]), threshold, decision, 0, 0), strict=True):
            splits[key].append(value)
        todo += [(right, number, "right_child"), (left, number, "left_child")]
    return _text_of_tree(at, leaves, splits, sets)


def _outside_zero(threshold: float) -> float:
    """The same threshold for values that are 0 or larger than what LightGBM takes as 0; some read no tinier ones."""
    if abs(threshold) > _ZERO:
        return threshold
    return 0.0 if threshold >= 0 else -_ZERO


def _text_of_tree(at: int, leaves: list[float], splits: dict[str, list[Any]], sets: list[list[int]]) -> str:
    none = [0] * len(splits["threshold"])
    fields: dict[str, Iterable[Any]] = {
        "num_leaves": [len(leaves)], "num_cat": [len(sets)], "split_feature": splits["split_feature"],
        "split_gain": none, **splits,
        "leaf_value": map(repr, leaves), "leaf_weight": [0] * len(leaves), "leaf_count": [0] * len(leaves),
        "internal_value": none, "internal_weight": none, "internal_count": none,
    }  # fmt: skip
    if sets:
        words = [_words(held) for held in sets]
        fields["cat_boundaries"] = np.cumsum([0, *map(len, words)]).tolist()
        fields["cat_threshold"] = [word for part in words for word in part]
    fields |= {"is_linear": [0], "shrinkage": [1]}
    lines = "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in fields.items())
    return f"Tree={at}\n{lines}\n\n"


def _words(held: list[int]) -> list[int]:
    words = [0] * (max(held, default=0) // _WORD + 1)
    for code in held:
        words[code // _WORD] |= 1 << (code % _WORD)
    return words


def _consume(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    import lightgbm

    booster = lightgbm.Booster(model_str=files[_MODEL].decode())
    return lambda X, _: np.asarray(booster.predict(coded(X, files, names), raw_score=True, num_threads=1))


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    nodes = ConsumerTrees()
    trees = files[_MODEL].decode().partition("end of trees")[0]
    for text in trees.split("\nTree=")[1:]:
        _read_tree(nodes, dict(line.split("=", 1) for line in text.splitlines() if "=" in line))
    return lambda X, _: tree_scores(nodes, coded(X, files, names), ConsumerRule(dtype=np.float64))


def _read_tree(nodes: ConsumerTrees, fields: dict[str, str]) -> None:
    columns, decisions, lefts, rights = (
        [int(word) for word in fields[key].split()]
        for key in ("split_feature", "decision_type", "left_child", "right_child")
    )
    thresholds, leaves = ([float(word) for word in fields[key].split()] for key in ("threshold", "leaf_value"))
    bounds, words = ([int(word) for word in fields.get(key, "").split()] for key in ("cat_boundaries", "cat_threshold"))

    def parse(number: int) -> float | WrittenSplit:
        if number < 0:
            return leaves[-1 - number]
        feature, threshold, left, right = columns[number], thresholds[number], lefts[number], rights[number]
        if not decisions[number] & _CATEGORICAL:
            return WrittenSplit(feature, threshold, bool(decisions[number] & _MISSING_LEFT), left, right)
        set_words = words[bounds[int(threshold)] : bounds[int(threshold) + 1]]
        codes = (at for at in range(_WORD * len(set_words)) if (set_words[at // _WORD] >> (at % _WORD)) & 1)
        return WrittenSplit(feature, threshold, False, left, right, frozenset(codes))

    nodes.add(0 if columns else -1, parse)


LIGHTGBM = ExportTarget(
    name="lightgbm",
    about="LightGBM's text model, for lightgbm.Booster(model_file=…) and what reads such files",
    rule="left if x <= threshold, in float64; missing values by split",
    refusal=refuse_all_but_trees,
    write=_write,
    read=_read,
    dtype=np.float64,
    consumer=Consumer("lightgbm", _consume),
    tiny=_ZERO,
)
