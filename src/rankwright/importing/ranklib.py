"""RankLib: model files of all its rankers.

RankLib computes with float32 features, numbered from 1, and takes missing ones as 0. Its files start with lines ``##``
that name the ranker; then come trees in tags, weights ``feature:weight``, steps ``feature:threshold:weight``, or the
weights of a net.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rankwright.data.matching import most_features
from rankwright.errors import shown
from rankwright.importing.float32 import at_most, single
from rankwright.importing.nodes import Nodes, feature_count, tree_model, with_constant
from rankwright.importing.ranklib_trees import read_ensembles
from rankwright.importing.result import Imported
from rankwright.importing.source import ModelFile, Settings, numbers_of, whole_of
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel

__all__ = ["read"]

_SIGMOID = "scores are those before RankLib's last sigmoid: the ranking is the same"


def read(file: ModelFile, settings: Settings) -> Imported:
    """Read a model file of RankLib."""
    body = [(number, text.strip()) for number, text in enumerate(file.lines, 1)]
    heads = [text[2:].strip() for _, text in body if text.startswith("##")]
    body = [(number, text) for number, text in body if text and not text.startswith("##")]
    name = heads[0] if heads else "LambdaMART"
    if name not in _READERS:
        raise file.error(f"is of the ranker {shown(name)}; expected one of: {', '.join(_READERS)}", 1)
    if not body:
        raise file.error("has no model after its first lines; expected a complete file", max(1, len(file.lines)))
    found = _READERS[name](file, settings, body)
    return Imported(found.model, {"ranker": name, **found.facts}, found.notices)


Lines = list[tuple[int, str]]


def _ensembles(file: ModelFile, settings: Settings, body: Lines) -> Imported:
    """Trees in tags; the score of several ensembles is their mean."""
    ensembles = read_ensembles(file, body)
    trees = [nodes for ensemble in ensembles for nodes, _ in ensemble]
    factors = [weight / len(ensembles) for ensemble in ensembles for _, weight in ensemble]
    model = tree_model(file, settings, trees, numbered_from=1, factors=factors)
    return Imported(model, {"trees": len(trees)})


def _pairs(file: ModelFile, body: Lines, parts: int) -> list[list[float]]:
    """The entries ``feature:…:weight`` of the one line of a model."""
    number, text = body[0]
    if len(body) > 1:
        raise file.error("a second line of weights; expected one", body[1][0])
    found = []
    for word in text.partition("#")[0].split():
        fields = word.split(":")
        if len(fields) != parts or whole_of(fields[0]) is None:
            expected = "feature:threshold:weight" if parts == 3 else "feature:weight"
            raise file.error(f"has {shown(word)}; expected {expected}", number)
        numbers = numbers_of(fields, file, number, "a weight")
        if not all(map(math.isfinite, numbers)):
            raise file.error(f"has {shown(word)}; expected finite numbers", number)
        found.append(numbers)
    return found


def _linear(file: ModelFile, settings: Settings, body: Lines) -> Imported:
    """Weights; that of feature 0 is a constant."""
    pairs = _pairs(file, body, 2)
    constant = sum(weight for feature, weight in pairs if feature == 0)
    own = [(int(feature), weight) for feature, weight in pairs if feature > 0]
    return Imported(with_constant(_weighted(file, settings, own), constant, settings))


def _weighted(file: ModelFile, settings: Settings, pairs: list[tuple[int, float]]) -> LinearModel:
    """A linear model; a feature may occur several times."""
    last = max((feature for feature, _ in pairs), default=0)
    if last > most_features(len(file.content)):
        raise file.error(f"uses feature {last:,}; expected numbers in proportion to the size of the file")
    start = 1 if settings.first_feature is None else settings.first_feature
    first = min((feature for feature, _ in pairs), default=start)
    coef = np.zeros(feature_count(file, settings, 0, last + 1, first, start))
    for feature, weight in pairs:
        coef[feature - start] += weight
    return LinearModel(coef)


def _steps(file: ModelFile, settings: Settings, body: Lines) -> Imported:
    """RankBoost: a weight is added if a feature is above a threshold, which is a tree of one split."""
    trees = []
    for feature, threshold, weight in _pairs(file, body, 3):
        nodes = Nodes()
        nodes.split(int(feature), at_most(_rounded_down(threshold)), threshold >= 0, (1, 2))
        nodes.leaf(0.0)
        nodes.leaf(weight)
        trees.append(nodes)
    return Imported(tree_model(file, settings, trees, numbered_from=1), {"trees": len(trees)})


def _rounded_down(value: float) -> float:
    """The largest float32 up to a number: thresholds of RankBoost are float64, its features float32."""
    found = single(value)
    return found if found <= value else float(np.nextafter(np.float32(found), np.float32(-np.inf)))


def _net(file: ModelFile, settings: Settings, body: Lines) -> Imported:
    """A net: features, number of hidden layers, units of each, then ``layer neuron weights`` of every neuron.

    The last neuron of the input is 1 and leads to all others. A unit is 1 / (1 + exp(−z)) = (1 + tanh(z / 2)) / 2.
    """
    features = [_whole(file, word, body[0][0]) for word in body[0][1].split()]
    layers = _whole(file, body[1][1], body[1][0]) if len(body) > 1 else 0
    if layers > 1:
        raise file.error(f"is a net of {layers} hidden layers; expected at most one", body[1][0])
    units = _whole(file, body[2][1], body[2][0]) if layers == 1 and len(body) > 2 else 0
    n, wide = len(features), max(units, 1)
    rows: dict[tuple[int, int], list[float]] = {}
    for number, text in body[2 + layers :]:
        words = text.split()
        if len(words) < 3:
            raise file.error("a neuron without weights; expected its layer, its number and its weights", number)
        neuron = (_whole(file, words[0], number), _whole(file, words[1], number))
        weights = numbers_of(words[2:], file, number, "the weights of a neuron")
        if neuron in rows or not all(map(math.isfinite, weights)):
            raise file.error("a neuron for the second time, or weights that are not finite", number)
        rows[neuron] = weights
    if len(rows) != n + 1 + units or not _fits(rows, n, units):
        raise file.error("has other neurons or weights than its layers have; expected a complete file", len(file.lines))
    bias = rows[0, n]
    first, start = min(features, default=1), 1 if settings.first_feature is None else settings.first_feature
    last = max(features, default=0)
    if last > most_features(len(file.content)) // wide:
        raise file.error(f"uses feature {last:,}; expected numbers in proportion to the size of the file")
    width = feature_count(file, settings, 0, last + 1, first, start)
    inner = np.zeros((wide, width))
    for at, feature in enumerate(features):
        inner[:, feature - start] += rows[0, at]
    if not units:
        return Imported(with_constant(LinearModel(inner[0]), bias[0], settings), notices=(_SIGMOID,))
    outer = np.array([rows[1, at][0] for at in range(units)])
    model = NetModel(inner / 2, np.array(bias[:units]) / 2, outer / 2)
    return Imported(with_constant(model, bias[units] + float(outer.sum()) / 2, settings), {"units": units}, (_SIGMOID,))


def _fits(rows: dict[tuple[int, int], list[float]], inputs: int, units: int) -> bool:
    """Whether every neuron has its weights; the last one of the input leads to all."""
    expected = {(0, at): max(units, 1) for at in range(inputs)} | {(0, inputs): units + 1}
    expected |= {(1, at): 1 for at in range(units)}
    return {at: len(weights) for at, weights in rows.items()} == expected


def _whole(file: ModelFile, word: str, line: int) -> int:
    found = whole_of(word)
    if found is None:
        raise file.error(f"has {shown(word)}; expected a whole number", line)
    return found


_READERS: dict[str, Callable[[ModelFile, Settings, Lines], Imported]] = {
    "LambdaMART": _ensembles,
    "MART": _ensembles,
    "Random Forests": _ensembles,
    "Coordinate Ascent": _linear,
    "Linear Regression": _linear,
    "AdaRank": _linear,
    "RankBoost": _steps,
    "RankNet": _net,
    "LambdaRank": _net,
    "ListNet": _net,
}
