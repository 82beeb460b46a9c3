"""One ``[[method]]`` entry with a method ``adapt:…``: whether there is such a way, and a background to adapt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.experiments.config import ADAPT
from rankwright.experiments.problems import Problems
from rankwright.experiments.toml_lines import Place

__all__ = ["adapt_names", "check_adapt"]

_TREES = ("lambdamart", "auto")  # what grows trees
_WITH_DATA = ("augment", "interpolate-3")  # what takes neighbours
_PARAMETERS = {"leaves": "a whole number from 2", "randomize_nodes": "true or false"}


def adapt_names() -> list[str]:
    """The ways to adapt, and auto, as methods of an experiment."""
    from rankwright.adaptation.choice import METHODS

    return [ADAPT + name for name in (*METHODS, "auto")]


def check_adapt(
    problems: Problems, found: Mapping[str, Any], place: Place, validated: bool, data: Sequence[Any]
) -> None:
    """Note what is wrong with an entry.

    Parameters
    ----------
    found : dict
        Its keys.
    validated : bool
        Whether there are validation queries everywhere.
    data : sequence of dict
        The entries [[data]] as they stand in the file.
    """
    text = found["method"]
    name = text.removeprefix(ADAPT)
    here = (*place, "method")
    if not problems.choice(text, here, adapt_names(), "method"):
        return
    for key in ("grid", "random"):
        if key in found:
            problems.add((*place, key), f"{key} does not go with {text}; it chooses on validation queries by itself")
    parameters = found.get("parameters", {})
    if name in _TREES:
        problems.table(parameters, (*place, "parameters"), _PARAMETERS, f"the parameters of {text}")
    else:
        for key in parameters:
            problems.add((*place, "parameters", key), f"{text} has no parameter {key!r}; it has none at all")
    if not validated:
        problems.add(here, f"{text} chooses on validation queries, and not all data have some")
    for entry in (entry for entry in data if isinstance(entry, dict)):
        background, called = entry.get("background"), entry.get("name", "[[data]]")
        if background is None:
            problems.add(here, f"{text} adapts a background ranker, and {called} has none; expected [data.background]")
        elif name in _WITH_DATA and isinstance(background, dict) and "features" not in background:
            what = f"{text} takes neighbours from the background data, and the background of {called} has no features"
            problems.add(here, f"{what}; expected some")
