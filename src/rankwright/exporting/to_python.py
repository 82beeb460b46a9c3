"""One Python file that needs numpy only: the numbers of the model, and the few functions that turn rows into scores.

The file scores in float64 and adds in our order, so that scores of weights, bins and trees are the same to the last
bit; parts of a sum are multiplied into their leaves and weights before, which may move the last bit. It takes query
sizes for models that scale features within each query. Only what the model needs is written.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.exporting.coding import coded, coding_files, left_codes
from rankwright.exporting.form import Form, Other
from rankwright.exporting.python_parts import CHECK, HEAD, PARTS, ROWS, SCALINGS, SCORE, TREES
from rankwright.exporting.target import Options, Scorer, Target, Written
from rankwright.models.binned import BinnedModel
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel
from rankwright.models.trees.model import GradeModel

__all__ = ["PYTHON"]

Array = npt.NDArray[Any]
_MODEL = "model.py"


def _refusal(form: Form, options: Options) -> str | None:
    inner = [other.model for other in form.others if isinstance(other.model, GradeModel)]
    if any(model.categories for model in inner):
        return "it is an expected grade with categorical features"
    return None


def _write(form: Form, options: Options) -> Written:
    kinds = [_kind(other) for other in form.others]
    has_trees = bool(form.trees.n_trees) or "grades" in kinds
    scalings = [other.model.query_scaling for other in form.others if other.model.query_scaling]
    coding = coding_files(form)
    blocks = [_head(form, options), _numbers(form)]
    blocks += [TREES] if has_trees else []
    blocks += [SCALINGS[kind] for kind in dict.fromkeys(scalings)]
    blocks += [PARTS[kind] for kind in dict.fromkeys(kinds)]
    blocks += [_score(form, kinds), ROWS, CHECK]
    text = "\n\n\n".join(block.strip("\n") for block in blocks) + "\n"
    notes = ["model.py: check an installation with: python model.py golden.json"]
    if coding:
        notes.append("model.py: rows(…) turns categories into numbers; in an array they are those of categories.json")
    return Written({_MODEL: text.encode(), **coding}, tuple(notes))


def _head(form: Form, options: Options) -> str:
    needs = " Give score the number of documents of each query, too: query_sizes." if form.scales_queries else ""
    about = f"The ranking model {options.name!r}: {len(form.used):,} of {len(form.names):,} features are used."
    return HEAD.format(about=about.replace("\\", "\\\\").replace('"', "'"), needs=needs)


def _numbers(form: Form) -> str:
    """The constants of the file; every text and number goes through repr."""
    parts = {
        "FEATURES": [repr(name) for name in form.names],
        "WEIGHTS": [f"({j}, {float(form.weights[j])!r})" for j in form.linear_features.tolist()],
        "TREES": [*_trees(form)],
    }
    about = {
        "WEIGHTS": "column and weight",
        "TREES": "a split: column, limit, whether missing values go left, left child (the right is next); a leaf",
    }
    lines = [f"CONSTANT = {form.constant!r}"]
    for name, values in parts.items():
        comment = f"  # {about[name]}" if name in about else ""
        lines += [f"{name} = [{comment}", *(f"    {value}," for value in values), "]"] if values else [f"{name} = []"]
    tables = [f"    {j}: {list(values)!r}," for j, values in form.categories.items()]
    return "\n".join([*lines, *(["CATEGORIES = {  # by column", *tables, "}"] if tables else ["CATEGORIES = {}"])])


def _trees(form: Form) -> Iterator[str]:
    for root in form.trees.roots.tolist():
        yield f"[{', '.join(_nodes(form, root))}]"


def _nodes(form: Form, root: int) -> Iterator[str]:
    """The nodes of a tree, numbered from 0 as they are met level by level; two children are adjacent."""
    trees, todo = form.trees, [root]
    for node in todo:
        if trees.feature[node] < 0:
            yield repr(float(trees.value[node]))
            continue
        left, first = int(trees.left[node]), len(todo)
        todo += [left, left + 1]
        limit = _number(trees.threshold[node])
        if trees.subset[node] >= 0:
            limit = f"frozenset({left_codes(form, node)[0]!r})"
        yield f"({int(trees.feature[node])}, {limit}, {bool(trees.missing_left[node])}, {first})"


def _number(value: Any) -> str:
    number = float(value)
    return repr(number) if np.isfinite(number) else f"float({repr(number)!r})"


def _kind(other: Other) -> str:
    kinds: dict[type, str] = {NetModel: "net", GradeModel: "grades", LinearModel: "weights", BinnedModel: "steps"}
    return kinds[type(other.model)]


def _score(form: Form, kinds: list[str]) -> str:
    terms = [
        f"scores += {other.weight!r} * {_call(other, kind)}" for other, kind in zip(form.others, kinds, strict=True)
    ]
    trees = ["for tree in TREES:", "    scores += leaves(tree, X)"] if form.trees.n_trees else []
    return SCORE.replace("    # PARTS\n", "".join(f"    {line}\n" for line in [*trees, *terms]))


def _call(other: Other, kind: str) -> str:
    model: Any = other.model
    columns = f"X[:, {other.places.tolist()!r}]"
    if model.query_scaling:
        columns = f"{model.query_scaling}({columns}, sizes)"
    arguments: list[Any] = []
    if kind == "net":
        arguments = [model.inner.tolist(), model.constants.tolist(), model.outer.tolist()]
    elif kind == "weights":
        arguments = [model.coef.tolist()]
    elif kind == "steps":
        parts = np.split(model.thresholds, model.starts[1:-1]) if model.n_features else []
        arguments = [[part.tolist() for part in parts], [levels.tolist() for levels in model._levels()]]
    else:
        numbers = f"{model.starts.tolist()!r}, {model.grades.tolist()!r}, {model.link!r}"
        return f"grades({columns}, {_forests(model)}, {numbers})"
    return f"{kind}({columns}, {', '.join(map(repr, arguments))})"


def _forests(model: GradeModel) -> str:
    names = model.names
    parts = [Form(names, np.zeros(len(names)), forest) for forest in model.forests]
    return "[" + ", ".join(f"[{', '.join(_trees(part))}]" for part in parts) + "]"


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    """Runs the file; all that is in it was written above."""
    inside: dict[str, Any] = {"__name__": "exported_model"}
    exec(compile(files[_MODEL], _MODEL, "exec"), inside)
    return lambda X, bounds: inside["score"](coded(X, files, names), np.diff(bounds))


PYTHON = Target(
    name="python",
    about="one Python file that needs numpy only",
    rule="left if x <= threshold, in float64; missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
    run_by=f"Python {platform.python_version()}",
)
