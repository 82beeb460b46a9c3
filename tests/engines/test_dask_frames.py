"""Dask DataFrames as data: partitions are parts, made once where they are, and again after a loss."""

import os
import signal

import numpy as np
import pytest

import rankwright
from in_parts import Several, in_parts, made_up
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
    split = dd.from_pandas(frame, npartitions=3, sort=False)
    what = r"Dask DataFrame: query q\d+ is in partition 0 and in partition 1; .*: frame.shuffle\('qid'\) repairs it"
    with pytest.raises(InputError, match=what):
        rankwright.open_parts(split, engine=client)
    assert rankwright.open_parts(split.shuffle("qid"), engine=client).n_docs == len(frame)


def test_training_on_a_frame_is_training_on_its_data(client, made):
    data, frame = made
    parted = rankwright.open_parts(cut(frame, 3), engine=client)
    parts = [data.select(np.isin(data.query_ids, some)) for some in np.array_split(data.query_ids, 3)]
    expected = rankwright.StructuredSVM("map", C=1.0).fit(in_parts(parts, Several(2)))
    assert rankwright.StructuredSVM("map", C=1.0).fit(parted).coef_.tobytes() == expected.coef_.tobytes()
    with pytest.raises(InputError, match=r"join the parts first: rankwright\.from_frame"):
        np.asarray(parted.X)


def test_frames_need_a_cluster(made):
    with pytest.raises(InputError, match="on its cluster; expected engine=Client"):
        rankwright.open_parts(cut(made[1], 2), engine="processes")
    with pytest.raises(InputError, match="on a cluster; expected engine=Client"):
        rankwright.open_parts(cut(made[1], 2))


def test_bad_frames_get_one_line(client, made):
    _, frame = made
    with pytest.raises(InputError, match="no column 'grade'; it has qid, label, f1"):
        frame_fleet(cut(frame, 2), DaskWorkers(client), label="grade")
    with pytest.raises(InputError, match=r"partition 0 of the Dask DataFrame: .*label"):
        frame_fleet(cut(frame.assign(label=-1.0), 2), DaskWorkers(client))
    with pytest.raises(InputError, match="no rows"):
        frame_fleet(cut(frame[:0], 2), DaskWorkers(client))
