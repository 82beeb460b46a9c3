"""Universal Binary JSON, as XGBoost writes it: values with a letter for their type, numbers big-endian.

Arrays of one type become numpy arrays. Every size is checked against the bytes that are left, so that nothing larger
than the file is ever made, and nesting is limited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright.errors import InputError

_DEEPEST = 32
_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_WHOLE = "iUIlL"
_CONSTANTS = {"Z": None, "T": True, "F": False}


def parse_ubjson(content: bytes) -> Any:
    """The value of a file.

    Examples
    --------
    >>> parse_ubjson(b"{i\\x01aSi\\x02hi}")
    {'a': 'hi'}
    """
    reader = _Reader(content)
    value = reader.value(reader.letter(), 0)
    if reader.at != len(content):
        raise reader.error("something follows the value")
    return value


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def error(self, problem: str) -> InputError:
        return InputError(f"is not complete UBJSON ({problem}, byte {self.at:,}); expected the whole model file")

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.content) - self.at:
            raise self.error("it ends too early, or a size is wrong")
        self.at += size
        return self.content[self.at - size : self.at]

    def letter(self) -> str:
        letter = "N"
        while letter == "N":  # no operation
            letter = self.take(1).decode("latin-1")
        return letter

    def size(self) -> int:
        kind = self.letter()
        if kind not in _WHOLE:
            raise self.error(f"the type {kind!r} where a size is expected")
        return int(self.number(kind))

    def number(self, kind: str) -> Any:
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()

    def text(self) -> str:
        try:
            return self.take(self.size()).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error("a text that is not UTF-8") from None

    def value(self, kind: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self.error(f"nested more than {_DEEPEST} levels deep")
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return self.number(kind)
        if kind == "S":
            return self.text()
        if kind == "C":
            return self.take(1).decode("latin-1")
        if kind == "[":
            return self.array(depth + 1)
        if kind == "{":
            return self.object(depth + 1)
        raise self.error(f"the unknown type {kind!r}")

    def optimized(self) -> tuple[str | None, int | None]:
        """The type of all values of a container and their number, where it starts with them."""
        kind = None
        if self.content[self.at : self.at + 1] == b"$":
            self.at += 1
            kind = self.letter()
        if self.content[self.at : self.at + 1] != b"#":
            if kind is not None:
                raise self.error("a type without a number of values")
            return None, None
        self.at += 1
        return kind, self.size()

    def array(self, depth: int) -> Any:
        kind, size = self.optimized()
        if kind is not None and kind in _NUMBERS and size is not None:
            dtype = np.dtype(_NUMBERS[kind])
            if size < 0:
                raise self.error("a size below 0")
            return np.frombuffer(self.take(size * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        values: list[Any] = []
        while size is None or len(values) < size:
            at = self.at
            value_kind = self.letter() if kind is None else kind
            if value_kind == "]" and size is None:
                break
            values.append(self.value(value_kind, depth))
            if self.at == at:
                raise self.error("values without bytes")
        return values

    def object(self, depth: int) -> dict[str, Any]:
        kind, size = self.optimized()
        values: dict[str, Any] = {}
        n = 0
        while size is None or n < size:
            if size is None and self.content[self.at : self.at + 1] == b"}":
                self.at += 1
                break
            key = self.text()
            values[key] = self.value(self.letter() if kind is None else kind, depth)
            n += 1
        return values
