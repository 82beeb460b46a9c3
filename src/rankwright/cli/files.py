"""Files of commands: read with a progress bar, cleaned if asked for, and checked before hours of work end in vain.

What the columns of a table were taken for is one line on stderr, so that a wrong guess is seen at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankwright.cli.options import MISSING_AS_ZERO
from rankwright.cli.printing import counted, inform, note, reading, warn
from rankwright.errors import InputError
from rankwright.io.files import check_folder

if TYPE_CHECKING:
    from rankwright.cluster.cluster import Transport
    from rankwright.data.cleaning import Cleaner, Cleaning
    from rankwright.data.dataset import RankingData
    from rankwright.data.trec_table import TrecTable
    from rankwright.io.detect import Detected
    from rankwright.io.files import Source
    from rankwright.io.roles import Columns
    from rankwright.text.documents import DocumentFiles
    from rankwright.text.queries import Queries

_LITTLE = 100_000_000  # values, rows × features: see docs/howto/scale.md


def read_features(
    path: Path,
    group: Path | None = None,
    *,
    negative_as_zero: bool = False,
    columns: Columns | None = None,
    threads: int = 1,
    engine: Transport | None = None,
) -> RankingData:
    """The feature data of a file, in partitions with an engine; a line says what columns are taken for."""
    from rankwright.io.detect import detected, read_data

    if engine is not None:
        return open_partitioned(path, engine, group, columns)
    with detected(path, columns) as file:
        show_layout(file, columns)
        with reading(path) as update:
            negative: Literal["error", "zero"] = "zero" if negative_as_zero else "error"
            return read_data(file, group=group, negative=negative, columns=columns, n_jobs=threads, progress=update)


def warn_of_doubts(data: RankingData) -> list[str]:
    """Warn of what makes training data doubtful, a probable leak first; the lines, for programs."""
    from rankwright.data.doubts import doubts_of

    lines = doubts_of(data)
    for line in lines:
        warn(line)
    return lines


@contextmanager
def engine_started(name: str | None) -> Iterator[Transport | None]:
    """The engine of a name, ended with the block; what Dask logs is not shown, errors say it."""
    if name is None:
        yield None
        return
    from rankwright.cluster.dataset import engine_of

    logging.disable(logging.CRITICAL)
    try:
        with closing(engine_of(name)) as transport:
            yield transport
    finally:
        logging.disable(logging.NOTSET)


def open_partitioned(
    path: Path, transport: Transport, group: Path | None = None, columns: Columns | None = None
) -> RankingData:
    from rankwright.cluster.dataset import open_partitions
    from rankwright.cluster.worker import Local
    from rankwright.io.detect import detected

    with detected(path, columns) as file:
        kind = file.kind
    if kind not in ("partitions", "folders") and not (kind == "parquet" and Path(path).is_dir()):
        remedy = f"rankwright convert {path} --by-query 16 -o {path.stem}.partitions"
        raise InputError(f"is not in partitions, which --engine needs; make them: {remedy}", path)
    if group is not None:
        raise InputError("group sizes are for LETOR text without qid; this data has query ids", path)
    data = open_partitions(path, transport, columns=columns)
    values = data.n_docs * data.n_features
    if values < _LITTLE and not isinstance(transport, Local):
        size = f"{path} has {values:,} values (rows × features)"
        note(f"{size}; an engine pays from about {_LITTLE:,}, below that none is faster")
    return data


def show_layout(file: Detected, columns: Columns | None = None, *, or_judgements: bool = False) -> None:
    """Say what the columns of a table of features are taken for.

    ``or_judgements``: also that the table could hold judgements, where either will do.
    """
    from rankwright.io.detect import layout_of

    layout = layout_of(file, columns)
    if layout is not None:
        as_written = layout.qid == "qid" and layout.label in (None, "label") and layout.docid in (None, "docid")
        if file.kind == "csv" or layout.skipped or not as_written:  # not of what Rankwright itself writes
            inform(f"reading {file.path}: {layout}")
    if or_judgements and file.kind in ("csv", "parquet") and file.doubt:
        note(f"{file.path}: {file.doubt}")


def show_documents(files: DocumentFiles, kind: str | None, used: Sequence[str] | None) -> None:
    """Say what the columns of files of documents are taken for; only the fields ``used`` are, None for all."""
    from rankwright.data.categories import named
    from rankwright.text.documents import document_columns

    for path in files.paths:
        columns = document_columns(path, kind, files.columns)
        if columns is None:
            continue
        fields = [name for name in columns.values() if name and name != "id" and (used is None or name in used)]
        key = next(name for name, field in columns.items() if field == "id")
        skipped = [name for name, field in columns.items() if field not in fields and name != key]
        left = f"; skipped {named(skipped)}" if skipped else ""
        inform(f"reading {path}: ids {key!r}, fields {named(fields) or 'none'}{left}")


def read_queries(path: Path, part: str = "title", columns: Columns | None = None) -> Queries:
    """The queries of a file, with a line on what the columns of a table were taken for."""
    from rankwright.text import queries as texts

    with reading(path) as update:
        queries = texts.read_queries(path, part=part, columns=columns, progress=update)
    if queries.layout:
        inform(f"read {path}: {counted(len(queries), 'query', 'queries')}; {queries.layout}")
    return queries


def columns_by_file(columns: Columns | None, *paths: Path | None) -> list[Columns | None]:
    """For each of several files the named columns that it has; one that no file has is an error."""
    from rankwright.io.files import open_file
    from rankwright.io.roles import listed, settings_in
    from rankwright.io.tables import names_in

    if columns is None:
        return [None] * len(paths)
    of_file: list[Columns | None] = []
    known: set[str] = set()
    read: list[str] = []
    for path in paths:
        if path is None or not path.is_file():  # nothing, or a pipe, which can be read only once
            of_file.append(None if path is None else columns)
            known |= set() if path is None else set(columns)
            continue
        with open_file(path) as file:
            names = names_in(file)
        here = {role: name for role, name in columns.items() if name in names} | settings_in(columns)
        of_file.append(here or None)
        known |= set(here)
        read.append(f"{path} has {listed(names)}")
    wrong = next((role for role in columns if role not in known), None)
    if wrong is not None:
        raise InputError(f"no column {columns[wrong]!r}, named for {wrong} by --columns; {'; '.join(read)}")
    return of_file


def read_judgements(source: Source, columns: Columns | None = None) -> TrecTable:
    """The judgements of a file, with a line on what the columns of a table were taken for."""
    from rankwright.io.files import OpenFile
    from rankwright.io.trec import read_qrels

    path = source.path if isinstance(source, OpenFile) else source
    with reading(path) as progress:
        table = read_qrels(source, progress, columns=columns)
    if table.layout:
        size = f"{counted(table.n_docs, 'judgement')} of {counted(table.n_queries, 'query', 'queries')}"
        inform(f"read {path}: {size}; {table.layout}")
    return table


def matched(table: TrecTable, queries: Iterable[tuple[str, str]], path: Path) -> TrecTable:
    """Judgements with the ids of the queries that they name by text, and a line that says how many."""
    from rankwright.io.trec import match_queries

    new, number = match_queries(table, queries)
    if number:
        note(f"{number:,} of {table.n_queries:,} queries of {path} matched by their text")
    return new


def cleaner_alone(options: dict[str, Any]) -> Cleaner | None:
    """As :func:`cleaner_of`, where ``--relevant-from`` is for cleaning only."""
    cleaner = cleaner_of(options)
    if options.pop("relevant_from", None) is not None:
        raise InputError("--relevant-from is for --clean, which is not given")
    return cleaner


def cleaner_of(options: dict[str, Any], *, for_training: bool = False) -> Cleaner | None:
    """What the options ask for, taken out of them; None without ``--clean``.

    ``--relevant-from`` stays among the options if it is for training too.
    """
    clean, above, scaled = (options.pop(name) for name in ("clean", "clean_above", "clean_scaled"))
    if not clean:
        used = "--clean-above" if above is not None else "--clean-scaled" if scaled else None
        if used is not None:
            raise InputError(f"{used} is for --clean, which is not given")
        return None
    relevant_from = options["relevant_from"] if for_training else options.pop("relevant_from")
    from rankwright.data.cleaning import Cleaner

    if above is not None and not 0 < above < 1:
        raise InputError(f"--clean-above is {above:g}; expected a cosine between 0 and 1")
    if relevant_from is not None and not 0 < relevant_from < float("inf"):
        raise InputError(f"--relevant-from is {relevant_from:g}; expected a number above 0")
    default = Cleaner()
    return Cleaner(
        default.threshold if above is None else above,
        default.relevant_from if relevant_from is None else relevant_from,
        scaled,
    )


def clean_data(
    cleaner: Cleaner | None, data: RankingData, path: Path, threads: int = 1
) -> tuple[RankingData, Cleaning | None]:
    """The clean data of a file and what was dropped, which is also printed, on stderr."""
    if cleaner is None:
        return data, None
    try:
        clean, cleaning = cleaner.clean(data, n_jobs=threads)
    except InputError as error:
        raise InputError(error.message, path) from None
    inform(f"cleaned {path}: dropped {cleaning.text}")
    advice = cleaner.advice(data, cleaning)
    if advice:
        warn(f"{path}: {advice} by --clean-scaled")
    return clean, cleaning


def read_clean(
    path: Path, group: Path | None = None, *, cleaner: Cleaner | None, threads: int = 1, **options: Any
) -> tuple[RankingData, Cleaning | None]:
    """The feature data of a file, cleaned, and what was dropped; ``options`` are those of :func:`read_features`."""
    return clean_data(cleaner, read_features(path, group, threads=threads, **options), path, threads)


def filled(data: RankingData, number: float) -> RankingData:
    """The data with a number where a feature is missing; how many there were is printed, on stderr."""
    import numpy as np

    if not np.isfinite(number):
        raise InputError(f"--fill is {number:g}; expected a finite number")
    X = data.X.copy()
    values = X.data if data.is_sparse else X
    missing = np.isnan(values)
    values[missing] = number
    inform(f"filled {int(missing.sum()):,} missing values with {number:g}")
    return data.with_features(X)


def check_target(target: Path, sources: Iterable[Path | None], *, is_folder: bool = False) -> None:
    """Reject a file or folder that cannot be written or that is being read."""
    if target.is_dir() and not is_folder:
        raise InputError("is a folder; expected a file name to write to", target)
    check_folder(target)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError("cannot be written: Permission denied", target)
    if target.exists() and any(source and source.exists() and target.samefile(source) for source in sources):
        raise InputError("is also an input; expected another name to write to", target)


def check_plots(plots: Iterable[Path], targets: Sequence[Path], sources: Sequence[Path | None]) -> None:
    """Reject plots of an unknown kind, and files (plots and others) that could not be written in the end."""
    from rankwright.data.display import check_plot_name

    for plot in plots:
        check_plot_name(plot)
    check_targets(targets, sources)


def check_targets(targets: Sequence[Path], sources: Sequence[Path | None], folder: Path | None = None) -> None:
    """Reject files that cannot be written, that are being read or given twice; ``folder`` may be a folder."""
    for number, target in enumerate(targets):
        check_target(target, sources, is_folder=target == folder)
        if target in targets[:number]:
            raise InputError("is given twice; expected different files to write to", target)


@contextmanager
def naming_files(files: Mapping[str, Path | None]) -> Iterator[None]:
    """Name the file in errors about a part of the data, such as ``training data``."""
    try:
        yield
    except InputError as error:
        fact = getattr(error, "fact", None)  # of a MissingValuesError
        if fact is not None:
            raise _missing_values(fact, list(files.values())) from None
        if str(error.path) not in files:
            raise
        raise InputError(error.message, files[str(error.path)], error.line) from None


@contextmanager
def naming_missing_option() -> Iterator[None]:
    """Name the option that takes features of a model as 0 in errors about those that an index cannot give."""
    from rankwright.data.dataset import MissingFeaturesError

    try:
        yield
    except MissingFeaturesError as error:
        raise InputError(f"{error.message}; to take them as 0, use {MISSING_AS_ZERO}", error.path) from None


def _missing_values(fact: str, files: Sequence[Path | None]) -> InputError:
    """What to do about missing values, in the words of the command line; files begin with training, validation."""
    path = files[1] if fact.startswith("eval_set") and len(files) > 1 and files[1] is not None else files[0]
    fact = f"has{fact.partition(' has')[2]}"
    return InputError(f"{fact}; {ways_to_fill(path)}, or cut features into bins (--bins 50, linear methods)", path)


def ways_to_fill(path: Path | None, *, trained: bool = False, is_labelled: bool = True) -> str:
    """What to do about missing values of a file, for training or, ``trained``, for a model that is there."""
    them = "missing values as for training" if trained else "them"
    target = "filled.rank" if is_labelled else "filled.csv"  # which needs no labels
    fill = f"fill {them} (rankwright convert {path} -o {target} --fill 0)"
    trees = "--method lambdamart, mcrank or auto; with --fill-missing auto has linear members, too"
    return f"{fill}, {'or ' if trained else ''}train trees, which take them ({trees})"


def check_missing(data: RankingData, target: Path, remedy: str = "") -> None:
    """Refuse missing numbers in a file that cannot be read with them; a remedy may name the feature, ``{name}``."""
    import numpy as np

    from rankwright.io.detect import holds_missing

    if holds_missing(target) or data.is_sparse:
        return
    missing = np.isnan(data.X).sum(axis=0)
    if missing.any():
        at = int(np.argmax(missing))
        name = data.names[at]
        problem = f"the number {name!r} is missing in {missing[at]:,} of {data.n_docs:,} rows"
        expected = "expected a folder (.rank), .parquet or .csv, which can hold that"
        raise InputError(f"{problem}; {expected}{remedy.format(name=name)}", target)
