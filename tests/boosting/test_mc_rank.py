"""McRank: expected grades from class probabilities, as classes and as thresholds."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from rankwright import InputError, RankingData, evaluate
from rankwright.boosting.tree_model import GradeModel, expected_grade
from rankwright.boosting.tree_rankers import McRank
from rankwright.errors import InputWarning
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.models.saving import load_model

QUICK = {"n_trees": 20, "max_leaves": 8, "min_rows": 5}
LINKS = pytest.mark.parametrize("link", ["softmax", "ordinal"])


def make(n_queries=40, n_docs=15, seed=0, noise=0.2, grades=(0, 1, 2)):
    """Grades that no linear function orders: a distance, a product, and features that do not matter."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.normal(size=(len(qid), 5))
    good = 1.5 - np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=len(qid))
    return X, np.array(grades)[np.digitize(good, [0.5, 1.5])], qid


def ndcg(ranker, X, y, qid, measure="nDCG@10"):
    return evaluate(y, ranker.predict(X), qid, measures=[measure]).means[measure]


def bits(array):
    return np.asarray(array).tobytes()


def first_rounds(ranker, X, n_rounds):
    model = ranker.model_
    forests = tuple(forest.first(n_rounds) for forest in model.forests)
    return GradeModel(X.shape[1], None, model.grades, forests, model.starts, model.link).score(X)


@LINKS
def test_an_order_that_is_not_linear_is_learnt(link):
    train, test = make(80), make(seed=1)
    ranker = McRank(40, min_rows=5, link=link).fit(*train)
    assert ndcg(ranker, *test) > 0.9
    assert ndcg(StructuredSVM("ndcg@10", relevant_from=1).fit(*train), *test) < 0.75
    assert ranker.n_trees_ == len(ranker.path_) == 40
    assert [forest.n_trees for forest in ranker.model_.forests] == [40] * (3 if link == "softmax" else 2)
    assert ranker.feature_importances_.sum() == pytest.approx(1)
    assert ranker.feature_importances_[:3].min() > 2 * ranker.feature_importances_[3:].max()
    np.testing.assert_allclose(ranker.feature_importances_, ranker.model_.importance())


@LINKS
@pytest.mark.parametrize("grades", [(0, 1, 2), (0.5, 1.0, 7.25), (0.1, 0.2, 0.3)])
def test_scores_are_expected_grades(link, grades):
    train, (X, y, qid) = make(60, grades=grades), make(seed=1, grades=grades)
    ranker = McRank(80, learning_rate=0.2, min_rows=5, link=link).fit(*train)
    assert ranker.grades_.tolist() == list(grades)
    scores = ranker.predict(X)
    assert min(grades) <= scores.min()
    assert scores.max() <= max(grades)
    means = [scores[y == grade].mean() for grade in grades]
    assert means == sorted(means)
    forests = tuple(dataclasses.replace(forest, value=forest.value * 1e6) for forest in ranker.model_.forests)
    certain = dataclasses.replace(ranker.model_, forests=forests).score(X)
    assert min(grades) <= certain.min() <= min(grades) + 1e-12
    assert max(grades) - 1e-12 <= certain.max() <= max(grades)
    assert ((scores - y) ** 2).mean() < 0.6 * y.var()
    assert ndcg(ranker, X, y, qid) > 0.85


@LINKS
def test_rounding_does_not_leave_the_range_of_the_grades(link):
    rng = np.random.default_rng(0)
    for _ in range(2000):
        grades = np.sort(np.exp(3 * rng.normal(size=6)))
        sums = rng.normal(size=(6 if link == "softmax" else 5, 4)) * [1, 30, 60, 100]
        scores = expected_grade(sums if link == "softmax" else np.abs(sums) + 40, grades, link)
        assert grades[0] <= scores.min()
        assert scores.max() <= grades[-1]


@LINKS
def test_without_trees_the_score_is_the_mean_grade(link):
    X, y, qid = make(20)
    ranker = McRank(1, learning_rate=1e-12, min_rows=5, link=link).fit(X, y, qid)
    np.testing.assert_allclose(ranker.predict(X), y.mean(), rtol=1e-9)
    weight = np.where(qid < 10, 3.0, 1.0)
    ranker.fit(X, y, qid, query_weight=weight)
    np.testing.assert_allclose(ranker.predict(X), np.average(y, weights=weight), rtol=1e-9)


@LINKS
def test_missing_values_are_learnt_from(link):
    X, y, qid = make(60)
    X[:, 3] = np.where(y > 0, X[:, 3], np.nan)
    ranker = McRank(link=link, **QUICK).fit(X[:, 3:], y > 0, qid)
    assert ndcg(ranker, X[:, 3:], y > 0, qid, "AP") == 1.0
    gone = McRank(link=link, **QUICK).fit(np.full((len(y), 2), np.nan), y, qid)
    np.testing.assert_allclose(gone.predict(X[:, 3:]), y.mean(), rtol=1e-9)


@LINKS
def test_sparse_features_give_the_same_model_as_dense_ones(link):
    X, y, qid = make()
    X[np.abs(X) < 0.7] = 0
    dense, csr = (McRank(link=link, **QUICK).fit(form(X), y, qid) for form in (np.asarray, sparse.csr_array))
    assert bits(dense.predict(X)) == bits(csr.predict(X)) == bits(csr.predict(sparse.csr_array(X)))


@LINKS
def test_early_stopping_keeps_the_best_round(link):
    train, valid = make(10, noise=2.0), make(10, seed=1, noise=2.0)
    ranker = McRank(80, min_rows=3, learning_rate=0.3, patience=15, link=link).fit(*train, eval_set=valid)
    values = [row.value for row in ranker.path_]
    assert ranker.n_trees_ == 1 + int(np.argmax(values))
    assert len(values) == ranker.n_trees_ + 15 < 80
    assert ndcg(ranker, *valid) == values[ranker.n_trees_ - 1]
    whole = clone(ranker).fit(*train)
    assert whole.n_trees_ == 80
    assert bits(ranker.predict(train[0])) == bits(first_rounds(whole, train[0], ranker.n_trees_))
    data = RankingData.from_arrays(*valid)
    for eval_set, eval_qid in ((valid[:2], valid[2]), (data, None)):
        same = clone(ranker).fit(*train, eval_set=eval_set, eval_qid=eval_qid)
        assert [row.value for row in same.path_] == values


SETTINGS = [{}, {"tree_rows": 0.6}, {"tree_features": 0.5}, {"randomize_nodes": True, "tree_rows": 0.8}]


@LINKS
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_same_bits_for_any_number_of_threads(link, settings, monkeypatch, tmp_path):
    monkeypatch.setattr("rankwright.boosting.grow._WORTH_A_THREAD", 1000)
    train, valid = make(20), make(10, seed=1)
    for n_jobs in (None, 2, -1):
        ranker = McRank(n_jobs=n_jobs, link=link, **QUICK, **settings).fit(*train, eval_set=valid)
        ranker.save(tmp_path / f"{n_jobs}.rkw")
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert len(files) == 3
    assert len(set(files)) == 1


def test_what_is_drawn_depends_on_the_seed_and_differs_between_grades():
    X, y, qid = make(20)
    plain = McRank(**QUICK).fit(X, y, qid).predict(X)
    assert bits(McRank(random_state=5, **QUICK).fit(X, y, qid).predict(X)) == bits(plain)
    for settings in SETTINGS[1:]:
        one, same, other = (
            McRank(random_state=seed, **QUICK, **settings).fit(X, y, qid).predict(X) for seed in (1, 1, 2)
        )
        assert bits(one) == bits(same)
        assert len({bits(one), bits(other), bits(plain)}) == 3
    ranker = McRank(tree_rows=0.5, **QUICK).fit(X, y, qid)
    counts = [forest.count[forest.roots].tolist() for forest in ranker.model_.forests]
    assert len(set(map(tuple, counts))) == 3


@LINKS
def test_queries_count_by_their_weight(link):
    X, _, qid = make(30)
    y = np.where(qid % 2 == 0, X[:, 0] > 0, X[:, 0] < 0).astype(int)  # half want it high, the others want it low
    for favoured in (0, 1):
        mine = qid % 2 == favoured
        ranker = McRank(link=link, **QUICK).fit(X, y, qid, query_weight=np.where(mine, 1.0, 1 / 16))
        assert ndcg(ranker, X[mine], y[mine], qid[mine], "AP") > 0.9
        assert ndcg(ranker, X[~mine], y[~mine], qid[~mine], "AP") < 0.7
        alone = McRank(link=link, **QUICK).fit(X[mine], y[mine], qid[mine])
        left_out = McRank(link=link, **QUICK).fit(X, y, qid, sample_weight=mine.astype(float))
        assert bits(left_out.predict(X)) == bits(alone.predict(X))


@LINKS
def test_nothing_to_order(link):
    X, y, qid = make(5)
    for labels, queries, mean in ((np.full(len(y), 3.0), qid, 3.0), (qid, qid, 2.0), (y, np.arange(len(y)), y.mean())):
        with pytest.warns(InputWarning, match="no query has documents of different labels"):
            ranker = McRank(link=link, **QUICK).fit(X, labels, queries)
        assert (ranker.n_trees_, ranker.path_, ranker.n_queries_) == (0, (), 0)
        np.testing.assert_allclose(ranker.predict(X), mean, rtol=1e-5)
        assert ranker.feature_importances_.tolist() == ranker.model_.importance().tolist() == [0.0] * 5


@LINKS
def test_queries_of_one_document_and_labels_that_are_not_numbers(link):
    X, y, qid = make(20)
    more = np.concatenate([qid, 100 + np.arange(30)])
    ranker = McRank(link=link, **QUICK).fit(np.concatenate([X, X[:30]]), np.concatenate([y, y[:30]]), more)
    assert (ranker.n_queries_, ranker.n_queries_skipped_) == (20, 30)
    assert ndcg(ranker, X, y, qid) > 0.9
    with pytest.raises(InputError, match=r"could not convert|must be numbers"):
        McRank(link=link, **QUICK).fit(X[:75], ["good", "bad", "ugly"] * 25, qid[:75])


@LINKS
def test_saved_and_loaded(link, tmp_path):
    train, valid = make(20), make(10, seed=1)
    ranker = McRank(link=link, **QUICK).fit(*train, eval_set=valid)
    ranker.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert isinstance(saved.model, GradeModel)
    assert bits(saved.model.score(valid[0])) == bits(ranker.predict(valid[0]))
    assert (saved.model.link, saved.model.grades.tolist()) == (link, [0.0, 1.0, 2.0])
    assert saved.method == ("mcrank" if link == "softmax" else "mcrank-ordinal")
    assert saved.training["trees"] == ranker.n_trees_
    assert saved.training["validation"] == ranker.path_[ranker.n_trees_ - 1].value
    a, b = valid[0][0], valid[0][1]
    difference = np.subtract(*ranker.predict(valid[0][:2]))
    assert saved.model.contributions(a, b).sum() == pytest.approx(difference, abs=1e-12)


@LINKS
def test_an_interrupt_keeps_whole_rounds(link):
    X, y, qid = make(10)

    def interrupt(row):
        if row.round == 6:
            raise KeyboardInterrupt

    with pytest.warns(InputWarning, match="training was interrupted; the model has the best 6 of 6 rounds"):
        ranker = McRank(link=link, **QUICK, callback=interrupt).fit(X, y, qid)
    whole = McRank(link=link, **QUICK).fit(X, y, qid)
    assert bits(ranker.predict(X)) == bits(first_rounds(whole, X, 6))
    assert McRank(link=link, **QUICK, callback=lambda row: row.round == 2).fit(X, y, qid).n_trees_ == 2
