"""Dask: the same results as in one process, after kill -9 of a worker, too; a scheduler that is not there, or dies.

Then training on a cluster and Dask DataFrames as data. One file, because all of it needs one cluster.
"""

import os
import signal
import sys
import threading

import numpy as np
import pytest
from at_work_dask import scheduler_running
from toy_actors import SIZES, Sums, sources, story

import rankwright
from in_partitions import Several, cut, in_partitions, made_up
from rankwright import LambdaMART, StructuredSVM
from rankwright.cluster.cluster import Cluster
from rankwright.cluster.dask import DaskWorkers, frame_cluster, is_dask_frame
from rankwright.cluster.dataset import engine_of, gather_partitions
from rankwright.cluster.worker import Local
from rankwright.errors import InputError

distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture(scope="module")
def client():
    """A client of a cluster of two workers on this machine: killed workers are started again."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


def here():
    return story(Cluster(Local(), sources(), SIZES))


def test_dask_gives_the_same(client):
    cluster = Cluster(engine_of(client), sources(), SIZES)
    assert story(cluster) == here()
    assert cluster.loads() == dict.fromkeys(range(5), 1)
    actors = cluster.make(Sums, 1, threads=7)
    assert len(set(actors.call("process")) - {os.getpid()}) == 2
    cluster.close()
    assert client.status == "running"


def test_by_way_of_the_scheduler_it_is_the_same(client):
    workers = DaskWorkers(client)
    workers._direct = False  # as where workers cannot be reached from here
    cluster = Cluster(workers, sources(), SIZES)
    assert story(cluster) == here()
    cluster.close()


def test_errors_and_arrays_come_back(client):
    cluster = Cluster(DaskWorkers(client), sources(), SIZES)
    actors = cluster.make(Sums, 1)
    with pytest.raises(InputError, match=r"some\.file:7: no such thing"):
        actors.call("fail")
    for n in (3, 300_000):
        assert all(
            writable and own.flags.writeable and len(own) == n for writable, own in actors.call("write", np.ones(n))
        )
    cluster.close()


def test_a_killed_worker_costs_nothing_but_time(client):
    cluster = Cluster(DaskWorkers(client), sources(), SIZES)
    actors = cluster.make(Sums, 1)
    actors.update("add", 4)
    expected = actors.call("slow", 0.0)
    for _ in range(2):
        killed = actors.call("process")[0]
        timer = threading.Timer(0.1, os.kill, (killed, signal.SIGKILL))
        timer.start()
        assert actors.call("slow", 0.3) == expected
        timer.join()
    assert cluster.moves > 0
    assert story(cluster) == here()
    cluster.close()


def test_a_worker_that_was_killed_between_two_calls(client):
    cluster = Cluster(DaskWorkers(client), sources(), SIZES)
    actors = cluster.make(Sums, 1)
    expected = actors.update("add", 4), actors.call("mean")
    os.kill(actors.call("process")[-1], signal.SIGKILL)
    assert actors.call("mean") == expected[1]
    assert story(cluster) == here()
    cluster.close()


def test_another_version_on_the_workers_is_refused(client, monkeypatch):
    monkeypatch.setattr("rankwright.__version__", "0.0.7")
    with pytest.raises(InputError, match=r"have Rankwright .*, this machine has 0\.0\.7"):
        Cluster(DaskWorkers(client), sources(), SIZES)


def test_no_scheduler_there(monkeypatch):
    monkeypatch.setattr("rankwright.cluster.dask._CONNECT", 0.5)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 127\.0\.0\.1:9; expected host:port"):
        engine_of("dask://127.0.0.1:9")


def test_dask_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'rankwright\[dask\]'"):
        engine_of("dask://127.0.0.1:9")


def test_the_death_of_the_scheduler_is_one_line():
    with scheduler_running() as (process, address):
        cluster = Cluster(engine_of(f"dask://{address}"), sources(), SIZES)
        actors = cluster.make(Sums, 1)
        assert actors.call("slow", 0.0) == Cluster(Local(), sources(), SIZES).make(Sums, 1).call("slow", 0.0)
        timer = threading.Timer(0.3, process.kill)
        timer.start()
        with pytest.raises(InputError, match=f"the Dask scheduler at {address} is gone"):
            actors.call("slow", 60.0)
        timer.join()
        cluster.close()


def test_dask_on_this_machine_starts_and_ends():
    workers = engine_of("dask://local:1")
    cluster = Cluster(workers, sources(), SIZES)
    assert cluster.make(Sums, 1).call("mean") == Cluster(Local(), sources(), SIZES).make(Sums, 1).call("mean")
    cluster.close()
    assert workers.client.status == "closed"


# Training on a cluster


RANKERS = {
    "svm-map": lambda callback: StructuredSVM("map", C=100.0, callback=callback),
    "lambdamart": lambda callback: LambdaMART(n_trees=5, min_rows=5, callback=callback),
}


@pytest.mark.parametrize("name", RANKERS)
def test_a_worker_is_killed_on_the_way(client, name):
    data = made_up(40)
    partitions = cut(data, 4)
    expected = RANKERS[name](None).fit(in_partitions(partitions, Several(2))).predict(data)
    workers, seen = DaskWorkers(client), []
    partitioned = in_partitions(partitions, workers)
    at = int(np.random.default_rng().integers(1, 4))  # any pass or tree

    def kill(_):
        seen.append(1)
        if len(seen) == at:
            address = partitioned.X.cluster._home[0].address
            os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    found = RANKERS[name](kill).fit(partitioned).predict(data)
    assert len(seen) >= at, "trained before a worker was killed"
    assert partitioned.X.cluster.moves > 0
    assert found.tobytes() == expected.tobytes(), f"killed at {at}"
    workers.close()


# Dask DataFrames


class Where:
    """Beside a partition: where it is."""

    def __init__(self, data, threads):
        self.sums = data.X.sum(axis=0), data.n_docs, os.getpid()

    def told(self):
        return self.sums


@pytest.fixture(scope="module")
def made():
    data = made_up(20)
    return data, rankwright.to_frame(data)


def framed(frame, n):
    """A Dask DataFrame of whole queries in each partition, and an empty one."""
    names = np.array_split(frame["qid"].unique(), n)
    partitions = [frame[frame["qid"].isin(some)] for some in (*names, [])]
    return dd.concat([dd.from_pandas(partition, npartitions=1) for partition in partitions])


def test_partitions_are_partitions_and_outlive_their_worker(client, made):
    data, frame = made
    assert is_dask_frame(framed(frame, 3))
    assert not is_dask_frame(frame)
    cluster = frame_cluster(framed(frame, 5), DaskWorkers(client))
    assert cluster.n_partitions == 5
    assert cluster.loads() == dict.fromkeys(range(5), 1)
    partitioned = gather_partitions(cluster)
    np.testing.assert_array_equal(partitioned.labels, data.labels)
    np.testing.assert_array_equal(partitioned.query_ids, data.query_ids)
    actors = cluster.make(Where)
    before = actors.call("told")
    np.testing.assert_allclose(sum(sums for sums, _, _ in before), data.X.sum(axis=0))
    os.kill(before[0][2], signal.SIGKILL)
    after = actors.call("told")
    assert cluster.moves > 0
    assert [repr(told[:2]) for told in after] == [repr(told[:2]) for told in before]
    cluster.close()


def test_a_query_in_two_partitions_is_refused_by_name(client, made):
    _, frame = made
    split = dd.from_pandas(frame, npartitions=3, sort=False)
    what = r"Dask DataFrame: query q\d+ is in partition 0 and in partition 1; .*: frame.shuffle\('qid'\) repairs it"
    with pytest.raises(InputError, match=what):
        rankwright.open_partitions(split, engine=client)
    assert rankwright.open_partitions(split.shuffle("qid"), engine=client).n_docs == len(frame)


def test_training_on_a_frame_is_training_on_its_data(client, made):
    data, frame = made
    partitioned = rankwright.open_partitions(framed(frame, 3), engine=client)
    partitions = [data.select(np.isin(data.query_ids, some)) for some in np.array_split(data.query_ids, 3)]
    expected = StructuredSVM("map", C=1.0).fit(in_partitions(partitions, Several(2)))
    assert StructuredSVM("map", C=1.0).fit(partitioned).coef_.tobytes() == expected.coef_.tobytes()
    with pytest.raises(InputError, match=r"join the partitions first: rankwright\.from_frame"):
        np.asarray(partitioned.X)


def test_frames_need_a_cluster(made):
    with pytest.raises(InputError, match="on its cluster; expected engine=Client"):
        rankwright.open_partitions(framed(made[1], 2), engine="processes")
    with pytest.raises(InputError, match="on a cluster; expected engine=Client"):
        rankwright.open_partitions(framed(made[1], 2))


def test_bad_frames_get_one_line(client, made):
    _, frame = made
    with pytest.raises(InputError, match="no column 'grade'; it has qid, label, f1"):
        frame_cluster(framed(frame, 2), DaskWorkers(client), label="grade")
    with pytest.raises(InputError, match=r"partition 0 of the Dask DataFrame: .*label"):
        frame_cluster(framed(frame.assign(label=-1.0), 2), DaskWorkers(client))
    with pytest.raises(InputError, match="no rows"):
        frame_cluster(framed(frame[:0], 2), DaskWorkers(client))
