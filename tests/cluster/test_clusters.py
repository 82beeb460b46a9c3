"""Clusters and actors: the same results with any engine, after any loss; worker processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from toy_actors import SIZES, Heavy, Scripted, Sums, sources, story

from rankwright.cluster.cluster import Cluster
from rankwright.cluster.dataset import engine_of
from rankwright.cluster.worker import Local, Processes, add_up
from rankwright.errors import InputError


@pytest.fixture(scope="module")
def here():
    """What happens in this process."""
    return story(Cluster(Local(), sources(), SIZES))


@pytest.fixture(scope="module")
def workers():
    found = Processes(2)
    yield found
    found.close()


def test_worker_processes_give_the_same(here, workers):
    cluster = Cluster(workers, sources(), SIZES, closes=False)
    assert story(cluster) == here
    assert cluster.loads() == dict.fromkeys(range(5), 1)
    cluster.close()


def test_the_story_depends_on_what_is_told(here):
    cluster = Cluster(Local(), sources(), SIZES)
    actors = cluster.make(Sums, 2, own=[(partition + 1,) for partition in range(5)])
    assert repr(actors.sum("total")) not in here


def test_whatever_host_is_lost_at_whatever_call_the_same_comes_out(here):
    quiet = Scripted(3)
    assert story(Cluster(quiet, sources(), SIZES)) == here
    for call in range(1, quiet.calls + 1):
        for worker in range(3):
            transport = Scripted(3, {call: worker})
            assert story(Cluster(transport, sources(), SIZES)) == here, (call, worker)


def test_losses_in_a_row(here):
    rng = np.random.default_rng(0)
    moved = 0
    for _ in range(60):
        transport = Scripted(2, {call: int(rng.integers(0, 8)) for call in range(1, 80, int(rng.integers(3, 9)))})
        cluster = Cluster(transport, sources(), SIZES)
        assert story(cluster) == here
        moved += cluster.moves
    assert moved > 60


def test_hosts_that_come_after_a_loss_are_used(here, monkeypatch):
    monkeypatch.setattr("rankwright.cluster.cluster._LOOK", 0.0)
    transport = Scripted(2, {5: 0}, late=True)
    cluster = Cluster(transport, sources(), SIZES)
    actors = cluster.make(Sums, 1)
    actors.update("add", 2)
    expected = Cluster(Local(), sources(), SIZES).make(Sums, 1)
    expected.update("add", 2)
    assert actors.call("slow", 0.0) == expected.call("slow", 0.0)
    assert len(cluster._by_worker(range(5))) == 1
    transport.come()
    assert actors.call("slow", 0.0) == expected.call("slow", 0.0)
    assert min(sum(SIZES[partition] for partition in partitions) for _, partitions in cluster._by_worker(range(5))) > 8
    assert {partition[1] for worker in transport.living.values() for partition in worker._data} == set(range(5))
    assert sum(len(worker._data) for worker in transport.living.values()) == 5
    assert story(cluster) == here


def test_partitions_are_spread_by_their_sizes():
    cluster = Cluster(Scripted(2), sources(), SIZES)
    workers = cluster.make(Sums, 1)._cluster._by_worker(range(5))
    assert sorted(sum(SIZES[partition] for partition in partitions) for _, partitions in workers) == [11, 12]


def test_only_integers_are_summed():
    actors = Cluster(Local(), sources(), SIZES).make(Sums, 1)
    with pytest.raises(TypeError, match="only integers"):
        actors.sum("mean")
    with pytest.raises(TypeError, match="only integers"):
        add_up([(1, np.zeros(2))])
    assert add_up([np.int64(2**62), np.int64(1)]) == 2**62 + 1


def test_two_clusters_share_their_workers(workers):
    one, two = (Cluster(workers, sources()[:n], SIZES[:n], closes=False) for n in (3, 5))
    groups = [cluster.make(Sums, factor) for cluster, factor in ((one, 1), (two, 10))]
    assert groups[1].sum("total")[0] > 10 * groups[0].sum("total")[0]
    one.close()
    assert groups[1].call("mean")[0] == Cluster(Local(), sources(), SIZES).make(Sums, 10).call("mean")[0]
    assert len(workers.pids()) == 2
    two.close()


def test_errors_come_back_as_they_are(workers):
    actors = Cluster(workers, sources(), SIZES, closes=False).make(Sums, 1)
    with pytest.raises(InputError) as found:
        actors.call("fail")
    assert (str(found.value), found.value.line) == ("some.file:7: no such thing", 7)
    with pytest.raises(RuntimeError, match="Odd: cannot travel"):
        actors.call("refuse")
    assert actors.call("mean") == Cluster(Local(), sources(), SIZES).make(Sums, 1).call("mean")


def test_arrays_that_travel_can_be_written_to(workers):
    given = np.zeros(100_000)
    found = Cluster(workers, sources(), SIZES, closes=False).make(Sums, 1).call("write", given)
    assert all(writable and own.flags.writeable and own.any() for writable, own in found)
    assert not given.any()


def test_a_killed_worker_is_replaced(here):
    workers = Processes(2)
    cluster = Cluster(workers, sources(), SIZES)
    actors = cluster.make(Sums, 1)
    actors.update("add", 4)
    expected = actors.call("slow", 0.0)
    killed = actors.call("process")[0]
    timer = threading.Timer(0.1, os.kill, (killed, signal.SIGKILL))
    timer.start()
    assert actors.call("slow", 0.2) == expected
    timer.join()
    assert killed not in workers.pids()
    assert len(workers.pids()) == 2
    assert 0 < cluster.moves < 5
    assert story(cluster) == here
    cluster.close()
    assert not workers.pids()


def test_partitions_that_no_worker_survives_end_with_one_line():
    workers = Processes(1)
    with pytest.raises(InputError, match="lost 6 times in a row, the last one with the partitions 0, 1, 2, 3, 4"):
        Cluster(workers, sources(Heavy), SIZES)
    workers.close()


PARENT = """
import sys, time
from rankwright.cluster.cluster import Cluster
from rankwright.cluster.worker import Processes
from toy_actors import SIZES, Sums, sources
actors = Cluster(Processes(2), sources(), SIZES).make(Sums, 1)
print(*set(actors.call("process")), flush=True)
actors.call("slow", 60.0)
"""


def test_workers_end_with_their_parent():
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    environment = os.environ | {"PYTHONPATH": path}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    until = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < until, "workers outlive their parent"
        time.sleep(0.02)


def is_running(pid):
    """Whether a process is there and not a zombie, which has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_engines_by_name():
    assert isinstance(engine_of(None), Local)
    assert isinstance(engine_of("local"), Local)
    assert len(engine_of("processes:3").workers()) == 3
    assert engine_of(existing := Local()) is existing


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("dask://worker:8786", "worker:8786"),
        ("dask://[::1]:8786/", "[::1]:8786"),
        ("dask://local", None),
        ("dask://local:3", 3),
    ],
)
def test_names_of_clusters(name, asked, monkeypatch):
    for function in ("connect", "local_cluster"):
        monkeypatch.setattr(f"rankwright.cluster.dask.{function}", lambda given: given)
    assert engine_of(name) == asked


@pytest.mark.parametrize(
    "name", ["spark", "processes:0", "processes:x", "local:2", "dask://", "dask://worker", "dask://local:0", "", 7]
)
def test_other_names_get_one_line(name):
    with pytest.raises(InputError, match=r"the engine is .*; expected ") as found:
        engine_of(name)
    assert "\n" not in str(found.value)
