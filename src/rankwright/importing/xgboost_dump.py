"""XGBoost: the JSON array of ``get_dump`` or ``dump_model(..., dump_format="json")``, also written for search engines.

A dump lacks the base score and the names of features that no tree uses, so scores are the same but for a constant.
"""

from __future__ import annotations

import math
import re
from typing import Any

from rankwright.errors import shown
from rankwright.importing.float32 import below, single
from rankwright.importing.nodes import Nodes, tree_model
from rankwright.importing.result import Imported
from rankwright.importing.source import Facts, ModelFile, Settings, number_of
from rankwright.importing.xgboost import categories_of, to_places

__all__ = ["read_dump"]

_OWN = re.compile(r"f(0|[1-9][0-9]{0,8})")  # XGBoost's names of features without names, from f0 on
_NO_BASE = (
    "a dump lacks XGBoost's base score and the weights of dart: of a gbtree model the ranking is the same, and scores "
    "differ by a constant"
)


def read_dump(file: ModelFile, settings: Settings, value: Any) -> Imported:
    """Read a dump, parsed."""
    names: dict[str, int] = {}
    trees = [_tree(Facts.of(file, one, f"tree {at} (from 0)"), names) for at, one in enumerate(value)]
    numbers = {name: _OWN.fullmatch(name) for name in names}
    start, listed = settings.first_feature, None
    if names and all(numbers.values()):
        if start is None and "f0" not in names:
            shown_names = ", ".join(sorted(names, key=lambda name: int(name[1:]))[:3])
            what = f"features are {shown_names}, … and none is f0, so the first may be f0 or f1"
            raise file.error(f"{what}; expected --first-feature 0 (XGBoost's own names) or 1")
        for nodes in trees:
            known = {at: int(name[1:]) for name, at in names.items()}
            nodes.feature = [known.get(feature, -1) for feature in nodes.feature]
    else:
        start, listed = 0, tuple(names)
    own = Settings(start or 0, settings.n_features if listed is None else None, settings.all_trees, settings.constant)
    categories, more = categories_of(file, trees, {})
    model = tree_model(file, own, trees, numbered_from=0, names=listed, categories=categories)
    return Imported(model, {"trees": len(trees)}, (_NO_BASE, *more))


def _tree(root: Facts, names: dict[str, int]) -> Nodes:
    """The nodes of a tree; ``names`` collects the features, in the order of their first use."""
    nodes = Nodes()
    waiting: list[tuple[Facts, tuple[int, bool] | None]] = [(root, None)]
    while waiting:
        facts, at = waiting.pop()
        if "leaf" in facts.values:
            value = number_of(facts.values["leaf"])
            if value is None or not math.isfinite(single(value)):
                raise facts.error(f"a leaf is {shown(facts.values['leaf'])}; expected a finite number")
            node = nodes.leaf(single(value), number_of(facts.values.get("cover")))
        else:
            node, children = _split(facts, nodes, names)
            waiting += [(children[1], (node, False)), (children[0], (node, True))]
        if at is not None:
            (nodes.left if at[1] else nodes.right)[at[0]] = node
    return nodes


def _split(facts: Facts, nodes: Nodes, names: dict[str, int]) -> tuple[int, tuple[Facts, Facts]]:
    """Add a split; the result has its number, and what is below it: where the condition holds, and the rest."""
    name = facts.get("split", str, "the name of a feature")
    below_it = [Facts.of(facts.file, child, facts.place) for child in facts.list("children")]
    children = {child.whole("nodeid"): child for child in below_it}
    yes, no = (facts.whole(key) for key in ("yes", "no"))
    if len(below_it) != 2 or set(children) != {yes, no}:
        raise facts.error(f"a split on {shown(name)} does not have the children that yes and no name")
    if "split_condition" not in facts.values or "missing" not in facts.values:
        raise facts.error(f"a split on {shown(name)} has no split_condition or missing; expected both")
    missing = facts.whole("missing")
    condition = facts.values["split_condition"]
    feature, gain = names.setdefault(name, len(names)), number_of(facts.values.get("gain"))
    if isinstance(condition, list):
        subset = to_places(condition, facts.file)
        node = nodes.split(feature, 0.0, missing == yes, gain=gain, subset=subset)
    else:
        limit = number_of(condition)
        if limit is None or math.isnan(limit):
            raise facts.error(f"split_condition is {shown(condition)}; expected a number")
        node = nodes.split(feature, below(single(limit)), missing == yes, gain=gain)
    return node, (children[yes], children[no])
