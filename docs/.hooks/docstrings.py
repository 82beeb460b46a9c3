"""Adjusts docstrings for the site: Sphinx references become code, and defaults come from the signature.

A docstring may refer to a name as Sphinx does (:func:`name`). If it describes two parameters at once, or lists the
values of one, griffe takes the first default or value for all of them; the signature has the correct defaults.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc|obj):`~?([^`]+)`")


class Docstrings(griffe.Extension):
    """Corrects the docstrings that griffe has read from a package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when a package has been read completely."""
        _correct(pkg)


def _correct(obj: griffe.Object) -> None:
    """Turn references into code and take defaults from the signatures, recursively."""
    if obj.docstring is not None:
        obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
    if isinstance(obj, griffe.Function | griffe.Class) and obj.docstring is not None:
        sections = obj.docstring.parse("numpy", warn_unknown_params=False)
        fields = {name: member.value for name, member in obj.members.items() if member.is_attribute}  # of a dataclass
        defaults = fields | {parameter.name: parameter.default for parameter in obj.parameters}
        for section in sections:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for described in section.value:
                    described.value = defaults.get(described.name)
        obj.docstring.__dict__["parsed"] = sections  # a cached property
    for member in obj.members.values():
        if not member.is_alias:
            _correct(member)
