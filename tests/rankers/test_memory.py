"""What training allocates on top of the features, and that features stay where they are."""

import mmap
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from rankwright import (
    AccuracySVM,
    InputError,
    LambdaBoost,
    LambdaMART,
    LambdaRank,
    McRank,
    RankingData,
    RankingSVM,
    RankNet,
    StructuredSVM,
)
from rankwright.boosting import binning
from rankwright.data import dataset as parts
from rankwright.data import threads as scratch
from rankwright.data.dataset import batches, feature_bytes, pieces, some_queries, stored
from rankwright.data.statistics import statistics_of
from rankwright.io.folder import load_folder, save_folder
from rankwright.maxmargin import accuracy

SIZE, N_QUERIES = 50, 160
BESIDES = 100 * SIZE * N_QUERIES + (5 << 20)  # bytes: some numbers per document, and what does not grow with the data
SPARSE_RANKERS = {
    "map": lambda: StructuredSVM("map", solver="one-slack-cutting-plane", max_passes=3),
    "ndcg": lambda: StructuredSVM("ndcg@5", bound="hinge", solver="one-slack-cutting-plane", max_passes=3),
    "pairs": lambda: RankingSVM(1e-3, solver="one-slack-cutting-plane", max_passes=3),
    "auto": lambda: StructuredSVM("map", "auto", C_grid=[1], solver="one-slack-cutting-plane", max_passes=3),
    "lambdarank": lambda: LambdaRank(epochs=1, hidden=2),
    "ranknet": lambda: RankNet(epochs=1, hidden=0),
}


def labelled():
    labels = np.random.default_rng(0).integers(0, 3, N_QUERIES * SIZE)
    labels[SIZE : 2 * SIZE] = 1  # no order
    return labels, np.full(N_QUERIES, SIZE)


def csr(n_rows, n_features=400, n_values=200):
    rng = np.random.default_rng(1)
    step = n_features // n_values
    columns = np.arange(n_values, dtype=np.int32) * step + rng.integers(0, step, (n_rows, n_values), dtype=np.int32)
    bounds = np.arange(n_rows + 1, dtype=np.int32) * n_values
    values = rng.random(columns.size, dtype=np.float32)
    return sparse.csr_array((values, columns.reshape(-1), bounds), shape=(n_rows, n_features))


def train(ranker, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few passes
        ranker.fit(data, **options)


def allocated(ranker, data, **options):
    """The most that numpy holds at a time during training, which is compiled before: traced, compiling takes long."""
    tracemalloc.start()
    try:
        train(ranker, data, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", SPARSE_RANKERS)
def test_sparse_features_are_not_copied(name):
    labels, sizes = labelled()
    X, few = csr(len(labels)), 4 * SIZE
    train(SPARSE_RANKERS[name](), RankingData.from_arrays(X[:few], labels[:few], group=sizes[:4]))  # compiles
    found = allocated(SPARSE_RANKERS[name](), RankingData.from_arrays(X, labels, group=sizes))
    assert found < 0.3 * (X.data.nbytes + X.indices.nbytes) + BESIDES


@pytest.fixture
def mapped(tmp_path):
    labels, sizes = labelled()
    X = np.random.default_rng(2).random((len(labels), 400), dtype=np.float32)
    learnt = np.digitize(X[:, :4].sum(axis=1), [2.0, 2.5])  # else other losses are tried, with their own memory
    labels = np.where(np.arange(len(labels)) // SIZE == 1, labels, learnt)
    np.save(tmp_path / "X.npy", X)
    return RankingData.from_arrays(np.load(tmp_path / "X.npy", mmap_mode="r"), labels, group=sizes)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["map", "ndcg", "pairs"])
def test_mapped_features_are_never_copied(mapped, monkeypatch, name, weighted):
    taken = []
    monkeypatch.setattr(parts._Subset, "X", property(taken.append))
    weight = {query: float(query % 5 > 0) for query in mapped.query_ids.tolist()} if weighted else None
    few = RankingData.from_arrays(mapped.X[: 4 * SIZE], mapped.labels[: 4 * SIZE], group=[SIZE] * 4)
    train(SPARSE_RANKERS[name](), few)  # compiles
    assert allocated(SPARSE_RANKERS[name](), mapped, query_weight=weight) < 0.3 * mapped.X.nbytes + BESIDES
    assert taken == []


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_part_trains_as_its_copy(form, dtype):
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 12, 30)
    n = int(sizes.sum())
    X = (rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.6)).astype(dtype)
    data = RankingData.from_arrays(form(X), rng.integers(0, 3, n), group=sizes)
    kept = rng.random(30) < 0.7
    for ranker in (StructuredSVM("map"), StructuredSVM("ndcg@3"), RankingSVM(0.1, rank_weights="ndcg@1")):
        found = [ranker.fit(some).coef_ for some in (some_queries(data, kept), data.select(kept))]
        assert found[0].tobytes() == found[1].tobytes()
        weights = dict(zip(data.query_ids.tolist(), kept.astype(float), strict=True))
        assert ranker.fit(data, query_weight=weights).coef_.tobytes() == found[0].tobytes()


# Parts


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("queries", [[0, 1, 2, 3, 4, 5], [1, 2, 4], [5, 0], [3], []])
@pytest.mark.parametrize("run", [0, 1000])  # labels are copied in runs, or one by one
def test_parts_are_what_select_gives(form, queries, run, monkeypatch):
    monkeypatch.setattr(parts, "_BATCH_BYTES", 100)
    monkeypatch.setattr(parts, "_RUN", run)
    rng = np.random.default_rng(4)
    sizes = [3, 1, 4, 2, 2, 5]
    X = rng.normal(size=(17, 5)) * (rng.random((17, 5)) < 0.5)
    names, ids = [f"f{i}" for i in range(5)], [f"d{i}" for i in range(17)]
    data = RankingData.from_arrays(form(X), rng.integers(0, 3, 17), group=sizes, doc_ids=ids, feature_names=names)
    assert len(data.has_order) == len(data.has_both(1)) == 6  # known now, and taken over
    positions = np.array(queries, np.int64)
    part, copy = some_queries(data, positions), data.select(positions)
    if queries:
        assert np.array_equal(part.has_order, copy.has_order)
        assert all(np.array_equal(part.has_both(label), copy.has_both(label)) for label in (1, 2))
    within = some_queries(part, np.arange(len(queries))[::-1])
    assert (part.n_docs, part.n_queries, part.n_features) == (copy.n_docs, copy.n_queries, copy.n_features)
    assert part.is_sparse == copy.is_sparse
    for name in ("labels", "indptr", "query_ids", "doc_ids"):
        assert np.array_equal(getattr(part, name), getattr(copy, name)), name
        assert not getattr(part, name).flags.writeable
    assert stored(part)[0] is data.X
    assert feature_bytes(part) == (copy.X.data.nbytes if copy.is_sparse else copy.X.nbytes)
    assert np.array_equal(np.vstack([np.empty((0, 5)), *map(dense, pieces(part))]), dense(copy.X))
    assert all(np.shares_memory(piece.data, data.X.data) for piece in pieces(part))
    split = list(batches(part))
    assert np.array_equal(np.vstack([np.empty((0, 5)), *(dense(one) for one, _ in split)]), dense(copy.X))
    assert sum(len(indptr) - 1 for _, indptr in split) == len(queries)
    if queries:
        found = statistics_of(part, summed=False)
        assert np.array_equal(found.low, dense(copy.X).min(axis=0))
        assert np.array_equal(found.high, dense(copy.X).max(axis=0))
    assert "X" not in vars(part)
    assert np.array_equal(dense(within.X), dense(data.select(positions[::-1]).X))
    assert np.array_equal(dense(part.X), dense(copy.X))
    assert len(list(batches(part))) == 1  # there is a copy now


# Mapped features


FAMILIES = {
    "map": lambda: StructuredSVM("map", solver="one-slack-cutting-plane", max_passes=2),
    "lambdarank": lambda: LambdaRank(epochs=1, hidden=2),
    "ranknet": lambda: RankNet(epochs=1, hidden=0),
    "lambdaboost": lambda: LambdaBoost(n_rounds=2),
    "lambdamart": lambda: LambdaMART(2, max_leaves=4),
    "lambdamart, rows": lambda: LambdaMART(2, max_leaves=4, tree_rows=0.5),
    "lambdamart, cv": lambda: LambdaMART(2, max_leaves=4, cv="auto"),
    "mcrank": lambda: McRank(2, max_leaves=4),
    "lambdarank, cv": lambda: LambdaRank(epochs=1, hidden=2, cv="auto"),
    "lambdaboost, cv": lambda: LambdaBoost(n_rounds=2, cv="auto"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Features of 20 MB as a folder, a query without an order among them; all else that training takes is smaller."""
    rng = np.random.default_rng(5)
    X = rng.random((20_800, 240), dtype=np.float32)
    labels = np.digitize(X[:, :4].sum(axis=1), [2.0, 2.5])
    labels[40:80] = 1
    path = tmp_path_factory.mktemp("mapped") / "data.rank"
    save_folder(RankingData.from_arrays(X, labels, group=np.full(520, 40)), path)
    return path


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_trains_from_a_mapped_folder_in_a_third_of_it(folder, monkeypatch, name, tmp_path):
    monkeypatch.setattr(scratch, "LARGE", 1 << 20)
    monkeypatch.setattr(binning, "_SAMPLE", 4000)
    in_memory = load_folder(folder, mmap=False)
    few = in_memory.select(np.arange(12))
    make = FAMILIES[name]
    train(make(), few)  # compiles
    weight = dict.fromkeys(in_memory.query_ids.tolist(), 1.0) | {3: 0.0, 77: 0.0}
    mapped, plain = make(), make()
    found = allocated(mapped, load_folder(folder), query_weight=weight)
    assert found < in_memory.X.nbytes / 3
    train(plain, in_memory, query_weight=weight)
    for ranker, file in ((mapped, "one.rkw"), (plain, "two.rkw")):
        ranker.save(tmp_path / file)
    assert (tmp_path / "one.rkw").read_bytes() == (tmp_path / "two.rkw").read_bytes()
    tracemalloc.start()
    try:
        scores = mapped.predict(load_folder(folder))
        assert tracemalloc.get_traced_memory()[1] < in_memory.X.nbytes / 3
    finally:
        tracemalloc.stop()
    assert scores.tobytes() == plain.predict(in_memory).tobytes()


def test_bins_of_features_in_memory_would_not_fit(folder, monkeypatch):
    monkeypatch.setattr(binning, "_SAMPLE", 4000)
    monkeypatch.setattr(scratch, "LARGE", 1 << 20)
    ranker = LambdaMART(2, max_leaves=4)
    train(ranker, load_folder(folder).select(np.arange(12)))
    assert allocated(ranker, load_folder(folder, mmap=False)) > 0.45 * 20_800 * 240 * 4  # so the test above can fail


LIMITED = """
import resource, sys
import numpy as np
from pathlib import Path
from rankwright import LambdaMART, StructuredSVM
from rankwright.data import threads as scratch
from rankwright.io.folder import load_folder
from rankwright.boosting import binning

scratch.LARGE, binning._SAMPLE = 1 << 20, 20_000
folder = Path(sys.argv[1])
data = load_folder(folder)
rankers = [StructuredSVM("map", max_passes=2, tol=0.5), LambdaMART(2, max_leaves=4)]
for ranker in rankers:
    ranker.fit(data.select(np.arange(12))).predict(data.select(np.arange(12)))
held = [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData")][0]
most = held + data.X.nbytes // 4
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
try:
    np.array(data.X)
except MemoryError:
    print("no copy fits")
for ranker in rankers:
    print(len(ranker.fit(data).predict(data)))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says what a process holds")
def test_training_under_a_limit_of_private_memory(tmp_path):
    rng = np.random.default_rng(6)
    X = rng.random((180_000, 136), dtype=np.float32)  # 98 MB: what a process takes now and then is small beside it
    labels = np.digitize(X[:, :4].sum(axis=1), [2.0, 2.5])
    labels[:SIZE] = 0
    save_folder(RankingData.from_arrays(X, labels, group=np.full(3600, SIZE)), tmp_path / "data.rank")
    command = [sys.executable, "-W", "ignore", "-c", LIMITED, str(tmp_path / "data.rank")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split("\n"), done.stderr) == (["no copy fits", "180000", "180000", ""], "")


def test_scratch_is_beside_the_data_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "LARGE", 1000)
    assert not isinstance(scratch.scratch((10, 10), np.float32, tmp_path).base, mmap.mmap)  # small
    assert not isinstance(scratch.scratch((1000, 10), np.float32, None).base, mmap.mmap)
    found = scratch.scratch((1000, 10), np.uint64, tmp_path)
    found[:] = 7
    assert found.shape == (1000, 10)
    assert list(tmp_path.iterdir()) == []  # it has no name
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(
        InputError, match=r"a temporary file of 8 MB cannot be created in .*TMPDIR to name a folder"
    ) as e:
        scratch.scratch((1 << 20,), np.uint64, tmp_path / "missing")
    assert "\n" not in str(e.value)


def test_svm_acc_says_what_it_needs(folder, monkeypatch):
    monkeypatch.setattr(accuracy, "free_memory", lambda: 10 << 20)
    with pytest.raises(InputError, match=r"into memory, 120 MB here, and 10 MB are free; expected .* such as svm-map"):
        AccuracySVM().fit(load_folder(folder))
