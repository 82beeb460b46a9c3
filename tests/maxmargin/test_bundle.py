"""The solver's answers and certificates against an independent programme over all rankings, listed one by one.

Losses and feature maps are written here from their definitions; nothing of the package's measures and oracles is used.
"""

import functools
import itertools
import re
import warnings

import numpy as np
import pytest
from listed_rankings import loss_of
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from rankwright import InputWarning, RankingData, Standardizer
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM

LOSSES = ["auc", "map", "ndcg", "ndcg@2", "mrr@2", "pairs"]
SOLVERS = ["bundle", "one-slack-cutting-plane"]


def ranker_for(loss, C=1.0, **settings):
    if loss == "pairs":
        return RankingSVM(C, **settings)
    return StructuredSVM(loss, C, bound="hinge", feature_map="mrr" if loss.startswith("mrr") else None, **settings)


def random_queries(seed, n_queries=4, n_features=3, sizes=(3, 5), grades=2):
    """Queries with something to order, the first feature of some use."""
    rng = np.random.default_rng(seed)
    n_docs = rng.integers(sizes[0], sizes[1] + 1, n_queries)
    qid = np.repeat(np.arange(n_queries), n_docs)
    y = rng.integers(0, grades, len(qid))
    for q in range(n_queries):
        y[rng.permutation(np.flatnonzero(qid == q))[:2]] = [0, 1]
    X = rng.normal(size=(len(qid), n_features))
    X[:, 0] += y
    return X, y, qid


@functools.cache
def all_rankings(name, labels):
    """Loss and coefficients of every ranking of one query, without those that occur twice."""
    n = len(labels)
    goods, bads = [i for i in range(n) if labels[i]], [i for i in range(n) if not labels[i]]
    rows = set()
    for ranking in itertools.permutations(range(n)):
        rank, coef = np.argsort(ranking), np.zeros(n)
        top = min(goods, key=lambda i: rank[i])
        for good, bad in itertools.product([top] if name.startswith("mrr") else goods, bads):
            if rank[bad] < rank[good]:
                unit = 1 if name.startswith("mrr") else 2 / (len(goods) * len(bads))
                coef[[good, bad]] += unit, -unit
        rows.add((loss_of(name, [labels[i] for i in ranking]), *coef.round(12)))
    table = np.array(sorted(rows))
    return table[:, 0], table[:, 1:]


def constraints(name, X, y, qid):
    """All (loss, δΨ) with the slack that each belongs to: one per query, or one per pair."""
    losses, vectors, slack = [], [], []
    for q in np.unique(qid):
        x, labels = X[qid == q], y[qid == q]
        if name == "pairs":
            parts = [
                (np.array([0.0, 1.0]), np.array([x[i] * 0, x[i] - x[j]]))
                for i, j in itertools.product(range(len(labels)), repeat=2)
                if labels[i] > labels[j]
            ]
        else:
            loss, coef = all_rankings(name, tuple((labels > 0).tolist()))
            parts = [(loss, coef @ x)]
        for loss, vector in parts:
            slack += [slack[-1] + 1 if slack else 0] * len(loss)
            losses.append(loss)
            vectors.append(vector)
    return np.concatenate(losses), np.concatenate(vectors), np.array(slack)


def hinges(name, X, y, qid, w):
    """Σ over queries of H_q(w), by brute force."""
    losses, vectors, slack = constraints(name, X, y, qid)
    worst = np.full(slack[-1] + 1, -np.inf)
    np.maximum.at(worst, slack, losses - vectors @ w)
    return worst.sum()


def programme(name, X, y, qid, C):
    """Minimise ½‖w‖² + c Σ ξ with ξ ≥ loss − w·δΨ for all rankings, by a primal-dual interior point method."""
    losses, vectors, slack = constraints(name, X, y, qid)
    n, d, n_slacks = len(losses), X.shape[1], slack[-1] + 1
    cost = C / len(np.unique(qid))
    A = np.zeros((n, d + n_slacks))
    A[:, :d], A[np.arange(n), d + slack] = vectors, 1.0
    H = np.diag(np.repeat([1.0, 0.0], [d, n_slacks]))
    linear = np.repeat([0.0, cost], [d, n_slacks])
    x = np.repeat([0.0, losses.max() + 1.0], [d, n_slacks])
    s, z = A @ x - losses, cost / np.bincount(slack)[slack]
    for _ in range(100):
        residual, miss = H @ x + linear - A.T @ z, A @ x - losses - s
        if s @ z < 1e-13 * (1 + cost) and abs(residual).max() < 1e-10 * (1 + cost):
            break
        target = 0.1 * (s @ z) / n
        push = (target - z * miss) / s - z
        step = np.linalg.solve(H + A.T @ (A * (z / s)[:, None]), -residual + A.T @ push)
        ds = A @ step + miss
        dz = (target - z * ds) / s - z
        both, moves = np.concatenate([s, z]), np.concatenate([ds, dz])
        length = min(1.0, 0.99 * (-both[moves < 0] / moves[moves < 0]).min(initial=np.inf))
        x, s, z = x + length * step, s + length * ds, z + length * dz
    w = x[:d]
    primal = 0.5 * w @ w + cost * hinges(name, X, y, qid, w)
    z *= cost / np.bincount(slack, z)[slack]  # feasible, so that this is a bound
    dual = z @ losses - 0.5 * np.sum((vectors.T @ z) ** 2)
    assert 0 <= primal - dual + 1e-9 * primal < 1e-7 * primal  # the judge is judged too
    return primal, w


def never_falls(values, rounding):
    return (np.diff(values) >= -rounding * np.abs(values).max()).all()


def check_path(ranker, rounding=1e-9):
    """What every path must show, whatever the problem."""
    primal, dual, gap = (np.array([getattr(row, name) for row in ranker.path_]) for name in ("primal", "dual", "gap"))
    assert never_falls(dual, rounding)
    assert never_falls(-primal, 0)
    assert (primal >= dual).all()
    assert (gap >= 0).all()
    positive = primal > 0
    np.testing.assert_allclose(gap[positive], ((primal - dual) / np.where(positive, primal, 1))[positive], atol=1e-12)
    assert [row.passes for row in ranker.path_] == list(range(1, ranker.n_passes_ + 1))
    assert all(0 <= row.seconds_planes <= row.seconds for row in ranker.path_)
    assert (primal[-1], gap[-1]) == (ranker.objective_, ranker.gap_)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_answer_is_that_of_the_programme_over_all_rankings(loss, solver):
    for seed, C in enumerate([0.1, 1.0, 1.0, 10.0, 10.0, 10.0]):
        X, y, qid = random_queries(
            seed, n_queries=3 + seed % 3, n_features=2 + seed % 2, grades=3 if loss == "pairs" else 2
        )
        expected, w = programme(loss, X, y, qid, C)
        ranker = ranker_for(loss, C, standardize=False, solver=solver, tol=1e-6).fit(X, y, qid)
        assert ranker.gap_ <= 1e-6
        assert ranker.objective_ == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(ranker.coef_, w, rtol=1e-3, atol=1e-3)
        naive = 0.5 * ranker.coef_ @ ranker.coef_ + C / len(set(qid)) * hinges(loss, X, y, qid, ranker.coef_)
        assert ranker.objective_ == pytest.approx(naive, rel=1e-9)
        check_path(ranker)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [100.0, 1e4])
def test_large_C_too(loss, solver, C):
    X, y, qid = random_queries(11, n_queries=5, grades=3 if loss == "pairs" else 2)
    expected, _ = programme(loss, X, y, qid, C)
    ranker = ranker_for(loss, C, standardize=False, solver=solver, tol=1e-4).fit(X, y, qid)
    assert ranker.gap_ <= 1e-4
    assert expected * (1 - 1e-7) <= ranker.objective_ <= expected / (1 - 1e-4)
    check_path(ranker)


@pytest.mark.parametrize("loss", ["map", "pairs"])
def test_standardised_is_trained_on_standardised_features(loss):
    X, y, qid = random_queries(3, n_queries=8)
    X = X * [1e3, 1.0, 1e-3] + [5.0, -100.0, 0.0]
    standardizer = Standardizer.fit(X)
    inside = ranker_for(loss, 10.0, tol=1e-6).fit(X, y, qid)
    outside = ranker_for(loss, 10.0, tol=1e-6, standardize=False).fit(standardizer.transform(X), y, qid)
    assert inside.objective_ == pytest.approx(outside.objective_, rel=2e-6)
    np.testing.assert_allclose(inside.coef_ * standardizer.scale, outside.coef_, rtol=1e-3, atol=1e-3)
    # The objective is that of the problem that was solved.
    w = inside.coef_ * standardizer.scale
    naive = 0.5 * w @ w + 10.0 / 8 * hinges(loss, standardizer.transform(X), y, qid, w)
    assert inside.objective_ == pytest.approx(naive, rel=1e-9)


def fit_any(ranker, *data, rounding=1e-9):
    """Fit, with the certificate or with its one warning; what is kept is usable, unless another warning says no."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranker.fit(*data)
    warned = [entry for entry in caught if issubclass(entry.category, ConvergenceWarning)]
    assert len(warned) == (ranker.gap_ > ranker.tol)
    if warned:
        assert re.match(f"stopped (at max_passes={ranker.max_passes}|after \\d+ passes) with", str(warned[0].message))
        assert ranker.n_passes_ == ranker.max_passes
    told = [entry for entry in caught if str(entry.message).startswith(("the model learnt n", "training ended before"))]
    assert bool(told) == (max(ranker.C_path_[0][name] for name in ("slack_ratio", "objective_ratio")) >= 0.99)
    assert len(caught) == len(warned) + len(told)
    assert np.isfinite(ranker.coef_).all()
    assert np.isfinite(ranker.objective_)
    check_path(ranker, rounding)
    return ranker


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_any_C_is_certified_or_says_so(loss, standardize):
    X, y, qid = random_queries(7, n_queries=12, n_features=6, sizes=(4, 12), grades=3)
    X = X * 10.0 ** np.arange(-2, 4)
    for solver in SOLVERS:
        for power in range(-4, 5):
            ranker = fit_any(ranker_for(loss, 10.0**power, standardize=standardize, solver=solver), X, y, qid)
            assert np.isfinite(ranker.predict(X)).all()
            assert ranker.objective_ <= ranker.path_[0].primal
            if standardize and power <= 2:
                assert ranker.gap_ <= ranker.tol


def test_max_passes_warns_once_with_the_gap():
    X, y, qid = random_queries(7, n_queries=12, n_features=6, sizes=(4, 12))
    with pytest.warns(ConvergenceWarning, match=r"max_passes=2 with a gap of \d.*: no weights can lower") as caught:
        ranker = StructuredSVM(C=1000, max_passes=2).fit(X, y, qid)
    assert len(caught) == 1
    assert f"{ranker.gap_:.2g}" in str(caught[0].message)
    assert ranker.n_passes_ == 2
    check_path(ranker)


def test_a_plane_may_carry_very_little_weight():
    """16 × 12 equal pairs, of which the optimum gives 1/256 of the weight to the violated ranking."""
    X = np.repeat([[1.0, 3.0], [2.0, 1.0], [3.0, 3.0], [4.0, 1.0]], 4, axis=0)
    y = np.repeat([0, 1, 0, 1], 4)
    for solver in SOLVERS:
        ranker = RankingSVM(solver=solver, standardize=False).fit(X, y, group=[16])
        assert ranker.gap_ <= 1e-3
        assert ranker.objective_ == pytest.approx(0.125, rel=1e-3)
        np.testing.assert_allclose(ranker.coef_, [0, -0.5], atol=0.02)


def test_one_query_with_many_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 20)), np.arange(30) % 3
    for loss in LOSSES:
        for C in (1.0, 100.0):
            assert ranker_for(loss, C).fit(X, y, group=[30]).gap_ <= 1e-3


ODD = {
    "duplicate rows": lambda X: np.repeat(X[::3], 3, axis=0)[: len(X)],
    "all rows equal": np.ones_like,
    "constant features": lambda X: np.column_stack([X, np.full(len(X), 7.3), np.full(len(X), -1e9)]),
    "zero features": lambda X: np.column_stack([np.zeros(len(X)), X, np.zeros(len(X))]),
    "nothing but zeros": np.zeros_like,
    "equal features": lambda X: np.column_stack([X, X, X]),
    "scales from 1e-8 to 1e8": lambda X: X * 10.0 ** np.linspace(-8, 8, X.shape[1]),
    "all tiny": lambda X: X * 1e-150,
    "all huge": lambda X: X * 1e150,
    "far from zero": lambda X: X + 1e9,
    "next to constant": lambda X: 1.0 + X * 1e-15,
    "a huge value": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 4, 1e12, X),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("loss", LOSSES)
def test_odd_features(loss, kind):
    X, y, qid = random_queries(21, n_queries=10, n_features=4, sizes=(4, 8))
    X = ODD[kind](X)
    for solver in SOLVERS:
        for C in (0.01, 1.0, 100.0):
            # Scores of 1e9 have seven digits left for their differences.
            rounding = 1e-5 if kind == "far from zero" else 1e-9
            ranker = fit_any(ranker_for(loss, C, solver=solver), X, y, qid, rounding=rounding)
            assert np.isfinite(ranker.predict(X)).all()
            if kind != "a huge value":
                assert ranker.gap_ <= ranker.tol


def test_features_that_say_nothing_get_no_weight():
    X, y, qid = random_queries(21, n_queries=10, n_features=4)
    plain = StructuredSVM().fit(X, y, qid)
    more = StructuredSVM().fit(ODD["constant features"](X), y, qid)
    assert more.coef_[4:].tolist() == [0, 0]
    np.testing.assert_allclose(more.coef_[:4], plain.coef_, rtol=1e-9)
    with pytest.warns(InputWarning, match="the model learnt nothing"):
        same = StructuredSVM().fit(np.ones_like(X), y, qid)
    assert same.coef_.tolist() == [0] * 4
    assert same.gap_ <= same.tol


def test_queries_without_an_order_are_left_out_and_counted():
    X, y, qid = random_queries(2, n_queries=6)
    extra = np.random.default_rng(0).normal(size=(7, 3))
    more = np.concatenate([extra[:3], X, extra[3:]])
    labels = np.concatenate([[0, 0, 0], y, [1, 1, 1, 0]])
    ids = np.concatenate([[70, 70, 70], qid, [71, 71, 71, 72]])
    for loss in LOSSES:
        alone = ranker_for(loss, standardize=False).fit(X, y, qid)
        ranker = ranker_for(loss, standardize=False).fit(more, labels, ids)
        assert (ranker.n_queries_, ranker.n_queries_skipped_) == (6, 3)
        assert (alone.n_queries_, alone.n_queries_skipped_) == (6, 0)
        assert np.array_equal(ranker.coef_, alone.coef_)
    with pytest.warns(InputWarning, match="nothing to order"):
        ranker = StructuredSVM().fit(extra, np.ones(7), [1, 1, 1, 2, 2, 2, 2])
    assert (ranker.n_queries_, ranker.n_queries_skipped_, ranker.n_passes_, ranker.path_) == (0, 2, 0, ())
    assert ranker.predict(extra).tolist() == [0] * 7


@pytest.mark.parametrize("loss", ["ndcg@2", "pairs"])
@pytest.mark.parametrize("standardize", [True, False])
def test_every_kind_of_table_gives_the_same_objective(loss, standardize, tmp_path):
    X, y, qid = random_queries(9, n_queries=20, n_features=5, sizes=(5, 15), grades=3)
    X = X.astype(np.float32)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0
    np.save(tmp_path / "X.npy", X)
    kinds = {
        "float32": X,
        "float64": X.astype(np.float64),
        "columns first": np.asfortranarray(X),
        "csr": sparse.csr_array(X),
        "csc of float64": sparse.csc_matrix(X.astype(np.float64)),
        "memory-mapped": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "lists": X.tolist(),
        "RankingData": None,
    }
    objectives = {}
    for kind, table in kinds.items():
        data = (RankingData.from_arrays(X, y, qid),) if table is None else (table, y, qid)
        ranker = ranker_for(loss, standardize=standardize, tol=1e-6).fit(*data)
        assert ranker.gap_ <= 1e-6
        objectives[kind] = ranker.objective_
    for kind, objective in objectives.items():
        assert objective == pytest.approx(objectives["float32"], rel=1e-6), kind


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["map", "pairs"])
def test_threads_do_not_change_a_bit(loss, solver):
    X, y, qid = random_queries(4, n_queries=600, n_features=6, sizes=(20, 40), grades=3)  # several tasks per pass
    fitted = [ranker_for(loss, 10.0, solver=solver, n_jobs=n_jobs).fit(X, y, qid) for n_jobs in (None, 1, 2, 3, -1, 1)]
    for ranker in fitted[1:]:
        assert ranker.coef_.tobytes() == fitted[0].coef_.tobytes()
        assert ranker.objective_ == fitted[0].objective_
        assert [(row.primal, row.dual) for row in ranker.path_] == [(row.primal, row.dual) for row in fitted[0].path_]


def test_a_callback_sees_every_check_and_can_stop():
    X, y, qid = random_queries(4, n_queries=40, n_features=6, sizes=(10, 20))
    seen = []
    ranker = StructuredSVM(C=100, callback=seen.append).fit(X, y, qid)
    assert tuple(seen) == ranker.path_
    assert ranker.n_passes_ > 3
    stopped = StructuredSVM(C=100, callback=lambda check: check.passes == 3).fit(X, y, qid)
    assert stopped.path_[-1].primal == ranker.path_[2].primal
    assert stopped.n_passes_ == 3
    assert stopped.gap_ > stopped.tol
    check_path(stopped)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interrupt_keeps_the_best_certified_model(solver):
    X, y, qid = random_queries(4, n_queries=40, n_features=6, sizes=(10, 20))
    whole = StructuredSVM(C=100, solver=solver, standardize=False).fit(X, y, qid)

    def interrupt(check):
        if check.passes == 3:
            raise KeyboardInterrupt

    with pytest.warns(InputWarning, match=r"interrupted; the model is the best so far, within [\d.e-]+ of the optimum"):
        ranker = StructuredSVM(C=100, solver=solver, standardize=False, callback=interrupt).fit(X, y, qid)
    assert ranker.n_passes_ == 3
    assert ranker.objective_ == min(row.primal for row in whole.path_[:3])
    again = StructuredSVM(C=100, solver=solver, standardize=False, max_passes=1)
    with pytest.warns(ConvergenceWarning):  # one pass at the kept weights: their objective is what was certified
        again.start_from(ranker.coef_).fit(X, y, qid)
    assert again.objective_ == pytest.approx(ranker.objective_, rel=1e-9)
    check_path(ranker)


def test_an_interrupt_before_the_first_check_is_passed_on(monkeypatch):
    def interrupt(self, w):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankwright.maxmargin.hinge.StructuredHinge.evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        StructuredSVM().fit(*random_queries(4))
