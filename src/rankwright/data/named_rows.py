"""Rows with named values from any file that people keep them in: tables in text, JSON lines or arrays, Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rankwright.data.delimited import BOM, open_table, utf8_lines
from rankwright.data.files import OpenFile, Progress
from rankwright.data.frames import import_library
from rankwright.errors import InputError, shown

__all__ = [
    "NamedRow",
    "json_array",
    "json_object",
    "json_value",
    "named_rows",
    "parquet_numbers",
    "parquet_rows",
    "start_of",
]

NamedRow = tuple[int | None, dict[str, Any]]
"""A line (of an array or a table, the number of the row), from 1, and values by name."""

PARQUET = b"PAR1"
_LOOK_BYTES = 1 << 16
_BATCH_ROWS = 1 << 12


def start_of(file: OpenFile) -> bytes:
    """The first uncompressed bytes of a text file, without a byte order mark and blanks."""
    found = b""
    for chunk in file.chunks(size=_LOOK_BYTES):  # a chunk may be no more than the blank lines before a last one
        found = (found + chunk).removeprefix(BOM.encode()).lstrip()
        if found:
            break
    return found


def named_rows(file: OpenFile, progress: Progress | None = None) -> Iterator[NamedRow]:
    """Read the rows of a file whose first bytes tell its format; a table in text has a header line."""
    if file.start(4) == PARQUET:
        yield from parquet_rows(file, progress)
        return
    start = start_of(file)
    if start.startswith(b"["):
        yield from json_array("\n".join(text for _, text in utf8_lines(file, progress)), file.path)
    elif start.startswith(b"{"):
        for line, text in utf8_lines(file, progress):
            if text.strip():
                yield line, json_object(text, file.path, line)
    else:
        table = open_table(utf8_lines(file, progress), file.path)
        yield from table.named()


def json_value(text: str, path: str | Path, line: int | None, expected: str) -> Any:
    """The value of a JSON text, or why it is not one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg} at column {error.colno}"
            line = error.lineno if line is None else line
        raise InputError(f"invalid JSON ({reason}); expected {expected}", path, line) from None


def json_object(text: str, path: str | Path, line: int) -> dict[str, Any]:
    """The object on a line."""
    found = json_value(text, path, line, "one object per line")
    if not isinstance(found, dict):
        raise InputError("a JSON value that is not an object; expected one object per line", path, line)
    return found


def json_array(text: str, path: str | Path) -> Iterator[NamedRow]:
    """The objects of an array, numbered from 1."""
    found = json_value(text, path, None, "an array of objects")
    if not isinstance(found, list):
        raise InputError(f"a JSON {type(found).__name__}; expected an array of objects", path)
    for number, item in enumerate(found, 1):
        if not isinstance(item, dict):
            raise InputError(f"item {number:,} of the array is {shown(item)}; expected an object", path)
        yield number, item


def parquet_numbers(file: OpenFile) -> dict[str, bool]:
    """The columns of a Parquet file, and whether they hold numbers or categories rather than text."""
    types = import_library("pyarrow").types
    with _parquet(file) as table:
        return {
            column.name: not (types.is_string(column.type) or types.is_large_string(column.type))
            for column in table.schema_arrow
        }


def parquet_rows(file: OpenFile, progress: Progress | None = None) -> Iterator[NamedRow]:
    """The rows of a Parquet file, numbered from 1; needs pyarrow."""
    arrow = import_library("pyarrow")
    with _parquet(file) as table:
        done, total = 0, table.metadata.num_rows
        try:
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                yield from enumerate(batch.to_pylist(), done + 1)
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _incomplete(error, file) from None


def _parquet(file: OpenFile) -> Any:
    arrow, parquet = import_library("pyarrow"), import_library("pyarrow.parquet")
    file.raw.seek(0)
    try:
        return parquet.ParquetFile(file.raw, pre_buffer=False)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _incomplete(error, file) from None


def _incomplete(error: Exception, file: OpenFile) -> InputError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return InputError(f"not a complete parquet file ({reason})", file.path)
