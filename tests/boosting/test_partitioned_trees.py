"""LambdaMART over parts: the same bits for any hosts and any cut into parts, and the trees of one machine."""

import warnings

import numpy as np
import pytest

from in_partitions import Several, cut, in_partitions, made_up
from rankwright import LambdaMART, McRank, RankingData, StructuredSVM, open_partitions
from rankwright.boosting.learner import PartitionedLearner
from rankwright.cluster.journal import Journal
from rankwright.cluster.worker import Local
from rankwright.errors import InputError
from rankwright.io.folder import save_folder

FOREST = ("roots", "feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")
SMALL = {"n_trees": 6, "max_leaves": 7, "min_rows": 5}
SETTINGS = {
    "plain": {},
    "squared": {"gain": "squared"},
    "few bins": {"max_bins": 7},
    "tree features": {"tree_features": 0.5},
    "monotone": {"monotone": {0: 1, 3: -1}},
    "categorical": {"categorical": [4]},
    "measure": {"measure": "map", "truncation": None, "nearness": 0.0, "normalize_queries": False},
}
DRAWN = {
    "rows": {"tree_rows": 0.6},
    "nodes": {"randomize_nodes": True},
    "both": {"tree_rows": 0.7, "randomize_nodes": 0.5, "tree_features": 0.8},
}


def rows(n_queries=40, n_docs=20, seed=0):
    """Data with missing values, whole numbers that can be categories, and copies of documents."""
    data = made_up(n_queries, n_docs, 7, seed)
    X = np.array(data.X)
    rng = np.random.default_rng(seed)
    X[:, 4] = rng.integers(0, 9, len(X)) + 3.0 * (data.labels > 1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[5] = X[4]
    return RankingData(X, data.labels, data.indptr, data.query_ids)


def forest(ranker):
    return {name: getattr(ranker._trees.forest, name) for name in FOREST}


def same(one, two):
    return all(np.array_equal(one[name], two[name]) for name in FOREST)


def fitted(data, n_partitions=3, transport=None, settings=None, **given):
    partitioned = in_partitions(cut(data, n_partitions), transport or Several(2))
    return LambdaMART(**SMALL | (settings or {})).fit(partitioned, **given)


@pytest.fixture
def sums_only(monkeypatch):
    """Rows of small nodes stay where they are."""
    monkeypatch.setattr("rankwright.boosting.partitions._BIN", 0)


@pytest.mark.parametrize("settings", [*SETTINGS.values(), *DRAWN.values()], ids=[*SETTINGS, *DRAWN])
def test_the_same_bits_on_any_number_of_hosts_and_for_any_cut_into_parts(settings, request):
    data = rows()
    expected = forest(fitted(data, 3, Several(1), settings))
    assert (expected["feature"] >= 0).any()
    for n_partitions, transport in ((3, Several(3)), (7, Several(2)), (4, Local())):
        assert same(forest(fitted(data, n_partitions, transport, settings)), expected)
    request.getfixturevalue("sums_only")
    for n_partitions, transport in ((3, Several(2)), (1, Several(1)), (7, Several(3))):
        assert same(forest(fitted(data, n_partitions, transport, settings)), expected)


@pytest.mark.parametrize("settings", [{}, DRAWN["both"]], ids=["all rows", "drawn rows"])
def test_neither_threads_nor_the_order_of_documents_and_queries_matter(settings):
    data = rows(20)
    expected = forest(fitted(data, settings=settings))
    assert same(forest(fitted(data, settings=settings | {"n_jobs": 3})), expected)
    rng = np.random.default_rng(0)
    order = np.lexsort((rng.random(data.n_docs), rng.permutation(data.n_queries)[data.query_of_row()]))
    shuffled = RankingData.from_arrays(data.X[order], data.labels[order], data.qid[order], allow_missing=True)
    assert not np.array_equal(shuffled.query_ids, data.query_ids)
    assert same(forest(fitted(shuffled, settings=settings)), expected)


def test_features_that_say_nothing_give_trees_of_one_leaf():
    data = made_up(10)
    data = RankingData(np.ones_like(data.X), data.labels, data.indptr, data.query_ids)
    whole, partitioned = forest(LambdaMART(n_trees=2).fit(data)), forest(fitted(data, settings={"n_trees": 2}))
    assert np.array_equal(partitioned["feature"], whole["feature"])
    assert partitioned["value"] == pytest.approx(whole["value"], abs=1e-9)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_trees_of_one_machine(settings):
    data = rows()
    whole = forest(LambdaMART(**SMALL | settings).fit(data))
    partitioned = forest(fitted(data, settings=settings))
    for name in ("feature", "threshold", "missing_left", "left", "count", "subset", "sets"):
        assert np.array_equal(partitioned[name], whole[name])
    assert partitioned["value"] == pytest.approx(whole["value"], rel=1e-6, abs=1e-9)
    assert partitioned["gain"] == pytest.approx(whole["gain"], rel=1e-3)


def test_leaves_of_documents_that_only_lose_are_tied_as_on_one_machine():
    data = made_up(40)  # scores are equal: Newton's step is twice the learning rate, exactly
    whole, partitioned = LambdaMART(**SMALL | {"n_trees": 1}).fit(data), fitted(data, settings={"n_trees": 1})
    exact = np.isin(np.abs(forest(whole)["value"]), 0.2)
    assert exact.any()
    assert np.array_equal(forest(partitioned)["value"][exact], forest(whole)["value"][exact])


def test_bins_of_a_sample_are_those_of_one_machine(monkeypatch):
    monkeypatch.setattr("rankwright.boosting.binning._SAMPLE", 150)
    data = rows()
    whole, partitioned = forest(LambdaMART(**SMALL).fit(data)), forest(fitted(data))
    assert np.array_equal(partitioned["feature"], whole["feature"])
    assert np.array_equal(partitioned["threshold"], whole["threshold"])


@pytest.mark.parametrize("losses", [(12,), (15, 19), (26, 27, 40), range(20, 90, 9)])
@pytest.mark.parametrize("settings", [{}, DRAWN["both"]], ids=["all rows", "drawn rows"])
@pytest.mark.parametrize("brought", [False, True], ids=["sums", "rows"])
def test_lost_hosts_change_nothing(settings, losses, brought, request):
    if not brought:
        request.getfixturevalue("sums_only")
    data = rows(20)
    expected = forest(fitted(data, settings=settings))
    partitioned = in_partitions(cut(data, 3), Several(2, losses))
    assert same(forest(LambdaMART(**SMALL | settings).fit(partitioned)), expected)
    assert partitioned.X.cluster.moves > 0


@pytest.mark.parametrize("brought", [False, True], ids=["sums", "rows"])
def test_asking_ahead_changes_no_tree_and_saves_trips(monkeypatch, brought, request):
    if not brought:
        request.getfixturevalue("sums_only")
    learners, made = [], PartitionedLearner.__init__
    monkeypatch.setattr(
        PartitionedLearner,
        "__init__",
        lambda self, *given, **named: (learners.append(self), made(self, *given, **named))[1],
    )
    data = made_up(120, 40, 12)
    found = [forest(fitted(data, 2, at, {"max_leaves": 31, "n_trees": 5})) for at in (Several(2), Local())]
    assert same(*found)
    ahead, strict = learners
    assert strict.trips > 5 * 25
    assert ahead.trips <= 5 * (4 if brought else 10)


@pytest.mark.parametrize("settings", [{}, DRAWN["both"]], ids=["all rows", "drawn rows"])
def test_a_training_goes_on_from_its_journal(tmp_path, settings):
    data = rows(20)
    expected = forest(fitted(data, settings=settings))

    def interrupted(row):
        if row.round == 3:
            raise KeyboardInterrupt

    for callback, resume in ((interrupted, False), (None, True)):
        partitioned = in_partitions(cut(data, 3), Several(2))
        with Journal(tmp_path / "trees.journal", {}, resume=resume) as journal, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            partitioned.X.cluster.journal = journal
            found = LambdaMART(**SMALL | settings | {"callback": callback}).fit(partitioned)
            assert journal.recalled == (3 if resume else 0)
    assert same(forest(found), expected)


def test_worker_processes_and_bins_on_disk_give_the_same_trees(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwright.data.threads.LARGE", 1)
    data = rows(20)
    for number, part in enumerate(cut(data, 3)):
        save_folder(part, tmp_path / f"{number}.rank")
    found = []
    for engine in ("local", "processes:2"):
        partitioned = open_partitions(tmp_path, engine)
        found.append(forest(LambdaMART(**SMALL).fit(partitioned)))
        partitioned.X.cluster.close()
    assert same(*found)
    assert same(found[0], forest(fitted(data)))


@pytest.mark.parametrize("partitioned", [False, True], ids=["in memory", "in parts"])
def test_rounds_are_chosen_on_validation_data(partitioned):
    data, valid = rows(), rows(15, seed=3)
    settings = SMALL | {"n_trees": 40, "patience": 4, "learning_rate": 0.4}
    whole = LambdaMART(**settings).fit(data, eval_set=valid)
    given = in_partitions(cut(valid, 2), Several(1)) if partitioned else valid
    found = fitted(data, settings=settings, eval_set=given)
    assert found.n_trees_ == whole.n_trees_ < len(found.path_) < 40
    assert [row.value for row in found.path_] == pytest.approx([row.value for row in whole.path_])


def test_cross_validation_chooses_the_same_on_any_number_of_hosts():
    data = rows(20)
    found = [fitted(data, 3, Several(n), {"cv": 3}) for n in (1, 3)]
    assert np.array_equal(found[0].cv_.values, found[1].cv_.values, equal_nan=True)
    assert found[0].n_trees_ == found[0].cv_.setting
    assert same(*map(forest, found))


def test_a_background_model_and_weights():
    data = made_up(30, 15)
    background = StructuredSVM("map").fit(data)
    weights = np.repeat(np.arange(data.n_queries) % 3, data.sizes)
    settings = {"background": background, "monotone": {1: 1}}
    whole = LambdaMART(**SMALL | settings).fit(data, query_weight=weights)
    for n_partitions in (1, 4):
        found = fitted(data, n_partitions, settings=settings, query_weight=weights)
        assert np.array_equal(forest(found)["feature"], forest(whole)["feature"])
        assert found.predict(data) == pytest.approx(whole.predict(data))


def test_clicks_with_positions():
    data = rows(20)
    positions = np.concatenate([np.arange(1, size + 1) for size in data.sizes])
    given = {"position": positions, "propensities": 1.0 / np.arange(1, positions.max() + 1) ** 0.5}
    whole = LambdaMART(**SMALL).fit(data, **given)
    assert np.array_equal(forest(fitted(data, **given))["feature"], forest(whole)["feature"])


def test_sparse_parts():
    from scipy import sparse

    data = made_up(30)
    X = np.where(np.abs(data.X) < 0.7, 0.0, data.X)
    dense = RankingData(X, data.labels, data.indptr, data.query_ids)
    stored = RankingData(sparse.csr_array(X), data.labels, data.indptr, data.query_ids)
    assert same(forest(fitted(dense)), forest(fitted(stored)))


def test_a_part_without_queries_of_its_own():
    data = rows(12)
    weights = np.repeat(np.arange(data.n_queries) >= 6, data.sizes).astype(float)
    expected = forest(fitted(data, 1, query_weight=weights))
    assert same(forest(fitted(data, 4, query_weight=weights)), expected)


def test_interrupted_and_stopped_trainings_keep_whole_trees():
    def interrupt(row):
        if row.round == 3:
            raise KeyboardInterrupt

    data = rows(20)
    with pytest.warns(UserWarning, match="interrupted"):
        found = fitted(data, settings={"callback": interrupt})
    assert found.n_trees_ == 3
    assert fitted(data, settings={"callback": lambda row: row.round == 4}).n_trees_ == 4


def test_others_bring_the_features_together():
    whole = rows()
    found = McRank(n_trees=2).fit(in_partitions(cut(whole, 3), Several(2)))
    np.testing.assert_array_equal(found.predict(whole.X), McRank(n_trees=2).fit(whole).predict(whole.X))


def test_values_that_are_no_categories_are_named():
    with pytest.raises(InputError, match="categorical: the feature 'f1' has the value"):
        fitted(rows(), settings={"categorical": [0]})
