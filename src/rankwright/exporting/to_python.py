"""One Python file that needs numpy only: the numbers of the model, and the few functions that turn rows into scores.

The file scores in float64 and adds in our order, so that scores of weights, bins and trees are the same to the last
bit; parts of a sum are multiplied into their leaves and weights before, which may move the last bit. It takes query
sizes for models that scale features within each query. Only what the model needs is written: the pieces of text at the
end of this module, which tests run, and the check of every export.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rankwright.boosting.tree_model import GradeModel
from rankwright.exporting.ensemble import Ensemble, Other, coded, coding_files, left_codes
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer
from rankwright.models.linear import BinnedModel, LinearModel
from rankwright.nets.model import NetModel

_MODEL = "model.py"


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    inner = [other.model for other in ensemble.others if isinstance(other.model, GradeModel)]
    if any(model.categories for model in inner):
        return "it is an expected grade with categorical features"
    return None


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    calls = [_call(other) for other in ensemble.others]
    kinds = [call.partition("(")[0] for call in calls]
    has_trees = bool(ensemble.trees.n_trees) or "grades" in kinds
    scalings = [other.model.query_scaling for other in ensemble.others if other.model.query_scaling]
    coding = coding_files(ensemble)
    blocks = [_head(ensemble, options), _numbers(ensemble)]
    blocks += [TREES] if has_trees else []
    blocks += [SCALINGS[kind] for kind in dict.fromkeys(scalings)]
    blocks += [PARTS[kind] for kind in dict.fromkeys(kinds)]
    terms = [f"scores += {other.weight!r} * {call}" for other, call in zip(ensemble.others, calls, strict=True)]
    trees = ["for tree in TREES:", "    scores += leaves(tree, X)"] if ensemble.trees.n_trees else []
    score = SCORE.replace("    # PARTS\n", "".join(f"    {line}\n" for line in [*trees, *terms]))
    blocks += [score, ROWS, CHECK]
    text = "\n\n\n".join(block.strip("\n") for block in blocks) + "\n"
    notes = ["model.py: check an installation with: python model.py golden.json"]
    if coding:
        notes.append("model.py: rows(…) turns categories into numbers; in an array they are those of categories.json")
    return ExportFiles({_MODEL: text.encode(), **coding}, tuple(notes))


def _head(ensemble: Ensemble, options: Options) -> str:
    needs = " Give score the number of documents of each query, too: query_sizes." if ensemble.scales_queries else ""
    about = f"The ranking model {options.name!r}: {len(ensemble.used):,} of {len(ensemble.names):,} features are used."
    return HEAD.format(about=about.replace("\\", "\\\\").replace('"', "'"), needs=needs)


def _numbers(ensemble: Ensemble) -> str:
    """The constants of the file; every text and number goes through repr."""
    weights = [f"({j}, {float(ensemble.weights[j])!r})" for j in ensemble.linear_features.tolist()]
    of_node = "a split: column, limit, whether missing values go left, left child (the right is next); a leaf"
    categories = [f"{j}: {list(values)!r}" for j, values in ensemble.categories.items()]
    constants = (
        ("FEATURES = [", "", [repr(name) for name in ensemble.names], "]"),
        ("WEIGHTS = [", "  # column and weight", weights, "]"),
        ("TREES = [", f"  # {of_node}", [*_trees(ensemble)], "]"),
        ("CATEGORIES = {", "  # by column", categories, "}"),
    )
    lines = [f"CONSTANT = {ensemble.constant!r}"]
    for start, comment, values, end in constants:
        lines += [start + comment, *(f"    {value}," for value in values), end] if values else [start + end]
    return "\n".join(lines)


def _trees(ensemble: Ensemble) -> Iterator[str]:
    for root in ensemble.trees.roots.tolist():
        yield f"[{', '.join(_nodes(ensemble, root))}]"


def _nodes(ensemble: Ensemble, root: int) -> Iterator[str]:
    """The nodes of a tree, numbered from 0 as they are met level by level; two children are adjacent."""
    trees, todo = ensemble.trees, [root]
    for node in todo:
        if trees.feature[node] < 0:
            yield repr(float(trees.value[node]))
            continue
        left, first = int(trees.left[node]), len(todo)
        todo += [left, left + 1]
        limit = _number(trees.threshold[node])
        if trees.subset[node] >= 0:
            limit = f"frozenset({left_codes(ensemble, node)[0]!r})"
        yield f"({int(trees.feature[node])}, {limit}, {bool(trees.missing_left[node])}, {first})"


def _number(value: float) -> str:
    number = float(value)
    return repr(number) if np.isfinite(number) else f"float({repr(number)!r})"


def _call(other: Other) -> str:
    """A call of the function in ``PARTS`` that scores a part."""
    model: Any = other.model
    columns = f"X[:, {other.places.tolist()!r}]"
    if model.query_scaling:
        columns = f"{model.query_scaling}({columns}, sizes)"
    if isinstance(model, NetModel):
        return f"net({columns}, {model.inner.tolist()!r}, {model.constants.tolist()!r}, {model.outer.tolist()!r})"
    if isinstance(model, LinearModel):
        return f"weights({columns}, {model.coef.tolist()!r})"
    if isinstance(model, BinnedModel):
        parts = np.split(model.thresholds, model.starts[1:-1]) if model.n_features else []
        return (
            f"steps({columns}, {[part.tolist() for part in parts]!r}, {[part.tolist() for part in model._levels()]!r})"
        )
    numbers = f"{model.starts.tolist()!r}, {model.grades.tolist()!r}, {model.link!r}"
    return f"grades({columns}, {_forests(model)}, {numbers})"


def _forests(model: GradeModel) -> str:
    names = model.names
    parts = [Ensemble(names, np.zeros(len(names)), forest) for forest in model.forests]
    return "[" + ", ".join(f"[{', '.join(_trees(part))}]" for part in parts) + "]"


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    """Runs the file; all that is in it was written above."""
    inside: dict[str, Any] = {"__name__": "exported_model"}
    exec(compile(files[_MODEL], _MODEL, "exec"), inside)
    return lambda X, bounds: inside["score"](coded(X, files, names), np.diff(bounds))


PYTHON = ExportTarget(
    name="python",
    about="one Python file that needs numpy only",
    rule="left if x <= threshold, in float64; missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
    run_by=f"Python {platform.python_version()}",
)

HEAD = '''
"""{about}

    import model
    scores = model.score(X)  # one row per document, columns as in FEATURES, NaN where a value is missing
    scores = model.score(model.rows([{{"name of a feature": 1.5}}]))

Higher scores are better.{needs} To check an installation: python model.py golden.json
"""

import json
import sys

import numpy as np
'''

TREES = '''
def leaves(tree, X):
    """The value of the leaf that every row reaches."""
    found = np.zeros(len(X))
    todo = [(0, np.arange(len(X)))]
    while todo:
        at, rows = todo.pop()
        if isinstance(tree[at], float):
            found[rows] = tree[at]
            continue
        feature, limit, missing_left, left = tree[at]
        x = X[rows, feature]
        is_left = np.isin(x, list(limit)) if isinstance(limit, frozenset) else x <= limit
        if missing_left:
            is_left |= np.isnan(x)
        todo += [(left, rows[is_left]), (left + 1, rows[~is_left])]
    return found
'''

SCALINGS = {
    "minmax": '''
def minmax(X, sizes):
    """(x - min) / (max - min) within each query; 0 where all values are equal."""
    parts = np.split(X, np.cumsum(sizes)[:-1])
    spans = [(part.min(axis=0), np.ptp(part, axis=0)) if len(part) else (0.0, 1.0) for part in parts]
    scaled = [(part - low) / np.where(span > 0, span, 1.0) for part, (low, span) in zip(parts, spans)]
    return np.concatenate(scaled)
''',
    "zscore": '''
def zscore(X, sizes):
    """(x - mean) / standard deviation within each query; 0 where all values are equal."""
    scaled = []
    for part in np.split(X, np.cumsum(sizes)[:-1]):
        if len(part):
            span = np.ptp(part, axis=0)
            part = (part - part.min(axis=0)) / np.where(span > 0, span, 1.0)
            part = part - np.add.reduce(part) / len(part)
            deviation = np.sqrt(np.add.reduce(part**2) / len(part))
            part = part / np.where(deviation > 0, deviation, 1.0)
        scaled.append(part)
    return np.concatenate(scaled)
''',
    "percentile": '''
def percentile(X, sizes):
    """(rank - 1) / (n - 1) within each query; equal values share their average rank, 0.5 for a single document."""
    scaled = []
    for part in np.split(X, np.cumsum(sizes)[:-1]):
        ranks = np.full(part.shape, 0.5)
        for j in range(part.shape[1] if len(part) > 1 else 0):
            ordered = np.sort(part[:, j])
            first, last = (np.searchsorted(ordered, part[:, j], side) for side in ("left", "right"))
            ranks[:, j] = (first + last - 1) / (2 * (len(part) - 1))
        scaled.append(ranks)
    return np.concatenate(scaled)
''',
}

PARTS = {
    "weights": '''
def weights(X, coef):
    """The sum of weights times features."""
    total = np.zeros(len(X))
    for j, weight in enumerate(coef):
        if weight != 0:
            total += weight * X[:, j]
    return total
''',
    "steps": '''
def steps(X, limits, levels):
    """The sum of step functions: the level after as many steps as a value reaches; missing values reach none."""
    total = np.zeros(len(X))
    for j, own in enumerate(limits):
        reached = np.searchsorted(own, X[:, j], side="right")
        reached[np.isnan(X[:, j])] = 0
        total += np.array(levels[j])[reached]
    return total
''',
    "net": '''
def net(X, inner, constants, outer):
    """One hidden layer of tanh units."""
    total = np.zeros(len(X))
    for unit, constant, weight in zip(inner, constants, outer):
        inside = np.zeros(len(X))
        for j, own in enumerate(unit):
            if own != 0:
                inside += own * X[:, j]
        total += weight * np.tanh(inside + constant)
    return total
''',
    "grades": '''
def grades(X, forests, starts, values, link):
    """The expected grade, from one sum of trees per grade."""
    sums = np.tile(np.array(starts), (len(X), 1)).T.copy()
    for total, trees in zip(sums, forests):
        for tree in trees:
            total += leaves(tree, X)
    values = np.array(values)
    if link == "ordinal":
        expected = values[0] + np.diff(values) @ (1.0 / (1.0 + np.exp(-np.clip(sums, -500.0, 500.0))))
    else:
        powers = np.exp(sums - sums.max(axis=0))
        expected = values @ powers / powers.sum(axis=0)
    return np.clip(expected, values[0], values[-1])
''',
}

SCORE = '''
def score(X, query_sizes=None):
    """One score per row. The rows of a query are adjacent: query_sizes says how many each has; None for one query."""
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or X.shape[1] != len(FEATURES):
        raise ValueError(f"X has the shape {X.shape}; expected rows of {len(FEATURES)} features, as in FEATURES")
    sizes = [len(X)] if query_sizes is None else list(query_sizes)
    if sum(sizes) != len(X):
        raise ValueError(f"query_sizes add up to {sum(sizes)}; expected {len(X)}, the number of rows")
    scores = np.full(len(X), CONSTANT)
    for j, weight in WEIGHTS:
        scores += weight * X[:, j]
    # PARTS
    return scores + 0.0  # -0 becomes 0
'''

ROWS = '''
def number(column, value):
    """The number of a value: a category's is its place in CATEGORIES, unless all of them are small whole numbers."""
    known = CATEGORIES.get(column)
    if known is None or value is None:
        return np.nan if value is None else value
    stays = all(not isinstance(one, str) and one == int(one) and 0 <= one < 65536 for one in known)
    return np.nan if value not in known else value if stays else known.index(value)


def rows(documents):
    """An array from dictionaries of features by name; what is absent or None is missing, an unknown category too."""
    found = [[number(j, document.get(name)) for j, name in enumerate(FEATURES)] for document in documents]
    return np.array(found, np.float64).reshape(len(documents), len(FEATURES))
'''

CHECK = '''
def check(path):
    """Compare with the scores of golden rows; returns the largest difference and the one that is allowed."""
    with open(path, encoding="utf-8") as file:
        golden = json.load(file)
    X = np.full((len(golden["rows"]), len(FEATURES)), np.nan)
    for j, key in zip(golden["columns"], golden["features"]):
        X[:, j] = [number(j, row["features"][key]) for row in golden["rows"]]
    difference = score(X, golden.get("query_sizes")) - [row["score"] for row in golden["rows"]]
    return float(np.abs(difference).max(initial=0.0)), golden["tolerance"]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python model.py golden.json")
    difference, allowed = check(sys.argv[1])
    good = difference <= allowed
    print(f"largest difference {difference:.3g}, allowed {allowed:.3g}: {'good' if good else 'BAD'}")
    sys.exit(not good)
'''
