"""Ranking measures, one file each. Every module of this folder is loaded and registers what it defines.

Written as ir_measures writes them (`AP`, `nDCG@10`, `P(rel=2)@5`), with lower-case aliases (`map`, `ndcg@10`, `mrr`).
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import pkgutil
import re
from typing import Any

from rankwright.errors import InputError
from rankwright.measures.base import REGISTRY, BinaryMeasure, Measure, Rankings, register
from rankwright.plugins import MEASURES, installed

__all__ = [
    "BinaryMeasure",
    "Measure",
    "Rankings",
    "measure_classes",
    "measure_names",
    "parse_goal",
    "parse_measure",
    "parse_recorded",
    "parse_reported",
    "register",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

_WRITTEN = re.compile(
    r"^\s*(?P<name>[A-Za-z][A-Za-z_-]*?)\s*(?:\((?P<inside>.*)\))?\s*(?:@(?P<cutoff>.*)|[._](?P<trec>\d+(?:\.\d+)?))?\s*$"
)
_COMMA = re.compile(r",(?![^{]*\})")  # not those inside of braces


def measure_classes() -> dict[str, type[Measure]]:
    """All registered measures by class name, exported by ``rankwright``."""
    return {kind.__name__: kind for kind in sorted(set(REGISTRY.values()), key=lambda kind: kind.name.lower())}


def measure_class(name: str) -> type[Measure] | None:
    """The measure of a name, which an installed package may have; None if there is none."""
    if name.lower() not in REGISTRY:
        for offered in installed(MEASURES).values():  # a module has registered its measures when it was loaded
            if isinstance(offered, type) and issubclass(offered, Measure):
                register(offered)
    return REGISTRY.get(name.lower())


def measure_names() -> list[str]:
    return [kind.name for kind in measure_classes().values()]


def parse_measure(text: str | Measure) -> Measure:
    """Turn a name such as ``"nDCG@10"`` into a measure.

    Parameters
    ----------
    text : str
        ``NAME``, ``NAME@cutoff`` or ``NAME(parameter=value, …)@cutoff``. trec_eval's ``ndcg_cut.10`` and ``P_5`` are
        understood too. A measure is returned unchanged.

    Examples
    --------
    >>> print(parse_measure("ndcg@10"), parse_measure("map"), parse_measure("P(rel=2)@5"))
    nDCG@10 AP P(rel=2)@5
    >>> parse_measure("nDCG(gain=linear)@10") == parse_measure("nDCG(dcg='log2')@10")
    True
    """
    if isinstance(text, Measure):
        return text
    match = _WRITTEN.match(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"measure {text!r} is not understood; expected for example nDCG@10 or P(rel=2)@5")
    name, inside, cutoff = match["name"], match["inside"], match["trec"] or match["cutoff"]
    kind = measure_class(name)
    if kind is None:
        keys = difflib.get_close_matches(name.lower(), REGISTRY, n=4, cutoff=0.4)
        near = dict.fromkeys(REGISTRY[key].name for key in keys)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(measure_names())}"
        raise InputError(f"unknown measure {name!r}; {hint}")
    parameters = _parameters(inside or "", text)
    if cutoff is not None:
        parameters[kind.at] = _behind_at(kind, cutoff, text)
    elif kind.at != "cutoff" and kind.at not in parameters:
        raise InputError(f"{kind.name} needs a {kind.at}; write for example {kind()}")
    understood = {field.name for field in dataclasses.fields(kind)} | set(getattr(kind, "shorthands", {}))
    unknown = set(parameters) - understood
    if unknown:
        names = ", ".join(sorted(understood - {"cutoff", kind.at})) or "none"
        raise InputError(f"{kind.name} has no parameter {min(unknown)!r}; its parameters: {names}")
    for shorthand, meanings in getattr(kind, "shorthands", {}).items():
        if shorthand in parameters:
            value = parameters.pop(shorthand)
            if value not in meanings:
                raise InputError(f"{shorthand} of {kind.name} is {value!r}; expected one of {', '.join(meanings)}")
            parameters = {**meanings[value], **parameters}
    return kind(**parameters)


def parse_goal(text: str | Measure) -> Measure:
    """A measure to train for or to choose by; refuses measures that cannot be, or do not rate rankings.

    Examples
    --------
    >>> print(parse_goal("map"))
    AP
    """
    measure = parse_measure(text)
    if measure.evaluates_only:
        raise InputError(f"{measure} cannot be trained for: {measure.evaluates_only}")
    if not measure.is_goal:
        problem = f"{measure} does not say how good a ranking is ({measure.definition()})"
        raise InputError(f"{problem}; expected a measure to train for, such as nDCG@10")
    return measure


def parse_reported(text: str | Measure) -> Measure:
    """A measure for tables that compare models on labelled data: computed from labels alone, a mean over queries.

    Examples
    --------
    >>> print(parse_reported("Bpref"))
    Bpref
    """
    measure = parse_measure(text)
    if measure.needs or not measure.is_mean:
        reason = f"it needs {measure.needs}" if measure.needs else measure.evaluates_only
        raise InputError(f"{measure} cannot be reported here: {reason}")
    return measure


@dataclasses.dataclass(frozen=True)
class _Recorded(Measure):
    """A measure by its name alone, whose values were computed elsewhere."""

    text: str = ""

    def __str__(self) -> str:
        return self.text


def parse_recorded(text: str) -> Measure:
    """The measure of values that are known already: a measure of a user's, whose code is not run, is its name.

    Examples
    --------
    >>> print(parse_recorded("nDCG@10"), parse_recorded("MyMeasure@5"))
    nDCG@10 MyMeasure@5
    """
    match = _WRITTEN.match(text)
    if match is None or measure_class(match["name"]) is not None:
        return parse_measure(text)
    return _Recorded(text=text.strip())


def _behind_at(kind: type[Measure], number: str, text: str) -> float:
    """What follows the @: an integer, or a share for measures without a cutoff there."""
    if kind.at == "cutoff":
        if not number.strip().isdecimal():
            raise InputError(f"the cutoff of {text!r} is {number!r}; expected a whole number from 1")
        return int(number)
    try:
        return float(number)
    except ValueError:
        raise InputError(f"the {kind.at} of {text!r} is {number!r}; expected a number") from None


def _parameters(inside: str, text: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for item in filter(None, (item.strip() for item in _COMMA.split(inside))):
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or not value:
            raise InputError(f"{item!r} in the measure {text!r} is not understood; expected parameter=value")
        try:
            parameters[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            parameters[key] = value  # a bare word, as in gain=linear
    return parameters
