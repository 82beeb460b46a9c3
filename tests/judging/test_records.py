"""The file of a judge: appended, on disk at once, whole after a kill, one writer at a time."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from rankwright.errors import InputError
from rankwright.judging import records
from rankwright.judging.records import Action, JudgeFile, JudgeState, read_actions


def grade(document, value, query="q"):
    return Action("grade", query, document, value)


def test_actions_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "ann.jsonl"
    written = [
        grade("a", 3),
        Action("note", "q", 'ünï "№1"\u2028', note="line\nbreak"),
        Action("cannot tell", "q", "b"),
        Action("skip", "q", "c"),
        Action("undo", "q", "c"),
    ]
    file = JudgeFile(path)
    kept = [file.append(one) for one in written]
    file.close()
    assert read_actions(path) == kept
    assert all(one.time.endswith("+00:00") for one in kept)
    assert path.read_bytes().count(b"\n") == len(written)
    again = JudgeFile(path)
    assert again.actions == kept
    assert again.cut == 0
    again.close()


def test_what_actions_amount_to():
    judged = JudgeState.of([grade("a", 1), grade("a", 3), Action("skip", "q", "b"), Action("cannot tell", "q", "b")])
    assert judged.grades == {("q", "a"): 3}
    assert judged.open == {("q", "b"): "cannot tell"}
    assert judged.last == ("q", "b")
    judged.add(Action("undo", "q", "b"))
    assert judged.open == {("q", "b"): "skip"}
    judged.add(Action("undo", "q", "b"))
    assert judged.open == {}
    judged.add(Action("undo", "q", "a"))
    assert judged.grades == {("q", "a"): 1}
    judged.add(Action("undo", "q", "a"))
    assert (judged.grades, judged.last) == ({}, None)
    judged.add(Action("undo", "q", "a"))  # nothing left to take back
    judged.add(Action("note", "q", "a", note="why"))
    assert judged.notes == {("q", "a"): "why"}
    judged.add(Action("note", "q", "a"))
    assert judged.notes == {}


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_half_a_line_at_the_end_is_removed(tmp_path, cut):
    path = tmp_path / "ann.jsonl"
    file = JudgeFile(path)
    file.append(grade("a", 2))
    file.append(grade("b", 1))
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert [one.document for one in read_actions(path)] == ["a"]
    file = JudgeFile(path)
    assert file.cut > 0
    file.append(grade("c", 0))
    file.close()
    assert [(one.document, one.grade) for one in read_actions(path)] == [("a", 2), ("c", 0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense\n", "not a line of JSON"),
        (b"\xff\xfe\n", "not a line of JSON"),
        (b"[" * 100_000 + b"\n", "not a line of JSON"),
        (b"[1]\n", "expected an object whose action"),
        (b'{"action": "praise"}\n', "expected an object whose action"),
        (b'{"action": "grade", "query": "q", "document": "d", "grade": 4}\n', "grade is 4"),
        (b'{"action": "grade", "query": "q", "document": "d", "grade": true}\n', "grade is True"),
        (b'{"action": "grade", "query": "q", "document": "d"}\n', "grade is None"),
        (b'{"action": "skip", "query": "q", "document": "d", "grade": 1}\n', "grade is 1"),
        (b'{"action": "skip", "query": "q"}\n', "document is None"),
        (b'{"action": "skip", "query": 7, "document": "d"}\n', "query is 7"),
    ],
)
def test_a_broken_line_is_named_and_the_file_left_alone(tmp_path, line, message):
    path = tmp_path / "ann.jsonl"
    data = grade("a", 2).line() + line + grade("b", 2).line()
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"ann.jsonl:2: ") as caught:
        JudgeFile(path)
    assert message in str(caught.value)
    assert path.read_bytes() == data


def test_one_process_at_a_time(tmp_path):
    path = tmp_path / "ann.jsonl"
    file = JudgeFile(path)
    with pytest.raises(InputError, match="another `rankwright judge` is writing"):
        JudgeFile(path)
    file.close()
    JudgeFile(path).close()


def test_it_is_on_disk_before_anybody_goes_on(tmp_path, monkeypatch):
    file, synced = JudgeFile(tmp_path / "ann.jsonl"), []
    monkeypatch.setattr(records.os, "fsync", lambda number: synced.append(file.path.read_bytes()))
    file.append(grade("a", 2))
    assert json.loads(synced[0])["document"] == "a"
    file.close()


def test_what_cannot_be_kept_is_not_in_the_file(tmp_path, monkeypatch):
    file = JudgeFile(tmp_path / "ann.jsonl")
    file.append(grade("a", 2))

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(records.os, "fsync", full)
        with pytest.raises(InputError, match="No space left"):
            file.append(grade("b", 2))
    assert len(file.actions) == 1
    file.append(grade("c", 1))
    file.close()
    assert [one.document for one in read_actions(file.path)] == ["a", "c"]


@pytest.mark.skipif(os.name != "posix", reason="open files cannot be removed")
def test_a_file_that_was_removed_is_not_written_to(tmp_path):
    file = JudgeFile(tmp_path / "ann.jsonl")
    file.path.unlink()
    with pytest.raises(InputError, match="was removed"):
        file.append(grade("a", 2))
    file.close()


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_after_kill_9_everything_that_was_told_is_there(tmp_path):
    path = tmp_path / "ann.jsonl"
    code = """
        import sys
        from rankwright.judging.records import Action, JudgeFile
        file = JudgeFile(sys.argv[1])
        number = len(file.actions)
        while True:
            file.append(Action("grade", "q", f"d{number}", number % 4))
            print(number, flush=True)
            number += 1
    """
    told = -1
    for _ in range(3):
        started = [sys.executable, "-c", textwrap.dedent(code), str(path)]
        with subprocess.Popen(started, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(20):
                told = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split("\n")
        told = max([told, *(int(line) for line in rest[:-1] if line)])
        found = read_actions(path)
        assert [one.document for one in found] == [f"d{number}" for number in range(len(found))]
        assert len(found) > told
