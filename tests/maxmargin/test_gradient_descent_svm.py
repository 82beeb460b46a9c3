"""RankingSVM by gradient descent, against the certified solver."""

import itertools
import warnings

import numpy as np
import pytest
from listed_pairs import listed_pairs, objective
from sklearn.exceptions import ConvergenceWarning

from rankwright import InputError, InputWarning
from rankwright.maxmargin.hinge import StructuredHinge
from rankwright.maxmargin.ranking_svm import RankingSVM

pytestmark = [
    pytest.mark.filterwarnings("ignore:the model learnt n"),  # some losses here cannot be lowered
    pytest.mark.filterwarnings("ignore:gradient descent stopped after"),
]


def synthetic(seed=0, n_queries=30, noise=0.7):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(6, 20, n_queries))
    X = rng.normal(size=(len(qid), 5))
    y = np.digitize(X @ [1.0, 0.5, -0.5, 0, 0] + noise * rng.normal(size=len(qid)), [0.5, 1.5])
    return X * [1, 10, 1, 0.1, 1], y, qid


@pytest.mark.parametrize("weights", [{}, {"rank_weights": "ndcg@5", "query_weights": True}], ids=["plain", "IR"])
@pytest.mark.parametrize(("C", "share"), [(0.1, None), (1.0, None), (10.0, None), (0.1, 0.01), (1.0, 0.002)])
def test_gradient_descent_reaches_the_certified_objective(C, share, weights):
    for seed in range(2):
        data = synthetic(seed)
        certified = RankingSVM(C, **weights, tol=1e-6).fit(*data)
        lowest = certified.objective_ * (1 - certified.gap_)
        eta = None if share is None else share * C / certified.n_queries_
        ranker = RankingSVM(C, **weights, solver="gd", learning_rate=eta, max_passes=3000).fit(*data)
        assert lowest <= ranker.objective_ <= 1.01 * certified.objective_
        assert ranker.objective_ * (1 - ranker.gap_) <= certified.objective_  # the bound is one
        assert (ranker.n_passes_, ranker.gap_) == (len(ranker.path_), ranker.path_[-1].gap)
        primal, dual = np.array([(row.primal, row.dual) for row in ranker.path_]).T
        assert (np.diff(primal) <= 0).all()
        assert (np.diff(dual) >= 0).all()
        assert (dual <= certified.objective_).all()
        assert primal[-1] < 0.9 * primal[0]


def test_gradient_descent_ends_with_the_objective_it_reports():
    data = synthetic()
    rows, values, n_queries = listed_pairs(*data, {})
    for eta in (None, 2e-5):
        ranker = RankingSVM(5.0, solver="gd", learning_rate=eta, standardize=False, max_passes=30)
        with pytest.warns(ConvergenceWarning, match="max_passes=30"):
            ranker.fit(*data)
        assert ranker.objective_ == pytest.approx(objective(ranker.coef_, rows, 5.0 / n_queries * values), rel=1e-9)


def figure_3(X, y, qid, weights, eta, lam, n_steps):
    """The paper's Figure 3, pair by pair; the weights after every step, from w = 0."""
    rows, costs, _ = listed_pairs(X, y, qid, weights)  # z (x1 − x2), τ μ
    w = np.zeros(X.shape[1])
    yield w
    for _ in range(n_steps):
        change = np.zeros_like(w)
        for row, cost in zip(rows, costs, strict=True):
            if row @ w < 1:
                change = change + cost * row
        change = change - 2 * lam * w
        w = w + eta * change
        yield w


@pytest.mark.parametrize("weights", [{}, {"rank_weights": "ndcg@1", "query_weights": True}], ids=["plain", "IR"])
@pytest.mark.parametrize(("eta", "lam"), [(1e-5, 3.0), (1e-5, 0.01), (2e-4, 300.0)])
def test_gradient_descent_is_figure_3_step_for_step(eta, lam, weights, monkeypatch):
    X, y, qid = synthetic(n_queries=12)
    seen = []
    evaluate = StructuredHinge.evaluate
    monkeypatch.setattr(StructuredHinge, "evaluate", lambda self, w: seen.append(w.copy()) or evaluate(self, w))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        RankingSVM(**weights, lam=lam, solver="gd", learning_rate=eta, standardize=False, max_passes=13, tol=1e-12).fit(
            X, y, qid
        )
    expected = list(figure_3(X, y, qid, weights, eta, lam, 12))
    assert len(seen) >= 11  # it may end before 12 steps: ten that lower the objective no more
    for found, wanted in zip(seen, expected, strict=False):
        assert np.abs(found - wanted).max() <= 1e-10
    assert np.abs(expected[-1]).max() > 1e-3


@pytest.mark.parametrize("weights", [{}, {"rank_weights": "ndcg@1", "query_weights": True}], ids=["plain", "IR"])
def test_a_step_is_eta_times_the_numerical_gradient(weights, monkeypatch):
    X, y, qid = synthetic(3, n_queries=8)
    rows, costs, _ = listed_pairs(X, y, qid, weights)
    lam, eta, seen = 2.0, 1e-4, []
    evaluate = StructuredHinge.evaluate
    monkeypatch.setattr(StructuredHinge, "evaluate", lambda self, w: seen.append(w.copy()) or evaluate(self, w))
    with pytest.warns(ConvergenceWarning, match="max_passes=4"):
        RankingSVM(**weights, lam=lam, solver="gd", learning_rate=eta, standardize=False, max_passes=4).fit(X, y, qid)

    def loss(w):
        return lam * w @ w + costs @ np.maximum(0.0, 1 - rows @ w)

    for before, after in itertools.pairwise(seen):
        gradient = [(loss(before + e) - loss(before - e)) / 2e-7 for e in 1e-7 * np.eye(5)]
        assert (before - after) / eta == pytest.approx(gradient, rel=1e-5, abs=1e-4)


def test_every_C_starts_from_zero_with_a_learning_rate():
    data, valid = synthetic(), synthetic(1)
    chosen = RankingSVM("auto", C_grid=[0.1, 1.0], solver="gd", learning_rate=1e-4, tol=1e-3).fit(*data, eval_set=valid)
    for row in chosen.C_path_:
        alone = RankingSVM(row["C"], solver="gd", learning_rate=1e-4, tol=1e-3).fit(*data)
        assert (alone.objective_, alone.n_passes_) == (row["objective"], row["passes"])


@pytest.mark.parametrize("eta", [0.1, 2.0, 1e30, 1e100])
def test_gradient_descent_says_when_the_learning_rate_is_too_large(eta):
    X, y, qid = synthetic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranker = RankingSVM(solver="gd", learning_rate=eta).fit(X, y, qid)
    (only,) = caught
    assert str(only.message).startswith(f"learning_rate={eta:g} is too large: ")
    assert np.isfinite(ranker.coef_).all()
    assert ranker.objective_ <= ranker.path_[0].primal  # the best that was seen
    assert np.isfinite(ranker.predict(X)).all()


@pytest.mark.parametrize(("C", "rate"), [(10.0, None), (1.0, 7e-5)], ids=["line search", "rate"])
def test_gradient_descent_says_when_it_stops_short_of_tol(C, rate):
    with pytest.warns(ConvergenceWarning, match=r"gradient descent stopped after \d+ passes, as more hardly lower"):
        ranker = RankingSVM(C, solver="gd", learning_rate=rate, max_passes=3000).fit(*synthetic())
    (notice,) = ranker.training_.notices
    assert notice.values["gap"] == ranker.gap_ > ranker.tol
    assert f"after {ranker.n_passes_} passes" in notice.text
    assert f"tol={ranker.tol:g} was not reached" in notice.text
    assert not ranker.training_.certificate.reached


@pytest.mark.filterwarnings("error")
def test_gradient_descent_says_nothing_when_it_reaches_tol_or_is_stopped():
    data = synthetic()
    ranker = RankingSVM(0.01, solver="gd", tol=0.05).fit(*data)
    assert ranker.gap_ <= 0.05
    assert ranker.training_.notices == ()
    stopped = RankingSVM(10.0, solver="gd", callback=lambda check: check.passes == 20).fit(*data)
    assert stopped.training_.notices == ()


def test_a_learning_rate_needs_gradient_descent():
    with pytest.raises(InputError, match="learning_rate is given with solver='bundle'; expected solver='gd' with it"):
        RankingSVM(learning_rate=0.1).fit(*synthetic())


def test_gradient_descent_can_be_stopped_interrupted_and_warm_started():
    data = synthetic()
    whole = RankingSVM(10.0, solver="gd", warm_start=True).fit(*data)
    assert whole.n_passes_ > 5
    stopped = RankingSVM(10.0, solver="gd", callback=lambda check: check.passes == 4).fit(*data)
    assert [row.primal for row in stopped.path_] == [row.primal for row in whole.path_[:4]]

    def interrupt(check):
        if check.passes == 3:
            raise KeyboardInterrupt

    with pytest.warns(InputWarning, match="interrupted"):
        ranker = RankingSVM(10.0, solver="gd", callback=interrupt).fit(*data)
    assert (ranker.n_passes_, ranker.objective_) == (3, whole.path_[2].primal)
    before = whole.objective_
    assert whole.fit(*data).path_[0].primal == pytest.approx(before, rel=1e-9)


def test_gradient_descent_along_a_path_over_C():
    data = synthetic()
    path = RankingSVM("auto", C_grid=[0.1, 1.0], solver="gd").fit(*data, eval_set=synthetic(1)).C_path_
    for row in path:
        assert row["objective"] == pytest.approx(RankingSVM(row["C"]).fit(*data).objective_, rel=0.01)
