"""RankLib: model files of all its rankers.

RankLib computes with float32 features, numbered from 1, and takes missing ones as 0. Its files start with lines ``##``
that name the ranker; then come trees, weights ``feature:weight``, steps ``feature:threshold:weight``, or the weights of
a net. Trees are tags (ensemble, tree, split, feature, threshold and output), read without an XML library; x ≤ threshold
goes left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rankwright.boosting.float32 import from_at_most, rounded_down, single
from rankwright.data.dataset import most_features
from rankwright.errors import shown
from rankwright.importing.nodes import Nodes, feature_count, tree_model, with_constant
from rankwright.importing.source import Imported, ImportSettings, ModelFile, integer_of, number_of, numbers_of
from rankwright.models.linear import LinearModel
from rankwright.nets.model import NetModel

_TAG = re.compile(r"<([^<>]*)>([^<>]*)")
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*["']([^"']*)["']""")
_INSIDE = {"ensemble": "", "tree": "ensemble", "split": "tree split", "feature": "split", "threshold": "split"}
_INSIDE["output"] = "split"


@dataclass
class _Split:
    line: int
    place: str | None = None
    feature: int | None = None
    threshold: float | None = None
    output: float | None = None
    children: list[tuple[int, str | None]] = field(default_factory=list)


class _Reader:
    """Reads tags one after the other, into the trees of each ensemble and their weights; open tags are on a stack."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self.ensembles: list[list[tuple[Nodes, float]]] = []
        self.open: list[str] = []
        self.splits: list[_Split] = []
        self.nodes, self.weight, self.root = Nodes(), 1.0, -1

    def read(self, body: list[tuple[int, str]]) -> list[list[tuple[Nodes, float]]]:
        line = 1
        for line, text in body:
            if _TAG.sub("", text).strip() and not text.startswith(("<?", "<!--")):
                self._value(text, line)
                continue
            for tag, value in _TAG.findall(text):
                if tag.startswith("/"):
                    self._close(tag[1:].strip(), line)
                elif not tag.startswith(("?", "!--")):
                    self._start(tag, line)
                    self._value(value, line)
        if self.open or not self.ensembles:
            raise self.file.error("ends inside its trees; expected a complete RankLib model", line)
        return self.ensembles

    def _start(self, tag: str, line: int) -> None:
        name = (tag.split() or [""])[0]
        within = self.open[-1] if self.open else ""
        if name not in _INSIDE or within not in (_INSIDE[name].split() or [""]):
            raise self.file.error(f"the tag {shown(tag)} inside {within or 'nothing'}; expected a RankLib model", line)
        attributes = dict(_ATTRIBUTE.findall(tag))
        if name == "ensemble":
            self.ensembles.append([])
        elif name == "tree":
            weight = number_of(attributes.get("weight", "1"))
            if weight is None or not math.isfinite(weight):
                raise self.file.error(f"the weight of a tree is {shown(attributes.get('weight'))}", line)
            self.nodes, self.weight, self.root = Nodes(), single(weight), -1
        elif name == "split":
            self.splits.append(_Split(line, attributes.get("pos")))
        self.open.append(name)

    def _value(self, text: str, line: int) -> None:
        text = text.strip()
        if not text:
            return
        name = self.open[-1] if self.open else ""
        if name == "feature":
            self.splits[-1].feature = integer_of(text)
        elif name in ("threshold", "output"):
            number = number_of(text)
            setattr(self.splits[-1], name, None if number is None else single(number))
        else:
            raise self.file.error(f"{shown(text)} inside {name or 'nothing'}; expected a tag", line)

    def _close(self, name: str, line: int) -> None:
        if not self.open or self.open.pop() != name:
            raise self.file.error(f"the tag '/{name}' closes nothing; expected a complete RankLib model", line)
        if name == "split":
            self._end_split(self.splits.pop(), line)
        elif name == "tree":
            if self.root < 0:
                raise self.file.error("a tree without a split or an output", line)
            self.nodes.root = self.root
            self.ensembles[-1].append((self.nodes, self.weight))

    def _end_split(self, split: _Split, line: int) -> None:
        if split.output is not None and not split.children and split.feature is None:
            if not math.isfinite(split.output):
                raise self.file.error("the output of a leaf is not a finite number", line)
            node = self.nodes.leaf(split.output)
        else:
            places = [place for _, place in split.children]
            sound = split.feature is not None and split.threshold is not None and not math.isnan(split.threshold)
            if not sound or split.output is not None or places not in (["left", "right"], [None, None]):
                raise self.file.error("expected a feature, a threshold, a left and a right part", split.line)
            assert split.feature is not None
            assert split.threshold is not None
            children = (split.children[0][0], split.children[1][0])
            node = self.nodes.split(split.feature, from_at_most(split.threshold), split.threshold >= 0, children)
        if self.splits:
            self.splits[-1].children.append((node, split.place))
        elif self.root >= 0:
            raise self.file.error("a second root of a tree; expected one", line)
        else:
            self.root = node


_SIGMOID = "scores are those before RankLib's last sigmoid: the ranking is the same"


def read(file: ModelFile, settings: ImportSettings) -> Imported:
    heads = [text[2:].strip() for _, text in file.numbered_lines() if text.startswith("##")]
    body = [(number, text) for number, text in file.numbered_lines() if not text.startswith("##")]
    name = heads[0] if heads else "LambdaMART"
    if name not in _READERS:
        raise file.error(f"is of the ranker {shown(name)}; expected one of: {', '.join(_READERS)}", 1)
    if not body:
        raise file.error("has no model after its first lines; expected a complete file", file.last_line)
    imported = _READERS[name](file, settings, body)
    return Imported(imported.model, {"ranker": name, **imported.facts}, imported.notices)


Lines = list[tuple[int, str]]


def _ensembles(file: ModelFile, settings: ImportSettings, body: Lines) -> Imported:
    """Trees in tags; the score of several ensembles is their mean."""
    ensembles = _Reader(file).read(body)
    trees = [nodes for ensemble in ensembles for nodes, _ in ensemble]
    factors = [weight / len(ensembles) for ensemble in ensembles for _, weight in ensemble]
    return tree_model(file, settings, trees, numbered_from=1, factors=factors)


def _pairs(file: ModelFile, body: Lines, parts: int) -> list[list[float]]:
    """The entries ``feature:…:weight`` of the one line of a model."""
    number, text = body[0]
    if len(body) > 1:
        raise file.error("a second line of weights; expected one", body[1][0])
    pairs = []
    for word in text.partition("#")[0].split():
        fields = word.split(":")
        if len(fields) != parts or integer_of(fields[0]) is None:
            expected = "feature:threshold:weight" if parts == 3 else "feature:weight"
            raise file.error(f"has {shown(word)}; expected {expected}", number)
        numbers = numbers_of(fields, file, number, "a weight")
        if not all(map(math.isfinite, numbers)):
            raise file.error(f"has {shown(word)}; expected finite numbers", number)
        pairs.append(numbers)
    return pairs


def _linear(file: ModelFile, settings: ImportSettings, body: Lines) -> Imported:
    """Weights; that of feature 0 is a constant."""
    pairs = _pairs(file, body, 2)
    constant = sum(weight for feature, weight in pairs if feature == 0)
    weights = [(int(feature), weight) for feature, weight in pairs if feature > 0]
    start = settings.start(1)
    coef = np.zeros(_n_features(file, settings, [feature for feature, _ in weights], most_features(len(file.content))))
    for feature, weight in weights:  # a feature may occur several times
        coef[feature - start] += weight
    return Imported(with_constant(LinearModel(coef), constant, settings))


def _n_features(file: ModelFile, settings: ImportSettings, features: list[int], most: int) -> int:
    """How many features a model of these has; a small file must not ask for large arrays."""
    start, last = settings.start(1), max(features, default=0)
    if last > most:
        raise file.error(f"uses feature {last:,}; expected numbers in proportion to the size of the file")
    return feature_count(file, settings, 0, last + 1, min(features, default=start), start)


def _steps(file: ModelFile, settings: ImportSettings, body: Lines) -> Imported:
    """RankBoost: a weight is added if a feature is above a threshold, which is a tree of one split."""
    trees = []
    for feature, threshold, weight in _pairs(file, body, 3):
        nodes = Nodes()
        limit = float(rounded_down(threshold))  # thresholds are float64, features float32
        nodes.split(int(feature), from_at_most(limit), threshold >= 0, (1, 2))
        nodes.leaf(0.0)
        nodes.leaf(weight)
        trees.append(nodes)
    return tree_model(file, settings, trees, numbered_from=1)


def _net(file: ModelFile, settings: ImportSettings, body: Lines) -> Imported:
    """A net: features, number of hidden layers, units of each, then ``layer neuron weights`` of every neuron.

    The last neuron of the input is 1 and leads to all others. A unit is 1 / (1 + exp(−z)) = (1 + tanh(z / 2)) / 2.
    """
    features = [_integer(file, word, body[0][0]) for word in body[0][1].split()]
    layers = _integer(file, body[1][1], body[1][0]) if len(body) > 1 else 0
    if layers > 1:
        raise file.error(f"is a net of {layers} hidden layers; expected at most one", body[1][0])
    units = _integer(file, body[2][1], body[2][0]) if layers == 1 and len(body) > 2 else 0
    n, wide = len(features), max(units, 1)
    rows: dict[tuple[int, int], list[float]] = {}
    for number, text in body[2 + layers :]:
        words = text.split()
        if len(words) < 3:
            raise file.error("a neuron without weights; expected its layer, its number and its weights", number)
        neuron = (_integer(file, words[0], number), _integer(file, words[1], number))
        weights = numbers_of(words[2:], file, number, "the weights of a neuron")
        if neuron in rows or not all(map(math.isfinite, weights)):
            raise file.error("a neuron for the second time, or weights that are not finite", number)
        rows[neuron] = weights
    if len(rows) != n + 1 + units or not _fits(rows, n, units):
        raise file.error("has other neurons or weights than its layers have; expected a complete file", len(file.lines))
    bias = rows[0, n]
    inner = np.zeros((wide, _n_features(file, settings, features, most_features(len(file.content)) // wide)))
    for at, feature in enumerate(features):
        inner[:, feature - settings.start(1)] += rows[0, at]
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


def _integer(file: ModelFile, word: str, line: int) -> int:
    number = integer_of(word)
    if number is None:
        raise file.error(f"has {shown(word)}; expected a whole number", line)
    return number


_READERS: dict[str, Callable[[ModelFile, ImportSettings, Lines], Imported]] = {
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
