"""Data in partitions, opened: what comes here, what stays there, and what is refused."""

import pickle

import numpy as np
import pytest
from tests.data.partitioned import assert_same, made, shuffled, write_partitioned
from tests.in_partitions import Several, made_up

from rankwright import InputError, LinearModel, RankingData, StructuredSVM, open_partitions, read_data, save_folder
from rankwright.cluster.dataset import PartitionedFeatures, Reading
from rankwright.data.places import place_of
from rankwright.io.partitions import piece_sources


@pytest.fixture
def partitions(tmp_path):
    save_folder(made(), tmp_path / "x.rank")
    return write_partitioned([tmp_path / "x.rank"], 4, tmp_path / "x.partitions")


def joined(sources):
    return RankingData.concatenate([source.load() for source in sources])


def test_everything_but_the_features_is_here(partitions):
    for data in (
        open_partitions(partitions.path),
        read_data(partitions.path),
        open_partitions(partitions.path, engine=Several(2)),
    ):
        expected = joined(partitions.sources)
        assert place_of(data).is_partitioned
        assert data.X.cluster.n_partitions == 4
        assert data.X.shape == expected.X.shape
        np.testing.assert_array_equal(data.labels, expected.labels)
        np.testing.assert_array_equal(data.indptr, expected.indptr)
        assert data.query_ids.tolist() == expected.query_ids.tolist()
        assert data.doc_ids.tolist() == expected.doc_ids.tolist()
        assert data.feature_names == expected.feature_names
        model = LinearModel(np.array([1.0, -2.0, 0.5, 0.0]), feature_names=data.feature_names)
        np.testing.assert_array_equal(model.predict(data), model.predict(expected))


def test_the_engine_is_chosen_by_name(partitions):
    assert open_partitions(partitions.path, engine="local").n_docs == 400
    with pytest.raises(InputError, match=r"the engine is 'spark'"):
        open_partitions(partitions.path, engine="spark")


def test_sources_travel(partitions):
    for source in partitions.sources:
        again = pickle.loads(pickle.dumps(source))
        assert again == source
        assert_same(again.load(), source.load())


@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        lambda X: X[3:5],
        lambda X: X @ np.ones(4),
        lambda X: X.astype(np.float32),
        lambda X: X.copy(),
        np.isnan,
        lambda X: X.T,
    ],
)
def test_features_in_partitions_are_not_an_array(partitions, use):
    message = r"the features are in 4 partitions, and this needs them in one place; join the partitions first: "
    message += "rankwright convert "
    with pytest.raises(InputError, match=message + r".*x.partitions -o JOINED.rank"):
        use(open_partitions(partitions.path).X)
    assert not hasattr(open_partitions(partitions.path).X, "toarray")


def test_unpickling_asks_for_nothing():
    assert not hasattr(object.__new__(PartitionedFeatures), "cluster")


class TestPieces:
    """Folders of other programs, one partition a piece."""

    def write(self, folder, data, kind):
        folder.mkdir(exist_ok=True)
        if kind == "folder":
            return [save_folder(partition, folder / f"{at}.rank") for at, partition in enumerate(data)]
        parquet = pytest.importorskip("pyarrow.parquet")
        from rankwright import to_frame

        for at, partition in enumerate(data):
            (folder / f"bucket={at}").mkdir(exist_ok=True)
            parquet.write_table(to_frame(partition, "pyarrow"), folder / f"bucket={at}" / "partition-0.parquet")
        return None

    @pytest.mark.parametrize("kind", ["folder", "parquet"])
    def test_whole_queries(self, tmp_path, kind):
        data = made()
        halves = [data.select(np.arange(0, 15)), data.select(np.arange(15, data.n_queries))]
        self.write(tmp_path / "pieces", halves, kind)
        found = open_partitions(tmp_path / "pieces", engine=Several(2))
        assert found.X.cluster.n_partitions == 2
        assert found.query_ids.tolist() == data.query_ids.tolist()
        sources = piece_sources(tmp_path / "pieces")
        assert [source.n_docs for source in sources] == [half.n_docs for half in halves]
        for source, half in zip(sources, halves, strict=True):
            assert_same(pickle.loads(pickle.dumps(source)).load(), half)

    @pytest.mark.parametrize(
        ("kind", "first", "second"),
        [("folder", "0.rank", "2.rank"), ("parquet", "bucket=0/partition-0.parquet", "bucket=2/partition-0.parquet")],
    )
    def test_a_split_query_is_refused_by_name_and_repaired(self, tmp_path, kind, first, second):
        data = made()
        query = data.query_ids[3]
        partitions = [data.select(np.arange(0, 4)), data.select(np.arange(4, 9)), data.select(np.arange(3, 7))]
        partitions[2] = partitions[2].select([0])
        self.write(tmp_path / "pieces", partitions, kind)
        with pytest.raises(InputError) as error:
            open_partitions(tmp_path / "pieces")
        place = tmp_path / "pieces"
        repair = f"rankwright convert {place} --by-query 3 -o NEW.partitions repairs it"
        expected = (
            f"{place}: query {query} is in {first} and in {second}; expected each query in one partition: {repair}"
        )
        assert str(error.value) == expected
        write_partitioned([place], 3, tmp_path / "new.partitions")
        found = open_partitions(tmp_path / "new.partitions")
        assert found.n_docs == sum(partition.n_docs for partition in partitions)
        assert found.sizes[found.query_ids.tolist().index(query)] == 2 * partitions[2].n_docs

    def test_a_query_named_by_its_folder(self, tmp_path):
        parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        for query in (3, 12):
            (tmp_path / f"qid={query}").mkdir()
            parquet.write_table(
                pyarrow.table({"label": [1, 0], "a": [0.5, 2]}), tmp_path / f"qid={query}" / "0.parquet"
            )
        assert open_partitions(tmp_path).query_ids.tolist() == [12, 3]

    def test_partitions_that_differ(self, tmp_path):
        self.write(tmp_path / "p", [made(), made(seed=1, qid=[f"o{n % 5}" for n in range(400)])], "folder")
        assert open_partitions(tmp_path / "p").n_docs == 800
        other = RankingData.from_arrays(**shuffled(feature_names=["a", "b", "c", "z"]))
        self.write(tmp_path / "p", [made(), other], "folder")
        with pytest.raises(InputError, match=r"0.rank and 1.rank differ in their features"):
            open_partitions(tmp_path / "p")

    def test_what_is_no_folder_of_partitions(self, tmp_path):
        (tmp_path / "x.txt").write_text("1 qid:1 1:2\n")
        with pytest.raises(InputError, match=r"is not a folder of partitions"):
            open_partitions(tmp_path)


def test_known_statistics_are_not_read_again(tmp_path, monkeypatch):
    save_folder(made_up(), tmp_path / "x.rank")
    write_partitioned([tmp_path / "x.rank"], 3, tmp_path / "x.partitions")
    expected = place_of(open_partitions(tmp_path / "x.partitions")).statistics()
    data = open_partitions(tmp_path / "x.partitions")
    vars(data.X)["_statistics"] = None  # so that features are read
    read = place_of(data).statistics()
    for name in ("n_rows", "low", "high", "missing", "means", "deviations"):
        np.testing.assert_array_equal(getattr(expected, name), getattr(read, name))
    fitted = StructuredSVM("map").fit(data).coef_
    monkeypatch.setattr(Reading, "__init__", None)
    X = made_up().X
    known = place_of(open_partitions(tmp_path / "x.partitions")).statistics()
    np.testing.assert_array_equal(known.high, X.max(axis=0))
    monkeypatch.undo()
    np.testing.assert_array_equal(StructuredSVM("map").fit(open_partitions(tmp_path / "x.partitions")).coef_, fitted)
