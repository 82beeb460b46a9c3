"""What tables and text are wrapped in: UTF-16, a zip archive with one file in it, an Excel workbook with one sheet.

Each becomes a temporary file of UTF-8 text (a sheet becomes CSV, its rows on the lines of their numbers), so that every
reader takes it. What cannot be read is named for what it is. Nothing that is read runs code.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import IO, Any

from rankwright.errors import InputError

PACKED_LEAST, PACKED_MOST = 1 << 24, 100
"""A packed file may unpack to this many bytes plus this many times its size."""

_PIECE = 1 << 20
_HEAD = 16
_DEEPEST = 2  # a zip archive may hold UTF-16 or a workbook
_GZIP, _ZIP, _EMPTY_ZIP = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06"
_UNICODE = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_UNICODE |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # after its longer cousins
_WORKBOOKS = ("xl/workbook.xml", "xl/workbook.bin")
_CONTAINER = "model.json"  # in the zip archives that are Rankwright's own
_BESIDE = ("__MACOSX/", ".DS_Store", "Thumbs.db")
_TABLE = "write CSV or Parquet from it"
_OTHERS = {
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Excel file (.xls of Excel 97) or another old Office file; "
    "save it as CSV or .xlsx",
    rb"\x80[\x02-\x05]": f"a Python pickle, which is not read, as it can run code; {_TABLE}",
    rb"\x89HDF\r\n\x1a\n": f"an HDF5 file; {_TABLE}",
    rb"\x93NUMPY": f"a NumPy array (.npy); give it to rankwright in Python, or {_TABLE}",
    rb"RD[AX][23]\n|[AX]\n\0\0\0[\x02\x03]": f"R data; {_TABLE}",
    rb"ARROW1\0|FEA1": "an Arrow or Feather file; write Parquet from it",
    rb"ORC[^\x20-\x7e]": "an ORC file; write Parquet from it",
    rb"Obj\x01": f"an Avro file; {_TABLE}",
    rb"SQLite format 3\0": f"an SQLite database; {_TABLE}",
    rb"\$FL[23]@": f"an SPSS file; {_TABLE}",
    rb"<stata_dta>": f"a Stata file; {_TABLE}",
    rb"%PDF-": "a PDF document; expected text or a table",
    rb"BZh[1-9]1AY|\xfd7zXZ\0|\(\xb5/\xfd|7z\xbc\xaf'\x1c|Rar!\x1a\x07": "packed in another way than gzip or zip; "
    "unpack it first",
}
"""What files that cannot be read start with, and what they are."""


@contextmanager
def unwrapped(raw: IO[bytes], path: str | Path, depth: int = 0) -> Iterator[IO[bytes]]:
    """The text in a file that is wrapped, as an open file; any other file unchanged, from its start."""
    raw.seek(0)
    head = _head(raw)
    raw.seek(0)
    for pattern, kind in _OTHERS.items():
        if re.match(pattern, head):
            raise InputError(f"is {kind}", path)
    encoding = next((name for mark, name in _UNICODE.items() if head.startswith(mark) and b"\0" in head[4:]), None)
    write: Callable[[IO[bytes], IO[bytes]], None] | None = None
    if encoding is not None:
        write = _Transcoder(path, encoding)
    elif head.startswith((_ZIP, _EMPTY_ZIP)):
        write = _of_archive(raw, path)
    if write is None or depth > _DEEPEST:
        yield raw
        return
    with tempfile.TemporaryFile() as text:
        write(raw, text)
        with unwrapped(text, path, depth + 1) as inner:
            yield inner


def _head(raw: IO[bytes]) -> bytes:
    """The first bytes, unpacked; those of a damaged gzip file are for its reader to report."""
    head = raw.read(_HEAD)
    if not head.startswith(_GZIP):
        return head
    raw.seek(0)
    try:
        return gzip.GzipFile(fileobj=raw).read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return b""


def _copy(source: Any, target: IO[bytes], path: str | Path, size: int, change: Callable[[bytes], bytes]) -> None:
    """Copy what ``size`` bytes unpack to, piece by piece."""
    done = 0
    while piece := source.read(_PIECE):
        done += len(piece)
        _check_size(done, size, path)
        target.write(change(piece))


def _check_size(done: int, size: int, path: str | Path) -> None:
    if done > PACKED_LEAST + PACKED_MOST * size:
        raise InputError(
            f"unpacks to more than {PACKED_MOST} times its size; expected text, or the unpacked file", path
        )


class _Transcoder:
    """Writes UTF-16 or UTF-32, plain or gzip, as UTF-8."""

    def __init__(self, path: str | Path, encoding: str) -> None:
        self._path, self._encoding = path, encoding

    def __call__(self, raw: IO[bytes], text: IO[bytes]) -> None:
        packed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        decoder = codecs.getincrementaldecoder(self._encoding)()
        try:
            source = gzip.GzipFile(fileobj=raw) if packed else raw
            _copy(source, text, self._path, _size(raw), lambda piece: decoder.decode(piece).encode())
            text.write(decoder.decode(b"", final=True).encode())
        except UnicodeError as error:
            name = self._encoding.upper()
            raise InputError(f"starts as {name} and is not {name} throughout ({error})", self._path) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = f"damaged or truncated gzip file ({str(error).rstrip('.')}); expected a complete one"
            raise InputError(problem, self._path) from None


def _size(raw: IO[bytes]) -> int:
    return os.fstat(raw.fileno()).st_size


def _of_archive(raw: IO[bytes], path: str | Path) -> Callable[[IO[bytes], IO[bytes]], None] | None:
    """How to take the text out of a zip archive; None for a model, or what may be one that is damaged."""
    try:
        with zipfile.ZipFile(raw) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raw.seek(0)
        start = raw.read(1 << 8)
        if _CONTAINER.encode() in start or len(start) < 1 << 6:
            return None
        raise InputError(f"is a damaged or incomplete zip archive ({error})", path) from None
    names = [entry.filename for entry in entries]
    if _CONTAINER in names:
        return None
    _check_size(sum(entry.file_size for entry in entries), _size(raw), path)
    if any(name in names for name in _WORKBOOKS):
        return lambda raw, text: _write_sheet(raw, text, path)
    if any(name.startswith("word/") for name in names) or "mimetype" in names:
        raise InputError("is an Office document; expected text or a table: save it as CSV or .xlsx", path)
    files = [entry for entry in entries if not any(part in entry.filename for part in _BESIDE)]
    if files and all(entry.filename.endswith(".npy") for entry in files):
        raise InputError(f"is a NumPy archive (.npz); give its arrays to rankwright in Python, or {_TABLE}", path)
    if len(files) != 1:
        listed = ", ".join(entry.filename for entry in files[:3]) + (", …" if len(files) > 3 else "")
        what = f"{len(files):,} files ({listed})" if files else "no file"
        raise InputError(f"is a zip archive with {what} in it; expected one file, or unpack it first", path)
    return lambda raw, text: _write_entry(raw, text, path, files[0])


def _write_entry(raw: IO[bytes], text: IO[bytes], path: str | Path, entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & 1:
        raise InputError("is a zip archive with a password; unpack it first", path)
    try:
        with zipfile.ZipFile(raw) as archive, archive.open(entry) as packed:
            _copy(packed, text, path, _size(raw), bytes)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, OSError) as error:
        raise InputError(f"is a damaged zip archive, or packed in an unusual way ({error})", path) from None


def _write_sheet(raw: IO[bytes], text: IO[bytes], path: str | Path) -> None:
    """Write the one sheet of a workbook that has rows, as CSV; needs python-calamine."""
    try:
        import python_calamine
    except ImportError:
        how = "save it as CSV, or install rankwright[excel]: pip install 'rankwright[excel]'"
        raise InputError(f"is an Excel file, which needs python-calamine; {how}", path) from None
    raw.seek(0)
    try:
        workbook = python_calamine.CalamineWorkbook.from_filelike(raw)
        sheets = {name: workbook.get_sheet_by_name(name) for name in workbook.sheet_names}
        rows = {name: sheet.to_python() for name, sheet in sheets.items()}
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"is an Excel file that cannot be read ({reason}); save it as CSV", path) from None
    filled = [name for name in rows if rows[name]]
    if len(filled) != 1:
        what = f"{len(filled):,} sheets with rows ({', '.join(map(repr, filled[:5]))})" if filled else "no rows"
        raise InputError(f"is an Excel file with {what}; expected one sheet, or save the one you mean as CSV", path)
    name = filled[0]
    out = io.TextIOWrapper(text, encoding="utf-8", errors="replace", newline="")
    out.write("\n" * (sheets[name].start or (0, 0))[0])  # blank rows above the table
    header, *others = rows[name]
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow(map(_cell, header))  # commas alone separate
    csv.writer(out, lineterminator="\n").writerows(map(_cell, row) for row in others)
    out.detach()


def _cell(value: Any) -> str:
    """A value of a sheet as text; dates as ISO 8601 has them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return value.isoformat() if isinstance(value, date | time) else str(value)
