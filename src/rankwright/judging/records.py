"""What judges did: a file per judge, one line of JSON per action, and the qrels that all of them make together.

A line is appended, and on disk before anybody goes on. Nothing is ever changed: an undo is a line, too. So a process
that is killed while it writes leaves at most half a line at the end, which the next one removes, and the qrels can be
made anew at any time. A document that several judges graded gets the median of their grades, the lower of the two
middle ones if there is an even number of judges. What was skipped, or could not be told, is not in the qrels.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError, shown
from rankwright.io.files import line_chunks
from rankwright.io.trec import read_qrels, write_qrels

try:
    import fcntl
except ImportError:  # there are no such locks on this system
    fcntl = None  # type: ignore[assignment]


GRADES = (0, 1, 2, 3)
ACTIONS = ("grade", "cannot tell", "skip", "note", "undo")
QRELS = "qrels.txt"
_KEYS = ("action", "query", "document", "grade", "note", "time")
_ENDING = ".jsonl"
_NAME = re.compile(r"[\w][\w .@+-]{0,63}")
Pair = tuple[str, str]
Grades = Mapping[Pair, float]


@dataclass(frozen=True)
class Action:
    """What a judge did with a document.

    `action` ({"grade", "cannot tell", "skip", "note", "undo"}): ``undo`` takes back the last grade, skip or "cannot
    tell" that the document got. `query`, `document`: their ids. `grade`: from 0 to 3, for ``grade``. `note`: for
    ``note``; an empty one removes the note. `time`: when, in UTC.
    """

    action: str
    query: str
    document: str
    grade: int | None = None
    note: str = ""
    time: str = ""

    @property
    def pair(self) -> Pair:
        return self.query, self.document

    def line(self) -> bytes:
        """One line of JSON, with the keys that this action needs."""
        values = {key: getattr(self, key) for key in _KEYS}
        left_out = {"grade": self.action != "grade", "note": self.action != "note", "time": not self.time}
        kept = {key: value for key, value in values.items() if not left_out.get(key, False)}
        return json.dumps(kept, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


@dataclass
class JudgeState:
    """What the actions of a judge amount to.

    `grades`: grade by query and document. `open`: "skip" or "cannot tell" by query and document, for those without a
    grade. `notes`: note by query and document.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    open: dict[Pair, str] = field(default_factory=dict)
    notes: dict[Pair, str] = field(default_factory=dict)
    _before: list[tuple[Pair, int | str | None]] = field(default_factory=list)

    @classmethod
    def of(cls, actions: Iterable[Action]) -> JudgeState:
        state = cls()
        for action in actions:
            state.add(action)
        return state

    @property
    def last(self) -> Pair | None:
        """What an undo would take back."""
        return self._before[-1][0] if self._before else None

    def add(self, action: Action) -> None:
        pair = action.pair
        if action.action == "note":
            self.notes[pair] = action.note
            if not action.note:
                del self.notes[pair]
        elif action.action == "undo":
            at = next((at for at in reversed(range(len(self._before))) if self._before[at][0] == pair), None)
            if at is not None:
                self._set(pair, self._before.pop(at)[1])
        else:
            self._before.append((pair, self.grades.get(pair, self.open.get(pair))))
            self._set(pair, action.grade if action.action == "grade" else action.action)

    def _set(self, pair: Pair, value: int | str | None) -> None:
        self.grades.pop(pair, None)
        self.open.pop(pair, None)
        if isinstance(value, str):
            self.open[pair] = value
        elif value is not None:
            self.grades[pair] = value


def read_actions(path: str | Path) -> list[Action]:
    """Read the file of a judge; half a line at the end, left by a process that was killed, is ignored."""
    return _parsed(b"".join(line_chunks(path)), path)[0]


def _parsed(data: bytes, path: str | Path) -> tuple[list[Action], int]:
    """The actions of a file, and how many of its bytes hold them."""
    lines = data.split(b"\n")
    rest = lines.pop()
    actions = [_action(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    return actions, len(data) - len(rest)


def _action(line: bytes, path: str | Path, number: int) -> Action:
    try:
        values = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InputError("not a line of JSON; expected a file that `rankwright judge` wrote", path, number) from None
    if not isinstance(values, dict) or values.get("action") not in ACTIONS:
        expected = f"an object whose action is one of {', '.join(ACTIONS)}"
        raise InputError(f"{shown(values)}; expected {expected}", path, number)
    fields: dict[str, Any] = {key: values[key] for key in _KEYS if key in values}
    for key in ("query", "document", "note", "time"):
        if not isinstance(fields.get(key, ""), str) or (key in ("query", "document") and not fields.get(key)):
            raise InputError(f"{key} is {shown(fields.get(key))}; expected a string", path, number)
    grade = fields.get("grade")
    if (values["action"] == "grade") != (type(grade) is int and grade in GRADES):
        raise InputError(f"grade is {shown(grade)}; expected one of 0, 1, 2, 3 with the action grade", path, number)
    return Action(**fields)


class JudgeFile:
    """The file of one judge, open to append to; one process at a time.

    `path`: the file; a new one is created.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        is_new = not self.path.exists()
        try:
            self._file: IO[bytes] = self.path.open("ab", buffering=0)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", self.path) from None
        try:
            self._claim()
            data = self.path.read_bytes()
            actions, self._size = _parsed(data, self.path)
            self.cut = len(data) - self._size
            if self.cut:
                self._file.truncate(self._size)
        except BaseException:
            self._file.close()
            raise
        if is_new:
            _keep_name(self.path)
        self.actions = actions

    def append(self, action: Action) -> Action:
        """Write an action; it is on disk when this returns, or not in the file at all."""
        action = Action(**{**vars(action), "time": datetime.now(UTC).isoformat(timespec="seconds")})
        line = action.line()
        if os.name == "posix" and not os.fstat(self._file.fileno()).st_nlink:
            raise InputError("was removed; expected to start `rankwright judge` again", self.path)
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(0, "the disk is full")
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(self._size)
            raise InputError(f"cannot be written: {error.strerror or error}", self.path) from None
        self._size += len(line)
        self.actions.append(action)
        return action

    def close(self) -> None:
        self._file.close()

    def _claim(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "another `rankwright judge` is writing this file; expected to end it, or another --judge NAME"
            raise InputError(problem, self.path) from None
        except OSError:  # a file system without locks
            return


def _keep_name(path: Path) -> None:
    """Make sure that a new file is still there after a crash: its name is in the folder, on disk."""
    if os.name != "posix":
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def check_judge(name: str) -> str:
    if not _NAME.fullmatch(name) or name != name.strip():
        raise InputError(f"--judge is {name!r}; expected up to 64 letters, digits, blanks or any of _ . @ + -")
    return name


def judge_path(folder: str | Path, judge: str) -> Path:
    return Path(folder) / f"{check_judge(judge)}{_ENDING}"


def check_folder(folder: str | Path) -> None:
    """Reject a folder whose qrels are somebody else's: they would be replaced."""
    path = Path(folder) / QRELS
    if path.exists() and not any(Path(folder).glob(f"*{_ENDING}")):
        raise InputError("exists, but no file of a judge belongs to it; expected another folder for -o", path)


def read_folder(folder: str | Path, without: str | None = None) -> dict[str, JudgeState]:
    """Read the state of every judge of a folder, by name; ``without`` leaves one of them out."""
    paths = {path.name.removesuffix(_ENDING): path for path in sorted(Path(folder).glob(f"*{_ENDING}"))}
    return {name: JudgeState.of(read_actions(path)) for name, path in paths.items() if name != without}


def grades_of(path: str | Path, read: Callable[[Path], TrecTable] = read_qrels) -> dict[str, Grades]:
    """Grades by judge: of a folder of judgements, of one judge's file, or of any file that ``read`` reads."""
    path = Path(path)
    if path.is_dir():
        judges = read_folder(path)
        if not judges:
            raise InputError(f"contains no judgements; expected files NAME{_ENDING} of `rankwright judge`", path)
        return {judge: state.grades for judge, state in judges.items()}
    if path.name.endswith(_ENDING):
        return {path.name.removesuffix(_ENDING): JudgeState.of(read_actions(path)).grades}
    table = read(path)
    bounds = table.indptr.tolist()
    grades: dict[Pair, float] = {}
    for query, start, stop in zip(table.query_ids.tolist(), bounds[:-1], bounds[1:], strict=True):
        for document, value in zip(table.documents[start:stop], table.values[start:stop].tolist(), strict=True):
            grades[query, document.decode("utf-8", "replace")] = value
    return {path.stem: grades}


def merged(judges: Mapping[str, JudgeState]) -> dict[str, dict[str, int]]:
    """The grades of all judges together, by query and document.

    Examples
    --------
    >>> two = {"ann": JudgeState(grades={("q", "d"): 3}), "bob": JudgeState(grades={("q", "d"): 1})}
    >>> merged(two)
    {'q': {'d': 1}}
    """
    given: dict[Pair, list[int]] = {}
    for state in judges.values():
        for pair, grade in state.grades.items():
            given.setdefault(pair, []).append(grade)
    qrels: dict[str, dict[str, int]] = {}
    for query, document in sorted(given):
        grades = sorted(given[query, document])
        qrels.setdefault(query, {})[document] = grades[(len(grades) - 1) // 2]
    return qrels


def update_qrels(folder: str | Path, judge: str, judged: JudgeState) -> None:
    """Write the qrels of a folder anew, whole or not at all: this judge's grades, and what the others' files hold."""
    with _held(Path(folder)):
        qrels = merged({**read_folder(folder, without=judge), judge: judged})
        write_qrels(TrecTable.from_dict(qrels), Path(folder) / QRELS)


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
