"""LightGBM: the text that ``save_model`` writes, and the JSON of ``dump_model``.

A split sends x ≤ threshold left, in float64. What is missing depends on the split: NaN is 0 (missing type none), NaN
goes its own way (NaN), or both NaN and 0 do (zero). Categories are whole numbers from 0; those of a set go left, others
and missing ones right. Values up to 1e-35 are 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankwright.boosting.tree_model import MOST_CATEGORIES
from rankwright.errors import InputError, shown
from rankwright.importing.nodes import BELOW_ZERO, MAX_NODES, ZERO, Nodes, cut, expanded, subset_of, tree_model
from rankwright.importing.source import Facts, Imported, ImportSettings, ModelFile, integer_of, number_of, numbers_of

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type; the next two are the missing type
_NONE, _ZERO, _NAN = 0, 1, 2
_MISSING = {"None": _NONE, "Zero": _ZERO, "NaN": _NAN}
_AS_IS = ("lambdarank", "rank_xendcg", "regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom", "")
_SETTLED = ("tree", "feature_names", "objective", "num_class", "num_tree_per_iteration", "max_feature_idx")
_INFINITE = 1e300  # what JSON has instead of infinity


@dataclass
class _Trees:
    file: ModelFile
    n_features: int
    names: tuple[str, ...]
    objective: str
    average: bool
    categorical: tuple[int, ...]
    pandas: list[Any] | None
    trees: list[Nodes] = field(default_factory=list)

    def add(self, nodes: Nodes, default_left: dict[int, bool], where: str, line: int | None = None) -> None:
        try:
            nodes.order()
            room = MAX_NODES - sum(map(len, self.trees))
            self.trees.append(expanded(nodes, default_left, room) if default_left else nodes)
        except InputError as error:
            raise self.file.error(f"{where}: {error.message}", line) from None

    def imported(self, settings: ImportSettings) -> Imported:
        names = None if self.names == tuple(f"Column_{at}" for at in range(self.n_features)) else self.names
        factor = 1.0 / max(1, len(self.trees)) if self.average else 1.0
        notices = []
        if (self.objective.split() or [""])[0] not in _AS_IS or "sqrt" in self.objective.split():
            message = f"scores are those before LightGBM transforms them for the objective {self.objective}"
            notices.append(f"{message} (predict(raw_score=True)): the ranking is the same")
        return tree_model(
            self.file, settings, self.trees, numbered_from=0, n_in_file=self.n_features, names=names,
            categories=self._categories(), factors=[factor] * len(self.trees),
            objective=self.objective, notices=notices,
        )  # fmt: skip

    def _categories(self) -> dict[int, tuple[Any, ...]]:
        """The categories of each categorical feature, by their codes; subsets are turned into places among them."""
        codes: dict[int, set[int]] = {}
        for nodes in self.trees:
            for node in nodes:
                if node.subset is not None:
                    codes.setdefault(node.feature, set()).update(node.subset)
        given = self._pandas_values(codes)
        categories: dict[int, tuple[Any, ...]] = {}
        for feature, used in codes.items():
            listed = sorted(used)  # others go right, as missing ones do
            if len(listed) > MOST_CATEGORIES:
                problem = f"splits on {len(listed):,} categories of the feature {self.names[feature]!r}"
                raise self.file.error(f"{problem}; expected at most {MOST_CATEGORIES}")
            values = given.get(feature)
            if values is not None and listed and listed[-1] >= len(values):
                raise self.file.error(f"a category of {self.names[feature]!r} is not among those of pandas_categorical")
            categories[feature] = tuple(listed) if values is None else tuple(values[code] for code in listed)
            place = {code: at for at, code in enumerate(listed)}
            for node in (node for nodes in self.trees for node in nodes):
                if node.subset is not None and node.feature == feature:
                    node.subset = tuple(place[code] for code in node.subset)
        return categories

    def _pandas_values(self, codes: Mapping[int, Any]) -> dict[int, Any]:
        """The values that codes stand for, where the model was trained on a data frame of pandas."""
        if not self.pandas or not codes:
            return {}
        if len(self.pandas) != len(self.categorical) or not all(isinstance(values, list) for values in self.pandas):
            problem = f"has the categories of {len(self.pandas)} columns of pandas for {len(self.categorical)} features"
            raise self.file.error(f"{problem}, so which are whose is not known; expected as many")
        return dict(zip(self.categorical, self.pandas, strict=True))


def _numeric(threshold: float, kind: int, default_left: bool) -> tuple[float, bool]:
    """Threshold and side of missing values of a split on a number, with tiny values taken as 0."""
    if -ZERO <= threshold < 0:
        threshold = BELOW_ZERO
    elif 0 <= threshold < ZERO:
        threshold = ZERO
    return threshold, default_left if kind != _NONE else threshold >= 0


def _check_head(file: ModelFile, classes: int, per_iteration: int, line: int | None = None) -> None:
    if classes > 1 or per_iteration > 1:
        problem = f"is a model of {max(classes, per_iteration)} classes"
        raise file.error(f"{problem}; expected one that gives one score: a ranker, a regression or two classes", line)


# The text form


def read_text(file: ModelFile, settings: ImportSettings) -> Imported:
    blocks = list(_blocks(file))
    head, head_line = blocks[0]
    for key in _SETTLED:
        if key not in head and key not in ("objective", "num_tree_per_iteration"):
            raise file.error(f"{key} is missing in its first lines; expected a LightGBM model", head_line)
    words = {key: text for key, (text, _) in head.items()}
    line = head["num_class"][1]
    classes, per_iteration = (integer_of(words.get(key, "1")) for key in ("num_class", "num_tree_per_iteration"))
    last = integer_of(words["max_feature_idx"])
    if classes is None or per_iteration is None or last is None:
        raise file.error("num_class or max_feature_idx is not a whole number; expected a LightGBM model", line)
    _check_head(file, classes, per_iteration, line)
    names, infos = tuple(words["feature_names"].split()), words.get("feature_infos", "").split()
    if len(names) != last + 1:
        problem = f"has {len(names):,} feature names for {last + 1:,} features"
        raise file.error(f"{problem}; expected one for each, without spaces", head["feature_names"][1])
    categorical = tuple(at for at, info in enumerate(infos) if info != "none" and not info.startswith("["))
    trees = _Trees(
        file, last + 1, names, words.get("objective", ""), "average_output" in words, categorical, _pandas(file)
    )
    for number, (block, start) in enumerate(blocks[1:]):
        _add_text_tree(trees, block, f"tree {number} (from 0)", start)
    sizes = words.get("tree_sizes")
    if sizes is not None and len(sizes.split()) != len(trees.trees):
        raise file.error(f"has {len(trees.trees):,} of {len(sizes.split()):,} trees; expected a complete file")
    return trees.imported(settings)


def _blocks(file: ModelFile) -> Iterator[tuple[dict[str, tuple[str, int]], int]]:
    """The header, then the trees: values by key with their lines, and the first line of the block."""
    block: dict[str, tuple[str, int]] = {}
    start = 1
    for number, text in enumerate(file.lines, 1):
        key, _, value = text.strip().partition("=")
        if key == "end of trees":
            yield block, start
            return
        if key == "Tree":
            yield block, start
            block, start = {}, number
        elif key:
            block[key] = (value, number)
    raise file.error("ends before `end of trees`; expected a complete LightGBM model", file.last_line)


def _pandas(file: ModelFile) -> list[Any] | None:
    key = "pandas_categorical:"
    for number in range(len(file.lines), 0, -1):
        if file.lines[number - 1].startswith(key):
            try:
                columns = json.loads(file.lines[number - 1][len(key) :])
            except (ValueError, RecursionError):
                raise file.error("pandas_categorical is not JSON; expected a complete file", number) from None
            return columns if isinstance(columns, list) else None
    return None


def _add_text_tree(trees: _Trees, block: dict[str, tuple[str, int]], where: str, start: int) -> None:
    file = trees.file

    def values(key: str, size: int | None) -> list[float]:
        text, line = block.get(key, ("", start))
        numbers = numbers_of(text.split(), file, line, f"{where}: {key}")
        if size is not None and len(numbers) != size:
            raise file.error(f"{where}: {key} has {len(numbers):,} numbers; expected {size:,}", line)
        return numbers

    def integers(key: str, size: int | None) -> list[int]:
        numbers = values(key, size)
        if not all(math.isfinite(number) and number == int(number) for number in numbers):
            raise file.error(f"{where}: {key} has a number that is not whole", block.get(key, ("", start))[1])
        return [int(number) for number in numbers]

    if any(integers("is_linear", None)):
        raise file.error(f"{where}: has linear models in its leaves; expected numbers (linear_tree=False)", start)
    n_leaves = integers("num_leaves", 1)[0]
    if n_leaves < 1:
        raise file.error(f"{where}: has no leaves; expected at least one", start)
    nodes, n = Nodes(), n_leaves - 1
    leaf_value = values("leaf_value", n_leaves)
    counts: Sequence[float | None] = values("leaf_count", None) if n else ()
    counts = counts if len(counts) == n_leaves else [None] * n_leaves
    features, kinds, limits = integers("split_feature", n), integers("decision_type", n), values("threshold", n)
    gains = values("split_gain", None) if "split_gain" in block else []
    left, right = integers("left_child", n), integers("right_child", n)
    sets: list[tuple[int, ...]] = []
    if any(kind & _CATEGORICAL for kind in kinds):
        sets = _text_sets(integers("cat_boundaries", None), integers("cat_threshold", None))
    zeros: dict[int, bool] = {}
    for at, (feature, kind, limit) in enumerate(zip(features, kinds, limits, strict=True)):
        subset = None
        if kind & _CATEGORICAL:
            subset = sets[int(limit)] if math.isfinite(limit) and 0 <= limit < len(sets) else None
            if subset is None:
                raise file.error(f"{where}: split {at} has no set of categories", start)
        if not 0 <= feature < trees.n_features or math.isnan(limit) or kind >> 2 > _NAN:
            raise file.error(f"{where}: split {at} has an unknown feature, threshold or missing type", start)
        missing, default_left = kind >> 2, bool(kind & _DEFAULT_LEFT)
        limit, missing_left = _numeric(limit, missing, default_left) if subset is None else (0.0, False)
        children = tuple(child if child >= 0 else n + ~child for child in (left[at], right[at]))
        gain = gains[at] if len(gains) == n else None
        nodes.split(feature, limit, missing_left, (children[0], children[1]), gain=gain, subset=subset)
        if subset is None and missing == _ZERO:
            zeros[at] = default_left
    for value, count in zip(leaf_value, counts, strict=True):
        if not math.isfinite(value):
            raise file.error(f"{where}: the value of a leaf is not a finite number", start)
        nodes.leaf(value, count)
    trees.add(nodes, zeros, where, start)


def _text_sets(boundaries: list[int], words: list[int]) -> list[tuple[int, ...]]:
    """Sets of categories: words of 32 bits, and where those of each set begin; none if they do not fit."""
    return [
        tuple(32 * at + bit for at, word in enumerate(words_of_set) for bit in range(32) if word >> bit & 1)
        for words_of_set in cut(words, boundaries) or []
    ]


# The JSON form


def read_json(file: ModelFile, settings: ImportSettings, value: Any) -> Imported:
    head = Facts.of(file, value)
    _check_head(file, head.integer("num_class", 1), head.integer("num_tree_per_iteration", 1))
    names = head.texts("feature_names")
    infos = head.values.get("feature_infos")
    infos = infos if isinstance(infos, dict) else {}
    categorical = tuple(
        at for at, name in enumerate(names) if isinstance(infos.get(name), dict) and infos[name].get("values")
    )
    pandas = head.values.get("pandas_categorical")
    objective = str(head.values.get("objective", ""))
    average = head.values.get("average_output") is True
    columns = pandas if isinstance(pandas, list) else None
    if head.integer("max_feature_idx") + 1 != len(names):
        raise head.error(f"has {len(names):,} feature names; expected one for each feature")
    trees = _Trees(file, len(names), names, objective, average, categorical, columns)
    for tree in Facts.trees(file, head.list("tree_info")):
        _add_json_tree(trees, tree)
    return trees.imported(settings)


def _add_json_tree(trees: _Trees, tree: Facts) -> None:
    zeros: dict[int, bool] = {}

    def add(nodes: Nodes, value: Any) -> tuple[int, tuple[Any, Any] | None]:
        facts = tree.inside(value)
        if "leaf_coeff" in facts.values or "leaf_const" in facts.values:
            raise facts.error("has linear models in its leaves; expected numbers (linear_tree=False)")
        if "split_feature" not in facts.values:
            leaf_value = number_of(facts.values.get("leaf_value"))
            if leaf_value is None or not math.isfinite(leaf_value):
                raise facts.error("the value of a leaf is not a finite number")
            return nodes.leaf(leaf_value, number_of(facts.values.get("leaf_count"))), None
        node, zero_left = _json_split(trees, nodes, facts)
        if zero_left is not None:
            zeros[node] = zero_left
        return node, (facts.values.get("left_child"), facts.values.get("right_child"))

    trees.add(Nodes.nested(tree.values.get("tree_structure"), add), zeros, tree.place)


def _json_split(trees: _Trees, nodes: Nodes, facts: Facts) -> tuple[int, bool | None]:
    """Add a split; where 0 goes if the split takes it for missing."""
    feature, gain = facts.integer("split_feature"), number_of(facts.values.get("split_gain"))
    if feature >= trees.n_features:
        raise facts.error(f"splits on feature {feature}; expected one of {trees.n_features:,}, from 0")
    if facts.values.get("decision_type") == "==":
        codes = subset_of(str(facts.values.get("threshold")).split("||"))
        if codes is None:
            raise facts.error(f"threshold is {shown(facts.values.get('threshold'))}; expected categories")
        return nodes.split(feature, 0.0, False, gain=gain, subset=codes), None
    missing = _MISSING.get(str(facts.values.get("missing_type")))
    limit = number_of(facts.values.get("threshold"))
    default_left = facts.get("default_left", bool, "true or false")
    if limit is None or math.isnan(limit) or missing is None or facts.values.get("decision_type") != "<=":
        raise facts.error("a split has an unknown threshold, decision_type or missing_type")
    limit = math.copysign(math.inf, limit) if abs(limit) >= _INFINITE else limit
    limit, missing_left = _numeric(limit, missing, default_left)
    return nodes.split(feature, limit, missing_left, gain=gain), default_left if missing == _ZERO else None
