"""How the site reads docstrings: references as code, and defaults from the signature.

A docstring may refer to a name as Sphinx does (:func:`name`). Where it describes two parameters at once, or lists the
values that one can have, griffe takes the first default or value for that of all; the signature knows better.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc|obj):`~?([^`]+)`")


class Docstrings(griffe.Extension):
    """Corrects what griffe has read of a package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when all of a package is read."""
        _correct(pkg)


def _correct(obj: griffe.Object) -> None:
    """Turn references into code, and take defaults from the signatures, here and below."""
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
