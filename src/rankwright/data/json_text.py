"""JSON from files: nested no deeper than anything needs, so that whoever looks at the values may recurse."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["is_shallow", "parse_json"]

_DEEPEST = 50


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises
    ------
    ValueError
        If it is not JSON in UTF-8, or nested too deeply; with the reason.
    """
    try:
        found = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not is_shallow(found):
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    return found


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
            for one in level
            if isinstance(one, list | dict)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False
