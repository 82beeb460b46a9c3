"""The file of one judge: one line of JSON per action, appended and on disk before anybody goes on.

Nothing in it is ever changed: an undo is a line, too. A process that is killed while it writes leaves at most half a
line at the end, which the next one removes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rankwright.data.files import line_chunks
from rankwright.errors import InputError, shown

try:
    import fcntl
except ImportError:  # there are no such locks on this system
    fcntl = None  # type: ignore[assignment]

__all__ = ["ACTIONS", "GRADES", "Action", "JudgeFile", "Judged", "read_actions"]

GRADES = (0, 1, 2, 3)
ACTIONS = ("grade", "cannot tell", "skip", "note", "undo")
_KEYS = ("action", "query", "document", "grade", "note", "time")
Pair = tuple[str, str]


@dataclass(frozen=True)
class Action:
    """What a judge did with a document.

    Attributes
    ----------
    action : {"grade", "cannot tell", "skip", "note", "undo"}
        ``undo`` takes back the last grade, skip or "cannot tell" that the document got.
    query, document : str
        Their ids.
    grade : int or None
        From 0 to 3, for ``grade``.
    note : str
        For ``note``; an empty one removes the note.
    time : str
        When, in UTC.
    """

    action: str
    query: str
    document: str
    grade: int | None = None
    note: str = ""
    time: str = ""

    @property
    def pair(self) -> Pair:
        """Query and document."""
        return self.query, self.document

    def line(self) -> bytes:
        """One line of JSON, with the keys that this action needs."""
        told = {key: getattr(self, key) for key in _KEYS}
        left_out = {"grade": self.action != "grade", "note": self.action != "note", "time": not self.time}
        kept = {key: value for key, value in told.items() if not left_out.get(key, False)}
        return json.dumps(kept, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


@dataclass
class Judged:
    """What the actions of a judge amount to.

    Attributes
    ----------
    grades : dict
        Grade by query and document.
    open : dict
        "skip" or "cannot tell" by query and document, for those without a grade.
    notes : dict
        Note by query and document.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    open: dict[Pair, str] = field(default_factory=dict)
    notes: dict[Pair, str] = field(default_factory=dict)
    _before: list[tuple[Pair, int | str | None]] = field(default_factory=list)

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Judged:
        """From the actions, first to last."""
        found = cls()
        for action in actions:
            found.add(action)
        return found

    @property
    def last(self) -> Pair | None:
        """What an undo would take back."""
        return self._before[-1][0] if self._before else None

    def add(self, action: Action) -> None:
        """Follow an action."""
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
    """Read the file of a judge; half a line at the end, left by a process that was killed, is ignored.

    Examples
    --------
    >>> read_actions("judgements/me.jsonl")  # doctest: +SKIP
    """
    return _parsed(b"".join(line_chunks(path)), path)[0]


def _parsed(data: bytes, path: str | Path) -> tuple[list[Action], int]:
    """The actions of a file, and how many of its bytes hold them."""
    lines = data.split(b"\n")
    rest = lines.pop()
    actions = [_action(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    return actions, len(data) - len(rest)


def _action(line: bytes, path: str | Path, number: int) -> Action:
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InputError("not a line of JSON; expected a file that `rankwright judge` wrote", path, number) from None
    if not isinstance(found, dict) or found.get("action") not in ACTIONS:
        expected = f"an object whose action is one of {', '.join(ACTIONS)}"
        raise InputError(f"{shown(found)}; expected {expected}", path, number)
    known: dict[str, Any] = {key: found[key] for key in _KEYS if key in found}
    for key in ("query", "document", "note", "time"):
        if not isinstance(known.get(key, ""), str) or (key in ("query", "document") and not known.get(key)):
            raise InputError(f"{key} is {shown(known.get(key))}; expected a string", path, number)
    grade = known.get("grade")
    if (found["action"] == "grade") != (type(grade) is int and grade in GRADES):
        raise InputError(f"grade is {shown(grade)}; expected one of 0, 1, 2, 3 with the action grade", path, number)
    return Action(**known)


class JudgeFile:
    """The file of one judge, open to append to; one process at a time.

    Parameters
    ----------
    path : path
        The file; a new one is created.
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
        """Close the file, and let others have it."""
        self._file.close()

    def _claim(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "another `rankwright judge` is writing this file; expected to end it, or another --judge NAME"
            raise InputError(what, self.path) from None
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
