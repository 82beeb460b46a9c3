"""What a file is: its format, detected by content, and whether a table holds features, judgements or a run.

A table with queries, documents and grades holds judgements unless another column has numbers in it; a position or the
number of a judge does not count. Where one column of numbers is all there is, or texts to read stand beside it, it
could be either: it is then taken for features, with a line that says so. One with scores and no grades is a run.

When writing, the suffix decides.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse as sp
from rankwright.data.categories import check_holds, named
from rankwright.data.dataset import RankingData
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError, shown
from rankwright.io.container import ZIP
from rankwright.io.csv import read_csv, table_layout, write_csv
from rankwright.io.files import OpenFile, Progress, Source, open_file
from rankwright.io.folder import HEADER, load_folder, save_folder
from rankwright.io.letor import read_letor, write_letor
from rankwright.io.logs import feature_table, holds_judgements, is_json
from rankwright.io.parquet import ParquetTable, pieces_of, read_parquet, write_parquet
from rankwright.io.partitions import is_partitions
from rankwright.io.roles import (
    BESIDE,
    ColumnLayout,
    Columns,
    feature_layout,
    for_scoring,
    grades_in,
    is_for_scoring,
    lacking,
    listed,
    named_columns,
    plain,
    undecided,
    with_grades,
)
from rankwright.io.tables import BOM, PARQUET, Table, header_cells, is_number, parquet_table, text_table
from rankwright.io.trec import beir_qrels, is_catalogued, judgement_layout, write_qrels
from rankwright.io.values import READERS, Reader, is_missing, kinds_of_cells

__all__ = ["read_data", "write_data"]


@dataclass(frozen=True)
class FileFormat:
    """A format of files and folders.

    `content`: ``features``, or what else it contains, for messages. `is_text`: whether its numbers are text, which
    becomes float32 by default. `has_columns`: whether it is a table with columns to name.
    """

    title: str
    content: str = "features"
    is_text: bool = False
    has_columns: bool = False


FORMATS = {
    "letor": FileFormat("LETOR text", is_text=True),
    "csv": FileFormat("table in text", is_text=True, has_columns=True),
    "parquet": FileFormat("Parquet table", has_columns=True),
    "folder": FileFormat("Rankwright data folder"),
    "folders": FileFormat("folder of data folders"),
    "partitions": FileFormat("folder of partitions"),
    "qrels": FileFormat("judgements", "judgements"),
    "run": FileFormat("TREC run", "a TREC run"),
    "scores": FileFormat("scores, one per line", "one score per line"),
    "model": FileFormat("Rankwright model", "a model"),
}
"""All formats by kind; text may be gzip, ``parquet`` also a folder of such files. A new one of features has its reader,
an entry and a line in :func:`read_data` here, and an input in :mod:`rankwright.io.partitions_write`, which reads it
some rows at a time."""

FEATURE_FORMATS = tuple(kind for kind, format in FORMATS.items() if format.content == "features")
_TEXT_SUFFIXES = (".txt", ".letor", ".svm", ".dat", ".libsvm", ".qrels", ".csv", ".tsv")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BINARY_SUFFIXES = (".parquet", ".rank")
_SEVERAL_WORDS = 3  # in a cell that is for people to read
_MODEL_HEADER = b"model.json"
_LOOK_LINES = 1000
_LOOK_BYTES = 1 << 18
_OTHER_MODELS = (b"tree\n", b"##", b"SVM-light", b"solver_type", b'{"learner"')
_UNDERSTOOD = (
    "LETOR lines (label qid:1 1:0.5 ...), TREC qrels (4 columns) or runs (6 columns), "
    "one score per line, CSV with a header line, Parquet, or a Rankwright data folder"
)


@dataclass(frozen=True)
class TableKind:
    """``csv`` (features) or ``qrels``, and what to do if it should be the other."""

    kind: str
    doubt: str = ""


def table_kind(
    names: Sequence[str],
    numbers: Collection[str],
    texts: Collection[str] = (),
    columns: Columns | None = None,
    kinds: Mapping[str, str] | None = None,
) -> TableKind | None:
    """What a table holds; None if neither features nor judgements nor a run can be found in it.

    ``numbers`` and ``texts`` are the columns with numbers and with texts of several words; see
    :func:`columns_of_numbers`.

    Examples
    --------
    >>> table_kind(["query", "docid", "rating", "remark"], numbers=["rating"]).kind
    'qrels'
    >>> table_kind(["query", "docid", "rating", "bm25", "price"], numbers=["rating", "bm25", "price"])
    TableKind(kind='csv', doubt='')
    """
    features = feature_layout(names, columns, kinds)
    judged = judgement_layout(names, columns, is_declared=False)
    if features is not None and is_for_scoring(columns):
        return TableKind("csv")  # what is to be scored, whatever else it could be
    if features is None and judged is None:
        return TableKind("run") if judgement_layout(names, columns, "run") else None
    if features is None:
        return TableKind("qrels")
    if judged is None or any(role in (columns or {}) for role in ("feature", "categorical")):
        return TableKind("csv")
    numeric = [name for name in features.features if name in numbers and plain(name) not in BESIDE]
    if not numeric:
        others = named(features.features)
        return TableKind("qrels", f"to take {others} for features, use --columns feature=NAME or categorical=NAME")
    if len(numeric) > 1 and not any(name in texts for name in features.features):
        return TableKind("csv")
    why = f"{named(numeric)} {'holds' if len(numeric) == 1 else 'hold'} numbers"
    skip = ",".join(f"skip={name}" for name in numeric)
    return TableKind("csv", f"taken for features, as {why}; for judgements, use --columns {skip}")


def columns_of_numbers(
    names: Sequence[str], rows: Iterable[Sequence[str]], number_in: Reader = READERS["number"]
) -> tuple[set[str], set[str]]:
    """The columns in whose cells numbers prevail, and those with texts of several words."""
    filled, numeric, worded = ([0] * len(names) for _ in range(3))
    for row in rows:
        for at, cell in enumerate(row[: len(names)]):
            if is_missing(cell):
                continue
            text = cell.strip()
            filled[at] += 1
            numeric[at] += number_in(text) is not None
            worded[at] += len(text.split()) >= _SEVERAL_WORDS
    if not any(filled):  # nothing but a header
        return set(names), set()
    numbers = {name for at, name in enumerate(names) if 2 * numeric[at] > filled[at]}
    texts = {name for at, name in enumerate(names) if 2 * worded[at] > filled[at]}
    return numbers, texts - numbers


def detect(path: str | Path) -> str:
    """Detect the format of a file or folder, one of ``FORMATS``, from its content, whatever its name."""
    with detected(path) as detection:
        return detection.kind


@dataclass(frozen=True)
class Detected:
    """A file or folder whose format is known.

    `kind`: one of ``FORMATS``. `source`: the open file, or the folder. `doubt`: of a table that could be features or
    judgements: what it is taken for, and how to say otherwise.
    """

    kind: str
    source: Source
    path: str | Path
    doubt: str = ""


@contextmanager
def detected(path: str | Path | Detected, columns: Columns | None = None) -> Iterator[Detected]:
    """Detect a format and keep the file open for the block, to be read from the same handle."""
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
        if is_partitions(path):
            yield Detected("partitions", path, path)
            return
        judgements = beir_qrels(Path(path))
        if judgements is None:
            yield Detected(_kind_of_pieces(Path(path)), path, path)
            return
        path = judgements
    with open_file(path) as file:
        start = file.start(30 + len(_MODEL_HEADER))  # the name of the first entry of an archive is at byte 30
        if start.startswith(ZIP) and start.endswith(_MODEL_HEADER):
            table = TableKind("model")
        else:
            table = (_kind_of_parquet if start.startswith(PARQUET) else _detect_text)(file, columns)
        yield Detected(table.kind, file, path, table.doubt)


def _kind_of_pieces(folder: Path) -> str:
    pieces = pieces_of(folder)
    if not pieces:
        what = f"is a folder without {HEADER}; expected a file, a Rankwright data folder, or a folder of Parquet files"
        raise InputError(f"{what} or data folders and nothing else", folder)
    return "parquet" if pieces[0].kind == "parquet" else "folders"


def _kind_of_parquet(file: OpenFile, columns: Columns | None) -> TableKind:
    """Features, unless its columns are those of judgements or of a run; without pyarrow it is not known."""
    try:
        table = parquet_table(file)
    except InputError:  # reading it reports why
        return TableKind("parquet")
    numbers = [name for name, kind in table.kinds.items() if kind != "text"]
    kind = table_kind(table.names, numbers, columns=columns, kinds=table.kinds)
    if kind is None or kind.kind in ("qrels", "run"):
        return kind or TableKind("parquet")
    return TableKind("parquet", kind.doubt)


def _detect_text(file: OpenFile, columns: Columns | None) -> TableKind:
    """The first line that is not a lone number decides: a LETOR line may be nothing but its label."""
    chunk = b"".join(islice(file.chunks(size=_LOOK_BYTES), 2)).removeprefix(BOM.encode())  # also an only, last line
    path = file.path
    if b"\0" in chunk:
        raise InputError(f"is not a text file; expected {_UNDERSTOOD}", path)
    numbers_only = False
    lines = chunk.split(b"\n", _LOOK_LINES)[:_LOOK_LINES]
    for number, line in enumerate(lines, 1):
        words = line.decode("utf-8", "replace").split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) == 1 and is_number(words[0]):
            numbers_only = True
            continue
        kind = _kind_of_line(words, grades_in(columns))
        if kind is None and chunk.startswith(_OTHER_MODELS):
            hint = "; models of other libraries: `rankwright import`"
            raise InputError(f"a line of an unknown format; expected {_UNDERSTOOD}{hint}", path, number)
        if kind is None and is_json(line.decode("utf-8", "replace").strip()):
            return _kind_of_json(file, columns)
        return _kind_of_table(lines, columns, path, number) if kind is None else TableKind(kind)
    if not numbers_only:
        raise InputError(f"is empty; expected {_UNDERSTOOD}", path)
    return TableKind("scores")


def _kind_of_line(words: list[str], grades: Mapping[str, float]) -> str | None:
    if is_number(words[0]) and len(words) > 1:
        key, colon, value = words[1].partition(":")
        if words[1].startswith("#") or (colon and (key == "qid" or (key.isdigit() and is_number(value)))):
            return "letor"
    if len(words) == 4 and (is_number(words[3]) or words[3].lower() in grades):
        return "qrels"
    if len(words) == 6 and is_number(words[3]) and is_number(words[4]):
        return "run"
    if len(words) > 6 and words[1].lower() == "q0" and words[3].isdecimal() and is_number(words[4]):
        return "run"  # whose tag has blanks in it
    return None


def _kind_of_table(lines: list[bytes], columns: Columns | None, path: str | Path, number: int) -> TableKind:
    """The kind of a table in text, by the names of its columns and its first rows."""
    text = lines[number - 1].decode("utf-8", "replace").strip()
    names = header_cells(text)
    if len(names) < 2:
        words = text.split()
        hint = "; LETOR lines start with a label: write 0 where there is none" if text.startswith("qid:") else ""
        if len(words) == 4 and words[3].isalpha():
            hint = f"; if the last word is a grade: --grades {words[3].lower()}=NUMBER,…"
        raise InputError(f"a line of an unknown format, {shown(text, 40)}; expected {_UNDERSTOOD}{hint}", path, number)
    texts = (line.decode("utf-8", "replace") for line in lines[number - 1 :])
    table = text_table(enumerate(texts, number), path)
    return _kind_by_rows(table, names, columns, number)


def _kind_of_json(file: OpenFile, columns: Columns | None) -> TableKind:
    """Features, judgements or a run; judgements also in forms of their own."""
    if holds_judgements(file):
        return TableKind("qrels")
    table = feature_table(file, columns, most=_LOOK_LINES)
    return _kind_by_rows(table, table.names, columns, None)


def _kind_by_rows(table: Table, names: list[str], columns: Columns | None, number: int | None) -> TableKind:
    rows = list(_first_rows(table))
    path = table.path
    try:
        places = {name: names.index(name) for name in undecided(names, columns)}
        cells = ((name, row[at]) for row in rows for name, at in places.items() if at < len(row))
        kinds = kinds_of_cells(list(places), cells) if places else {}
        numbers = columns_of_numbers(names, rows, table.readers["number"])
        kind = table_kind(names, *numbers, columns, kinds)
        if kind is not None:
            return kind
    except InputError as error:
        raise InputError(error.message, path, number) from None
    needed = ("qid",) if is_for_scoring(columns) else ("qid", "label")
    missing = lacking(names, columns, *needed) or lacking(names, columns, "docid")
    labels = "" if is_for_scoring(columns) else " and labels"
    expected = f"expected a header with columns for queries{labels}, and features or documents"
    raise InputError(f"has the columns {listed(names)}; {expected}; {missing}", path, number)


def _first_rows(table: Table) -> Iterator[list[str]]:
    """The rows of a table, up to one that is damaged or cut, which reading reports."""
    try:
        for _, cells in islice(table.rows, _LOOK_LINES):
            yield cells
    except InputError:
        return


def read_data(
    path: str | Path | Detected | Sequence[str | Path],
    *,
    dtype: npt.DTypeLike | None = None,
    group: Any = None,
    sparse: bool | None = None,
    negative: Literal["error", "zero"] = "error",
    columns: Columns | None = None,
    grades: Mapping[str, float] | None = None,
    labels: Literal["required", "optional"] = "required",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    """Read feature data: LETOR text or CSV (gzip too), Parquet, a Rankwright data folder, or a folder of partitions.

    Parameters
    ----------
    path : path, or sequence of paths
        The file or folder; its format is detected from its content. The features of a folder of partitions stay where
        they are, as :func:`rankwright.open_partitions` leaves them. Several files become one data set: their features
        must have the same names, in any order, or without names be the same number; a query must not be in two of them.
    dtype : float32 or float64, optional
        The type of the features; by default LETOR text and CSV become float32, Parquet and folders keep their type.
    group : path or array-like, optional
        For LETOR text without ``qid:``: documents per query, as :func:`rankwright.read_letor` takes them.
    sparse : bool, optional
        Sparse or dense features; by default text becomes whichever is smaller, other formats stay unchanged.
    negative : {"error", "zero"}
        Whether a label below 0 is an error or becomes 0.
    columns : mapping, optional
        For CSV and Parquet: columns by role, where their names do not tell: ``qid``, ``label``, ``docid``; ``feature``
        (no others are features then), ``skip`` and ``categorical`` (several, one per line).
    grades : mapping, optional
        The numbers of labels that are words, such as ``{"bad": 0, "fair": 1}``, in any case.
    labels : {"required", "optional"}
        Whether a table without a column of labels is an error; data without labels can be scored, not trained on.
    n_jobs : int, optional
        Threads to read text with; default 1, -1 for all cores. The data does not depend on it.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> read_data("mq2008/S1.txt.gz")  # doctest: +SKIP
    RankingData(156 queries, 2874 documents, 46 dense float32 features)
    """
    for name, value, values in (
        ("negative", negative, ("error", "zero")),
        ("labels", labels, ("required", "optional")),
    ):
        if value not in values:
            raise InputError(f"{name} is {value!r}; expected {values[0]!r} or {values[1]!r}")
    columns = with_grades(columns, grades)
    if labels == "optional" and not is_for_scoring(columns):
        columns = for_scoring(columns)
    if isinstance(path, Sequence) and not isinstance(path, str):
        options: dict[str, Any] = {"dtype": dtype, "sparse": sparse, "negative": negative, "columns": columns}
        if group is not None:
            raise InputError("group is for one file of LETOR text; expected query ids in several files")
        return _joined(path, [read_data(one, **options, n_jobs=n_jobs, progress=progress) for one in path])
    with detected(path, columns) as detection:
        check_features(detection, columns)
        if detection.kind == "letor":
            wanted = np.float32 if dtype is None else dtype
            options = {"sparse": sparse, "negative": negative, "progress": progress, "n_jobs": n_jobs}
            return read_letor(detection.source, group=group, dtype=wanted, **options)
        if group is not None:
            raise InputError("group sizes are for LETOR text without qid; this data has query ids", detection.path)
        if detection.kind == "csv":
            data = read_csv(detection.source, columns=columns, dtype=dtype, negative=negative, progress=progress)
        elif detection.kind == "parquet":
            data = read_parquet(detection.source, columns=columns, dtype=dtype, negative=negative, progress=progress)
        elif detection.kind == "partitions":
            if dtype is not None or sparse is not None:
                raise InputError("has features in partitions, of one type and form; expected no others", detection.path)
            # By name: engines are a layer above data.
            data = importlib.import_module("rankwright.cluster.dataset").open_partitions(detection.path)
        elif detection.kind == "folders":
            data = RankingData.concatenate([load_folder(piece.path) for piece in pieces_of(detection.path)])
        else:
            data = load_folder(detection.path)
    return _as_asked(data, dtype, sparse)


def _joined(paths: Sequence[str | Path], parts: list[RankingData]) -> RankingData:
    """Several files as one data set; features are matched by name."""
    if not parts:
        raise InputError("no files; expected at least one")
    first = parts[0]
    of_query: dict[str, str | Path] = {}
    for at, (path, data) in enumerate(zip(paths, parts, strict=True)):
        if set(data.names) != set(first.names):
            other = sorted(set(data.names) ^ set(first.names))
            where = f"{named(other[:1])} is in this file or in {paths[0]}, but not in both"
            raise InputError(f"has other features: {where}; expected the same columns in all", path)
        for query in map(str, data.query_ids.tolist()):
            if query in of_query:
                problem = f"has the query {query!r}, and so has {of_query[query]}"
                raise InputError(f"{problem}; expected every query in one file only, or different ids", path)
            of_query[query] = path
        parts[at] = data.matched_to(first.n_features, first.feature_names, what=str(paths[0]))
    return RankingData.concatenate(parts)


def check_features(detection: Detected, columns: Columns | None) -> None:
    """Refuse what contains no features, and columns of what has none to name."""
    if detection.kind not in FEATURE_FORMATS:
        problem = f"contains {FORMATS[detection.kind].content}, not features"
        hint = f"; {detection.doubt}" if detection.doubt else ""
        raise InputError(f"{problem}; expected LETOR lines, CSV, Parquet or a data folder{hint}", detection.path)
    if named_columns(columns) and not FORMATS[detection.kind].has_columns:
        raise InputError("has no columns to name; expected CSV or Parquet with --columns", detection.path)


def layout_of(detection: Detected, columns: Columns | None = None) -> ColumnLayout | None:
    """Return what the columns of a table of features are taken for; None if it is no table, or reading it will fail."""
    try:
        if detection.kind == "csv":
            assert isinstance(detection.source, OpenFile)
            return table_layout(detection.source, columns)[1]
        if detection.kind == "parquet":
            return ParquetTable(detection.source, columns=columns).layout
    except InputError:
        pass
    return None


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
        if suffix == ".partitions":
            how = "partitions are written by `rankwright convert --by-query N`"
            raise InputError(f"{how}; expected that, or .rank for a single folder", path)
        text, binary = ", ".join(_TEXT_SUFFIXES), ", ".join(_BINARY_SUFFIXES)
        raise InputError(f"unknown suffix; expected one of {text} (each also with .gz), {binary}", path)


def holds_missing(path: str | Path) -> bool:
    """Whether a file of this name, as :func:`write_data` writes it, can be read with the missing values of the data."""
    return suffix_of(path) in (*_BINARY_SUFFIXES, *_DELIMITERS, ".qrels")


def keeps_unlabelled(path: str | Path) -> bool:
    """Whether a file of this name can hold rows without labels: a table."""
    return suffix_of(path) in (".parquet", *_DELIMITERS)


def write_data(data: RankingData, path: str | Path) -> None:
    """Write data in the format given by the suffix.

    Parameters
    ----------
    data : RankingData
        The data to write.
    path : path
        ``.txt``, ``.letor``, ``.svm``, ``.dat`` or ``.libsvm``: LETOR text; ``.csv``, ``.tsv`` or ``.parquet``: a
        table; ``.rank``: a memory-mapped folder; ``.qrels``: the labels only, as TREC judgements. Text may add ``.gz``.

    Examples
    --------
    >>> write_data(read_data("train.txt.gz"), "train.rank")  # doctest: +SKIP
    """
    check_suffix(path)
    suffix = suffix_of(path)
    if suffix == ".parquet":
        write_parquet(data, path)
    elif suffix in _DELIMITERS:
        write_csv(data, path, _DELIMITERS[suffix])
    elif suffix == ".rank":
        save_folder(data, path)
    elif suffix != ".qrels":
        write_letor(data, path)
    elif data.doc_ids is None:
        raise InputError("judgements need document ids, and this data has none", path)
    else:
        write_qrels(TrecTable.from_columns(data.qid, data.doc_ids, data.labels), path)
