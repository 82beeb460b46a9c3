"""Adjusts docstrings for the site: Sphinx references become code, and signatures and defaults are the real ones.

A docstring may refer to a name as Sphinx does (:func:`name`). If it describes two parameters at once, or lists the
values of one, griffe takes the first default or value for all of them; the signature has the correct defaults. The
signature of an estimator is made from its fields, inherited ones included, so it is read from the class itself.
"""

from __future__ import annotations

import importlib
import inspect
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
    if isinstance(obj, griffe.Class) and any("dataclass" in str(decorator.value) for decorator in obj.decorators):
        obj.set_member("__init__", _constructor(obj))
    if isinstance(obj, griffe.Function | griffe.Class) and obj.docstring is not None:
        sections = obj.docstring.parse("numpy", warn_unknown_params=False)
        defaults = {parameter.name: parameter.default for parameter in obj.parameters}
        for section in sections:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for described in section.value:
                    described.value = defaults.get(described.name)
        obj.docstring.__dict__["parsed"] = sections  # a cached property
    for member in obj.members.values():
        if not member.is_alias:
            _correct(member)


def _constructor(obj: griffe.Class) -> griffe.Function:
    """The constructor of a dataclass, with the defaults that it really has."""
    found = getattr(importlib.import_module(obj.module.path), obj.name)
    parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
    for parameter in inspect.signature(found).parameters.values():
        given = parameter.default is not inspect.Parameter.empty
        kind = griffe.ParameterKind[parameter.kind.name.lower()]
        default = repr(parameter.default) if given else None
        parameters.append(
            griffe.Parameter(parameter.name, annotation=str(parameter.annotation), kind=kind, default=default)
        )
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
