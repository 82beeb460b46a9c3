"""Errors written for users: what was wrong, where, and what was expected."""

from __future__ import annotations

from pathlib import Path

__all__ = ["InputError", "InputWarning"]


class InputError(ValueError):
    """Raised for unusable input, with a one-line message: ``file:line: what was wrong; what was expected``.

    Parameters
    ----------
    message : str
        What was wrong and what was expected.
    path : path, optional
        The file.
    line : int, optional
        The line in the file, counted from 1.
    """

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None) -> None:
        self.message = message
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message)


def shown(value: object, most: int = 60) -> str:
    """A value for a message: its repr, cut to ``most`` characters; huge or deeply nested ones are not written out.

    Examples
    --------
    >>> shown("a\\tb"), shown([1, 2]), shown("x" * 100, 10)
    ("'a\\\\tb'", '[1, 2]', "'xxxxxxxx…")
    """
    try:
        text = repr(value[: most + 1] if isinstance(value, str | bytes) else value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= most else text[: most - 1] + "…"


class InputWarning(UserWarning):
    """Issued for usable input that has something the user should know about."""
