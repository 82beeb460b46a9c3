"""LambdaMART: what it learns, when it stops, where it starts from, and the same bits whatever the threads."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from rankwright import InputError, RankingData, evaluate
from rankwright.boosting import tree_rankers
from rankwright.boosting.lambda_boost import LambdaBoost
from rankwright.boosting.tree_model import TreeModel
from rankwright.boosting.tree_rankers import LambdaMART, McRank
from rankwright.errors import InputWarning
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.measures import parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model
from rankwright.models.sum import SumModel
from rankwright.rankers.background import SPREAD

QUICK = {"n_trees": 25, "max_leaves": 8, "min_rows": 5}


def make(n_queries=40, n_docs=15, seed=0, noise=0.2, dtype=np.float64):
    """Three grades that no linear function orders: a distance, a product, and a feature that does not matter."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.normal(size=(len(qid), 5)).astype(dtype)
    good = 1.5 - np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.normal(size=len(qid))
    return X, np.digitize(good, [0.5, 1.5]), qid


def ndcg(ranker, X, y, qid, measure="nDCG@10"):
    return evaluate(y, ranker.predict(X), qid, measures=[measure]).means[measure]


def bits(array):
    return np.asarray(array).tobytes()


def scaled(scores, qid):
    """Scores on the scale from which boosting starts: by their standard deviation within queries."""
    apart = scores - np.array([scores[qid == q].mean() for q in qid])
    return scores * SPREAD / np.sqrt((apart**2).mean())


def first_trees(ranker, X, n_trees):
    return TreeModel(X.shape[1], None, ranker.model_.forest.first(n_trees)).score(X)


def test_an_order_that_is_not_linear_is_learnt():
    train, test = make(80), make(seed=1)
    ranker = LambdaMART(60, min_rows=5).fit(*train)
    assert ndcg(ranker, *test) > 0.9
    assert ndcg(StructuredSVM("ndcg@10", relevant_from=1).fit(*train), *test) < 0.75
    assert ranker.n_trees_ == len(ranker.path_) == ranker.model_.forest.n_trees == 60
    assert (ranker.n_queries_, ranker.n_queries_skipped_) == (80, 0)
    assert ranker.feature_importances_.sum() == pytest.approx(1)
    assert ranker.feature_importances_[:3].min() > 2 * ranker.feature_importances_[3:].max()


@pytest.mark.parametrize("measure", ["ndcg", "ndcg@5", "map", "mrr", "P@5", "ERR"])
def test_the_measure_rises(measure):
    X, y, qid = make(20)
    y = np.where(y == 2, 1, 0) if measure in ("map", "mrr", "P@5") else y
    name = str(parse_measure(measure))
    start, ideal = (evaluate(y, scores, qid, measures=[name]).means[name] for scores in (np.zeros(len(y)), y))
    ranker = LambdaMART(30, min_rows=5, measure=measure).fit(X, y, qid)
    assert ndcg(ranker, X, y, qid, name) > start + 0.9 * (ideal - start)


def test_missing_values_are_learnt_from():
    X, y, qid = make(60)
    rng = np.random.default_rng(0)
    X[:, 3] = np.where(y > 0, X[:, 3], np.nan)  # what is missing says it all
    X[:, 4] = np.where(rng.random(len(X)) < 0.3, np.nan, 0.0)
    ranker = LambdaMART(**QUICK).fit(X[:, 3:], y > 0, qid)
    assert ndcg(ranker, X[:, 3:], y > 0, qid, "AP") == 1.0
    assert ranker.feature_importances_[0] > 0.9
    gone = LambdaMART(**QUICK).fit(np.full((len(y), 2), np.nan), y, qid)  # and nothing from nothing
    assert len(set(gone.predict(X[:, 3:]).tolist())) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_features_give_the_same_model_as_dense_ones(dtype):
    X, y, qid = make(dtype=dtype)
    X[np.abs(X) < 0.7] = 0
    dense, csr = LambdaMART(**QUICK).fit(X, y, qid), LambdaMART(**QUICK).fit(sparse.csr_array(X), y, qid)
    assert bits(dense.predict(X)) == bits(csr.predict(X)) == bits(csr.predict(sparse.csr_array(X)))
    valid = make(seed=1)
    dense.fit(X, y, qid, eval_set=valid)
    csr.fit(sparse.csr_array(X), y, qid, eval_set=(sparse.csr_array(valid[0]), *valid[1:]))
    assert [row.value for row in dense.path_] == [row.value for row in csr.path_]


def test_the_ways_to_give_validation_data():
    train, (X, y, qid) = make(), make(seed=1)
    data = RankingData.from_arrays(X, y, qid)
    fits = [
        LambdaMART(**QUICK).fit(*train, eval_set=eval_set, eval_qid=eval_qid)
        for eval_set, eval_qid in (((X, y, qid), None), ((X, y), qid), (data, None), ([(X, y)], [qid]))
    ]
    assert len({bits(ranker.predict(X)) for ranker in fits}) == 1
    assert len({tuple(row.value for row in ranker.path_) for ranker in fits}) == 1
    for eval_set, eval_qid in (((X, y), None), ((X, y, qid), qid), (None, qid), (X, None), ((X[:, :2], y, qid), None)):
        with pytest.raises(InputError):
            LambdaMART(**QUICK).fit(*train, eval_set=eval_set, eval_qid=eval_qid)


@pytest.mark.parametrize("measure", [None, "AP", "nDCG@3"])
def test_early_stopping_keeps_the_best_round(measure):
    train, valid = make(10, noise=2.0), make(10, seed=1, noise=2.0)
    ranker = LambdaMART(80, min_rows=3, learning_rate=0.5, patience=15, eval_measure=measure)
    ranker.fit(*train, eval_set=valid)
    values = [row.value for row in ranker.path_]
    assert ranker.n_trees_ == 1 + int(np.argmax(values))
    assert len(values) == ranker.n_trees_ + 15 < 80
    assert ndcg(ranker, *valid, measure or "nDCG@10") == values[ranker.n_trees_ - 1]
    whole = clone(ranker).set_params(patience=None).fit(*train)
    assert whole.n_trees_ == 80
    assert bits(ranker.predict(train[0])) == bits(first_trees(whole, train[0], ranker.n_trees_))
    for n_trees in (1, 7):  # values of the path are those of the first trees
        scores = first_trees(whole, valid[0], n_trees)
        name = measure or "nDCG@10"
        assert evaluate(valid[1], scores, valid[2], measures=[name]).means[name] == values[n_trees - 1]


def test_nothing_is_kept_where_no_round_is_better_than_the_background():
    X, y, qid = make(10)
    known = make(10, seed=1)
    known[0][:, 0] = known[1]  # the background ranks the validation data as its labels do
    perfect = LinearModel(np.eye(5)[0])
    ranker = LambdaMART(patience=3, background=perfect, **QUICK).fit(X, y, qid, eval_set=known)
    assert (ranker.n_trees_, len(ranker.path_)) == (0, 3)
    assert ranker.predict(X).tolist() == X[:, 0].tolist()


@pytest.mark.parametrize(
    "ranker", [LambdaMART(patience=3, **QUICK), LambdaBoost(20, patience=3), McRank(10, patience=3)]
)
def test_validation_data_sorted_by_label_does_not_make_nothing_the_best(ranker):
    valid = tuple(np.asarray(part)[::-1] for part in make(10, seed=1))
    order = np.lexsort((-valid[1], valid[2]))
    ranker.fit(*make(10), eval_set=tuple(part[order] for part in valid))
    assert getattr(ranker, "n_rounds_", None) or ranker.n_trees_
    assert ranker.predict(valid[0]).std() > 0


SETTINGS = [
    {},
    {"tree_rows": 0.6},
    {"tree_features": 0.5},
    {"randomize_nodes": True},
    {"randomize_nodes": 0.5, "tree_rows": 0.5, "tree_features": 0.7},
    {"truncation": None, "max_bins": 7},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_same_bits_for_any_number_of_threads(settings, monkeypatch, tmp_path):
    monkeypatch.setattr("rankwright.boosting.grow._WORTH_A_THREAD", 1000)
    monkeypatch.setattr("rankwright.boosting.lambdas._TASK_DOCS", 60)
    train, valid = make(), make(seed=1)
    for n_jobs in (None, 2, 3, -1):
        ranker = LambdaMART(n_jobs=n_jobs, **QUICK, **settings).fit(*train, eval_set=valid)
        ranker.save(tmp_path / f"{n_jobs}.rkw")
    files = {path.read_bytes() for path in tmp_path.iterdir()}
    assert len(files) == 1
    assert len(list(tmp_path.iterdir())) == 4


def test_what_is_drawn_depends_on_the_seed():
    X, y, qid = make()
    plain = LambdaMART(**QUICK).fit(X, y, qid).predict(X)
    assert bits(LambdaMART(random_state=5, **QUICK).fit(X, y, qid).predict(X)) == bits(plain)  # nothing was drawn
    for settings in SETTINGS[1:5]:
        one, same, other = (
            LambdaMART(random_state=seed, **QUICK, **settings).fit(X, y, qid).predict(X) for seed in (1, 1, 2)
        )
        assert bits(one) == bits(same)
        assert bits(one) != bits(other)
        assert bits(one) != bits(plain)
        assert evaluate(y, one, qid, measures=["nDCG@10"]).means["nDCG@10"] > 0.8
    for one, same in ((True, tree_rankers.NODE_SHARE), (True, np.True_), (False, 1.0), (False, np.False_)):
        models = [LambdaMART(randomize_nodes=value, **QUICK).fit(X, y, qid).predict(X) for value in (one, same)]
        assert bits(models[0]) == bits(models[1])


def test_a_linear_background(tmp_path):
    X, y, qid = make()
    linear = StructuredSVM("ndcg@10", relevant_from=1).fit(X, y, qid)
    ranker = LambdaMART(background=linear, **QUICK).fit(X, y, qid)
    assert isinstance(ranker.model_, SumModel)
    assert ndcg(ranker, X, y, qid) > ndcg(linear, X, y, qid) + 0.05
    trees = ranker.model_.parts[1]
    factor = ranker.model_.weights[0]
    assert factor * linear.predict(X) == pytest.approx(scaled(linear.predict(X), qid), rel=1e-9)
    np.testing.assert_array_equal(ranker.predict(X), factor * linear.predict(X) + trees.score(X))
    assert bits(LambdaMART(**QUICK).fit(X, y, qid).predict(X)) != bits(trees.score(X))  # other trees than from nothing
    np.testing.assert_array_equal(ranker.feature_importances_, trees.importance())
    linear.save(tmp_path / "linear.rkw")
    for same in (linear.model_, load_model(tmp_path / "linear.rkw"), load_model(tmp_path / "linear.rkw").model):
        assert bits(LambdaMART(background=same, **QUICK).fit(X, y, qid).predict(X)) == bits(ranker.predict(X))
    ranker.save(tmp_path / "both.rkw")
    assert bits(load_model(tmp_path / "both.rkw").model.score(X)) == bits(ranker.predict(X))
    assert bits(clone(ranker).fit(X, y, qid).predict(X)) == bits(ranker.predict(X))  # a clone keeps it fitted


def test_a_background_of_trees_becomes_one_with_what_is_learnt(tmp_path):
    X, y, qid = make()
    first = LambdaMART(**QUICK).fit(X, y, qid)
    first.save(tmp_path / "first.rkw")
    for background in (first, first.model_, load_model(tmp_path / "first.rkw")):
        more = LambdaMART(**{**QUICK, "n_trees": 15}, background=background).fit(X, y, qid)
        assert isinstance(more.model_, TreeModel)
        assert (more.n_trees_, more.model_.forest.n_trees) == (15, 40)
        learnt = TreeModel(5, None, more.model_.forest).score(X) - first_trees(more, X, 25)
        np.testing.assert_allclose(more.predict(X), scaled(first.predict(X), qid) + learnt, rtol=1e-9, atol=1e-12)


def test_a_background_that_scales_within_queries_and_finds_features_by_name():
    X, y, qid = make()
    names = ["a", "b", "c", "d", "e"]
    data = RankingData.from_arrays(X, y, qid, feature_names=names)
    background = LinearModel(np.array([0.0, 3.0, 1.0]), ("e", "a", "b"), "minmax")
    with pytest.warns(InputWarning, match="2 of 5 features are unknown to the background model"):
        ranker = LambdaMART(background=background, **QUICK).fit(data)
    own = ranker.model_.parts[1]
    expected = ranker.model_.weights[0] * background.score(X, names, data.indptr) + own.score(X)
    assert bits(ranker.predict(data)) == bits(expected)
    turned = data.with_features(X[:, ::-1], names[::-1])
    assert bits(ranker.predict(turned)) == bits(expected)


def test_a_background_that_is_perfect_is_not_made_worse():
    X, y, qid = make(30)
    perfect = np.column_stack([X, y])
    background = LinearModel([0, 0, 0, 0, 0, 5.0])
    ranker = LambdaMART(background=background, **QUICK).fit(perfect, y, qid, eval_set=(perfect, y, qid))
    assert ndcg(ranker, perfect, y, qid) == 1.0
    assert ranker.n_trees_ == 0
    assert bits(ranker.predict(perfect)) == bits(background.score(perfect))


@pytest.mark.parametrize("ranker", [LambdaMART(**QUICK, randomize_nodes=True), LambdaBoost(15)], ids=["mart", "boost"])
def test_the_scale_of_a_background_does_not_matter(ranker, tmp_path):
    X, y, qid = make(20)
    valid = make(10, seed=1)
    coef = np.array([0.3, 0.5, 0.1, 0.0, -0.2])
    plain = clone(ranker).set_params(background=LinearModel(coef)).fit(X, y, qid, eval_set=valid)
    assert getattr(plain, "n_trees_", None) or plain.n_rounds_
    for factor in (10.0, 100.0, 1000.0, 1e-3, 1e250, 1e-250):
        other = clone(ranker).set_params(background=LinearModel(factor * coef)).fit(X, y, qid, eval_set=valid)
        np.testing.assert_allclose(other.predict(X), plain.predict(X), rtol=1e-9, atol=1e-9)
        assert np.isfinite(other.predict(X)).all()
        assert [row.value for row in other.path_] == [row.value for row in plain.path_]
    other.save(tmp_path / "model.rkw")
    assert bits(load_model(tmp_path / "model.rkw").model.score(X)) == bits(other.predict(X))


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e9, 1e-310])
def test_a_background_that_is_constant_within_queries(constant):
    X, y, qid = make(20)
    X[:, 4] = qid  # which says nothing of the order
    background = LinearModel(constant * np.eye(5)[4])
    plain = LambdaMART(**QUICK).fit(X, y, qid)
    ranker = LambdaMART(background=background, **QUICK).fit(X, y, qid)
    learnt = ranker.model_.parts[-1] if isinstance(ranker.model_, SumModel) else ranker.model_
    np.testing.assert_allclose(learnt.score(X), plain.predict(X), rtol=1e-4, atol=1e-4)  # scores of 1e9 are rounded


def test_a_background_that_is_wrong_everywhere_is_turned_round():
    X, y, qid = make(20)
    X[:, 0] = y
    for factor in (1.0, 1e4):
        ranker = LambdaMART(background=LinearModel(-factor * np.eye(5)[0]), **QUICK).fit(X, y, qid)
        assert ndcg(ranker, X, y, qid) > 0.99
        assert np.abs(ranker.predict(X)).max() < 50  # scores do not run away


def test_backgrounds_that_cannot_be_used():
    X, y, qid = make(5)
    for background, message in (
        (StructuredSVM(), "background is a StructuredSVM that is not fitted"),
        (StructuredSVM, "background is the class StructuredSVM"),
        ("model.rkw", "background is a str; expected a fitted ranker, a model"),
        (LinearModel(np.ones(4)), "the background model does not fit the data: the data has 5 features"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            LambdaMART(background=background, **QUICK).fit(X, y, qid)
        assert "\n" not in str(caught.value)


def opposed(n_queries=30):
    """Half of the queries want the first feature high, the others want it low."""
    X, _, qid = make(n_queries)
    return X, np.where(qid % 2 == 0, X[:, 0] > 0, X[:, 0] < 0).astype(int), qid


def test_queries_count_by_their_weight():
    X, y, qid = opposed()
    for favoured in (0, 1):
        weight = np.where(qid % 2 == favoured, 1.0, 1 / 16)
        ranker = LambdaMART(**QUICK).fit(X, y, qid, query_weight=weight)
        mine = qid % 2 == favoured
        assert ndcg(ranker, X[mine], y[mine], qid[mine], "AP") > 0.9
        assert ndcg(ranker, X[~mine], y[~mine], qid[~mine], "AP") < 0.7
        named = {q: 1.0 if q % 2 == favoured else 1 / 16 for q in range(30)}
        assert bits(LambdaMART(**QUICK).fit(X, y, qid, query_weight=named).predict(X)) == bits(ranker.predict(X))
        assert bits(LambdaMART(**QUICK).fit(X, y, qid, sample_weight=weight).predict(X)) == bits(ranker.predict(X))
    same = LambdaMART(**QUICK).fit(X, y, qid, query_weight=np.ones(len(y)))
    assert bits(same.predict(X)) == bits(LambdaMART(**QUICK).fit(X, y, qid).predict(X))
    left_out = LambdaMART(**QUICK).fit(X, y, qid, sample_weight=(qid % 2).astype(float))
    alone = LambdaMART(**QUICK).fit(X[qid % 2 == 1], y[qid % 2 == 1], qid[qid % 2 == 1])
    assert bits(left_out.predict(X)) == bits(alone.predict(X))
    with pytest.raises(InputError, match="query_weight must be finite and at least 0"):
        LambdaMART(**QUICK).fit(X, y, qid, query_weight=-np.ones(len(y)))


def test_nothing_to_order():
    X, y, qid = make(5)
    background = LinearModel(np.arange(5.0))
    for labels, queries in ((np.ones(len(y)), qid), (np.zeros(len(y)), qid), (qid, qid), (y, np.arange(len(y)))):
        with pytest.warns(InputWarning, match="no query has documents of different labels"):
            ranker = LambdaMART(**QUICK).fit(X, labels, queries)
        assert (ranker.n_trees_, ranker.path_, ranker.n_queries_) == (0, (), 0)
        assert ranker.predict(X).tolist() == [0.0] * len(y)
        assert ranker.feature_importances_.tolist() == [0.0] * 5
    with pytest.warns(InputWarning, match="no query has documents"):
        ranker = LambdaMART(background=background, **QUICK).fit(X, np.ones(len(y)), qid)
    assert bits(ranker.predict(X)) == bits(background.score(X))


def test_queries_of_one_document():
    X, y, qid = make(20)
    more = np.concatenate([qid, 100 + np.arange(30)])
    ranker = LambdaMART(**QUICK).fit(np.concatenate([X, X[:30] + 5]), np.concatenate([y, y[:30]]), more)
    assert (ranker.n_queries_, ranker.n_queries_skipped_) == (20, 30)
    assert ndcg(ranker, X, y, qid) > 0.85


def test_labels_that_are_not_numbers_and_too_many_documents(monkeypatch):
    X, _, qid = make(5)
    with pytest.raises(InputError, match=r"could not convert|must be numbers"):
        LambdaMART(**QUICK).fit(X, ["good", "bad", "ugly"] * 25, qid)
    monkeypatch.setattr(tree_rankers, "_MOST_LOCAL_ROWS", 74)
    with pytest.raises(InputError, match="75 documents; trees can be grown on at most 74"):
        LambdaMART(**QUICK).fit(X, qid % 2, qid)


def test_the_callback_and_an_interrupt():
    X, y, qid = make(10)
    seen = []
    ranker = LambdaMART(**QUICK, callback=lambda row: seen.append(row) or row.round == 4).fit(X, y, qid)
    assert ranker.n_trees_ == 4
    assert tuple(seen) == ranker.path_

    def interrupt(row):
        if row.round == 6:
            raise KeyboardInterrupt

    with pytest.warns(InputWarning, match="training was interrupted; the model has the best 6 of 6 rounds"):
        ranker = LambdaMART(**QUICK, callback=interrupt).fit(X, y, qid)
    whole = LambdaMART(**QUICK).fit(X, y, qid)
    assert bits(ranker.predict(X)) == bits(first_trees(whole, X, 6))


def test_what_a_file_says_of_the_training(tmp_path):
    train, valid = make(10), make(10, seed=1)
    ranker = LambdaMART(**QUICK).fit(*train, eval_set=valid)
    ranker.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert saved.method == "lambdamart"
    assert saved.training["trees"] == ranker.n_trees_
    assert saved.training["queries"] == 10
    assert saved.training["validation"] == ranker.path_[ranker.n_trees_ - 1].value == ndcg(ranker, *valid)
    assert saved.parameters["n_trees"] == 25
