"""The trees of RankLib: tags ensemble, tree, split, feature, threshold and output, read without an XML library.

x ≤ threshold goes left; both are float32, and a missing value is 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from rankwright.errors import shown
from rankwright.importing.float32 import at_most, single
from rankwright.importing.nodes import Nodes
from rankwright.importing.source import ModelFile, number_of, whole_of

__all__ = ["read_ensembles"]

_TAG = re.compile(r"<([^<>]*)>([^<>]*)")
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*["']([^"']*)["']""")
_INSIDE = {"ensemble": "", "tree": "ensemble", "split": "tree split", "feature": "split", "threshold": "split"}
_INSIDE["output"] = "split"


@dataclass
class _Split:
    """A split or a leaf that is being read."""

    line: int
    place: str | None = None
    feature: int | None = None
    threshold: float | None = None
    output: float | None = None
    children: list[tuple[int, str | None]] = field(default_factory=list)


def read_ensembles(file: ModelFile, body: list[tuple[int, str]]) -> list[list[tuple[Nodes, float]]]:
    """The trees of each ensemble, with their weights."""
    return _Reader(file).read(body)


class _Reader:
    """Reads tags one after the other; what is open is on a stack."""

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
            self.splits[-1].feature = whole_of(text)
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
            self.ensembles[-1].append((_first(self.nodes, self.root), self.weight))

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
            node = self.nodes.split(split.feature, at_most(split.threshold), split.threshold >= 0, children)
        if self.splits:
            self.splits[-1].children.append((node, split.place))
        elif self.root >= 0:
            raise self.file.error("a second root of a tree; expected one", line)
        else:
            self.root = node


def _first(nodes: Nodes, root: int) -> Nodes:
    """The same nodes with the root first: children were read before their parents."""
    last = len(nodes) - 1
    for name in ("feature", "threshold", "missing_left", "left", "right", "value", "gain", "count", "subset"):
        getattr(nodes, name).reverse()
    nodes.left = [last - child if child >= 0 else child for child in nodes.left]
    nodes.right = [last - child if child >= 0 else child for child in nodes.right]
    assert root == last
    return nodes
