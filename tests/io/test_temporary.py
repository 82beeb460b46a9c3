"""Temporary names: one writer at a time, nothing left behind, and always the old or the new one in place."""

import errno
import os
import resource
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import rankwright.io.files as temporary
from rankwright import InputError, RankingData
from rankwright.io.files import remove_leftovers, replace_file, replace_folder
from rankwright.io.folder import load_folder, save_folder


def data_of(number):
    return RankingData.from_arrays(np.full((4, 2), float(number)), [number] * 4, ["a", "a", "b", "b"])


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["exchange", "two steps"])
def way(request, monkeypatch):
    """Both ways to put a folder in the place of another."""
    if request.param == "two steps":
        monkeypatch.setattr(temporary, "_exchange", lambda one, two: False)
    return request.param


def test_the_old_folder_survives_a_failure_to_rename(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "_exchange", lambda one, two: False)
    save_folder(data_of(1), tmp_path / "data")
    real = os.rename

    def broken(source, target):
        if str(source).endswith(".part"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(InputError, match="No space left"):
        save_folder(data_of(2), tmp_path / "data")
    assert load_folder(tmp_path / "data").X[0, 0] == 1
    assert names_in(tmp_path) == ["data"]


def test_what_killed_runs_left_is_removed(tmp_path, way):
    for name in ("data", "file"):
        part = tmp_path / f".{name}.part"
        part.mkdir()
        (part / "half").write_text("x")
    save_folder(data_of(1), tmp_path / "data")
    with replace_file(tmp_path / "file") as out:
        out.write(b"new")
    assert names_in(tmp_path) == ["data", "file"]
    (tmp_path / ".data.part").write_text("a file")
    (tmp_path / ".file.part").symlink_to(tmp_path / "file")
    save_folder(data_of(2), tmp_path / "data")
    with replace_file(tmp_path / "file") as out:
        out.write(b"newer")
    assert names_in(tmp_path) == ["data", "file"]
    assert (tmp_path / "file").read_bytes() == b"newer"
    (tmp_path / ".other.part").write_text("x")
    remove_leftovers(tmp_path)
    assert names_in(tmp_path) == ["data", "file"]


def test_a_run_killed_between_two_steps_is_taken_back(tmp_path, way):
    save_folder(data_of(1), tmp_path / "data")
    save_folder(data_of(2), tmp_path / ".data.part")
    (tmp_path / "data").rename(tmp_path / ".data.old")
    assert load_folder(tmp_path / "data").X[0, 0] == 1
    (tmp_path / "data").rename(tmp_path / ".data.old")
    save_folder(data_of(3), tmp_path / "data")
    assert load_folder(tmp_path / "data").X[0, 0] == 3
    assert names_in(tmp_path) == ["data"]


def test_one_writer_at_a_time(tmp_path, monkeypatch, way):
    with replace_file(tmp_path / "file") as out, replace_folder(tmp_path / "folder", "marker") as part:
        out.write(b"first")
        (part / "marker").touch()
        monkeypatch.setattr(temporary, "_PATIENCE", 0.0)
        for name, writer in (("file", replace_file), ("folder", lambda path: replace_folder(path, "marker"))):
            with (
                pytest.raises(InputError, match=f"{name}: is being changed by another process"),
                writer(tmp_path / name),
            ):
                raise AssertionError
        remove_leftovers(tmp_path)
        assert (part / "marker").exists()
    assert names_in(tmp_path) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"first"


def test_the_second_writer_waits_for_the_first(tmp_path):
    def write():
        with replace_file(tmp_path / "file") as out:
            out.write(b"second")

    other = threading.Thread(target=write)
    with replace_file(tmp_path / "file") as out:
        other.start()
        out.write(b"first")
    other.join()
    assert (tmp_path / "file").read_bytes() == b"second"
    assert names_in(tmp_path) == ["file"]


def test_without_locks(tmp_path, monkeypatch, way):
    monkeypatch.setattr(temporary, "fcntl", None)
    for number in (1, 2):
        save_folder(data_of(number), tmp_path / "data")
        with replace_file(tmp_path / "file") as out:
            out.write(b"%d" % number)
    assert load_folder(tmp_path / "data").X[0, 0] == 2
    assert (tmp_path / "file").read_bytes() == b"2"
    assert names_in(tmp_path) == ["data", "file"]


def test_readers_find_the_old_or_the_new(tmp_path, way):
    path = tmp_path / "data"
    save_folder(data_of(0), path)
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                data = load_folder(path)
                if not (data.labels[0] == data.X).all() or not (data.labels == data.labels[0]).all():
                    wrong.append("mixed")
            except Exception as error:
                wrong.append(repr(error))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(40):
        save_folder(data_of(number), path)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert names_in(tmp_path) == ["data"]


def test_an_open_folder_stays_what_it_was(tmp_path):
    """Arrays that are used for the first time after the folder was replaced."""
    from rankwright.io.container import Container
    from rankwright.io.folder import FOLDER

    save_folder(data_of(1), tmp_path / "data")
    stored = Container.open(tmp_path / "data", FOLDER)
    save_folder(data_of(2), tmp_path / "data")
    assert stored.array("X", np.float64, None)[0, 0] == 1
    stored.verify()


@pytest.mark.parametrize("name", ["file.txt", "file.gz"])
def test_a_full_disk_is_named(tmp_path, name):
    """Also with another file open: the one that could not be written is named."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with replace_file(tmp_path / "other") as other:
        other.write(b"x")
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            with (
                pytest.raises(InputError, match=rf"^{tmp_path}/{name}: cannot be written: File too large$"),
                replace_file(tmp_path / name) as out,
            ):
                out.write(np.random.default_rng(0).bytes(50_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names_in(tmp_path) == ["other"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_devices_and_pipes_are_written_to(tmp_path):
    with (
        pytest.raises(InputError, match=r"^/dev/full: cannot be written: No space left"),
        replace_file("/dev/full") as out,
    ):
        out.write(b"x")
    with replace_file("/dev/null") as out:
        out.write(b"x")
    assert all(stat.S_ISCHR(os.stat(path).st_mode) for path in ("/dev/null", "/dev/full"))
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    with replace_file(pipe) as out:
        out.write(b"through")
    reader.join()
    assert found == [b"through"]
