"""The ramp bound, against all rankings of small queries, listed one by one; and what it is for: losses that learn."""

import functools
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from listed_rankings import all_rankings, constraints, listed, loss_of, map_of, programme, random_queries, settings_of
from sklearn.base import clone

from rankwright import InputError, RankingData, evaluate
from rankwright.maxmargin.losses import TrainingSet, parse_losses
from rankwright.maxmargin.problem import BUNDLE, SolverSettings
from rankwright.maxmargin.ramp import RampProblem
from rankwright.maxmargin.start import EPOCHS
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.measures import parse_measure
from rankwright.nets.training import NetTrainer
from rankwright.rankers.cross_validation import best_beyond_first
from rankwright.rankers.facts import Kind

ramp_svm = functools.partial(StructuredSVM, bound="ramp")

COMBINATIONS = {
    "map": (["map"], None, None),
    "auc": (["auc"], None, None),
    "ndcg": (["ndcg"], None, None),
    "clipped ndcg": (["ndcg@2"], None, None),
    "mrr on pairs": (["mrr@2"], "po", None),
    "mrr on its own map": (["mrr@2"], "mrr", None),
    "dorm": (["dorm@2"], "dorm:sqrt", None),
    "dorm, cut": (["dorm"], "dorm:log2@2", None),
    "three": (["map", "mrr@2", "ndcg@2"], None, [1.0, 0.5, 2.0]),
    "three on their own maps": (["ndcg@2", "mrr", "dorm"], [None, "mrr", None], [1.0, 0.5, 1.5]),
}
combinations = pytest.mark.parametrize("combination", COMBINATIONS)
slacks = pytest.mark.parametrize("slack", ["separate", "shared"])


def problem_of(combination, slack, X, y, qid, start, **settings):
    """The training set with the ramp bound, on the raw features."""
    data = RankingData.from_arrays(X, y, qid)
    targets = [loss.target(data, 1) for loss in parse_losses(*COMBINATIONS[combination])]
    how = SolverSettings(BUNDLE, settings.pop("tol", 1e-6), 500, False, slack=slack)
    training = TrainingSet(data, targets, np.ones(data.n_queries))
    return RampProblem(training, how, start, max_rounds=settings.pop("max_rounds", 4), **settings)


def label_of(name, feature_map, labels, scores):
    """The labels that a loss sees; on the map of reciprocal rank, of the topmost good document and the bads only."""
    seen = labels if feature_map.startswith("dorm") else (labels >= 1).astype(int)
    if feature_map == "mrr":
        top = max(np.flatnonzero(seen), key=lambda i: scores[i])
        kept = np.flatnonzero((seen == 0) | (np.arange(len(seen)) == top))
        return seen[kept], kept
    return seen, np.arange(len(seen))


def ramp_by_hand(combination, slack, X, y, qid, w):
    """Mean over queries of Σ_l or max_l weight · (max_y [Δ − w·δΨ] − max_y [−w·δΨ]), and of the loss of the order."""
    bounds, lost = [], []
    for q in np.unique(qid):
        scores, parts, losses = X[qid == q] @ w, [], []
        for name, feature_map, weight in zip(*listed(COMBINATIONS[combination]), strict=True):
            seen, kept = label_of(name, feature_map, y[qid == q], scores)
            values, coef = all_rankings(name, feature_map, tuple(seen.tolist()))
            margins = coef @ scores[kept]
            parts.append(weight * (np.max(values - margins) - np.max(-margins)))
            whole = y[qid == q] if feature_map.startswith("dorm") else (y[qid == q] >= 1).astype(int)
            losses.append(weight * loss_of(name, whole[np.argsort(-scores, kind="stable")].tolist()))
        bounds.append(sum(parts) if slack == "separate" else max(parts))
        lost.append(sum(losses) if slack == "separate" else max(losses))
    return np.mean(bounds), np.mean(lost)


@combinations
@slacks
def test_the_bound_is_that_of_all_rankings_and_above_the_loss(combination, slack):
    for seed in range(4):
        X, y, qid = random_queries(seed, n_queries=3)
        rng = np.random.default_rng(seed)
        problem = problem_of(combination, slack, X, y, qid, rng.normal(size=2))
        objective = problem._objective
        for scale in (0.1, 1.0, 10.0):
            w = scale * rng.normal(size=2)
            objective.reset()
            turned = objective.linearise(w)
            found = objective.value(w) + turned.vector @ w
            expected, lost = ramp_by_hand(combination, slack, X, y, qid, w)
            assert found == pytest.approx(expected, abs=1e-9)
            assert objective.evaluate(w).values.sum() + turned.vector @ w == pytest.approx(expected, abs=1e-9)
            assert found >= lost - 1e-9
            objective.reset()
            assert objective.value(w) >= found - 1e-9  # the hinge is above it


@combinations
@slacks
def test_rounds_never_raise_the_objective_and_the_figures_are_those_of_the_weights(combination, slack):
    X, y, qid = random_queries(5, n_queries=4)
    problem = problem_of(combination, slack, X, y, qid, np.array([0.2, 1.0]), max_rounds=8)
    start = problem._origin.w
    for C in (0.1, 10.0, 1.0):
        trial = problem.solve(C)
        w = trial.coef
        away = 0.5 * np.sum((w - start) ** 2) / problem._unit
        bound, _ = ramp_by_hand(combination, slack, X, y, qid, w)
        assert trial.figures["objective"] == pytest.approx(away + C * bound, rel=1e-8)
        assert trial.figures["slack"] == pytest.approx(bound, rel=1e-8)
        before, _ = ramp_by_hand(combination, slack, X, y, qid, start)
        fall = [C * before, *(row.objective for row in trial.solution.rounds)]
        assert (np.diff(fall) <= 1e-9 * fall[0]).all()
        assert trial.figures["gap"] <= 1e-6
        path = [row.passes for row in trial.solution.path]
        assert path == list(range(1, len(path) + 1))
        assert len(path) == sum(row.passes for row in trial.solution.rounds)


@pytest.mark.parametrize("combination", [name for name in COMBINATIONS if "own map" not in name])
def test_a_round_solves_its_convex_problem_over_all_rankings(combination):
    for seed, C in enumerate([3e-4, 3e-3]):
        X, y, qid = random_queries(20 + seed, n_queries=3)
        problem = problem_of(combination, "separate", X, y, qid, np.array([1.0, -0.3]), max_rounds=1)
        start, cost = problem._origin.w, C * problem._unit
        rows = constraints(*listed(COMBINATIONS[combination]), "separate", X, y, qid)
        problem._objective.reset()
        tilt = cost * problem._objective.linearise(start).vector - start  # of costs of 1
        losses, vectors, owner = rows
        value, _ = programme((losses + vectors @ tilt, vectors, owner), cost / 3)  # over u = w + tilt
        optimum = (value - 0.5 * tilt @ tilt + 0.5 * start @ start) / problem._unit
        last = problem.solve(C).solution.path[-1]
        assert last.dual <= optimum * (1 + 1e-9)
        assert last.primal == pytest.approx(optimum, rel=2e-6)


def test_the_start_is_long_enough_to_say_something_and_its_length_does_not_matter():
    X, y, qid = random_queries(3, n_queries=12, n_features=4, sizes=(5, 9))
    start = np.array([0.5, -0.2, 0.1, 0.4])
    one, other = (problem_of("clipped ndcg", "separate", X, y, qid, scale * start) for scale in (1e-4, 1e5))
    np.testing.assert_allclose(one._origin.w, other._origin.w, rtol=1e-9)
    begin, far = one._origin.at_zero, one._objective.value(1e9 * one._origin.w)
    far += one._objective.linearise(one._origin.w).vector @ (1e9 * one._origin.w)
    assert 0.5 < (begin - one._origin.bound) / (begin - far) < 0.95


def test_scaled_features_give_the_same_scores_without_standardising():
    X, y, qid = random_queries(4, n_queries=12, n_features=4, sizes=(5, 9))
    one = ramp_svm("ndcg@3", standardize=False).start_from(np.ones(4)).fit(X, y, qid)
    other = ramp_svm("ndcg@3", standardize=False).start_from(np.ones(4)).fit(1024 * X, y, qid)
    np.testing.assert_allclose(one.coef_, 1024 * other.coef_, rtol=1e-6)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)


def noisy_queries(seed, n_queries=40, n_docs=60):
    """A tenth of the documents relevant, by a noisy sum of features: no weights rank a query perfectly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, 5))
    qid = np.repeat(np.arange(n_queries), n_docs)
    worth = X @ [1.0, 0.6, -0.4, 0.0, 0.0] + 1.2 * rng.normal(size=len(X))
    y = np.zeros(len(X), int)
    for q in range(n_queries):
        order = np.flatnonzero(qid == q)[np.argsort(-worth[qid == q])]
        y[order[:2]], y[order[2:6]] = 2, 1
    return X, y, qid


LEARNT = {
    "ndcg@10": "nDCG@10",
    "mrr@10": "RR@10",
    "dorm@10": "nDCG@10",
    ("map", "mrr@10", "ndcg@10"): "AP",
}


@pytest.mark.parametrize("loss", LEARNT)
def test_losses_learn_where_the_hinge_does_not(loss):
    train, test = noisy_queries(0), noisy_queries(1)
    data = RankingData.from_arrays(*test)
    name = list(loss) if isinstance(loss, tuple) else loss
    ranker = StructuredSVM(name).fit(*train)
    assert ranker.training_.certificate.bound == "ramp"
    reached = evaluate(data, ranker.predict(test[0]), measures=[LEARNT[loss]]).means[LEARNT[loss]]
    start = evaluate(data, ranker.start_.predict(test[0]), measures=[LEARNT[loss]]).means[LEARNT[loss]]
    assert reached > start - 0.05
    hinge = StructuredSVM(name, bound="hinge", feature_map="mrr" if name == "mrr@10" else None)
    hinge._tries_others = False
    if isinstance(name, str):
        with pytest.warns(UserWarning, match="model learnt n"):
            hinge.fit(*train)
        assert hinge.C_path_[0]["slack_ratio"] > 0.9
        assert ranker.C_path_[0]["slack_ratio"] < 0.9


def test_which_bound_is_the_default():
    bounds = {loss: StructuredSVM(loss)._bound() for loss in ("map", "auc", "ndcg", "ndcg@5", "mrr", "dorm", "dorm@5")}
    assert {loss for loss, bound in bounds.items() if bound == "hinge"} == {"map", "auc", "ndcg"}
    assert StructuredSVM(["map", "auc"])._bound() == "ramp"
    assert StructuredSVM("ndcg@5", bound="hinge")._bound() == "hinge"
    assert StructuredSVM("map", bound="ramp")._bound() == "ramp"
    with pytest.raises(InputError, match=r"bound is 'ramps'; expected one of auto, ramp, hinge"):
        StructuredSVM("map", bound="ramps").fit(*random_queries(0))


def test_the_start_is_svm_map_chosen_by_AP_on_validation_data():
    train, valid = noisy_queries(0, 20), noisy_queries(1, 10)
    ranker = StructuredSVM("ndcg@10", C="auto").fit(*train, eval_set=valid)
    start = StructuredSVM("map", C="auto").fit(*train, eval_set=valid)
    assert ranker.start_.convex.coef_.tobytes() == start.coef_.tobytes()
    assert [row["C"] for row in ranker.C_path_] == [1.0]
    assert ranker.n_passes_total_ == start.n_passes_total_ + sum(row["passes"] for row in ranker.C_path_)
    assert len(ranker.costs()) == len(start.C_path_) + 1
    alone = clone(ranker).set_params(C=1.0).fit(*train)
    assert (alone.start_.convex.C_, alone.C_) == (1.0, 1.0)


@pytest.mark.parametrize(("loss", "measure"), [("mrr@10", "RR@10"), ("ndcg@10", "nDCG@10")])
@pytest.mark.parametrize("n_queries", [30, 80])
def test_the_start_is_moved_as_far_as_queries_support_it(loss, measure, n_queries):
    train, valid = noisy_queries(0, n_queries), noisy_queries(1, 10)
    ranker = StructuredSVM(loss, C="auto", C_grid=[1.0], tol=1e-7, max_passes=500).fit(*train, eval_set=valid)
    start, values = ranker.start_, []
    assert start.measure == parse_measure("nDCG@10")  # which is smoother than RR@10
    for epochs in EPOCHS:
        moved = ranker._starter()
        moved.convex.C = start.convex.C_
        choice = SimpleNamespace(setting=epochs, start=None)
        moved.fit_data(RankingData.from_arrays(*train), choice=choice)
        assert moved.epochs_ == epochs
        same = np.allclose(moved.coef_, moved.convex.coef_)
        assert same == (epochs == 0)
        judged = [RankingData.from_arrays(*rows) for rows in ((valid, train) if n_queries >= 60 else (valid,))]
        tables = [evaluate(data, data.X @ moved.coef_, measures=[measure]) for data in judged]
        values.append(np.concatenate([table.values[:, 0] for table in tables]))
    gains = [row - values[0] for row in values]
    cautious = [gain.mean() - 0.5 * gain.std() / np.sqrt(len(gain)) for gain in gains]
    assert start.epochs_ == EPOCHS[int(np.argmax(cautious))]


def test_the_start_is_the_mean_of_the_weights_after_every_epoch(monkeypatch):
    after_epochs = []
    epoch = NetTrainer.epoch

    def noted(trainer, number):
        finite = epoch(trainer, number)
        after_epochs.append(trainer.raw_weights(trainer.theta)[0][:, 0])
        return finite

    monkeypatch.setattr(NetTrainer, "epoch", noted)
    start = StructuredSVM("ndcg@10")._starter()
    train = RankingData.from_arrays(*noisy_queries(0, 30))
    start.fit_data(train, choice=SimpleNamespace(setting=8, start=None))
    assert len(after_epochs) == start.epochs_ == 8
    np.testing.assert_allclose(start.coef_, np.mean(after_epochs, axis=0), rtol=1e-12)


def test_a_gain_has_to_be_clear():
    same, noise, clear = np.zeros(4), np.array([1.0, -0.9, 0.9, -0.8]), np.array([0.2, 0.1, 0.2, 0.1])
    assert best_beyond_first(np.array([same, noise])) == 0
    assert best_beyond_first(np.array([same, noise, clear])) == 2
    assert best_beyond_first(np.array([same, same])) == 0
    missing = np.array([np.nan] * 4)
    assert best_beyond_first(np.hstack([np.array([same, noise, clear]), np.tile(missing, (3, 1))])) == 2


def test_how_far_it_is_from_svm_map_is_said():
    X, y, qid = noisy_queries(0, 20)
    ranker = StructuredSVM("ndcg@10").fit(X, y, qid)
    before, after = ranker.start_.convex.predict(X), ranker.predict(X)
    pairs = [(a, b) for q in range(20) for a, b in itertools.combinations(np.flatnonzero(qid == q), 2)]
    different = sum((before[a] - before[b]) * (after[a] - after[b]) < 0 for a, b in pairs)
    certificate = ranker.training_.certificate
    assert certificate.reordered == pytest.approx(different / len(pairs))
    told = dict(certificate.lines(None))
    assert told["svm-map"] == f"orders {100 * different / len(pairs):.1f} % of the pairs differently"
    same = dict(replace(certificate, reordered=1e-5).lines(None))
    assert same["svm-map"] == "orders all pairs the same way, or nearly all"


def test_a_tiny_C_stays_at_the_start_and_a_large_one_trusts_the_bound():
    X, y, qid = noisy_queries(0, 20)
    still = StructuredSVM("ndcg@10", C=1e-9).fit(X, y, qid)
    cosine = still.coef_ @ still.start_.coef_ / np.linalg.norm(still.coef_) / np.linalg.norm(still.start_.coef_)
    assert cosine > 0.999999
    slacks_ = [StructuredSVM("ndcg@10", C=C).fit(X, y, qid).C_path_[0]["slack"] for C in (1e-9, 1e-3, 1.0)]
    assert slacks_[0] > slacks_[1] > slacks_[2]


def test_training_goes_on_from_given_weights():
    X, y, qid = noisy_queries(0, 20)
    first = StructuredSVM("ndcg@10").fit(X, y, qid)
    again = StructuredSVM("ndcg@10").start_from(first.coef_).fit(X, y, qid)
    assert again.start_ is None
    warm = clone(first).set_params(warm_start=True)
    assert warm.fit(X, y, qid).fit(X, y, qid).start_ is None
    with pytest.raises(InputError, match="5 features but a starting model of 2"):
        StructuredSVM("ndcg@10").start_from(np.ones(2)).fit(X, y, qid)


def test_grades_without_irrelevant_documents_start_from_pairs():
    X, y, qid = noisy_queries(0, 20)
    ranker = StructuredSVM("dorm@5").fit(X, y + 1, qid)
    assert ranker.start_ is None
    assert ranker.coef_[0] > 0
    data = RankingData.from_arrays(X, y + 1, qid)
    assert evaluate(data, ranker.predict(X), measures=["nDCG@10"]).means["nDCG@10"] > 0.6


@pytest.mark.parametrize("loss", ["map", "ndcg@10", "mrr@3", "dorm@5", ("map", "dorm@5")])
@slacks
def test_what_is_proved_of_the_measure(loss, slack):
    X, y, qid = noisy_queries(2, 15)
    names = [loss] if isinstance(loss, str) else list(loss)
    ranker = StructuredSVM(names, 1.0, slack=slack).fit(X, y, qid)
    proof = ranker.proof_
    assert proof.value >= proof.at_least - 1e-9
    assert proof == ranker.training_.certificate.proof
    values = []
    for name in names:
        measure = parse_measure(name.replace("dorm", "ndcg"))
        labels = y if name.startswith("dorm") else (y >= 1).astype(int)
        data = RankingData.from_arrays(X, labels, qid)
        values.append(evaluate(data, ranker.predict(X), measures=[measure]).values[:, 0])
    together = np.mean(values, axis=0) if slack == "separate" else np.min(values, axis=0)
    assert proof.value == pytest.approx(together.mean(), abs=1e-9)
    assert ("of 0/1 labels" in proof.measure) == (loss == "ndcg@10")


def test_a_bound_is_proved_with_weights_of_queries_too():
    X, y, qid = noisy_queries(3, 12)
    weights = {q: 1.0 + q % 3 for q in range(12)}
    ranker = StructuredSVM("ndcg@5").fit(X, y, qid, query_weight=weights)
    data = RankingData.from_arrays(X, (y >= 1).astype(int), qid)
    values = evaluate(data, ranker.predict(X), measures=["nDCG@5"]).values[:, 0]
    assert ranker.proof_.value == pytest.approx(np.average(values, weights=list(weights.values())), abs=1e-9)
    assert ranker.proof_.value >= ranker.proof_.at_least


@pytest.mark.parametrize("loss", ["ndcg@10", "mrr@10", ("map", "mrr@10")])
@slacks
def test_threads_and_solvers(loss, slack):
    X, y, qid = noisy_queries(4, 150)
    names = [loss] if isinstance(loss, str) else list(loss)
    fitted = [StructuredSVM(names, slack=slack, n_jobs=n_jobs).fit(X, y, qid) for n_jobs in (1, 2)]
    assert fitted[0].coef_.tobytes() == fitted[1].coef_.tobytes()
    one_slack = StructuredSVM(names, slack=slack, solver="one-slack-cutting-plane").fit(X, y, qid)
    assert one_slack.gap_ <= 1e-3
    assert one_slack.objective_ == pytest.approx(fitted[0].objective_, rel=0.05)  # another local optimum, perhaps


def test_interrupting_the_start_keeps_it():
    X, y, qid = noisy_queries(0, 20)

    def stop(check):
        if check.passes == 2:
            raise KeyboardInterrupt

    ranker = StructuredSVM("ndcg@10", callback=stop)
    with pytest.warns(UserWarning, match="interrupted"):
        ranker.fit(X, y, qid)
    assert ranker.training_.interrupted
    assert ranker.coef_.any()
    assert ranker.coef_.tobytes() == ranker.start_.coef_.tobytes()


def test_interrupting_a_round_keeps_the_best_weights():
    X, y, qid = noisy_queries(0, 20)
    calls = []

    def stop(check):
        calls.append(check.passes)
        if calls.count(1) == 2 and check.passes == 3:  # the second problem is the first round
            raise KeyboardInterrupt

    ranker = StructuredSVM("ndcg@10", C=10.0, callback=stop)
    with pytest.warns(UserWarning, match="interrupted"):
        ranker.fit(X, y, qid)
    assert ranker.training_.interrupted
    assert ranker.objective_ <= 10.0 * StructuredSVM("ndcg@10", C=1e-9).fit(X, y, qid).C_path_[0]["slack"] * (1 + 1e-6)


def test_a_start_that_learnt_nothing_is_told():
    rng = np.random.default_rng(0)
    y, qid = np.tile([1, 0, 0, 0], 30), np.repeat(np.arange(30), 4)
    X = np.repeat(rng.normal(size=(30, 2)), 4, axis=0)  # the same for all documents of a query
    ranker = StructuredSVM("ndcg@2")
    facts = ranker.fit_data(RankingData.from_arrays(X, y, qid))
    assert Kind.NO_BETTER_THAN_ZERO in [notice.kind for notice in facts.notices]


def test_maps_of_the_listing_are_those_of_the_package():
    for name in ("map", "mrr@2", "ndcg@2", "dorm"):
        loss = parse_losses(name)[0]
        assert loss.measure.oracle(loss.feature_map).feature_map == map_of(name, None)
    assert settings_of(COMBINATIONS["map"], "separate")["bound"] == "hinge"
