"""What reading a model file gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Imported"]


@dataclass(frozen=True)
class Imported:
    """A model, and what is to be said about it.

    Attributes
    ----------
    model : Model
        The model.
    facts : dict
        What the file says of its training.
    notices : tuple of str
        What the user should know: what was left out, and whether it matters.
    """

    model: Any
    facts: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
