"""RankNet and LambdaRank: gradients through the net, epochs and the best of them, steps, weights, settings."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwright.nets.training as net_training
from pair_cost import ranknet_cost
from rankwright import InputError, InputWarning, LambdaRank, LinearModel, NetModel, RankNet, evaluate
from rankwright.boosting.lambdas import Lambdas
from rankwright.data.hashes import content_order
from rankwright.measures.ap import AP
from rankwright.models.saving import load_model
from rankwright.nets.training import NetTrainer

QUICK = {"epochs": 15}
GIVEN = {"float64": np.asarray, "float32": lambda X: X.astype(np.float32), "csr": sparse.csr_array}
BOTH = [RankNet(**QUICK), LambdaRank(**QUICK), RankNet(hidden=0, **QUICK), LambdaRank("map", hidden=0, **QUICK)]
every_kind = pytest.mark.parametrize("ranker", BOTH, ids=repr)


def make(n_queries=20, seed=0, noise=0.5, bent=False):
    """Graded labels from a linear function of the features, or from their squares; one feature is constant."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 15, n_queries)
    qid = np.repeat([f"q{q}" for q in range(n_queries)], sizes)
    X = rng.normal(size=(len(qid), 5)) * [1.0, 10.0, 0.1, 1.0, 1.0] + [0.0, 50.0, 0.0, -3.0, 0.0]
    X[:, 4] = 7.0
    use = X[:, 0] + 10 * X[:, 2]
    use = use**2 if bent else use
    y = np.digitize(use + noise * rng.normal(size=len(qid)), [0.5, 2.0])
    return X, y, qid


def bits(ranker, X):
    return ranker.predict(X).tobytes()


def ndcg(ranker, data):
    X, y, qid = data
    return evaluate(y, ranker.predict(X), qid, measures=["nDCG@10"]).means["nDCG@10"]


@pytest.mark.parametrize("hidden", [0, 1, 3])
@pytest.mark.parametrize("as_given", GIVEN.values(), ids=GIVEN)
def test_gradients_are_the_derivatives_of_the_cost(hidden, as_given):
    rng = np.random.default_rng(1)
    X, y, _ = make(6, noise=1.0)
    X[:, :3] *= np.abs(X[:, :3]) > [0.3, 45.0, 0.03]
    given = as_given(X)
    X = np.asarray(given.toarray() if sparse.issparse(given) else given, np.float64)
    indptr = np.array([0, 1, 9, 9 + 17, len(y)])
    labels, costs = y.astype(float), np.array([1.0, 0.5, 2.0, 1.0])
    docs, queries = content_order(given, labels, indptr)
    mean, scale = X.mean(axis=0), np.append(X.std(axis=0)[:4], np.inf)
    scale[3] = np.inf  # as if it did not vary
    trainer = NetTrainer(
        given, Lambdas(labels, indptr, None, order=docs), queries, costs, mean, scale, hidden=hidden, batch=4, rate=1.0
    )
    start = rng.normal(size=trainer.theta.size)
    trainer.theta[:] = start
    assert trainer.epoch(1)
    seen = trainer.seen
    gradient = 4 * (trainer.theta - start)  # the step was the mean over four queries

    def scores(theta):
        inner, outer, constants = trainer.raw_weights(theta)
        sums = X @ inner
        return np.tanh(sums + constants) @ outer if hidden else sums[:, 0]

    def cost(theta):
        s = scores(theta)
        parts = [ranknet_cost(s, labels, indptr[q : q + 2]) for q in range(4)]
        return float(costs @ parts)

    step = 1e-5
    for k in range(len(start)):
        moved = np.eye(len(start))[k] * step
        slope = (cost(start + moved) - cost(start - moved)) / (2 * step)
        assert -gradient[k] == pytest.approx(slope, abs=2e-5 * max(1.0, np.abs(gradient).max()))
    if hidden:
        np.testing.assert_allclose(seen, scores(start), atol=1e-9)
    else:  # a constant for each query is left out
        np.testing.assert_allclose(seen[9:26] - seen[9], scores(start)[9:26] - scores(start)[9], atol=1e-9)


def test_plain_steps_are_rate_times_gradient():
    X, y, qid = make(1)
    ranker = LambdaRank("map", hidden=0, epochs=1, learning_rate=0.25, standardize=False).fit(X, y, qid)
    measure = ranker._lambda_measure()
    gradients, _ = Lambdas(y.astype(float), np.array([0, len(y)]), measure).evaluate(np.zeros(len(y)))
    want = 0.25 * X.T @ gradients
    want[4] = 0.0  # constant
    np.testing.assert_allclose(ranker.coef_, want, atol=1e-12)
    mean_of_pairs = RankNet(hidden=0, epochs=1, learning_rate=0.25, standardize=False).fit(X, y, qid)
    gradients, _ = Lambdas(y.astype(float), np.array([0, len(y)]), None).evaluate(np.zeros(len(y)))
    n_pairs = (y[:, None] > y).sum()
    np.testing.assert_allclose(mean_of_pairs.coef_[:4], 0.25 * (X.T @ gradients)[:4] / n_pairs, atol=1e-12)


class SlowAP(AP):
    def swaps(self):
        return None


def test_measures_without_compiled_changes_train_the_same():
    X, y, qid = make()
    y = np.minimum(y, 1)  # among equal scores, they see other grades than those that count
    for hidden in (0, 3):
        for batch in (1, 4):
            settings = {"hidden": hidden, "batch": batch, "epochs": 4, "eval_measure": "ndcg@10"}
            compiled = LambdaRank("AP", **settings).fit(X, y, qid)
            by_swaps = LambdaRank(SlowAP(), **settings).fit(X, y, qid)
            np.testing.assert_allclose(by_swaps.predict(X), compiled.predict(X), rtol=1e-9)
            assert [row.train for row in by_swaps.path_] == [row.train for row in compiled.path_]


@pytest.mark.parametrize("measure", ["ndcg", "nDCG(discount='jk')@5", "map", "mrr@5", "ERR@3", "RBP", "P@3", "AUC"])
def test_any_measure_can_be_trained_for(measure):
    train, new = make(noise=0.2), make(seed=1, noise=0.2)
    ranker = LambdaRank(measure, hidden=0, epochs=8).fit(*train, eval_set=new)
    value = evaluate(new[1], ranker.predict(new[0]), new[2], measures=[measure]).values.mean()
    assert ranker.path_[ranker.best_epoch_ - 1].value == pytest.approx(value, abs=1e-12)
    assert ndcg(ranker, new) > 0.85


@every_kind
def test_the_best_epoch_is_kept(ranker):
    train, valid = make(noise=2.0), make(seed=1, noise=2.0)
    fitted = clone(ranker).set_params(epochs=40, patience=5).fit(*train, eval_set=valid)
    values = [row.value for row in fitted.path_]
    assert fitted.best_epoch_ == 1 + int(np.argmax(values))
    assert fitted.n_epochs_ == len(values) == min(40, fitted.best_epoch_ + 5)
    assert [row.epoch for row in fitted.path_] == list(range(1, len(values) + 1))
    assert (np.diff([row.seconds for row in fitted.path_]) > 0).all()
    assert all(0 < row.train <= 1 for row in fitted.path_)
    measure = "AP" if getattr(ranker, "measure", None) == "map" else "nDCG@10"
    assert evaluate(valid[1], fitted.predict(valid[0]), valid[2], measures=[measure]).means[measure] == max(values)
    # It is what so many epochs give without validation data.
    again = clone(ranker).set_params(epochs=fitted.best_epoch_).fit(*train)
    assert bits(again, valid[0]) == bits(fitted, valid[0])
    assert np.isnan([row.value for row in again.path_]).all()
    assert again.best_epoch_ == again.n_epochs_ == fitted.best_epoch_


@every_kind
def test_the_same_seed_gives_the_same_bits(ranker):
    X, y, qid = make(noise=1.0)
    first = clone(ranker).fit(X, y, qid)
    assert bits(clone(ranker).fit(X, y, qid), X) == bits(first, X)
    assert bits(clone(ranker).set_params(random_state=1).fit(X, y, qid), X) != bits(first, X)
    state = clone(ranker).set_params(random_state=np.random.RandomState(3)).fit(X, y, qid)
    assert bits(clone(ranker).set_params(random_state=np.random.RandomState(3)).fit(X, y, qid), X) == bits(state, X)


@every_kind
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_threads_do_not_change_a_bit(ranker, batch, monkeypatch):
    monkeypatch.setattr(net_training, "_TASK_DOCS", 30)
    X, y, qid = make(noise=1.0)
    one = clone(ranker).set_params(batch=batch, epochs=5).fit(X, y, qid)
    for n_jobs in (2, 3, -1):
        assert bits(clone(one).set_params(n_jobs=n_jobs).fit(X, y, qid), X) == bits(one, X)


def test_interruptions_are_looked_for_often_without_any_effect(monkeypatch):
    X, y, qid = make(noise=1.0)
    whole = LambdaRank(epochs=3).fit(X, y, qid)
    monkeypatch.setattr(net_training, "_STRETCH_DOCS", 20)
    assert bits(LambdaRank(epochs=3).fit(X, y, qid), X) == bits(whole, X)


def test_mixed_rows_give_the_same_model():
    X, y, qid = make(noise=1.0)
    rows = np.random.default_rng(5).permutation(len(y))
    for ranker in BOTH:
        scores = clone(ranker).fit(X, y, qid).predict(X)
        np.testing.assert_allclose(clone(ranker).fit(X[rows], y[rows], qid[rows]).predict(X), scores, rtol=1e-9)


def test_linear_models_have_coefficients_and_nets_do_not():
    X, y, qid = make()
    ranker = LambdaRank(hidden=0, **QUICK).fit(X, y, qid)
    assert isinstance(ranker.model_, LinearModel)
    assert ranker.model_.coef.tolist() == ranker.coef_.tolist()
    assert ranker.coef_[4] == 0.0  # the constant feature
    ranker.set_params(hidden=3).fit(X, y, qid)
    assert isinstance(ranker.model_, NetModel)
    assert ranker.model_.inner.shape == (3, 5)
    assert not ranker.model_.inner[:, 4].any()
    assert not hasattr(ranker, "coef_")


def test_hidden_units_learn_what_a_linear_model_cannot():
    train, new = make(60, bent=True, noise=0.1), make(60, seed=1, bent=True, noise=0.1)
    for kind in (RankNet, LambdaRank):
        line = kind(hidden=0, epochs=60).fit(*train)
        net = kind(epochs=60, random_state=2).fit(*train)
        assert ndcg(net, new) > ndcg(line, new) + 0.1


@pytest.mark.parametrize("hidden", [0, 10])
def test_the_scale_of_features_does_not_matter(hidden):
    X, y, qid = make(noise=1.0)
    # One batch: the order of queries comes from what they hold, and would be another.
    ranker = RankNet(hidden=hidden, batch=100, epochs=15)
    scores = clone(ranker).fit(X, y, qid).predict(X)
    scaled = X * [1e-6, 1e3, 64.0, 1.0, 1.0] + [0.0, 1.0, 2.0, 3.0, 4.0]
    other = clone(ranker).fit(scaled, y, qid).predict(scaled)
    np.testing.assert_allclose(other - other[0], scores - scores[0], atol=1e-6)
    assert bits(clone(ranker).set_params(standardize=False).fit(X, y, qid), X) != scores.tobytes()


@every_kind
def test_weights_of_queries(ranker):
    X, y, qid = make(noise=1.0)
    scores = clone(ranker).fit(X, y, qid).predict(X)
    np.testing.assert_allclose(clone(ranker).fit(X, y, qid, query_weight=np.full(len(y), 2.0)).predict(X), scores)
    some = np.isin(qid, ["q1", "q2", "q3"])
    without = clone(ranker).set_params(standardize=False).fit(X[~some], y[~some], qid[~some])
    for weights in ({"query_weight": np.where(some, 0.0, 1.0)}, {"sample_weight": np.where(some, 0.0, 1.0)}):
        fitted = clone(without).fit(X, y, qid, **weights)
        np.testing.assert_allclose(fitted.predict(X), without.predict(X), rtol=1e-9)
        assert fitted.n_queries_ == without.n_queries_
    heavy = clone(ranker).fit(X, y, qid, query_weight={q: 1.0 + 50.0 * (q == "q1") for q in qid})
    assert bits(heavy, X) != scores.tobytes()


def test_weight_decay_keeps_weights_small():
    X, y, qid = make()
    sizes = []
    for decay in (0.0, 1.0, 30.0):
        sizes.append(np.abs(LambdaRank(hidden=0, weight_decay=decay, epochs=40).fit(X, y, qid).coef_ @ X.std(axis=0)))
    assert sizes[0] > sizes[1] > sizes[2]


def test_batches_of_queries():
    train, new = make(40, noise=0.2), make(seed=1, noise=0.2)
    for kind in (RankNet, LambdaRank):
        for batch in (3, 40):
            assert ndcg(kind(batch=batch, epochs=100).fit(*train), new) > 0.85


def test_another_measure_to_choose_by():
    train, valid = make(noise=2.0), make(seed=1, noise=2.0)
    for kind in (RankNet, LambdaRank):
        ranker = kind(eval_measure="P@3", **QUICK).fit(*train, eval_set=valid)
        value = evaluate(valid[1], ranker.predict(valid[0]), valid[2], measures=["P@3"]).means["P@3"]
        assert ranker.path_[ranker.best_epoch_ - 1].value == value == max(row.value for row in ranker.path_)


def test_a_callback_sees_every_epoch_and_can_stop():
    seen = []
    ranker = LambdaRank(callback=lambda row: seen.append(row) or len(seen) == 3, **QUICK).fit(*make())
    assert tuple(seen) == ranker.path_
    assert ranker.n_epochs_ == ranker.best_epoch_ == 3


def test_ctrl_c_keeps_the_best_so_far():
    train, valid = make(noise=2.0), make(seed=1, noise=2.0)

    def interrupt(row):
        if row.epoch == 4:
            raise KeyboardInterrupt

    whole = LambdaRank(epochs=4).fit(*train, eval_set=valid)
    with pytest.warns(InputWarning, match="interrupted; the model is that of epoch") as caught:
        ranker = LambdaRank(callback=interrupt, **QUICK).fit(*train, eval_set=valid)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert ranker.n_epochs_ == 4
    assert ranker.best_epoch_ == whole.best_epoch_
    assert bits(ranker, valid[0]) == bits(whole, valid[0])


def test_a_rate_that_is_too_large_is_named():
    X, y, qid = make()
    with pytest.raises(InputError, match=r"learning_rate=1e\+60 is too large"):
        RankNet(hidden=0, learning_rate=1e60, weight_decay=1e60, standardize=False, epochs=3).fit(X, y, qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankNet(learning_rate=100.0, epochs=3).fit(X, y, qid)  # saturated units do no harm


def test_nothing_to_order():
    X, _, qid = make()
    for hidden in (0, 3):
        with pytest.warns(InputWarning, match="no query has documents of different labels") as caught:
            ranker = LambdaRank(hidden=hidden).fit(X, np.ones(len(X)), qid)
        assert caught[0].filename == __file__
        assert ranker.predict(X).tolist() == [0.0] * len(X)
        assert (ranker.n_epochs_, ranker.best_epoch_, ranker.path_, ranker.n_queries_) == (0, 0, (), 0)


def test_what_is_saved(tmp_path):
    train, valid = make(noise=2.0), make(seed=1, noise=2.0)
    for ranker, method in ((RankNet(**QUICK), "ranknet"), (LambdaRank("map", hidden=0, **QUICK), "lambdarank")):
        ranker.fit(*train, eval_set=valid).save(tmp_path / "model.rkw")
        saved = load_model(tmp_path / "model.rkw")
        assert saved.method == method
        assert saved.training["best_epoch"] == ranker.best_epoch_
        assert saved.training["validation"] == max(row.value for row in ranker.path_)
        assert saved.parameters["hidden"] == ranker.hidden
        assert saved.model.score(valid[0]).tobytes() == bits(ranker, valid[0])


REPEATED = "a document given twice is ranked twice, which is another ranking, not a document that weighs double"


@pytest.mark.filterwarnings("ignore:no query has documents:rankwright.errors.InputWarning")
@pytest.mark.filterwarnings("ignore:no qid:rankwright.errors.InputWarning")
@parametrize_with_checks(
    [RankNet(epochs=10), LambdaRank(hidden=0, epochs=10)],
    expected_failed_checks=lambda ranker: {
        f"check_sample_weight_equivalence_on_{kind}_data": REPEATED for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
