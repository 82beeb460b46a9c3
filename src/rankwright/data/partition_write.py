"""Writing parts: rows go to files of their part as they are read, then the queries of each part are brought together.

Memory holds some batches of rows, and some bytes for each row of one part; it does not grow with the rest. The same
rows in the same order give the same bytes.
"""

from __future__ import annotations

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
from rankwright.data.partition import MANIFEST, PARTS, PartEntry, header_sum, is_parts, read_manifest
from rankwright.data.partition_inputs import Input, Settings
from rankwright.data.partition_spill import Spill
from rankwright.data.partition_statistics import FIELDS, LabelCounts, Moments
from rankwright.data.partition_stored import StoredPart
from rankwright.data.rows import Rows
from rankwright.errors import InputError

__all__ = ["Written", "write_parts"]

Array = npt.NDArray[Any]
_SPARSE_BYTES = 4  # of a column's number, and of a row's boundary


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
        statistics: list[Moments] = []
        for number in range(n_parts):
            if spill.path(number, "labels").exists():
                name = f"part-{number:0{digits}}.rank"
                entry, moments = _write_part(StoredPart(spill, number), folder, path, name, form)
                parts.append(entry)
                statistics.append(moments)
        with writing(path):
            spill.folder.rmdir()
        stored = [moments.stored() for moments in statistics]
        for field in FIELDS:
            dtype = np.int64 if field == "missing" else np.float64
            with ArrayFile(manifest, field, dtype, (len(parts), form.n_features)) as file:
                for found in stored:
                    file.append(found[field])
        written = Written(form, parts)
        manifest.finish(_facts(written, n_parts))
    return written


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
    own = {MANIFEST, *(f"{field}.npy" for field in FIELDS), *(part.name for part in manifest.parts)}
    others = sorted({entry.name for entry in path.iterdir()} - own)
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


def _write_part(part: StoredPart, folder: Path, shown: Path, name: str, form: Form) -> tuple[PartEntry, Moments]:
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
    moments = _write_features(part, writer, form)
    size = (part.n_docs, part.n_queries, form.n_features)
    writer.finish(folder_facts(*size, form.is_sparse, form.names, form.categories))
    part.remove()
    with writing(shown):
        n_bytes = sum(file.stat().st_size for file in (folder / name).iterdir())
        entry = PartEntry(name, part.n_queries, part.n_docs, n_bytes, header_sum(folder / name), counts.stored())
    return entry, moments


def _write_features(part: StoredPart, writer: FolderWriter, form: Form) -> Moments:
    total = Moments.none(form.n_features)
    blocks = part.blocks(form.n_features, form.dtype, form.is_sparse)
    if not form.is_sparse:
        with ArrayFile(writer, "X", form.dtype, (part.n_docs, form.n_features)) as file:
            for X in blocks:
                for column in form.categories:  # missing while it was not known that these are categories
                    X[np.isnan(X[:, column]), column] = NO_CATEGORY
                file.append(X)
                total = total.plus(_moments(X, form))
        return total
    n_stored = part.n_stored(form.n_features)
    whole = np.int32 if n_stored < 2**31 else np.int64
    with (
        writer.open("X_data", form.dtype) as values,
        writer.open("X_indices", whole) as columns,
        writer.open("X_indptr", whole) as bounds,
    ):
        bounds.append(np.zeros(1, whole))
        done = 0
        for X in blocks:
            X.data[np.isnan(X.data) & np.isin(X.indices, list(form.categories))] = NO_CATEGORY
            values.append(X.data)
            columns.append(X.indices)
            bounds.append(X.indptr[1:].astype(np.int64) + done)
            done += X.nnz
            total = total.plus(_moments(X, form))
    return total


def _moments(X: Any, form: Form) -> Moments:
    """Statistics of a block; of categories, only how many are missing."""
    if not form.categories:
        return Moments.of(X)
    seen = X.copy()
    values = seen.data if form.is_sparse else seen
    values[values == NO_CATEGORY] = np.nan
    found, columns = Moments.of(seen), list(form.categories)
    for stored in (found.least, found.largest, found.mean, found.squares):
        stored[columns] = np.nan
    return found


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
