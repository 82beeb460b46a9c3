"""Parameters of estimators: each is declared once, with its default, the values it accepts and its option.

    tol: float = parameter(1e-3, POSITIVE, option=Option(LINEAR, "Stop when …", after="query_weights"))

An estimator is a dataclass of such fields. A value that no rule accepts gives ``tol is -1; expected a number above 0``,
in Python, on the command line and, with its line, in experiment files. The options of `rankwright train` and their help
are made from these declarations; so are the parameters that ``--set`` and experiment files take. For that estimators
are imported, so their modules load numba and scikit-learn only when they train.

Also here: what ``random_state`` means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from rankwright.errors import InputError
from rankwright.measures import Measure, parse_goal

_MAX_INTEGER = 2**31 - 1  # of counts, which index arrays
_LONGEST = 60  # of a value as a message shows it
_FEW = 2  # names that are not introduced as a list
_SEEDS = 1 << 32
_LISTED = 8  # features named in an error
_LARGEST_INTEGER, _LARGEST = 1 << 53, 1e100


@dataclass(frozen=True)
class Rule:
    """Values that a parameter may have.

    `expected`: the values, in words. `accepts`: may raise an InputError that says more. `kind`: as far as an option
    must know: ``bool``, ``int``, ``float``, a ``list`` of numbers, or ``str``. `names`: the values, if they are some
    names. `minimum`: the smallest value, if they are whole numbers.
    """

    expected: str
    accepts: Callable[[Any], bool]
    kind: type = str
    names: tuple[str, ...] = ()
    minimum: int | None = None


LINEAR, TREES_AND_NETS, AUTO, DATA = "Linear methods", "Trees and nets", "Method auto", "Data"
"""Sections of the help of `rankwright train`."""


@dataclass(frozen=True)
class Option:
    """How `rankwright train` takes a parameter; its type follows from the rules.

    `help`: for someone who has not read the documentation. `after`: the parameter after which the section lists it;
    otherwise it comes before those that belong to the command. `default`: what the help says of it; None: the default
    of the field. `names`: its spellings; otherwise the name of the parameter with hyphens, with ``--no-`` if it turns
    something off. `choices`, `read`: the words it takes, and what a text means, where that does not follow from the
    rules. `alone`: whether ``--set`` does not take the parameter.
    """

    section: str
    help: str
    after: str = ""
    default: str | None = None
    names: tuple[str, ...] = ()
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()
    alone: bool = False


@dataclass(frozen=True)
class Parameter:
    """The declaration of a parameter.

    `rules`: the values it accepts; without rules, the estimator checks it itself. `option`: how `rankwright train`
    takes it. `set_by`: an option of the command that sets it, for all methods. `instead`: what to write instead, where
    experiments and ``--set`` do not take it.
    """

    default: Any
    rules: tuple[Rule, ...] = ()
    option: Option | None = None
    set_by: str = ""
    instead: str = ""

    @property
    def is_assigned(self) -> bool:
        """Whether ``--set`` takes it."""
        return not (self.set_by or self.instead or (self.option is not None and self.option.alone))


def parameter(default: Any, *rules: Rule, option: Option | None = None, set_by: str = "", instead: str = "") -> Any:
    """A field of an estimator; see :class:`Parameter`.

    A parameter that several estimators have under one name has its option at one of them.
    """
    return _field(Parameter(default, rules, option, set_by, instead))


def common(name: str) -> Any:
    """A field that many estimators have: callback, device, eval_measure, n_jobs or random_state."""
    return _field(_COMMON[name])


def _field(declaration: Parameter) -> Any:
    return dataclasses.field(default=declaration.default, metadata={"parameter": declaration})


def declared(estimator: type) -> dict[str, Parameter]:
    fields: Any = dataclasses.fields(estimator)
    return {field.name: field.metadata["parameter"] for field in fields if field.init}


FOR_PYTHON = "it is for Python only"


def check_parameters(estimator: Any) -> None:
    """Check all fields of an estimator, and that there is a GPU if it is to be trained on one."""
    for field in dataclasses.fields(estimator):
        check_value(field.name, getattr(estimator, field.name), field.metadata["parameter"].rules)
    if getattr(estimator, "device", "cpu") == "cuda":
        from rankwright.gpu.device import check_device

        check_device()


def check_value(name: str, value: Any, rules: Sequence[Rule]) -> None:
    if rules and _is_too_large(value):
        raise InputError(f"{name} is {shown(value)}; expected a smaller number")
    if rules and not any(rule.accepts(value) for rule in rules):
        expected = ", or ".join(rule.expected for rule in rules)
        raise InputError(f"{name} is {shown(value)}; expected {expected}")


def shown(value: Any) -> str:
    """A value on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and bool(np.isfinite(float(value)))


def _is_too_large(value: Any) -> bool:
    """Whether a number is beyond what compiled code and sums of squares can hold."""
    numbers = [number for number in (value if is_list(value) else [value]) if isinstance(number, Real)]
    return any(
        abs(int(number)) > _LARGEST_INTEGER if isinstance(number, Integral) else _LARGEST < abs(float(number)) < np.inf
        for number in numbers
    )


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_list(value: Any) -> bool:
    """Whether it is a sequence or an array of at least one item, and no text."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes) and len(value) > 0


def _is_measure(value: Any) -> bool:
    if isinstance(value, str | Measure):
        parse_goal(value)  # raises with a hint
        return True
    return False


NONE = Rule("None", lambda value: value is None)
FLAG = Rule("True or False", lambda value: isinstance(value, bool | np.bool_), bool)
POSITIVE = Rule("a number above 0", lambda value: is_number(value) and value > 0, float)
POSITIVES = Rule("numbers above 0", lambda value: is_list(value) and all(map(POSITIVE.accepts, value)), list)
NOT_NEGATIVE = Rule("a number of at least 0", lambda value: is_number(value) and value >= 0, float)
SHARE = Rule("a share above 0 and up to 1", lambda value: is_number(value) and 0 < value <= 1, float)
MEASURE = Rule("a measure such as 'ndcg@10'", _is_measure)
FUNCTION = Rule("a function", callable)
DEVICE = Rule("cpu or cuda", lambda value: isinstance(value, str) and value in ("cpu", "cuda"))
THREADS = Rule("a number of threads, or -1 for all cores", lambda value: _is_integer(value) and value != 0)
Seed: TypeAlias = int | np.random.RandomState | None
SEED = Rule(
    f"a whole number from 0 to {_SEEDS - 1}, or a RandomState",
    lambda value: (_is_integer(value) and 0 <= value < _SEEDS) or isinstance(value, np.random.RandomState),
)
_COMMON = {
    "callback": Parameter(None, (FUNCTION, NONE), instead=FOR_PYTHON),
    "device": Parameter("cpu", (DEVICE,), set_by="--device"),
    "eval_measure": Parameter(None, (MEASURE, NONE), set_by="--measure", instead="write choose_by next to method"),
    "n_jobs": Parameter(None, (THREADS, NONE), set_by="--threads", instead="use --threads"),
    "random_state": Parameter(0, (SEED, NONE), set_by="--seed"),
}


def _is_feature(value: Any) -> bool:
    return isinstance(value, str) or (_is_integer(value) and value >= 0)


FEATURES = Rule("features, by name or by number from 0", lambda value: is_list(value) and all(map(_is_feature, value)))
DIRECTIONS = Rule(
    "features, by name or by number from 0, with 1 (rising) or -1 (falling)",
    lambda value: (
        isinstance(value, Mapping)
        and all(_is_feature(name) and _is_integer(way) and way in (-1, 1) for name, way in value.items())
    ),
)


def read_features(text: str) -> list[str]:
    """Features of a text, separated by commas: by name, or of LETOR text without names by number, from 1."""
    return [_feature(part) for part in text.split(",") if part.strip()]


def read_directions(text: str) -> dict[str, int]:
    """Features of a text, each with ``=+1`` or ``=-1``."""
    directions = {}
    for part in filter(str.strip, text.split(",")):
        name, equals, way = part.rpartition("=")
        if not equals or way.strip() not in ("1", "+1", "-1"):
            raise InputError(f"--monotone is {part.strip()!r}; expected NAME=+1 (rising) or NAME=-1 (falling)")
        directions[_feature(name)] = int(way)
    return directions


def _feature(text: str) -> str:
    return f"f{text.strip()}" if text.strip().isdecimal() else text.strip()


def places_of(features: Iterable[Any], names: Sequence[str], parameter: str) -> list[int]:
    """The numbers of the features of :data:`FEATURES` or :data:`DIRECTIONS`, given as a parameter of that name."""
    numbers = {name: at for at, name in enumerate(names)}
    places: list[int] = []
    for feature in features:
        at = numbers.get(feature, -1) if isinstance(feature, str) else int(feature)
        if not 0 <= at < len(names):
            listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
            raise InputError(
                f"{parameter}: there is no feature {feature!r}; expected one of {listed}, or its number from 0"
            )
        if at in places:
            raise InputError(f"{parameter}: the feature {names[at]!r} is given twice")
        places.append(at)
    return places


def integer(minimum: int, maximum: int | None = None) -> Rule:
    until = "" if maximum is None else f" to {maximum}"
    return Rule(
        f"a whole number from {minimum}{until}",
        lambda value: _is_integer(value) and minimum <= value <= (_MAX_INTEGER if maximum is None else maximum),
        int,
        minimum=minimum,
    )


def one_of(*names: str) -> Rule:
    listed = repr(names[0]) if len(names) == 1 else " or ".join(names)
    expected = listed if len(names) <= _FEW else "one of " + ", ".join(names)
    return Rule(expected, lambda value: isinstance(value, str) and value in names, names=names)


def seed_of(random_state: Seed) -> int:
    """The seed that ``random_state`` asks for: a random one for None, one drawn from a RandomState."""
    if random_state is None:
        return int(np.random.default_rng().integers(np.iinfo(np.int32).max))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return int(random_state)


# Parameters as LightGBM and XGBoost call them, for hints in errors.


_NAMES = {
    "n_trees": "n_estimators num_iterations num_iteration num_boost_round num_round num_trees max_iter iterations",
    "max_leaves": "num_leaves max_leaf_nodes max_leaf max_depth",
    "learning_rate": "eta shrinkage_rate shrinkage",
    "min_rows": "min_child_samples min_data_in_leaf min_samples_leaf min_child_weight min_sum_hessian_in_leaf",
    "tree_rows": "subsample bagging_fraction",
    "tree_features": "colsample_bytree feature_fraction",
    "randomize_nodes": "colsample_bynode feature_fraction_bynode",
    "max_bins": "max_bin",
    "patience": "early_stopping_rounds early_stopping_round early_stopping n_iter_no_change",
    "measure": "objective",
    "eval_measure": "metric eval_metric eval_at",
    "truncation": "lambdarank_truncation_level lambdarank_num_pair_per_sample",
    "random_state": "seed random_seed data_random_seed",
    "n_jobs": "num_threads nthread thread_count n_thread",
    "categorical": "categorical_feature categorical_features cat_features enable_categorical",
    "monotone": "monotone_constraints",
    "callback": "callbacks verbose verbosity verbose_eval",
    "background": "init_model xgb_model",
    "sample_weight": "weight",
    "eval_set": "valid_sets evals",
}  # fmt: skip
_OURS = {other: ours for ours, others in _NAMES.items() for other in others.split()}
_MORE = {
    "max_depth": " (trees grow best-first, their depth is not limited)",
    "min_child_weight": " (a number of documents)",
    "min_sum_hessian_in_leaf": " (a number of documents)",
    "objective": " (the class is the method)",
}


def hint(name: str, expected: Iterable[str], elsewhere: Iterable[str] = (), where: str = "") -> str:
    """What a parameter of LightGBM or XGBoost is called here; empty if it has no counterpart among the expected.

    `expected`: those that could be given there. `elsewhere`, `where`: those that could be given at another place, and
    that place, in words.

    Examples
    --------
    >>> hint("num_leaves", ["n_trees", "max_leaves"])
    'num_leaves of LightGBM and XGBoost is max_leaves here'
    """
    ours = _OURS.get(name)
    if ours is None or ours not in {*expected, *elsewhere}:
        return ""
    place = "" if ours in set(expected) else f", {where}"
    return f"{name} of LightGBM and XGBoost is {ours} here{place}{_MORE.get(name, '')}"
