"""``--engine`` and ``--resume``: where data in parts is used, and trainings that go on after an interruption."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.cluster.cluster import Transport
    from rankwright.cluster.journal import Journal
    from rankwright.data.dataset import RankingData
    from rankwright.io.roles import Columns

_NOT_DECIDING = {"target", "threads", "engine", "resume", "as_json"}  # options of train that leave the model as it is
_LITTLE = 100_000_000  # values, rows × features: see docs/howto/scale.md
_CHUNK = 1 << 22


@contextmanager
def engine_started(name: str | None) -> Iterator[Transport | None]:
    """The engine of a name, ended with the block; what Dask logs is not shown, errors say it."""
    if name is None:
        yield None
        return
    from rankwright.cluster.open import engine_of

    logging.disable(logging.CRITICAL)
    try:
        transport = engine_of(name)
        try:
            yield transport
        finally:
            transport.close()
    finally:
        logging.disable(logging.NOTSET)


def open_partitioned(
    path: Path, transport: Transport, group: Path | None = None, columns: Columns | None = None
) -> RankingData:
    """The data of a folder, its parts with an engine."""
    from rankwright.cluster.open import open_partitions
    from rankwright.cluster.worker import Local
    from rankwright.io.detect import detected

    with detected(path, columns) as found:
        kind = found.kind
    if kind not in ("parts", "folders") and not (kind == "parquet" and Path(path).is_dir()):
        how = f"rankwright convert {path} --by-query 16 -o {path.stem}.parts"
        raise InputError(f"is not in parts, which --engine needs; make them: {how}", path)
    if group is not None:
        raise InputError("group sizes are for LETOR text without qid; this data has query ids", path)
    data = open_partitions(path, transport, columns=columns)
    values = data.n_docs * data.n_features
    if values < _LITTLE and not isinstance(transport, Local):
        what = f"{path} has {values:,} values (rows × features)"
        click.echo(f"note: {what}; an engine pays from about {_LITTLE:,}, below that none is faster", err=True)
    return data


def tell_of_copies(ranker: Any, method: str, *given: RankingData | None) -> None:
    """Say that features in parts are brought together for a ranker that does not train in parts."""
    from rankwright.data.places import place_of
    from rankwright.data.subsets import feature_bytes

    some = [data for data in given if data is not None and place_of(data).is_partitioned]
    partitioned = [data for data in some if not ranker.trains_in_parts(data)]
    if partitioned:
        size = sum(map(feature_bytes, partitioned)) / 1e6
        what = f"{method} trains in one place; the features are copied there from their parts"
        click.echo(f"note: {what}, {size:,.1f} MB, for the time of the training", err=True)


class Course:
    """A training under way, whose results are kept until it is done.

    `target`: the model file; the journal lies beside it. `key`: what decides the training. `resume`: whether to go on
    with the journal that is there.
    """

    def __init__(self, target: Path, key: Mapping[str, Any], resume: bool) -> None:
        from rankwright.cluster.journal import Journal, read_key

        path = target.parent / f".{target.name}.journal"
        if not resume and read_key(path) == dict(key):
            what = "the same training was interrupted, and its results are here"
            raise InputError(f"{what}; expected --resume to go on, or this file removed to start anew", path)
        self.journal: Journal = Journal(path, key, resume=resume)

    def follow(self, *parts: RankingData | None) -> None:
        """Keep the results of what is computed with these data."""
        from rankwright.data.places import place_of

        for data in parts:
            if data is not None:
                place_of(data).record_to(self.journal)

    def finish(self, whole: bool) -> None:
        """The model is saved: the journal is removed, unless the training was stopped on the way."""
        if whole:
            self.journal.remove()
        else:
            click.echo(f"note: {self.way_on}", err=True)

    @property
    def way_on(self) -> str:
        return f"the results so far are in {self.journal.path}; the same command with --resume goes on from there"


@contextmanager
def training_course(engine: str | None, resume: bool, target: Path) -> Iterator[Course | None]:
    """The course of a training with an engine; None without one. An error says how to go on."""
    if engine is None:
        if resume:
            raise InputError("--resume is for trainings with --engine; expected --engine, too")
        yield None
        return
    course = Course(target, _key(), resume)
    try:
        yield course
    except InputError as error:
        if resume or course.journal.recorded:
            raise InputError(f"{error.message}; {course.way_on}", error.path, error.line) from None
        raise
    finally:
        if resume or course.journal.recorded:
            course.journal.close()
        else:
            course.journal.remove()  # there is nothing to go on from


def _key() -> dict[str, Any]:
    """What decides a training: version, options, and the content of files."""
    from rankwright import __version__

    options = click.get_current_context().params
    given = {name: _text(value) for name, value in sorted(options.items()) if name not in _NOT_DECIDING}
    return {"version": __version__, **given}


def _text(value: Any) -> Any:
    if isinstance(value, Path):
        return _fingerprint(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _fingerprint(path: Path) -> str:
    """A checksum of a file; of a folder, one of its manifest, or else of the names and sizes of its files."""
    from rankwright.io.partitions import MANIFEST

    if not path.is_dir():
        return _checksum(path)
    if (path / MANIFEST).is_file():
        return _checksum(path / MANIFEST)
    found = [(str(one.relative_to(path)), one.stat().st_size) for one in sorted(path.rglob("*")) if one.is_file()]
    return f"{zlib.crc32(repr(found).encode()):08x}"


def _checksum(path: Path) -> str:
    total = 0
    try:
        with open(path, "rb") as file:
            while some := file.read(_CHUNK):
                total = zlib.crc32(some, total)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    return f"{total:08x}"
