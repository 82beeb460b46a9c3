"""JSON from files: values, objects on lines, arrays of objects; errors name the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rankwright.errors import InputError, shown

_DEEPEST = 50


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, nested no deeper than anything needs: whoever looks at it may recurse.

    Raises
    ------
    ValueError
        If it is not JSON in UTF-8, or nested too deeply; with the reason.
    """
    try:
        value = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not is_shallow(value):
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    return value


def is_shallow(value: Any) -> bool:
    """Whether lists and objects are nested at most 50 levels deep.

    Examples
    --------
    >>> is_shallow({"a": [1, [2]]})
    True
    """
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for outer in level
            if isinstance(outer, list | dict)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False


def json_value(text: str, path: str | Path, line: int | None, expected: str) -> Any:
    """Return the value of a JSON text, or say why it is not one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg} at column {error.colno}"
            line = error.lineno if line is None else line
        raise InputError(f"invalid JSON ({reason}); expected {expected}", path, line) from None


def json_object(text: str, path: str | Path, line: int) -> dict[str, Any]:
    """Return the object on a line."""
    value = json_value(text, path, line, "one object per line")
    if not isinstance(value, dict):
        raise InputError("a JSON value that is not an object; expected one object per line", path, line)
    return value


def json_array(text: str, path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Iterate over the objects of an array, numbered from 1."""
    values = json_value(text, path, None, "an array of objects")
    if not isinstance(values, list):
        raise InputError(f"a JSON {type(values).__name__}; expected an array of objects", path)
    for number, item in enumerate(values, 1):
        if not isinstance(item, dict):
            raise InputError(f"item {number:,} of the array is {shown(item)}; expected an object", path)
        yield number, item
