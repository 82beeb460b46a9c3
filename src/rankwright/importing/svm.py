"""Linear models: files of SVMlight and SVMrank, and of liblinear. Features are numbered from 1."""

from __future__ import annotations

import math

import numpy as np

from rankwright.boosting.float32 import single
from rankwright.data.dataset import most_features
from rankwright.errors import shown
from rankwright.importing.nodes import linear_model
from rankwright.importing.source import Imported, ImportSettings, ModelFile, integer_of, number_of, numbers_of

_HEAD = 11  # lines of an SVMlight file before its vectors
_KERNELS = {"1": "polynomial", "2": "radial basis function", "3": "sigmoid", "4": "own"}
_CLASSES = (
    "L2R_LR", "L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "L1R_L2LOSS_SVC", "L1R_LR", "L2R_LR_DUAL",
)  # fmt: skip
_REGRESSIONS = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")


def read_svmlight(file: ModelFile, settings: ImportSettings) -> Imported:
    """Read a model of SVMlight or SVMrank: the score is Σ alpha · ⟨vector, x⟩ − b."""
    lines = file.lines
    if len(lines) < _HEAD:
        raise file.error("ends in its first lines; expected a complete SVMlight model", file.last_line)
    heads = [text.partition("#")[0].strip() for text in lines[:_HEAD]]
    if heads[1] != "0":
        kind = _KERNELS.get(heads[1], shown(heads[1]))
        raise file.error(f"has a {kind} kernel; expected a linear one (-t 0)", 2)
    highest, vectors, b = integer_of(heads[7]), integer_of(heads[9]), number_of(heads[10])
    if highest is None or vectors is None or b is None or not math.isfinite(b):
        raise file.error("a number of its first lines is not one; expected an SVMlight model", 8)
    body = file.numbered_lines(_HEAD)
    if len(body) != vectors - 1:
        problem = f"has {len(body):,} support vectors; expected {vectors - 1:,}, as line 10 says"
        raise file.error(problem, len(lines))
    if highest > most_features(len(file.content)):
        raise file.error(f"has {highest:,} features; expected a number in proportion to the size of the file", 8)
    coef = np.zeros(highest + 1)
    for number, text in body:
        _add_vector(file, coef, text.partition("#")[0].split(), number)
    model = linear_model(file, settings, coef, numbered_from=1, constant=-b)
    return Imported(model, {"support vectors": len(body)})


def _add_vector(file: ModelFile, coef: np.ndarray, words: list[str], line: int) -> None:
    """Add a support vector times its weight; its features are float32, as in SVMlight."""
    weight = number_of(words[0]) if words else None
    if weight is None or not math.isfinite(weight):
        raise file.error(f"has {shown(words[0] if words else '')}; expected the weight of a support vector", line)
    for word in words[1:]:
        feature, _, text = word.partition(":")
        if feature in ("qid", "sid", "cost"):
            continue
        at, value = integer_of(feature), number_of(text)
        if at is None or not 0 < at < len(coef) or value is None or not math.isfinite(single(value)):
            raise file.error(f"has {shown(word)}; expected feature:value, features up to {len(coef) - 1:,}", line)
        coef[at] += weight * single(value)


def read_liblinear(file: ModelFile, settings: ImportSettings) -> Imported:
    """Read a model of liblinear: the decision value of two classes, higher for the higher label, or a regression."""
    heads: dict[str, tuple[list[str], int]] = {}
    for start, text in file.numbered_lines():
        if text == "w":
            break
        words = text.split()
        heads[words[0]] = (words[1:], start)
    else:
        raise file.error("ends before its weights (w); expected a complete liblinear model", file.last_line)

    def head(key: str) -> tuple[str, int]:
        words, number = heads.get(key, ([], 1))
        if len(words) != 1:
            raise file.error(f"{key} is {shown(' '.join(words))}; expected one value", number)
        return words[0], number

    solver, solver_line = head("solver_type")
    if solver not in (*_CLASSES, *_REGRESSIONS):
        raise file.error(f"is of the solver {shown(solver)}; expected two classes or a regression", solver_line)
    classes, line = head("nr_class")
    if classes != "2":
        raise file.error(f"is a model of {classes} classes; expected two, or a regression", line)
    n_in_file, bias = integer_of(head("nr_feature")[0]), number_of(head("bias")[0])
    if n_in_file is None or bias is None or math.isnan(bias):
        raise file.error("nr_feature or bias is not a number; expected a liblinear model", line)
    body = [(number, text.split()) for number, text in file.numbered_lines(start)]
    wanted = n_in_file + (bias >= 0)
    if len(body) != wanted or any(len(words) != 1 for _, words in body):
        raise file.error(f"has {len(body):,} lines of weights; expected {wanted:,} of one number", len(file.lines))
    weights = np.array([numbers_of(words, file, number, "a weight")[0] for number, words in body])
    labels = heads.get("label", ([], 1))
    notices: tuple[str, ...] = ()
    if solver in _CLASSES:
        pair = numbers_of(labels[0], file, labels[1], "label")
        if len(pair) != 2:
            raise file.error(f"has {len(pair)} labels; expected two", labels[1])
        if pair[0] < pair[1]:
            weights = -weights
            message = f"liblinear's decision values are for label {pair[0]:g}"
            notices = (f"{message}; scores here have the other sign, so that label {pair[1]:g} is ranked first",)
    if not np.isfinite(weights).all():
        raise file.error("a weight is not a finite number", start)
    constant = float(weights[n_in_file] * bias) if bias >= 0 else 0.0
    numbered = np.append(0.0, weights[:n_in_file])
    model = linear_model(file, settings, numbered, numbered_from=1, constant=constant)
    return Imported(model, {"solver": solver}, notices)
