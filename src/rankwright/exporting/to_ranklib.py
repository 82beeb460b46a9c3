"""RankLib's model text: LambdaMART's trees, or the weights of Coordinate Ascent or Linear Regression.

Trees: ``x <= threshold`` and sums in float32. Weights and their sum are float64, features float32. Features have
their number in the model, from 1. A missing feature is 0 in engines that use RankLib; the program itself stops.
"""

from __future__ import annotations

import xml.etree.ElementTree
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.exporting.float32 import for_at_most, number_text
from rankwright.exporting.form import Form
from rankwright.exporting.target import Options, Scorer, Target, Written, refuse_others
from rankwright.exporting.walk import Nodes, Rule, linear_scores, tree_scores

__all__ = ["RANKLIB", "ranklib_model", "ranklib_refusal", "ranklib_scorer"]

Array = npt.NDArray[Any]
_MODEL = "model.txt"
_WEIGHTS, _WITH_CONSTANT, _TREES = "## Coordinate Ascent", "## Linear Regression", "## LambdaMART"


def ranklib_refusal(form: Form, options: Options) -> str | None:
    """Why RankLib cannot hold a form."""
    why = refuse_others(form)
    if why is None and form.has_weights and form.trees.n_trees:
        return "it has both linear weights and trees"
    if why is None:
        trees = form.trees
        splits = trees.feature >= 0
        astray = int((splits & (trees.missing_left != (trees.threshold >= 0))).sum())
        if astray:
            what = f"{astray:,} of {int(splits.sum()):,} splits send missing values another way than 0"
            return f"{what}, but a missing value is 0 there; if it is 0 in your data, too, use --missing-as-zero"
    return why


def ranklib_model(form: Form) -> str:
    """A model as RankLib saves it."""
    if form.is_linear:
        terms = [f"{j + 1}:{float(form.weights[j])!r}" for j in form.linear_features]
        terms = terms or ["1:0.0"]
        if form.constant:
            return f"{_WITH_CONSTANT}\n## Lambda = 1.0E-10\n0:{form.constant!r} {' '.join(terms)}\n"
        return f"{_WEIGHTS}\n## Restart = 1\n{' '.join(terms)}\n"
    n_leaves = max(int((form.trees.feature[a:b] < 0).sum()) for a, b in _spans(form))
    head = (
        f"{_TREES}\n## No. of trees = {form.trees.n_trees}\n## No. of leaves = {n_leaves}\n## Learning rate = 1.0\n\n"
    )
    return head + "\n".join(_lines(form)) + "\n"


def _spans(form: Form) -> Iterator[tuple[int, int]]:
    ends = [*form.trees.roots[1:].tolist(), len(form.trees.feature)]
    yield from zip(form.trees.roots.tolist(), ends, strict=True)


def _lines(form: Form) -> Iterator[str]:
    """One element to a line: RankLib joins the lines, and takes other white space for a child."""
    trees, limits = form.trees, for_at_most(form.trees.threshold)
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
    """Scores by a model as RankLib saves it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind, body = lines[0], "".join(line for line in lines if not line.startswith("##"))
    if kind == _TREES:
        nodes = _nodes(body)
        return lambda X, _: tree_scores(nodes, X, Rule(missing_as_zero=True))
    pairs = [term.split(":") for term in body.split()]
    constant = sum(float(weight) for number, weight in pairs if number == "0")
    columns = [int(number) - 1 for number, _ in pairs if number != "0"]
    weights = [float(weight) for number, weight in pairs if number != "0"]

    def scores(X: Array, _: Array) -> Array:
        return linear_scores(np.asarray(X).astype(np.float32), columns, weights, np.float64, constant)

    return scores


def _nodes(body: str) -> Nodes:
    nodes = Nodes()
    for tree in xml.etree.ElementTree.fromstring(body):
        todo = [(nodes.root(float(tree.attrib["weight"])), tree[0])]
        while todo:
            node, element = todo.pop()
            if element[0].tag == "output":
                nodes.value[node] = float(str(element[0].text))
                continue
            feature, threshold, left, right = element
            below = nodes.split(node, int(str(feature.text)) - 1, float(str(threshold.text)))
            todo += zip(below, (left, right), strict=True)
    return nodes


def _write(form: Form, options: Options) -> Written:
    note = f"features are numbered from 1 to {len(form.names):,} in the order of the model, and all must be in the data"
    return Written({_MODEL: ranklib_model(form).encode()}, (note,))


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    return ranklib_scorer(files[_MODEL].decode())


RANKLIB = Target(
    name="ranklib",
    about="RankLib's model text: trees as LambdaMART, weights as Coordinate Ascent or Linear Regression",
    rule="left if x <= threshold, in float32; missing values are 0",
    refusal=ranklib_refusal,
    write=_write,
    read=_read,
)
