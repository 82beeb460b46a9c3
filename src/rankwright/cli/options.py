"""Options that several commands share, and the options of `rankwright train` as settings of a method."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rankwright.cli.whole import Whole
from rankwright.errors import InputError
from rankwright.rankers.other_names import hint
from rankwright.training.methods import METHODS, Method

__all__ = [
    "FILE",
    "MISSING_AS_ZERO",
    "assigned",
    "device_option",
    "missing_option",
    "numbers",
    "positive",
    "seed_option",
    "settings_of",
    "threads_option",
    "whole_numbers",
]

FILE = click.Path(path_type=Path)
MISSING_AS_ZERO = "--missing-as-zero"
_NOT_SET = (
    "C",
    "C_grid",
    "background",
    "bins",
    "callback",
    "cv",
    "device",
    "eval_measure",
    "losses",
    "n_jobs",
    "random_state",
    "warm_start",
)


def seed_option(function: Any) -> Any:
    """``--seed``, of commands that draw something."""
    return click.option("--seed", type=Whole(0), default=0, show_default=True, help="Random seed.")(function)


def missing_option(function: Any) -> Any:
    """``--missing-as-zero``, of commands that apply a model to feature data."""
    what = "Take features of the model that the data lacks as 0, which text leaves out; otherwise an error."
    return click.option(MISSING_AS_ZERO, "missing_as_zero", is_flag=True, help=what)(function)


def threads_option(default: int = 1) -> Any:
    """``--threads``, of commands whose result does not depend on it."""
    what = "Number of threads; the result does not depend on it."
    return click.option("--threads", type=Whole(1), default=default, show_default=True, help=what)


def device_option(function: Any) -> Any:
    """``--device``, of commands that can use a GPU."""
    what = "cuda: compute on an NVIDIA GPU, with pip install 'rankwright[gpu]'.  [default: cpu]"
    return click.option("--device", type=click.Choice(["cpu", "cuda"]), help=what)(function)


def positive(text: str, option: str, expected: str) -> float:
    """A number above 0, as the user typed it."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f"{option} is {text.strip()!r}; expected {expected}")
    return value


def numbers(_: click.Context, param: click.Parameter, text: str | None) -> list[float] | None:
    """Callback of an option that takes numbers above 0, separated by commas."""
    if text is None:
        return None
    return [positive(part, param.opts[0], "numbers above 0, separated by commas") for part in text.split(",")]


def whole_numbers(_: click.Context, param: click.Parameter, text: str) -> list[int]:
    """Callback of an option that takes whole numbers from 1, separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
        raise InputError(f"{param.opts[0]} is {text!r}; expected whole numbers, separated by commas")
    return [int(part) for part in parts]


def settings_of(method: Method, options: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The settings that options and ``--set`` give a method; an option the method does not have is an error.

    Parameters
    ----------
    options : mapping
        By name of the parameter; None if not given.
    settings : sequence of str
        ``NAME=VALUE``.
    """
    known = method.defaults()
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            suited = ", ".join(other.name for other in METHODS.values() if name in other.defaults())
            raise InputError(f"{_option(name)} does not go with the method {method.name}; it is for {suited}")
    for name, read in _READ.items():
        if name in given:
            given[name] = read(given[name])
    if "losses" in known:
        if len(given.get("losses", known["losses"])) < 2:
            raise InputError(
                f"{method.name} needs at least two losses; expected --losses with them, such as map,mrr@10"
            )
        if "feature_map" in given:
            maps = [part.strip() for part in given["feature_map"].split(",")]
            given["feature_map"] = [None if part in ("", "-") else part for part in maps]
    return given | assigned(settings, [name for name in known if name not in _NOT_SET])


_READ = {
    "losses": lambda text: [part.strip() for part in text.split(",") if part.strip()],
    "rank_weights": lambda text: None if text == "none" else text,
    "query_weights": lambda text: text == "pairs",
    "categorical": lambda text: [_feature(part) for part in text.split(",") if part.strip()],
    "monotone": lambda text: dict(_direction(part) for part in text.split(",") if part.strip()),
}


def _feature(text: str) -> str:
    """A feature by its name, or of LETOR text without names by its number, from 1."""
    return f"f{text.strip()}" if text.strip().isdecimal() else text.strip()


def _direction(text: str) -> tuple[str, int]:
    name, equals, way = text.rpartition("=")
    if not equals or way.strip() not in ("1", "+1", "-1"):
        raise InputError(f"--monotone is {text.strip()!r}; expected NAME=+1 (rising) or NAME=-1 (falling)")
    return _feature(name), int(way)


def _option(parameter: str) -> str:
    """The option of a parameter, as the command names it."""
    command = click.get_current_context().command
    return next(param.opts[0] for param in command.params if param.name == parameter)


def assigned(settings: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` settings; a value is a Python number, True, False or None, otherwise text."""
    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            told = hint(name, known) if equals else ""
            expected = told or f"expected NAME=VALUE with one of {', '.join(sorted(known))}"
            raise InputError(f"--set is {setting!r}; {expected}")
        try:
            values[name] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            values[name] = text.strip()
    return values
