"""Dask DataFrames as data: partitions are parts, made once where they are, and again after a loss."""

import os
import signal

import numpy as np
import pytest

import rankwright
from in_parts import made_up
from rankwright.engines.dask import DaskWorkers
from rankwright.engines.features import gather_parts
from rankwright.engines.frames import frame_fleet, is_dask_frame
from rankwright.errors import InputError

pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")


class Where:
    """Beside a part: where it is."""

    def __init__(self, data, threads):
        self.sums = data.X.sum(axis=0), data.n_docs, os.getpid()

    def told(self):
        return self.sums


@pytest.fixture(scope="module")
def made():
    data = made_up(20)
    return data, rankwright.to_frame(data)


def cut(frame, n):
    """A Dask DataFrame of whole queries in each partition, and an empty one."""
    names = np.array_split(frame["qid"].unique(), n)
    parts = [frame[frame["qid"].isin(some)] for some in (*names, [])]
    return dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])


def test_partitions_are_parts_and_outlive_their_worker(client, made):
    data, frame = made
    assert is_dask_frame(cut(frame, 3))
    assert not is_dask_frame(frame)
    fleet = frame_fleet(cut(frame, 5), DaskWorkers(client))
    assert fleet.n_parts == 5
    assert fleet.loads() == dict.fromkeys(range(5), 1)
    parted = gather_parts(fleet)
    np.testing.assert_array_equal(parted.labels, data.labels)
    np.testing.assert_array_equal(parted.query_ids, data.query_ids)
    crew = fleet.make(Where)
    before = crew.ask("told")
    np.testing.assert_allclose(sum(sums for sums, _, _ in before), data.X.sum(axis=0))
    os.kill(before[0][2], signal.SIGKILL)
    after = crew.ask("told")
    assert fleet.moves > 0
    assert [repr(told[:2]) for told in after] == [repr(told[:2]) for told in before]
    fleet.close()


def test_a_query_in_two_partitions_is_refused_by_name(client, made):
    _, frame = made
    fleet = frame_fleet(dd.from_pandas(frame, npartitions=3, sort=False), DaskWorkers(client))
    with pytest.raises(InputError, match=r"query q\d+ is in part"):
        gather_parts(fleet)
    fleet.close()


def test_bad_frames_get_one_line(client, made):
    _, frame = made
    with pytest.raises(InputError, match="no column 'grade'; it has qid, label, f1"):
        frame_fleet(cut(frame, 2), DaskWorkers(client), label="grade")
    with pytest.raises(InputError, match=r"partition 0 of the Dask DataFrame: .*label"):
        frame_fleet(cut(frame.assign(label=-1.0), 2), DaskWorkers(client))
    with pytest.raises(InputError, match="no rows"):
        frame_fleet(cut(frame[:0], 2), DaskWorkers(client))
