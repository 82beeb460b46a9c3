"""Words: what a text is split into, before any analyser sees them.

A word starts with a letter or a digit and continues with letters, digits and combining marks, in any script; everything
else, including the underscore, separates words. Words are in lower case and composed form (NFC), so that é is the same
word however it was typed. On request, identifiers are split: ``camelCase``, ``HTTPServer`` and ``snake_case`` are two
words each.

This is the definition, used for queries. :mod:`rankwright.text.analysis.tokenizer` does the same for many documents at
once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MARK", "START", "character_classes", "prepared", "split_words"]

Array = npt.NDArray[Any]

MARK, START = 1, 2
_ASCII_WORDS = re.compile("[a-z0-9]+")
_ASCII_JOINTS = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_N_CODES = 0x110000
_MARK_PLANES = (range(0x80, 0x20000), range(0xE0000, 0xF0000))  # Unicode has marks in planes 0, 1 and 14 only


def split_words(text: str, split_identifiers: bool = False) -> list[str]:
    """The words of a text, in order.

    Examples
    --------
    >>> split_words("The HTTPServer's café_au_lait")
    ['the', 'httpserver', 's', 'café', 'au', 'lait']
    >>> split_words("The HTTPServer's café_au_lait", split_identifiers=True)
    ['the', 'http', 'server', 's', 'café', 'au', 'lait']
    """
    if not text.isascii():
        return _words().findall(prepared(text, split_identifiers))
    if split_identifiers:
        text = _ASCII_JOINTS.sub(" ", text)
    return _ASCII_WORDS.findall(text.lower())


def prepared(text: str, split_identifiers: bool) -> str:
    """A non-ASCII text, composed and in lower case, with blanks where identifiers are split."""
    text = unicodedata.normalize("NFC", text)
    if split_identifiers:
        text = _joints().sub(" ", text)
    return text.lower()


@cache
def character_classes() -> Array:
    """For every code point: ``START`` for letters and digits, ``MARK`` for marks, 0 for separators."""
    codes = np.arange(_N_CODES, dtype="<u4")
    codes[0xD800:0xE000] = 0  # surrogates are not characters
    classes = np.zeros(_N_CODES, np.uint8)
    for found in re.finditer(r"[^\W_]+", codes.tobytes().decode("utf-32-le")):
        classes[found.start() : found.end()] = START
    for start, stop in _mark_ranges():
        classes[start:stop] = np.maximum(classes[start:stop], MARK)
    classes.flags.writeable = False
    return classes


@cache
def _mark_ranges() -> list[tuple[int, int]]:
    return _ranges(lambda char: unicodedata.category(char)[0] == "M")


@cache
def _words() -> re.Pattern[str]:
    return re.compile(rf"[^\W_]+(?:[{_as_set(_mark_ranges())}]+[^\W_]*)*")


@cache
def _joints() -> re.Pattern[str]:
    upper = "A-Z" + _as_set(_ranges(str.isupper))
    lower = "a-z" + _as_set(_ranges(str.islower))
    return re.compile(f"(?<=[{lower}0-9])(?=[{upper}])|(?<=[{upper}])(?=[{upper}][{lower}])")


def _ranges(belongs: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Where runs of characters with a property start and stop, without ASCII."""
    found = [code for plane in _MARK_PLANES for code in plane if belongs(chr(code))]
    codes = np.array(found)
    breaks = np.flatnonzero(np.diff(codes) != 1)
    starts, stops = codes[np.r_[0, breaks + 1]], codes[np.r_[breaks, len(codes) - 1]] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _as_set(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"{chr(start)}-{chr(stop - 1)}" for start, stop in ranges)
