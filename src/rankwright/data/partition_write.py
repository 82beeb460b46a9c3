"""Writing parts: rows go to files of their part as they are read, then the queries of each part are brought together.

Memory holds some batches of rows, and some bytes for each row of one part; it does not grow with the rest. The same
rows in the same order give the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.categories import NO_CATEGORY, category_numbers, named
from rankwright.data.container_write import ArrayFile, FolderWriter, writing
from rankwright.data.files import Progress, replace_folder
from rankwright.data.folder import FOLDER, folder_facts
from rankwright.data.matching import most_features
from rankwright.data.partition import MANIFEST, PARTS, STATISTICS, PartEntry, header_sum, is_parts, read_manifest
from rankwright.data.partition_inputs import Input, Settings
from rankwright.data.partition_spill import Spill
from rankwright.data.partition_stored import StoredPart
from rankwright.data.statistics import Statistics, StatisticsBuilder, Sums
from rankwright.errors import InputError
from rankwright.io.features import Rows

Array = npt.NDArray[Any]
_SPARSE_BYTES = 4  # of a column's number, and of a row's boundary
_MOST_LABELS = 1000


@dataclass(frozen=True)
class Form:
    """What all parts have in common."""

    names: tuple[str, ...] | None
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool
    has_doc_ids: bool
    categories: Mapping[int, tuple[Any, ...]]


@dataclass(frozen=True)
class Written:
    """What was written."""

    form: Form
    parts: list[PartEntry]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return sum(part.queries for part in self.parts)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return sum(part.documents for part in self.parts)


def write_parts(
    inputs: Sequence[Input],
    n_parts: int,
    path: str | Path,
    settings: Settings,
    *,
    is_sparse: bool | None = None,
    progress: Progress | None = None,
) -> Written:
    """Read inputs one after the other and write their queries into parts; a folder appears only when it is complete.

    Parameters
    ----------
    inputs : sequence of Input
        What to read, in this order.
    n_parts : int
        Number of parts; those to which no query belongs are left out.
    path : path
        The folder, usually with the suffix ``.parts``.
    settings : Settings
        How to read.
    is_sparse : bool, optional
        Sparse or dense features; default: as the inputs are, text as whichever is smaller.
    progress : callable, optional
        Called with (bytes read, total bytes).
    """
    path = Path(path)
    check_replaceable(path)
    with replace_folder(path, MANIFEST) as folder:
        spill = Spill(folder / "spill", n_parts, path)
        form = _spilled(inputs, spill, settings, is_sparse, progress)
        digits = max(4, len(str(n_parts - 1)))
        manifest = FolderWriter(folder, path, PARTS)
        parts: list[PartEntry] = []
        statistics: list[Statistics] = []
        for number in range(n_parts):
            if spill.path(number, "labels").exists():
                name = f"part-{number:0{digits}}.rank"
                entry, of_part = _write_part(StoredPart(spill, number), folder, path, name, form)
                parts.append(entry)
                statistics.append(of_part)
        with writing(path):
            spill.folder.rmdir()
        written = Written(form, parts)
        manifest.finish(_facts(written, n_parts) | {"powers": _save_statistics(manifest, statistics)})
    return written


def _save_statistics(manifest: FolderWriter, statistics: Sequence[Statistics]) -> dict[str, int]:
    """Write the statistics of all parts; the powers of two of their sums' first digits."""
    for name, field in zip(STATISTICS, ("low", "high", "missing"), strict=False):
        manifest.save(name, np.stack([getattr(of_part, field) for of_part in statistics]))
    powers = {}
    for name in STATISTICS[3:]:
        digits, powers[name] = Sums.stacked([getattr(of_part, name) for of_part in statistics])
        manifest.save(name, digits)
    return powers


def check_replaceable(path: Path) -> None:
    """Refuse to replace anything but a folder of parts."""
    if not path.exists():
        return
    what = "exists and is not a folder of parts; expected a new name"
    if not is_parts(path):
        raise InputError(what, path)
    try:
        manifest = read_manifest(path)
    except InputError:
        raise InputError(what, path) from None
    written = {
        MANIFEST,
        *(f"{name}.npy" for name in manifest.header["arrays"]),
        *(part.name for part in manifest.parts),
    }
    others = sorted({entry.name for entry in path.iterdir()} - written)
    if others:
        raise InputError(f"contains files that are not part of it ({others[0]}); expected a new name", path)


def _spilled(
    inputs: Sequence[Input], spill: Spill, settings: Settings, is_sparse: bool | None, progress: Progress | None
) -> Form:
    """Write all rows to the files of their parts; what they have in common."""
    keeps_sparse = any(one.is_sparse is not False for one in inputs)
    _check_same_names(inputs)
    n_rows, done, total = 0, 0, sum(one.n_bytes for one in inputs)
    for one in inputs:
        step = None if progress is None else _later(progress, done, total)
        for rows in one.rows(settings, step):
            X = sparse.csr_array(rows.X) if keeps_sparse and not sparse.issparse(rows.X) else rows.X
            spill.add(Rows(X, rows.labels, rows.qid, rows.doc_ids), one.path)
            n_rows += len(rows.labels)
        done += one.n_bytes
    spill.flush()
    width = max(one.width for one in inputs)
    if not keeps_sparse and any(one.width != width for one in inputs):
        counts = ", ".join(str(one.width) for one in inputs)
        raise InputError(f"inputs with different numbers of features cannot be joined: {counts}")
    if is_sparse is None:
        is_sparse = _is_smaller_sparse(inputs, n_rows, width, settings.dtype.itemsize)
    if width > most_features(2 * total):
        raise InputError(f"{width:,} features in {total:,} bytes; expected fewer", inputs[0].path)
    has_doc_ids = all(one.has_doc_ids for one in inputs) and spill.keeps_documents
    return Form(inputs[0].names, width, settings.dtype, is_sparse, has_doc_ids, _categories(inputs, settings.dtype))


def _later(progress: Progress, done: int, total: int) -> Progress:
    return lambda read, _: progress(done + read, total)


def _is_smaller_sparse(inputs: Sequence[Input], n_rows: int, width: int, item: int) -> bool:
    """Sparse if some input is, dense if all are; text in whichever form is smaller."""
    if all(one.is_sparse is not None for one in inputs):
        return any(one.is_sparse for one in inputs)
    if any(one.is_sparse for one in inputs):
        return True
    n_written = sum(one.n_written for one in inputs)
    tiny = 1 << 16
    return n_rows * width * item > max(n_written * (item + _SPARSE_BYTES) + n_rows * _SPARSE_BYTES, tiny)


def _check_same_names(inputs: Sequence[Input]) -> None:
    first = inputs[0]
    for one in inputs[1:]:
        if one.names != first.names:
            what = f"has other features than {first.path}"
            raise InputError(f"{what}; expected the same names in the same order", one.path)


def _categories(inputs: Sequence[Input], dtype: np.dtype[Any]) -> dict[int, tuple[Any, ...]]:
    """The categories of all inputs; a column holds them in all or in none."""
    names = inputs[0].names or ()
    found = {}
    for column in sorted({column for one in inputs for column in one.categories}):
        without = [one for one in inputs if column not in one.categories]
        if without:
            what = f"the column {names[column]!r} holds numbers, but categories in another input"
            raise InputError(f"{what}; expected the same in all", without[0].path)
        values = dict.fromkeys(value for one in inputs for value in one.categories[column])
        found[column] = category_numbers(values, f"the column {names[column]!r}")[0]
    if found and dtype != np.float64:
        held = named(names[column] for column in found)
        raise InputError(f"{dtype} cannot hold the categories of {held}; expected float64", inputs[0].path)
    return found


def _write_part(part: StoredPart, folder: Path, shown: Path, name: str, form: Form) -> tuple[PartEntry, Statistics]:
    with writing(shown):
        (folder / name).mkdir()
    writer = FolderWriter(folder / name, shown, FOLDER)
    counts = LabelCounts()
    with writer.open("labels", np.float64) as file:
        for labels in part.labels():
            counts.add(labels)
            file.append(labels)
    writer.save("indptr", part.indptr)
    writer.save("query_ids", part.query_ids())
    if form.has_doc_ids:
        dtype, blocks = part.doc_ids()
        with writer.open("doc_ids", dtype) as file:
            for block in blocks:
                file.append(block)
    statistics = _write_features(part, writer, form)
    size = (part.n_docs, part.n_queries, form.n_features)
    writer.finish(folder_facts(*size, form.is_sparse, form.names, form.categories))
    part.remove()
    with writing(shown):
        n_bytes = sum(file.stat().st_size for file in (folder / name).iterdir())
        entry = PartEntry(name, part.n_queries, part.n_docs, n_bytes, header_sum(folder / name), counts.stored())
    return entry, statistics


class LabelCounts:
    """How often each label occurs, while there are at most a thousand different ones."""

    def __init__(self) -> None:
        self._counts: Counter[float] | None = Counter()

    def add(self, labels: Array) -> None:
        """Add labels."""
        if self._counts is None:
            return
        values, counts = np.unique(labels, return_counts=True)
        self._counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        if len(self._counts) > _MOST_LABELS:
            self._counts = None

    def stored(self) -> list[list[float]] | None:
        """Labels and counts, ascending; None if there are too many."""
        return None if self._counts is None else [[label, count] for label, count in sorted(self._counts.items())]


def _write_features(part: StoredPart, writer: FolderWriter, form: Form) -> Statistics:
    statistics = StatisticsBuilder(form.n_features)
    blocks = part.blocks(form.n_features, form.dtype, form.is_sparse)
    if not form.is_sparse:
        with ArrayFile(writer, "X", form.dtype, (part.n_docs, form.n_features)) as file:
            for X in blocks:
                for column in form.categories:  # missing while it was not known that these are categories
                    X[np.isnan(X[:, column]), column] = NO_CATEGORY
                file.append(X)
                statistics.add(_without_codes(X, form))
        return statistics.finish()
    n_stored = part.n_stored(form.n_features)
    index = np.int32 if n_stored < 2**31 else np.int64
    with (
        writer.open("X_data", form.dtype) as values,
        writer.open("X_indices", index) as columns,
        writer.open("X_indptr", index) as bounds,
    ):
        bounds.append(np.zeros(1, index))
        done = 0
        for X in blocks:
            X.data[np.isnan(X.data) & np.isin(X.indices, list(form.categories))] = NO_CATEGORY
            values.append(X.data)
            columns.append(X.indices)
            bounds.append(X.indptr[1:].astype(np.int64) + done)
            done += X.nnz
            statistics.add(_without_codes(X, form))
    return statistics.finish()


def _without_codes(X: Any, form: Form) -> Any:
    """A block whose missing categories are missing values."""
    if not form.categories:
        return X
    X, columns = X.copy(), list(form.categories)
    if form.is_sparse:
        X.data[(X.data == NO_CATEGORY) & np.isin(X.indices, columns)] = np.nan
    else:
        codes = X[:, columns]
        X[:, columns] = np.where(codes == NO_CATEGORY, np.nan, codes)
    return X


def _facts(written: Written, n_parts: int) -> dict[str, Any]:
    form = written.form
    return {
        "parted_by": "blake2b-64 of the query id",
        "parts_asked_for": n_parts,
        "queries": written.n_queries,
        "documents": written.n_docs,
        "features": form.n_features,
        "kind": "sparse" if form.is_sparse else "dense",
        "dtype": str(form.dtype),
        "document_ids": form.has_doc_ids,
        "feature_names": None if form.names is None else list(form.names),
        "categorical": sorted(form.categories),
        "parts": [vars(part) for part in written.parts],
    }
