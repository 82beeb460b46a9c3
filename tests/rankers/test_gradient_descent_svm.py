"""RankingSVM by gradient descent, against the certified solver."""

import numpy as np
import pytest
from listed_pairs import listed_pairs, objective
from sklearn.exceptions import ConvergenceWarning

from rankwright import InputWarning
from rankwright.rankers.ranking_svm import RankingSVM

pytestmark = pytest.mark.filterwarnings(
    "ignore:the weights are (no|hardly) better than 0"
)  # some losses here cannot be lowered


def synthetic(seed=0, n_queries=30, noise=0.7):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(6, 20, n_queries))
    X = rng.normal(size=(len(qid), 5))
    y = np.digitize(X @ [1.0, 0.5, -0.5, 0, 0] + noise * rng.normal(size=len(qid)), [0.5, 1.5])
    return X * [1, 10, 1, 0.1, 1], y, qid


@pytest.mark.parametrize("weights", [{}, {"rank_weights": "ndcg@5", "query_weights": True}], ids=["plain", "IR"])
@pytest.mark.parametrize(("C", "rate"), [(0.1, None), (1.0, None), (10.0, None), (0.1, 0.01), (1.0, 0.002)])
def test_gradient_descent_reaches_the_certified_objective(C, rate, weights):
    for seed in range(2):
        data = synthetic(seed)
        certified = RankingSVM(C, **weights, tol=1e-6).fit(*data)
        lowest = certified.objective_ * (1 - certified.gap_)
        ranker = RankingSVM(C, **weights, solver="gd", rate=rate, max_passes=3000).fit(*data)
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
    for rate in (None, 1e-4):
        ranker = RankingSVM(5.0, solver="gd", rate=rate, standardize=False, max_passes=30)
        with pytest.warns(ConvergenceWarning, match="max_passes=30"):
            ranker.fit(*data)
        assert ranker.objective_ == pytest.approx(objective(ranker.coef_, rows, 5.0 / n_queries * values), rel=1e-9)


def test_gradient_descent_steps_by_the_rate():
    X, y, qid = synthetic()
    rows, values, n_queries = listed_pairs(X, y, qid, {})
    costs, w, best = 2.0 / n_queries * values, np.zeros(5), []
    for _ in range(8):
        best.append(objective(w, rows, costs))
        w = w - 1e-4 * (w - (costs * (rows @ w < 1)) @ rows)
    ranker = RankingSVM(2.0, solver="gd", rate=1e-4, standardize=False, max_passes=8)
    with pytest.warns(ConvergenceWarning, match="max_passes=8"):
        ranker.fit(X, y, qid)
    assert best[-1] < best[4] < best[0]
    assert [row.primal for row in ranker.path_] == pytest.approx(np.minimum.accumulate(best).tolist(), rel=1e-9)


def test_gradient_descent_says_when_the_rate_is_too_large():
    X, y, qid = synthetic()
    for rate in (50.0, 1e30, 1e100):
        with pytest.warns(ConvergenceWarning, match=r"stopped after \d+ passes with a relative duality gap"):
            ranker = RankingSVM(solver="gd", rate=rate).fit(X, y, qid)
        assert not ranker.coef_.any()  # the best that was seen
        assert ranker.objective_ == ranker.path_[0].primal


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
