"""Journals: what was recorded comes back, torn and damaged ends are computed again, other trainings are refused."""

import subprocess
import sys

import numpy as np
import pytest

from rankwright.cluster.cluster import Cluster
from rankwright.cluster.journal import Journal, read_key
from rankwright.cluster.worker import Local
from rankwright.errors import InputError

KEY = {"method": "svm-map", "C": 1.0, "data": ["0f", "3a"]}


def made(number):
    return {"w": np.arange(number, dtype=np.float32), "n": np.array(number), "M": np.full((2, number), -1, np.int64)}


def run(journal, numbers=range(5)):
    """A driver: which results were computed, and all of them."""
    computed, found = [], []
    for number in numbers:
        found.append(journal.recall(lambda number=number: computed.append(number) or made(number)))
    return computed, found


def same(one, two):
    return repr(one) == repr(two) and [a.dtype for r in one for a in r.values()] == [
        a.dtype for r in two for a in r.values()
    ]


@pytest.fixture
def path(tmp_path):
    with Journal(tmp_path / "a.journal", KEY) as journal:
        run(journal, range(3))
    return tmp_path / "a.journal"


def test_a_driver_goes_on_where_it_was(path):
    with Journal(path, KEY, resume=True) as journal:
        computed, found = run(journal)
    assert computed == [3, 4]
    assert same(found, [made(number) for number in range(5)])
    with Journal(path, KEY, resume=True) as journal:
        assert run(journal)[0] == []
        assert (journal.recalled, journal.recorded) == (5, 0)


def test_wherever_the_file_ends_the_results_are_the_same(path):
    whole = path.read_bytes()
    with Journal(path, KEY) as journal:  # anew: where the records start
        pass
    start = path.stat().st_size
    for size in range(start, len(whole), 7):
        path.write_bytes(whole[:size])
        with Journal(path, KEY, resume=True) as journal:
            computed, found = run(journal, range(3))
        assert computed
        assert same(found, [made(number) for number in range(3)])
        assert path.read_bytes() == whole


def test_a_damaged_record_ends_the_file(path):
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with Journal(path, KEY, resume=True) as journal:
        computed, found = run(journal)
    assert computed == [2, 3, 4]
    assert same(found, [made(number) for number in range(5)])


def test_another_training_is_refused(path):
    with pytest.raises(
        InputError, match=r"a.journal: belongs to another training run: C was 1.0 and is 10.0; expected"
    ):
        Journal(path, KEY | {"C": 10.0}, resume=True)
    assert read_key(path) == KEY


def test_what_is_not_a_journal_is_refused(tmp_path):
    with pytest.raises(InputError, match="nothing to resume"):
        Journal(tmp_path / "none", KEY, resume=True)
    (tmp_path / "other").write_bytes(b"\x00" * 100)
    with pytest.raises(InputError, match="not a journal"):
        Journal(tmp_path / "other", KEY, resume=True)
    assert read_key(tmp_path / "other") is None


def test_only_numbers_are_recorded(tmp_path):
    with Journal(tmp_path / "a", KEY) as journal, pytest.raises(TypeError, match="'x'"):
        journal.recall(lambda: {"x": np.array([None])})


def test_one_training_at_a_time(path):
    with Journal(path, KEY, resume=True), pytest.raises(InputError, match="by another training"):
        Journal(path, KEY, resume=True)


def test_a_cluster_without_a_journal_computes():
    cluster = Cluster(Local(), [], [])
    assert same([cluster.recall(lambda: made(2))], [made(2)])


def test_arrays_have_the_same_order_with_and_without_a_journal(tmp_path):
    """Products of matrices in another order have other bits."""
    cluster = Cluster(Local(), [], [])
    found = [cluster.recall(lambda: {"M": np.ones((2, 3)).T})]
    for resume in (False, True):
        with Journal(tmp_path / "a", KEY, resume=resume) as cluster.journal:
            found.append(cluster.recall(lambda: {"M": np.ones((2, 3)).T}))
    assert [one["M"].flags.c_contiguous for one in found] == [True] * 3


DRIVER = """
import os, sys
from test_journals import KEY, Journal, made
journal = Journal(sys.argv[1], KEY)
for number in range(3):
    journal.recall(lambda: made(number))
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_driver_recorded_is_there(tmp_path):
    code = f"import sys; sys.path[:] = {sys.path!r}\n{DRIVER}"
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "a"], check=False).returncode == -9
    with Journal(tmp_path / "a", KEY, resume=True) as journal:
        assert run(journal)[0] == [3, 4]
