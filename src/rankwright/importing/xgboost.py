"""XGBoost: the JSON or UBJSON that ``save_model`` writes, and the JSON array of a dump.

XGBoost rounds a value to float32 and sends it left if it is below the split condition; missing values go their own way.
The thresholds here are those of float64 for the same decision (:mod:`rankwright.boosting.float32`), so every row
takes the same path, whether it is float32 or float64. Leaf values are added in float64 here and in float32 there.
Categories are whole numbers from 0; those of a set go right, others left.

A dump is what ``get_dump`` or ``dump_model(..., dump_format="json")`` gives, also written for search engines. It lacks
the base score and the names of features that no tree uses, so scores are the same but for a constant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwright.boosting.float32 import from_below, single
from rankwright.boosting.tree_model import MOST_CATEGORIES
from rankwright.errors import shown
from rankwright.importing.nodes import Nodes, cut, linear_model, subset_of, tree_model
from rankwright.importing.source import Facts, Imported, ImportSettings, ModelFile, integer_of, number_of

_AS_IS = (
    "rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror", "reg:linear", "reg:absoluteerror",
    "reg:pseudohubererror", "reg:quantileerror", "reg:expectileerror", "binary:logitraw", "reg:squaredlogerror",
)  # fmt: skip
_LOGISTIC = ("binary:logistic", "reg:logistic")
_EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")


def read(file: ModelFile, settings: ImportSettings, value: Any) -> Imported:
    learner = Facts.of(file, value).object("learner")
    param = learner.object("learner_model_param")
    for key, outputs in (("num_class", "classes"), ("num_target", "targets")):
        if param.integer(key, 0) > 1:
            raise file.error(f"is a model of {param.integer(key)} {outputs}; expected one that gives one score")
    objective = learner.object("objective").get("name", str, "a name")
    if objective not in (*_AS_IS, *_LOGISTIC, *_EXPONENTIAL):
        raise file.error(f"has the objective {shown(objective)}; expected one whose scores rank: rank:ndcg, …")
    notices = []
    if objective not in _AS_IS:
        message = f"scores are those before XGBoost transforms them for the objective {objective}"
        notices.append(f"{message} (predict(output_margin=True)): the ranking is the same")
    names = learner.texts("feature_names") or None
    n_in_file = param.integer("num_feature")
    booster = learner.object("gradient_booster")
    name = booster.values.get("name")
    constant = _margin(file, _base_score(param), objective)
    if name == "gblinear":
        weights = booster.object("model").array("weights", np.float32, n_in_file + 1).astype(np.float64)
        if not np.isfinite(weights).all():
            raise file.error("weights has a number that is not finite")
        constant += float(weights[-1])  # the last one is the bias
        linear = linear_model(file, settings, weights[:-1], numbered_from=0, constant=constant, names=names)
        return Imported(linear, {"objective": objective}, tuple(notices))
    if name not in ("gbtree", "dart"):
        raise file.error(f"has the booster {shown(name)}; expected gbtree, dart or gblinear")
    trees = (booster.object("gbtree") if name == "dart" else booster).object("model")
    kept, dropped = _kept(learner, trees, settings)
    if dropped:
        message = f"{dropped:,} trees after the best round of early stopping are left out, as XGBRanker.predict does"
        notices.append(f"{message}; all of them: --all-trees, all_trees=True")
    grown = [_tree(tree) for tree in Facts.trees(file, trees.list("trees")[:kept])]
    factors = None
    if name == "dart":
        factors = booster.array("weight_drop", np.float32, len(trees.list("trees"))).astype(np.float64)[:kept].tolist()
    categories, more = _categories(file, grown, _listed(trees, n_in_file))
    return tree_model(
        file, settings, grown, numbered_from=0, n_in_file=n_in_file, names=names, categories=categories,
        factors=factors, constant=constant, objective=objective, notices=(*notices, *more),
    )  # fmt: skip


def _base_score(param: Facts) -> float:
    """The score of no trees: a number, since version 3.1 a list of one."""
    text = str(param.values.get("base_score", "0.5")).strip()
    score = number_of(text.removeprefix("[").removesuffix("]"))
    if score is None or not math.isfinite(score):
        raise param.error(f"base_score is {shown(text)}; expected one number")
    return single(score)


def _margin(file: ModelFile, base_score: float, objective: str) -> float:
    """The base score on the scale that trees add to."""
    if objective in _LOGISTIC:
        if not 0 < base_score < 1:
            raise file.error(f"base_score is {base_score:g}; expected a probability for {objective}")
        return -math.log(1.0 / base_score - 1.0)
    if objective in _EXPONENTIAL:
        if base_score <= 0:
            raise file.error(f"base_score is {base_score:g}; expected a number above 0 for {objective}")
        return math.log(base_score)
    return base_score


def _kept(learner: Facts, trees: Facts, settings: ImportSettings) -> tuple[int, int]:
    """How many trees are kept, and how many left out: those after the best round."""
    n = len(trees.list("trees"))
    announced = integer_of(trees.object("gbtree_model_param").values.get("num_trees")) if n else n
    if announced is not None and announced != n:
        raise trees.error(f"has {n:,} of {announced:,} trees; expected a complete file")
    attributes = learner.values.get("attributes")
    best = integer_of(attributes.get("best_iteration")) if isinstance(attributes, dict) else None
    if best is None or settings.all_trees:
        return n, 0
    if "iteration_indptr" in trees.values:
        bounds = trees.array("iteration_indptr", np.int64).tolist()
        stop = bounds[best + 1] if best + 1 < len(bounds) else n
    else:
        parallel = trees.object("gbtree_model_param").integer("num_parallel_tree", 1)
        stop = (best + 1) * max(1, parallel)
    stop = min(max(stop, 0), n)
    return stop, n - stop


def _tree(facts: Facts) -> Nodes:
    if facts.values.get("tree_param") is not None and facts.object("tree_param").integer("size_leaf_vector", 1) > 1:
        raise facts.error("has several values per leaf; expected one that gives one score")
    left = facts.array("left_children", np.int64)
    n = len(left)
    if not n:
        raise facts.error("has no nodes; expected at least a leaf")
    right, feature = (facts.array(key, np.int64, n).tolist() for key in ("right_children", "split_indices"))
    condition = facts.array("split_conditions", np.float32, n).astype(np.float64).tolist()
    default_left = facts.array("default_left", np.int64, n).tolist()

    def column(key: str, dtype: type, default: Any) -> list[Any]:
        return facts.array(key, dtype, n).tolist() if key in facts.values else [default] * n

    gains, cover = (column(key, np.float64, None) for key in ("loss_changes", "sum_hessian"))
    kinds = column("split_type", np.int64, 0)
    sets = _sets(facts) if any(kinds) else {}
    nodes = Nodes()
    for at, child in enumerate(left.tolist()):
        if child == -1:
            if not math.isfinite(condition[at]):
                raise facts.error(f"the value of leaf {at} is not a finite number")
            nodes.leaf(condition[at], cover[at])
            continue
        subset = sets.get(at) if kinds[at] else None
        if feature[at] < 0 or math.isnan(condition[at]) or (kinds[at] and subset is None):
            raise facts.error(f"split {at} has an unknown feature or condition")
        # Categories in the set go right: the set that goes left is turned round once all categories are known.
        sides = (right[at], child) if kinds[at] else (child, right[at])
        missing = not default_left[at] if kinds[at] else bool(default_left[at])
        limit = 0.0 if kinds[at] else from_below(condition[at])
        nodes.split(feature[at], limit, bool(missing), sides, gain=gains[at], subset=subset)
    return nodes


def _sets(facts: Facts) -> dict[int, tuple[int, ...]]:
    """For every split on a categorical feature, the categories that go right."""
    keys = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    codes, nodes, starts, sizes = (facts.array(key, np.int64) for key in keys)
    sound = len(nodes) == len(starts) == len(sizes) and (sizes >= 0).all() and (starts >= 0).all()
    if not sound or sizes.sum() > len(codes):
        raise facts.error("the sets of its categorical splits do not fit together")
    bounds = zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    return {node: tuple(codes[start : start + size].tolist()) for node, start, size in bounds}


def _listed(trees: Facts, n_features: int) -> dict[int, tuple[Any, ...]]:
    """The values of categorical features that the file lists, since version 3.1 for data frames."""
    cats = trees.values.get("cats")
    listed = cats.get("enc") if isinstance(cats, dict) else None
    if not isinstance(listed, list):
        return {}
    categories: dict[int, tuple[Any, ...]] = {}
    for feature, encoding in enumerate(listed[:n_features]):
        facts = Facts.of(trees.file, encoding, f"categories of feature {feature} (from 0)")
        if len(facts.list("values")):
            categories[feature] = (
                _texts(facts) if "offsets" in facts.values else tuple(facts.array("values", np.float64).tolist())
            )
    return categories


def _texts(facts: Facts) -> tuple[str, ...]:
    characters, offsets = facts.array("values", np.int64), facts.array("offsets", np.int64).tolist()
    if ((characters < 0) | (characters > 127)).any():
        raise facts.error("are not ASCII, and XGBoost cuts such texts when it writes them; expected ASCII")
    texts = cut(bytes(characters.tolist()).decode("ascii"), offsets)
    if texts is None:
        raise facts.error("do not fit together; expected a complete file")
    return tuple(texts)


def _categories(
    file: ModelFile, trees: Sequence[Nodes], listed: dict[int, tuple[Any, ...]]
) -> tuple[dict[int, tuple[Any, ...]], tuple[str, ...]]:
    """The categories of each categorical feature, and notices about them.

    A model here treats values that it does not know as missing, XGBoost sends them left. So all codes are made known:
    those that the file lists, which are all that XGBoost takes then, or as many as a model here can hold.
    """
    used: dict[int, int] = {}
    odd = False
    for nodes in trees:
        for node in nodes:
            if node.subset is not None:
                used[node.feature] = max(used.get(node.feature, 0), *node.subset, 0)
                odd |= node.missing_left and node.feature not in listed
                if min(node.subset, default=0) < 0:
                    raise file.error(f"feature {node.feature} (from 0) has a category below 0")
    categories: dict[int, tuple[Any, ...]] = {}
    for feature, last in used.items():
        values = listed.get(feature, tuple(range(MOST_CATEGORIES)))
        if last >= len(values) or len(values) > MOST_CATEGORIES:
            message = f"splits on category {last} of feature {feature} (from 0)"
            raise file.error(f"{message}; expected at most {MOST_CATEGORIES} categories")
        categories[feature] = values
    notices = []
    if odd:
        message = f"categories of {MOST_CATEGORIES} and more, if there are any, go where missing values go"
        notices.append(f"{message}; XGBoost sends them where it sends other unknown ones")
    return categories, tuple(notices)


_DEFAULT_NAME = re.compile(r"f(0|[1-9][0-9]{0,8})")  # XGBoost's names of features without names, from f0 on
_NO_BASE = (
    "a dump lacks XGBoost's base score and the weights of dart: of a gbtree model the ranking is the same, and scores "
    "differ by a constant"
)


def read_dump(file: ModelFile, settings: ImportSettings, value: Any) -> Imported:
    names: dict[str, int] = {}
    trees = [_dumped_tree(tree, names) for tree in Facts.trees(file, value)]
    numbers = {name: _DEFAULT_NAME.fullmatch(name) for name in names}
    start, listed = settings.first_feature, None
    if names and all(numbers.values()):
        if start is None and "f0" not in names:
            shown_names = ", ".join(sorted(names, key=lambda name: int(name[1:]))[:3])
            problem = f"features are {shown_names}, … and none is f0, so the first may be f0 or f1"
            raise file.error(f"{problem}; expected --first-feature 0 (XGBoost's own names) or 1")
        feature_numbers = {at: int(name[1:]) for name, at in names.items()}
        for nodes in trees:
            for node in nodes:
                node.feature = feature_numbers.get(node.feature, -1)
    else:
        start, listed = 0, tuple(names)
    dump_settings = ImportSettings(
        start or 0, settings.n_features if listed is None else None, settings.all_trees, settings.constant
    )
    categories, more = _categories(file, trees, {})
    return tree_model(
        file, dump_settings, trees, numbered_from=0, names=listed, categories=categories, notices=(_NO_BASE, *more)
    )


def _dumped_tree(root: Facts, names: dict[str, int]) -> Nodes:
    """The nodes of a tree; ``names`` collects the features, in the order of their first use."""

    def add(nodes: Nodes, facts: Facts) -> tuple[int, tuple[Facts, Facts] | None]:
        if "leaf" not in facts.values:
            return _dumped_split(facts, nodes, names)
        value = number_of(facts.values["leaf"])
        if value is None or not math.isfinite(single(value)):
            raise facts.error(f"a leaf is {shown(facts.values['leaf'])}; expected a finite number")
        return nodes.leaf(single(value), number_of(facts.values.get("cover"))), None

    return Nodes.nested(root, add)


def _dumped_split(facts: Facts, nodes: Nodes, names: dict[str, int]) -> tuple[int, tuple[Facts, Facts]]:
    """Add a split; returns its number and its children: where the condition holds, and the other one."""
    name = facts.get("split", str, "the name of a feature")
    below_it = [facts.inside(child) for child in facts.list("children")]
    children = {child.integer("nodeid"): child for child in below_it}
    yes, no = (facts.integer(key) for key in ("yes", "no"))
    if len(below_it) != 2 or set(children) != {yes, no}:
        raise facts.error(f"a split on {shown(name)} does not have the children that yes and no name")
    if "split_condition" not in facts.values or "missing" not in facts.values:
        raise facts.error(f"a split on {shown(name)} has no split_condition or missing; expected both")
    missing = facts.integer("missing")
    condition = facts.values["split_condition"]
    feature, gain = names.setdefault(name, len(names)), number_of(facts.values.get("gain"))
    if isinstance(condition, list):
        codes = subset_of(condition)
        if codes is None:
            raise facts.file.error(f"categories are {shown(condition)}; expected whole numbers")
        node = nodes.split(feature, 0.0, missing == yes, gain=gain, subset=codes)
    else:
        limit = number_of(condition)
        if limit is None or math.isnan(limit):
            raise facts.error(f"split_condition is {shown(condition)}; expected a number")
        node = nodes.split(feature, from_below(single(limit)), missing == yes, gain=gain)
    return node, (children[yes], children[no])
