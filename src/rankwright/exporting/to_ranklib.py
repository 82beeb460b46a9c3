"""RankLib's model text: LambdaMART's trees, or the weights of Coordinate Ascent or Linear Regression.

Trees: ``x <= threshold`` and sums in float32. Weights and their sum are float64, features float32. Features have
their number in the model, from 1. A missing feature is 0 in engines that use RankLib; the program itself stops.
"""

from __future__ import annotations

import xml.etree.ElementTree
from collections.abc import Iterator, Mapping

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import for_at_most, number_text
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, linear_scores, tree_scores
from rankwright.exporting.ensemble import Ensemble
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_others

_MODEL = "model.txt"
_WEIGHTS, _WITH_CONSTANT, _TREES = "## Coordinate Ascent", "## Linear Regression", "## LambdaMART"


def ranklib_refusal(ensemble: Ensemble, options: Options) -> str | None:
    why = refuse_others(ensemble)
    if why is None and ensemble.has_weights and ensemble.trees.n_trees:
        return "it has both linear weights and trees"
    if why is None:
        trees = ensemble.trees
        splits = trees.feature >= 0
        astray = int((splits & (trees.missing_left != (trees.threshold >= 0))).sum())
        if astray:
            problem = f"{astray:,} of {int(splits.sum()):,} splits send missing values another way than 0"
            return f"{problem}, but a missing value is 0 there; if it is 0 in your data, too, use --missing-as-zero"
    return why


def ranklib_model(ensemble: Ensemble) -> str:
    if ensemble.is_linear:
        terms = [f"{j + 1}:{float(ensemble.weights[j])!r}" for j in ensemble.linear_features]
        terms = terms or ["1:0.0"]
        if ensemble.constant:
            return f"{_WITH_CONSTANT}\n## Lambda = 1.0E-10\n0:{ensemble.constant!r} {' '.join(terms)}\n"
        return f"{_WEIGHTS}\n## Restart = 1\n{' '.join(terms)}\n"
    n_leaves = max(int((tree < 0).sum()) for tree in np.split(ensemble.trees.feature, ensemble.trees.roots[1:]))
    counts = f"## No. of trees = {ensemble.trees.n_trees}\n## No. of leaves = {n_leaves}"
    return f"{_TREES}\n{counts}\n## Learning rate = 1.0\n\n" + "\n".join(_lines(ensemble)) + "\n"


def _lines(ensemble: Ensemble) -> Iterator[str]:
    """One element to a line: RankLib joins the lines, and takes other white space for a child."""
    trees, limits = ensemble.trees, for_at_most(ensemble.trees.threshold)
    yield "<ensemble>"
    for number, root in enumerate(trees.roots, 1):
        yield f'\t<tree id="{number}" weight="1.0">'
        todo: list[tuple[int | str, str, int]] = [(int(root), "<split>", 2)]
        while todo:
            node, opening, depth = todo.pop()
            indent = "\t" * depth
            if isinstance(node, str):
                yield indent + node
                continue
            yield indent + opening
            todo.append(("</split>", "", depth))
            if trees.feature[node] < 0:
                yield f"{indent}\t<output> {number_text(np.float32(trees.value[node]))} </output>"
                continue
            yield f"{indent}\t<feature> {trees.feature[node] + 1} </feature>"
            yield f"{indent}\t<threshold> {number_text(limits[node])} </threshold>"
            left = int(trees.left[node])
            todo += [(left + 1, '<split pos="right">', depth + 1), (left, '<split pos="left">', depth + 1)]
        yield "\t</tree>"
    yield "</ensemble>"


def ranklib_scorer(text: str) -> Scorer:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind, body = lines[0], "".join(line for line in lines if not line.startswith("##"))
    if kind == _TREES:
        nodes = _nodes(body)
        return lambda X, _: tree_scores(nodes, X, ConsumerRule(missing_as_zero=True))
    pairs = [term.split(":") for term in body.split()]
    constant = sum(float(weight) for number, weight in pairs if number == "0")
    columns = [int(number) - 1 for number, _ in pairs if number != "0"]
    weights = [float(weight) for number, weight in pairs if number != "0"]

    def scores(X: Array, _: Array) -> Array:
        return linear_scores(np.asarray(X).astype(np.float32), columns, weights, np.float64, constant)

    return scores


def _nodes(body: str) -> ConsumerTrees:
    def parse(element: xml.etree.ElementTree.Element) -> float | WrittenSplit:
        if element[0].tag == "output":
            return float(str(element[0].text))
        feature, threshold, left, right = element
        return WrittenSplit(int(str(feature.text)) - 1, float(str(threshold.text)), False, left, right)

    nodes = ConsumerTrees()
    for tree in xml.etree.ElementTree.fromstring(body):
        nodes.add(tree[0], parse, float(tree.attrib["weight"]))
    return nodes


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    n = len(ensemble.names)
    note = f"features are numbered from 1 to {n:,} in the order of the model, and all must be in the data"
    return ExportFiles({_MODEL: ranklib_model(ensemble).encode()}, (note,))


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    return ranklib_scorer(files[_MODEL].decode())


RANKLIB = ExportTarget(
    name="ranklib",
    about="RankLib's model text: trees as LambdaMART, weights as Coordinate Ascent or Linear Regression",
    rule="left if x <= threshold, in float32; missing values are 0",
    refusal=ranklib_refusal,
    write=_write,
    read=_read,
)
