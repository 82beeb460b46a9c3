"""Every registered measure, with several cutoffs and parameters."""

from __future__ import annotations

import dataclasses

import pytest

from rankwright.measures import Measure
from rankwright.measures.base import REGISTRY

# A value besides the default for every parameter that a measure has; a new parameter needs one here.
OTHER_VALUES = {
    "rel": 2, "gain": "linear", "discount": "jk", "max_rel": 6, "p": 0.5, "recall": 0.5, "gains": {1: 1, 2: 5, 3: 7},
}  # fmt: skip


def every_measure(*cutoffs: int, parameters: bool = True) -> list[Measure]:
    """All measures that can be trained for: without a cutoff, with those given, and with other parameters."""
    found = []
    for kind in sorted(set(REGISTRY.values()), key=lambda kind: kind.name):
        if kind.evaluates_only:
            continue
        for cutoff in [None] * (not kind.needs_cutoff) + [*cutoffs] * kind.takes_cutoff:
            plain = kind(cutoff).resolve("letor")
            names = [field.name for field in dataclasses.fields(kind) if field.name != "cutoff"]
            found += [plain, *(dataclasses.replace(plain, **{name: OTHER_VALUES[name]}) for name in names * parameters)]
    return list(dict.fromkeys(found))


def with_every_measure(*cutoffs: int, parameters: bool = True) -> pytest.MarkDecorator:
    """A test once for each."""
    return pytest.mark.parametrize("measure", every_measure(*cutoffs, parameters=parameters), ids=str)
