"""Formats: detected by content when reading, chosen by suffix when writing."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse as sp
from rankwright.data.catalogue import is_catalogued
from rankwright.data.categories import check_holds
from rankwright.data.csv_features import read_csv
from rankwright.data.dataset import RankingData
from rankwright.data.delimited import BOM, header_cells, is_number, open_table
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.folder import HEADER, load_folder, save_folder
from rankwright.data.judgements import beir_qrels
from rankwright.data.named_rows import PARQUET, parquet_numbers
from rankwright.data.partition import is_parts
from rankwright.data.pieces import pieces_of
from rankwright.data.roles import Columns
from rankwright.data.table_kinds import TableKind, columns_of_numbers, table_kind
from rankwright.errors import InputError, shown

__all__ = ["FEATURE_FORMATS", "Detected", "check_suffix", "detect", "detected", "read_data", "suffix_of", "write_data"]

FEATURE_FORMATS = ("letor", "csv", "parquet", "folder", "folders", "parts")
_WITHOUT = {"qrels": "judgements", "run": "a TREC run", "scores": "one score per line", "model": "a model"}
_TEXT_SUFFIXES = (".txt", ".letor", ".svm", ".dat", ".libsvm", ".qrels")
_BINARY_SUFFIXES = (".parquet", ".rank")
_SHOWN = 8  # columns in a message
_JSON = re.compile(r'\{|\[\s*(?:[\[{\]"]|$)')  # other files have [words], too
_ZIP = b"PK\x03\x04"
_MODEL_HEADER = b"model.json"
_LOOK_START = 30 + len(_MODEL_HEADER)
_LOOK_LINES = 1000
_LOOK_BYTES = 1 << 18
_OTHER_MODELS = (b"tree\n", b"##", b"SVM-light", b"solver_type", b'{"learner"')
_UNDERSTOOD = (
    "LETOR lines (label qid:1 1:0.5 ...), TREC qrels (4 columns) or runs (6 columns), "
    "one score per line, CSV with a header line, Parquet, or a Rankwright data folder"
)
_TABLE = (
    "expected a header with columns for queries (qid, query), labels (label, rating, grade), and features or documents"
    "; --columns names others"
)


def detect(path: str | Path) -> str:
    """Detect the format of a file or folder from its content, whatever its name.

    Returns
    -------
    str
        ``"letor"``, ``"csv"``, ``"qrels"``, ``"run"``, ``"scores"``, ``"parquet"`` (also a folder of such files),
        ``"folder"``, ``"folders"`` (a folder of them), ``"parts"`` or ``"model"``; text may be gzip. Judgements are
        ``"qrels"`` in all their forms.

    Examples
    --------
    >>> detect("MQ2008/Fold1/train.txt")  # doctest: +SKIP
    'letor'
    """
    with detected(path) as found:
        return found.kind


@dataclass(frozen=True)
class Detected:
    """A file or folder whose format is known.

    Attributes
    ----------
    kind : str
        As :func:`detect` returns it.
    source : path or open file
        The open file, or the folder.
    path : path
        Its name, for messages.
    doubt : str
        Of a table that could be features or judgements: what it is taken for, and how to say otherwise.
    """

    kind: str
    source: Source
    path: str | Path
    doubt: str = ""


@contextmanager
def detected(path: str | Path | Detected, columns: Columns | None = None) -> Iterator[Detected]:
    """Detect a format and keep the file open for the block, to be read from the same handle.

    Parameters
    ----------
    path : path
        A file or folder.
    columns : mapping, optional
        Columns of a table by role, where their names do not tell.
    """
    if isinstance(path, Detected):
        yield path
        return
    if is_catalogued(path):
        yield Detected("qrels", path, path)
        return
    if Path(path).is_dir():
        if (Path(path) / HEADER).is_file():
            yield Detected("folder", path, path)
            return
        if is_parts(path):
            yield Detected("parts", path, path)
            return
        judged = beir_qrels(Path(path))
        if judged is None:
            yield Detected(_kind_of_pieces(Path(path)), path, path)
            return
        path = judged
    with open_file(path) as file:
        found = _kind_of(file, columns)
        yield Detected(found.kind, file, path, found.doubt)


def _kind_of_pieces(folder: Path) -> str:
    pieces = pieces_of(folder)
    if not pieces:
        what = f"is a folder without {HEADER}; expected a file, a Rankwright data folder, or a folder of Parquet files"
        raise InputError(f"{what} or data folders and nothing else", folder)
    return "parquet" if pieces[0].kind == "parquet" else "folders"


def _kind_of(file: OpenFile, columns: Columns | None) -> TableKind:
    start = file.start(_LOOK_START)
    if start.startswith(PARQUET):
        return _kind_of_parquet(file, columns)
    if start.startswith(_ZIP) and start.endswith(_MODEL_HEADER):  # the name of the first entry is at byte 30
        return TableKind("model")
    return _detect_text(file, columns)


def _kind_of_parquet(file: OpenFile, columns: Columns | None) -> TableKind:
    """Features, unless its columns are those of judgements; without pyarrow it is not known."""
    try:
        names = parquet_numbers(file)
    except InputError:  # reading it will tell
        return TableKind("parquet")
    found = table_kind(list(names), [name for name, is_number in names.items() if is_number], columns=columns)
    return found if found is not None and found.kind == "qrels" else TableKind("parquet")


def _detect_text(file: OpenFile, columns: Columns | None) -> TableKind:
    """The first line that is not a lone number decides: a LETOR line may be nothing but its label."""
    chunk = b"".join(islice(file.chunks(size=_LOOK_BYTES), 2)).removeprefix(BOM.encode())  # also an only, last line
    path = file.path
    if b"\0" in chunk:
        raise InputError(f"is not a text file; expected {_UNDERSTOOD}", path)
    found = None
    lines = chunk.split(b"\n", _LOOK_LINES)[:_LOOK_LINES]
    for number, line in enumerate(lines, 1):
        words = line.decode("utf-8", "replace").split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 1 and is_number(words[0]):
            found = "scores"
            continue
        kind = _kind_of_line(words)
        if kind is None and chunk.startswith(_OTHER_MODELS):
            hint = "; models of other libraries: `rankwright import`"
            raise InputError(f"a line of an unknown format; expected {_UNDERSTOOD}{hint}", path, number)
        return _kind_of_table(lines, columns, path, number) if kind is None else TableKind(kind)
    if found is None:
        raise InputError(f"is empty; expected {_UNDERSTOOD}", path)
    return TableKind(found)


def _kind_of_line(words: list[str]) -> str | None:
    if is_number(words[0]) and len(words) > 1:
        key, colon, value = words[1].partition(":")
        if words[1].startswith("#") or (colon and (key == "qid" or (key.isdigit() and is_number(value)))):
            return "letor"
    if len(words) == 4 and is_number(words[3]):
        return "qrels"
    if len(words) == 6 and is_number(words[3]) and is_number(words[4]):
        return "run"
    return None


def _kind_of_table(lines: list[bytes], columns: Columns | None, path: str | Path, number: int) -> TableKind:
    """The kind of a table, by the names of its columns and its first rows; JSON can only be judgements."""
    text = lines[number - 1].decode("utf-8", "replace").strip()
    if _JSON.match(text):
        return TableKind("qrels")
    names = header_cells(text)
    if len(names) < 2:
        raise InputError(f"a line of an unknown format, {shown(text, 40)}; expected {_UNDERSTOOD}", path, number)
    try:
        kind = table_kind(names, *columns_of_numbers(names, _first_rows(lines[number - 1 :])), columns)
        if kind is not None:
            return kind
    except InputError as error:
        raise InputError(error.message, path, number) from None
    found = ", ".join(repr(name[:40]) for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    raise InputError(f"has the columns {found}; {_TABLE}", path, number)


def _first_rows(lines: list[bytes]) -> Iterator[list[str]]:
    """The rows below a header, up to one that is damaged or cut: reading will tell."""
    try:
        for _, cells in open_table(enumerate(line.decode("utf-8", "replace") for line in lines), "").rows:
            yield cells
    except InputError:
        return


def read_data(
    path: str | Path | Detected,
    *,
    dtype: npt.DTypeLike | None = None,
    group: Any = None,
    sparse: bool | None = None,
    negative: Literal["error", "zero"] = "error",
    columns: Columns | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    """Read feature data: LETOR text or CSV (gzip too), Parquet, a Rankwright data folder, or a folder of parts.

    Parameters
    ----------
    path : path
        The file or folder; its format is detected from its content. Of a folder of parts the features stay where they
        are, as :func:`rankwright.open_parts` leaves them.
    dtype : float32 or float64, optional
        The type of the features; by default LETOR text and CSV become float32, Parquet and folders keep their type.
    group : path or array-like, optional
        For LETOR text without ``qid:``: documents per query, as :func:`rankwright.read_letor` takes them.
    sparse : bool, optional
        Sparse or dense features; by default text becomes whichever is smaller, other formats stay unchanged.
    negative : {"error", "zero"}
        Whether a label below 0 is an error or becomes 0.
    columns : mapping, optional
        For CSV: columns by role (``qid``, ``label``, ``docid``, ``feature``, ``skip``, ``categorical``), where their
        names do not tell, see :func:`rankwright.data.csv_features.read_csv`.
    n_jobs : int, optional
        Threads to read text with; default 1, -1 for all cores. The data does not depend on it.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> read_data("mq2008/S1.txt.gz")  # doctest: +SKIP
    RankingData(156 queries, 2874 documents, 46 dense float32 features)
    """
    if negative not in ("error", "zero"):
        raise InputError(f"negative is {negative!r}; expected 'error' or 'zero'")
    with detected(path, columns) as found:
        if found.kind not in FEATURE_FORMATS:
            what = f"contains {_WITHOUT[found.kind]}, not features"
            hint = f"; {found.doubt}" if found.doubt else ""
            raise InputError(f"{what}; expected LETOR lines, CSV, Parquet or a data folder{hint}", found.path)
        if columns is not None and found.kind != "csv":
            raise InputError("is not CSV; expected a table in text for the columns that are named", found.path)
        if found.kind == "letor":
            from rankwright.data.letor import read_letor

            wanted = np.float32 if dtype is None else dtype
            options: dict[str, Any] = {"sparse": sparse, "negative": negative, "progress": progress, "n_jobs": n_jobs}
            return read_letor(found.source, group=group, dtype=wanted, **options)
        if group is not None:
            raise InputError("group sizes are for LETOR text without qid; this data has query ids", found.path)
        if found.kind == "csv":
            data = read_csv(found.source, columns=columns, dtype=dtype, negative=negative, progress=progress)
        elif found.kind == "parquet":
            from rankwright.data.parquet_read import read_parquet

            data = read_parquet(found.source, dtype=dtype, negative=negative, progress=progress)
        elif found.kind == "parts":
            if dtype is not None or sparse is not None:
                raise InputError("has features in parts, of one type and form; expected no others", found.path)
            # By name: engines are a layer above data.
            data = importlib.import_module("rankwright.engines.opening").open_parts(found.path)
        elif found.kind == "folders":
            data = RankingData.concatenate([load_folder(piece.path) for piece in pieces_of(found.path)])
        else:
            data = load_folder(found.path)
    return _as_asked(data, dtype, sparse)


def _as_asked(data: RankingData, dtype: npt.DTypeLike | None, sparse: bool | None) -> RankingData:
    X = data.X
    if sparse is not None and sparse != data.is_sparse:
        X = sp.csr_array(X) if sparse else X.toarray()
    if dtype is not None and X.dtype != dtype:
        check_holds(data, dtype)
        with np.errstate(over="ignore"):  # what does not fit becomes inf, which with_features reports
            X = X.astype(dtype)
    return data if X is data.X else data.with_features(X)


def suffix_of(path: str | Path) -> str:
    """The suffix that determines the format: the last one, or the one before ``.gz``."""
    path = Path(path)
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def check_suffix(path: str | Path) -> None:
    """Refuse a name that :func:`write_data` cannot use, before any work is done."""
    suffix, is_gzip = suffix_of(path), Path(path).suffix.lower() == ".gz"
    if suffix not in (*_TEXT_SUFFIXES, *(() if is_gzip else _BINARY_SUFFIXES)):
        if suffix == ".parts":
            raise InputError(
                "parts are written by `rankwright convert --by-query N`; expected that, or .rank for a single folder",
                path,
            )
        text, binary = ", ".join(_TEXT_SUFFIXES), ", ".join(_BINARY_SUFFIXES)
        raise InputError(f"unknown suffix; expected one of {text} (each also with .gz), {binary}", path)


def write_data(data: RankingData, path: str | Path) -> None:
    """Write data in the format given by the suffix.

    Parameters
    ----------
    data : RankingData
        The data to write.
    path : path
        ``.txt``, ``.letor``, ``.svm``, ``.dat`` or ``.libsvm``: LETOR text; ``.parquet``: a table;
        ``.rank``: a memory-mapped folder; ``.qrels``: the labels only, as TREC judgements. Text may add ``.gz``.

    Examples
    --------
    >>> write_data(read_data("train.txt.gz"), "train.rank")  # doctest: +SKIP
    """
    check_suffix(path)
    suffix = suffix_of(path)
    if suffix == ".parquet":
        from rankwright.data.tables import write_parquet

        write_parquet(data, path)
    elif suffix == ".rank":
        save_folder(data, path)
    elif suffix == ".qrels":
        _write_labels(data, path)
    else:
        from rankwright.data.letor_write import write_letor

        write_letor(data, path)


def _write_labels(data: RankingData, path: str | Path) -> None:
    from rankwright.data.trec import TrecTable, write_qrels

    if data.doc_ids is None:
        raise InputError("judgements need document ids, and this data has none", path)
    write_qrels(TrecTable.from_columns(data.qid, data.doc_ids, data.labels), path)
