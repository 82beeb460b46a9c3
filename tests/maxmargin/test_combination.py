"""Several losses at once, and DORM, against a programme over all rankings of every loss, listed one by one."""

import functools
import itertools

import numpy as np
import pytest
from listed_rankings import constraints, hinges, listed, programme, random_queries, settings_of
from sklearn.base import clone

from rankwright import InputError, InputWarning, RankingData, evaluate
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.measures import parse_measure
from rankwright.measures.oracles import positions
from rankwright.models.saving import load_model
from rankwright.rankers.cross_validation import best_beyond_first

pytestmark = pytest.mark.filterwarnings("ignore:the model learnt n")  # some losses here cannot be lowered

hinge_svm = functools.partial(StructuredSVM, bound="hinge")  # test_ramp.py has the other bound

SOLVERS = ["bundle", "one-slack-cutting-plane"]
SLACKS = ["separate", "shared"]

# Losses, their feature maps as StructuredSVM wants them, their weights.
COMBINATIONS = {
    "map and auc": (["map", "auc"], None, None),
    "map and mrr, weighted": (["map", "mrr@2"], None, [0.25, 2.0]),
    "three on their own maps": (["ndcg@2", "mrr", "dorm"], None, [1.0, 0.5, 1.5]),
    "MRR on both maps": (["mrr@2", "mrr@2"], ["mrr", "po"], None),
    "DORM of both decays": (["dorm@2", "dorm"], ["dorm:sqrt", "dorm:log2@2"], [2.0, 1.0]),
    "DORM alone": (["dorm@2"], "dorm:sqrt", None),
    "MRR on pairs alone": (["mrr"], "po", None),
}
combinations = pytest.mark.parametrize("combination", COMBINATIONS)
solvers = pytest.mark.parametrize("solver", SOLVERS)
slacks = pytest.mark.parametrize("slack", SLACKS)


@combinations
@slacks
@solvers
def test_the_answer_is_that_of_the_programme_over_all_rankings(combination, slack, solver):
    parts = COMBINATIONS[combination]
    for seed, C in enumerate([0.1, 1.0, 10.0, 10.0]):
        X, y, qid = random_queries(seed, n_queries=2 + seed % 2)
        rows = constraints(*listed(parts), slack, X, y, qid)
        cost = C / len(set(qid))
        expected, w = programme(rows, cost)
        ranker = hinge_svm(C=C, **settings_of(parts, slack), standardize=False, solver=solver, tol=1e-7)
        ranker.fit(X, y, qid)
        assert ranker.gap_ <= 1e-7
        assert ranker.objective_ == pytest.approx(expected, rel=1e-6)
        np.testing.assert_allclose(ranker.coef_, w, rtol=1e-3, atol=1e-3)
        naive = 0.5 * ranker.coef_ @ ranker.coef_ + cost * hinges(rows, ranker.coef_)
        assert ranker.objective_ == pytest.approx(naive, rel=1e-9)


def test_separate_and_shared_slacks_and_weights_are_different_problems():
    X, y, qid = random_queries(0)
    losses = ["map", "mrr@2"]
    fitted = [
        hinge_svm(losses, 10.0, slack=slack, loss_weights=weights, standardize=False, tol=1e-6).fit(X, y, qid)
        for slack, weights in itertools.product(SLACKS, [None, [2.0, 0.5]])
    ]
    for one, other in itertools.combinations(fitted, 2):
        assert abs(one.objective_ - other.objective_) > 1e-3


@pytest.mark.parametrize(("loss", "feature_map"), [("map", None), ("mrr@2", "po"), ("dorm@2", "dorm:sqrt")])
@solvers
def test_one_loss_twice_is_the_loss(loss, feature_map, solver):
    X, y, qid = random_queries(4, n_queries=12, n_features=4, sizes=(5, 9))
    settings = {"C": 5.0, "feature_map": feature_map, "solver": solver, "tol": 1e-7}
    alone = hinge_svm(loss, **settings).fit(X, y, qid)
    halves = hinge_svm([loss, loss], loss_weights=[0.5, 0.5], **settings).fit(X, y, qid)
    shared = hinge_svm([loss, loss], slack="shared", **settings).fit(X, y, qid)
    listed_alone = hinge_svm([loss], slack="shared", **settings).fit(X, y, qid)
    for ranker in (halves, shared, listed_alone):
        assert ranker.objective_ == pytest.approx(alone.objective_, rel=1e-6)
        np.testing.assert_allclose(ranker.coef_, alone.coef_, rtol=1e-3, atol=1e-4)
    assert shared.coef_.tobytes() == alone.coef_.tobytes()  # the same planes in the same order


def test_the_weight_of_a_single_loss_is_a_factor_of_C():
    X, y, qid = random_queries(4, n_queries=12, n_features=4, sizes=(5, 9))
    weighted = hinge_svm("map", 2.0, loss_weights=[3.0]).fit(X, y, qid)
    np.testing.assert_allclose(weighted.coef_, hinge_svm("map", 6.0).fit(X, y, qid).coef_, rtol=1e-9)


@slacks
@solvers
def test_queries_that_only_one_of_the_losses_can_use(slack, solver):
    X, y, qid = random_queries(6, n_queries=4)
    y[qid == 1] = np.array([1, 2, 2, 1])[: (qid == 1).sum()]  # all relevant: nothing to order for MAP, grades for DORM
    y[qid == 3] = 1  # nothing at all
    losses = ["map", "dorm@2"]
    rows = constraints(losses, ["po", "dorm"], [1.0, 2.0], slack, X, y, qid)
    expected, w = programme(rows, 10.0 / 3)  # of three queries that some loss can use
    ranker = hinge_svm(
        losses, 10.0, loss_weights=[1.0, 2.0], slack=slack, solver=solver, standardize=False, tol=1e-7
    ).fit(X, y, qid)
    assert (ranker.n_queries_, ranker.n_queries_skipped_) == (3, 1)
    assert ranker.objective_ == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(ranker.coef_, w, rtol=1e-3, atol=1e-3)
    only_map = hinge_svm("map").fit(X, y, qid)
    assert (only_map.n_queries_, only_map.n_queries_skipped_) == (2, 2)


@slacks
def test_relevant_from_is_for_those_without_grades(slack):
    X, y, qid = random_queries(7, grades=4)
    rows = constraints(["map", "dorm"], ["po", "dorm"], [1.0, 1.0], slack, X, y, qid, relevant_from=2)
    expected, _ = programme(rows, 5.0 / 3)
    ranker = hinge_svm(
        ["map", "dorm"], 5.0, slack=slack, relevant_from=2, standardize=False, tol=1e-7
    ).fit(X, y, qid)  # fmt: skip
    assert ranker.objective_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", ["dorm@3", ["map", "dorm@3"]])
@slacks
@solvers
def test_the_library_and_the_programme_train_the_same_model(loss, slack, solver, monkeypatch):
    X, y, qid = random_queries(8, n_queries=10, n_features=4, sizes=(4, 12))
    settings = {"slack": slack, "solver": solver, "tol": 1e-6, "n_jobs": 2}
    start = np.array([0.3, -0.2, 0.1, 0.5])  # at 0 all scores are equal, and several rankings the most violated ones
    compiled = hinge_svm(loss, 5.0, **settings).start_from(start).fit(X, y, qid)
    calls = []
    by_windows = positions.by_windows

    def counted(*arguments):
        calls.append(len(arguments[0]))
        return by_windows(*arguments)

    monkeypatch.setattr(positions, "by_windows", counted)
    for limit in (0, 50):  # in cells: for all queries, for some of them
        monkeypatch.setattr(positions, "_MOST_CELLS", limit)
        calls.clear()
        ranker = hinge_svm(loss, 5.0, **settings).start_from(start).fit(X, y, qid)
        cheap = parse_measure("ndcg@3").oracle("dorm").cheap
        hard = [q for q in set(qid) if not cheap(y[qid == q])]
        assert set(calls) == {int((qid == q).sum()) for q in hard}
        assert len(hard) == 10 if limit == 0 else 0 < len(hard) < 10
        assert ranker.gap_ <= 1e-6
        assert ranker.objective_ == pytest.approx(compiled.objective_, rel=2e-6)
        np.testing.assert_allclose(ranker.coef_, compiled.coef_, rtol=1e-3, atol=1e-4)
        for row, other in zip(ranker.path_[:3], compiled.path_, strict=False):
            assert row.primal == pytest.approx(other.primal, rel=1e-9)


def test_labels_too_many_for_the_programme_train_by_the_library():
    X, _, qid = random_queries(9, n_queries=4, n_features=3, sizes=(30, 40))
    y = np.random.default_rng(0).random(len(qid)) * 4
    X[:, 0] += y
    for loss in ("dorm", "dorm@10"):
        assert hinge_svm(loss, 10.0).fit(X, y, qid).gap_ <= 1e-3


@combinations
@slacks
@solvers
def test_the_certificate_is_reached_on_larger_data(combination, slack, solver):
    X, y, qid = random_queries(10, n_queries=40, n_features=6, sizes=(5, 25), grades=4)
    ranker = hinge_svm(C=20.0, **settings_of(COMBINATIONS[combination], slack), solver=solver).fit(X, y, qid)
    assert ranker.gap_ <= 1e-3
    path = np.array([(row.primal, row.dual) for row in ranker.path_])
    assert (np.diff(path[:, 0]) <= 0).all()
    assert (path[:, 0] >= path[:, 1]).all()


@slacks
def test_many_queries_share_blocks(slack, monkeypatch):
    X, y, qid = random_queries(11, n_queries=60, n_features=3)
    settings = {"loss": ["map", "dorm", "mrr"], "C": 10.0, "slack": slack, "tol": 1e-6}
    expected = hinge_svm(**settings).fit(X, y, qid)
    monkeypatch.setattr("rankwright.maxmargin.problem._MAX_BLOCKS", 7)
    ranker = hinge_svm(**settings).fit(X, y, qid)
    assert ranker.objective_ == pytest.approx(expected.objective_, rel=2e-6)


@slacks
def test_threads_do_not_change_a_bit(slack):
    X, y, qid = random_queries(12, n_queries=500, n_features=4, sizes=(20, 30))
    settings = {"loss": ["map", "dorm@3"], "C": 10.0, "slack": slack}
    fitted = [hinge_svm(**settings, n_jobs=n_jobs).fit(X, y, qid) for n_jobs in (1, 2, 3)]
    assert len({ranker.coef_.tobytes() for ranker in fitted}) == 1


@slacks
def test_a_path_over_C_with_weights_of_queries(slack):
    X, y, qid = random_queries(13, n_queries=10, n_features=3, sizes=(4, 8))
    valid = random_queries(14, n_queries=10, n_features=3, sizes=(4, 8))
    settings = {"loss": ["map", "dorm@3"], "slack": slack, "tol": 1e-6}
    weights = {q: 1.0 + q % 3 for q in range(10)}
    auto = hinge_svm(C="auto", C_grid=[0.1, 1.0, 10.0], **settings)
    auto.fit(X, y, qid, query_weight=weights, eval_set=valid)
    health = {"norm", "slack", "slack_ratio", "objective_ratio"}
    assert set(auto.C_path_[0]) == {"C", "AP", "objective", "gap", "passes"} | health  # chosen by the first loss
    for row in auto.C_path_:
        alone = hinge_svm(C=row["C"], **settings).fit(X, y, qid, query_weight=weights)
        assert row["objective"] == pytest.approx(alone.objective_, rel=2e-6)
    twice = [np.repeat(part, [int(weights[q]) for q in qid], axis=0) for part in (X, y)]
    names = np.concatenate([[f"{q} {copy}" for copy in range(int(weights[q]))] for q in qid])
    repeated = hinge_svm(C=10.0, standardize=False, **settings).fit(*twice, names)
    weighted = hinge_svm(C=10.0, standardize=False, **settings).fit(X, y, qid, query_weight=weights)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-6)


def test_what_is_saved(tmp_path):
    X, y, qid = random_queries(15, n_queries=8)
    ranker = hinge_svm(
        ["map", "dorm@5"], 2.0, feature_map=[None, "dorm:sqrt@30"], loss_weights=(1.0, 0.5), slack="shared"
    ).fit(X, y, qid)
    ranker.save(tmp_path / "model.rkw")
    saved = load_model(tmp_path / "model.rkw")
    assert saved.method == "svm-combo"
    assert saved.parameters["loss"] == ["map", "dorm@5"]
    assert saved.parameters["feature_map"] == [None, "dorm:sqrt@30"]
    assert saved.parameters["loss_weights"] == [1.0, 0.5]
    assert saved.parameters["slack"] == "shared"
    assert saved.training["gap"] == ranker.gap_
    assert saved.model.coef.tobytes() == ranker.coef_.tobytes()
    again = hinge_svm(**saved.parameters).fit(X, y, qid)
    assert again.coef_.tobytes() == ranker.coef_.tobytes()


@pytest.mark.parametrize("validated", [True, False])
def test_weights_of_losses_are_those_of_the_best_model(validated, tmp_path):
    X, y, qid = random_queries(17, n_queries=30, sizes=(6, 10))
    valid = random_queries(18, n_queries=12, sizes=(6, 10)) if validated else None
    combined = StructuredSVM(["map", "mrr@2", "ndcg@2"], loss_weights="auto").fit(X, y, qid, eval_set=valid)
    if validated:
        data = RankingData.from_arrays(*valid)
        tried = [(1.0, 1.0, 1.0), *(tuple(np.insert(np.ones(2), at, share)) for share in (4, 0.25) for at in range(3))]
        first, values = None, []
        for weights in tried:
            ranker = StructuredSVM(["map", "mrr@2", "ndcg@2"], loss_weights=weights)
            if first is not None:
                ranker.start_from(first.start_.coef_)
            ranker.fit(X, y, qid, eval_set=valid)
            first = first or ranker
            table = evaluate(data, ranker.predict(valid[0]), measures=["AP", "RR@2", "nDCG@2"])
            values.append(table.values.mean(axis=1))
        best = tried[best_beyond_first(np.array(values))]
        assert combined.loss_weights_ == pytest.approx(tuple(3 * weight / sum(best) for weight in best))
    assert sum(combined.loss_weights_) == pytest.approx(3)
    again = StructuredSVM(["map", "mrr@2", "ndcg@2"], loss_weights=combined.loss_weights_)
    assert again.fit(X, y, qid, eval_set=valid).coef_.tobytes() == combined.coef_.tobytes()
    combined.save(tmp_path / "model.rkw")
    assert load_model(tmp_path / "model.rkw").training["loss_weights"] == list(combined.loss_weights_)


METHODS = {"dorm": "dorm-nc", "dorm@10": "dorm@10", "DORM@5": "dorm@5"}


@pytest.mark.parametrize("loss", METHODS)
def test_the_name_of_the_method(loss, tmp_path):
    hinge_svm(loss).fit(*random_queries(16)).save(tmp_path / "model.rkw")
    assert load_model(tmp_path / "model.rkw").method == METHODS[loss]


def test_dorm_is_ndcg_on_positions():
    X, y, qid = random_queries(17, n_queries=8)
    expected = hinge_svm("dorm@3", feature_map="dorm:sqrt").fit(X, y, qid)
    same = hinge_svm("ndcg@3", feature_map="dorm:sqrt").fit(X, y, qid)
    assert same.coef_.tobytes() == expected.coef_.tobytes()
    linear = hinge_svm("nDCG(gain=linear)@3", feature_map="dorm:sqrt").fit(X, y, qid)
    assert not np.allclose(linear.coef_, expected.coef_)


def test_nothing_to_order_for_any_loss():
    X, y, qid = random_queries(19)
    with pytest.warns(InputWarning, match="nothing to order"):
        ranker = hinge_svm(["map", "dorm"]).fit(X, np.ones(len(y)), qid)
    assert not ranker.coef_.any()


def test_labels_too_large_for_a_gain_give_one_line():
    X, y, qid = random_queries(21)
    with pytest.raises(InputError, match=r"the label 2000 is too large for nDCG with gain 2\^rel−1"):
        hinge_svm(["map", "dorm"]).fit(X, y * 1000.0, qid)
    linear = hinge_svm("nDCG(gain=linear)", feature_map="dorm")
    assert np.allclose(linear.fit(X, y * 1000.0, qid).coef_, clone(linear).fit(X, y, qid).coef_)
