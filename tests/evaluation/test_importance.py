"""Permutation importance: against a loop over all shuffles, unused features, any order of rows and threads."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, LinearModel, NetModel, RankingData, RankingSVM, SumModel, evaluate, load_model
from rankwright import permutation_importance as importance_of


def make(n_queries=30, seed=0, **settings):
    """Labels follow feature 0, feature 1 a little; feature 2 is noise; feature 3 differs between queries only."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 8)
    X = rng.normal(size=(len(qid), 4))
    X[:, 3] = qid / n_queries
    labels = np.digitize(2 * X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=len(qid)), [0.5, 2])
    return RankingData.from_arrays(X, labels, qid, **settings)


MODEL = LinearModel([2.0, 1.0, 0.0, 5.0])


def test_the_mean_drop_is_that_over_all_shuffles():
    X = [[4.0, 1.0], [3.0, 7.0], [2.0, 0.0], [1.0, 3.0]]
    data = RankingData.from_arrays(X, [2, 0, 1, 0], group=[4])
    model = LinearModel([1.0, 0.1])
    found = importance_of(model, data, "nDCG", repeats=400)
    value = evaluate(data, model.predict(data), measures=["nDCG"]).means["nDCG"]
    assert found.value == pytest.approx(value)
    for column in range(2):
        values = []
        for order in permutations(range(4)):
            shuffled = data.X.copy()
            shuffled[:, column] = data.X[list(order), column]
            values.append(evaluate(data, model.score(shuffled), measures=["nDCG"]).means["nDCG"])
        error = np.std(values) / np.sqrt(400)
        assert abs(found.drop[column] - (value - np.mean(values))) < 4 * error + 1e-12
    assert np.isnan(found.error).all()  # of one query


def test_features_that_give_no_order_drop_nothing():
    found = importance_of(MODEL, make(), repeats=4)
    assert found.names == ("f1", "f2", "f3", "f4")
    assert found.drop[0] > found.drop[1] > 0
    assert (found.drop[2:].tolist(), found.error[2:].tolist()) == ([0.0, 0.0], [0.0, 0.0])
    assert found.order.tolist() == [0, 1, 2, 3]
    assert found.drop[0] > 4 * found.error[0] > 0
    lines = found.table(2).splitlines()
    assert lines[0].startswith(f"nDCG@10 {found.value:.4f}; drop when shuffled within queries")
    assert lines[1] == f"f1  {found.drop[0]:+.4f} ± {found.error[0]:.4f}"
    assert len(found.table().splitlines()) == 5


def test_errors_are_those_of_a_mean_over_queries():
    """The spread of the drop over independent samples of queries is what one sample says it is."""
    samples = [importance_of(MODEL, make(40, seed), repeats=2, random_state=seed) for seed in range(40)]
    spread = np.std([found.drop[0] for found in samples], ddof=1)
    assert 0.7 < np.mean([found.error[0] for found in samples]) / spread < 1.4


def test_the_order_of_rows_threads_and_the_kind_of_table_do_not_matter():
    data = make()
    net = NetModel(np.random.default_rng(1).normal(size=(2, 4)), [0.0, 1.0], [1.0, -1.0])
    order = np.random.default_rng(2).permutation(data.n_docs)
    for model in (MODEL, net, SumModel((net, MODEL), np.ones(2))):
        found = importance_of(model, data, repeats=3, random_state=7)
        other = RankingData.from_arrays(data.X[order], data.labels[order], data.qid[order])
        for same in (
            importance_of(model, other, repeats=3, random_state=7),
            importance_of(model, data, repeats=3, random_state=7, n_jobs=3),
            importance_of(model, data.with_features(sparse.csr_array(data.X)), repeats=3, random_state=7),
        ):
            assert same.drop.tobytes() == found.drop.tobytes()
            assert same.error.tobytes() == found.error.tobytes()
        assert importance_of(model, data, repeats=3, random_state=8).drop[0] != found.drop[0]


def test_columns_are_found_by_name_and_progress_is_told(tmp_path):
    data = make(feature_names=("a", "b", "c", "d"))
    ranker = RankingSVM(C=1.0).fit(data)
    ranker.save(tmp_path / "m.rkw")
    told = []
    found = importance_of(ranker, data, "AP", repeats=2, progress=lambda done, of: told.append((done, of)))
    assert told == [(done, 4) for done in range(1, 5)]
    loaded = importance_of(load_model(tmp_path / "m.rkw"), data, "AP", repeats=2)
    assert loaded.drop.tolist() == found.drop.tolist()
    some = LinearModel([1.0, 2.0], ("b", "a"))
    narrow = importance_of(some, data, "AP", repeats=2)
    assert narrow.names == ("b", "a")
    np.testing.assert_array_equal(
        narrow.drop, importance_of(LinearModel([2.0, 1.0, 0, 0]), data, "AP", repeats=2).drop[[1, 0]]
    )


def test_missing_values_change_places_too():
    from rankwright import LambdaMART

    data = make()
    X = data.X.copy()
    X[::5, 0] = np.nan
    data = RankingData.from_arrays(X, data.labels, data.qid, allow_missing=True)
    ranker = LambdaMART(5, max_leaves=4, min_rows=5).fit(data)
    found = importance_of(ranker, data, repeats=2)
    assert found.drop[0] > 0.05
    assert found.drop[3] == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"repeats": 0}, "repeats is 0"), ({"measure": "what"}, "what"), ({"n_jobs": 0}, "n_jobs is 0")],
)
def test_bad_arguments(settings, message):
    with pytest.raises(InputError, match=message):
        importance_of(MODEL, make(2), **settings)
    with pytest.raises(InputError, match="the data has 4 features, but the model has 1"):
        importance_of(LinearModel([1.0]), make(2))
