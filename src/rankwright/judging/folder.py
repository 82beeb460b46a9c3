"""A folder of judgements: a file per judge, and the qrels that they make together.

A document that several judges graded gets the median of their grades, the lower of the two middle ones if there is an
even number of judges. What was skipped, or could not be told, is not in the qrels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rankwright.data.trec import TrecTable, read_qrels, write_qrels
from rankwright.errors import InputError
from rankwright.judging.records import Judged, Pair, read_actions

try:
    import fcntl
except ImportError:  # there are no such locks on this system
    fcntl = None  # type: ignore[assignment]

__all__ = ["QRELS", "check_folder", "check_judge", "grades_of", "judge_path", "merged", "read_folder", "update_qrels"]

QRELS = "qrels.txt"
_ENDING = ".jsonl"
_NAME = re.compile(r"[\w][\w .@+-]{0,63}")
Grades = Mapping[Pair, float]


def check_judge(name: str) -> str:
    """The name of a judge, which must do as the name of a file."""
    if not _NAME.fullmatch(name) or name != name.strip():
        raise InputError(f"--judge is {name!r}; expected up to 64 letters, digits, blanks or any of _ . @ + -")
    return name


def judge_path(folder: str | Path, judge: str) -> Path:
    """The file of a judge."""
    return Path(folder) / f"{check_judge(judge)}{_ENDING}"


def check_folder(folder: str | Path) -> None:
    """Reject a folder whose qrels are somebody else's: they would be replaced."""
    path = Path(folder) / QRELS
    if path.exists() and not any(Path(folder).glob(f"*{_ENDING}")):
        raise InputError("exists, but no file of a judge belongs to it; expected another folder for -o", path)


def read_folder(folder: str | Path, without: str | None = None) -> dict[str, Judged]:
    """What every judge of a folder has judged, by name; ``without`` one of them if asked to.

    Examples
    --------
    >>> read_folder("judgements")["me"].grades  # doctest: +SKIP
    {('q1', 'd7'): 2, ...
    """
    paths = {path.name.removesuffix(_ENDING): path for path in sorted(Path(folder).glob(f"*{_ENDING}"))}
    return {name: Judged.of(read_actions(path)) for name, path in paths.items() if name != without}


def grades_of(path: str | Path, read: Callable[[Path], TrecTable] = read_qrels) -> dict[str, Grades]:
    """Grades by judge: of a folder of judgements, of one judge's file, or of any file that ``read`` reads."""
    path = Path(path)
    if path.is_dir():
        found = read_folder(path)
        if not found:
            raise InputError(f"contains no judgements; expected files NAME{_ENDING} of `rankwright judge`", path)
        return {judge: one.grades for judge, one in found.items()}
    if path.name.endswith(_ENDING):
        return {path.name.removesuffix(_ENDING): Judged.of(read_actions(path)).grades}
    table = read(path)
    bounds = table.indptr.tolist()
    grades: dict[Pair, float] = {}
    for query, start, stop in zip(table.query_ids.tolist(), bounds[:-1], bounds[1:], strict=True):
        for document, value in zip(table.documents[start:stop], table.values[start:stop].tolist(), strict=True):
            grades[query, document.decode("utf-8", "replace")] = value
    return {path.stem: grades}


def merged(judges: Mapping[str, Judged]) -> dict[str, dict[str, int]]:
    """The grades of all judges together, by query and document.

    Examples
    --------
    >>> two = {"ann": Judged(grades={("q", "d"): 3}), "bob": Judged(grades={("q", "d"): 1})}
    >>> merged(two)
    {'q': {'d': 1}}
    """
    given: dict[Pair, list[int]] = {}
    for one in judges.values():
        for pair, grade in one.grades.items():
            given.setdefault(pair, []).append(grade)
    found: dict[str, dict[str, int]] = {}
    for query, document in sorted(given):
        grades = sorted(given[query, document])
        found.setdefault(query, {})[document] = grades[(len(grades) - 1) // 2]
    return found


def update_qrels(folder: str | Path, judge: str, judged: Judged) -> None:
    """Write the qrels of a folder anew, whole or not at all: this judge's grades, and what the others' files hold."""
    with _held(Path(folder)):
        found = merged({**read_folder(folder, without=judge), judge: judged})
        write_qrels(TrecTable.from_dict(found), Path(folder) / QRELS)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep other judges' processes from reading and writing at the same time, where the system has locks."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
