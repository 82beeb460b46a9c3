"""AutoRanker: who is in the committee, what it is the sum of, and what it promises."""

import itertools

import numpy as np
import pandas as pd
import pytest
from contract import bits, make
from scipy import stats

from rankwright import AutoRanker, InputError, InputWarning, RankingData, evaluate, load_model
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel
from rankwright.rankers.cross_validation import Folds, cross_validate
from rankwright.rankers.facts import DROPPED_FROM, HeldOut, interval_of

TWO = ["svm-map", "rank-svm"]
BOTH = ["svm-map", "lambdamart-4"]


def held_out(scores, labels, n_docs, feature=None, weights=None, n_folds=3):
    """A committee over queries of one size; the measure is the label of the first document."""
    n_queries = len(labels) // n_docs

    def values_of(scores):
        first = np.argmax(scores.reshape(n_queries, n_docs), axis=1)
        return labels.reshape(n_queries, n_docs)[np.arange(n_queries), first].astype(float)

    feature = np.zeros(len(labels)) if feature is None else feature
    weights = np.ones(n_queries) if weights is None else weights
    return HeldOut(scores, feature, values_of, weights, np.arange(n_queries) % n_folds)


def made_up(n_queries=60, n_docs=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(n_docs) == 0, n_queries).astype(float)
    return labels, rng


def test_a_member_that_hurts_is_dropped_and_others_stay():
    labels, rng = made_up()
    good = labels + rng.normal(size=(len(labels), 3)).T * 0.8
    harmful = -4 * labels
    committee = held_out(np.column_stack([*good, harmful]), labels, 6)
    assert committee.stay() == (0, 1, 2)


@pytest.mark.parametrize("seed", range(8))
def test_the_rule_that_drops_members_step_by_step(seed):
    """The same by its definition, with scipy's test of a mean."""
    labels, rng = made_up(n_queries=25, seed=seed)
    weights = rng.choice([0.4, 0.6], size=4)
    scores = weights * labels[:, None] * rng.choice([-1, 1, 1], size=4) + 0.7 * rng.normal(size=(len(labels), 4))
    committee = held_out(scores, labels, 6)
    members = [0, 1, 2, 3]
    while len(members) > 1:
        errors = {}
        for member in members:
            without = [other for other in members if other != member]
            apart = committee.values_of(scores[:, without].sum(1)) - committee.values_of(scores[:, members].sum(1))
            errors[member] = stats.ttest_1samp(apart, 0).statistic if np.ptp(apart) else 0.0
        worst = max(members, key=lambda member: errors[member])
        if errors[worst] <= DROPPED_FROM:
            break
        members.remove(worst)
    assert committee.stay() == tuple(members)


def test_the_interval_is_students():
    values = np.random.default_rng(0).random(30)
    found, mean = interval_of(values, np.ones(30)), stats.ttest_1samp(values, 0)
    expected = mean.confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high])
    doubled = interval_of(values, np.full(30, 7.0))
    np.testing.assert_allclose([doubled.low, doubled.value], [found.low, found.value])
    assert np.isnan(interval_of(values[:1], np.ones(1)).low)


def test_what_is_promised_is_decided_without_the_queries_it_is_promised_for():
    """A member that is right on one fold alone is dropped there, by the others, and its luck does not count."""
    labels, rng = made_up(n_queries=30)
    lucky = np.where(np.repeat(np.arange(30) % 3 == 0, 6), 5.0, -5.0) * labels
    fair = labels + 0.5 * rng.normal(size=len(labels))
    committee = held_out(np.column_stack([fair, lucky]), labels, 6, feature=-labels)
    own = committee.folds == 0
    assert committee.values((0, 1))[own].mean() == 1.0
    assert committee.stay(~own) == (0,)
    expected = np.where(own, committee.values((0,)), np.nan)
    for fold in (1, 2):
        others = committee.folds != fold
        expected[~others] = committee.values(committee.stay(others))[~others]
    assert committee.expectation().value.value == pytest.approx(expected.mean())


def test_the_model_is_the_sum_of_the_members_on_one_scale():
    X, y, qid = make(n_queries=30, noise=2.0)
    order = np.argsort(qid, kind="stable")
    data = RankingData.from_arrays(X[order], y[order], qid[order])
    ranker = AutoRanker(members=TWO).fit(data)
    assert isinstance(ranker.model_, LinearModel)
    folds, total = Folds.draw(data, "auto"), np.zeros(5)
    for member, one in zip(
        (StructuredSVM("map", C="auto"), RankingSVM("auto")), ranker.committee_.members, strict=True
    ):
        found = cross_validate(member, data, folds, measure="AP")
        assert one.setting == f"C {found.setting:g}"
        queries = np.split(found.scores, data.indptr[1:-1])
        spread = np.sqrt(np.mean(np.concatenate([scores - scores.mean() for scores in queries]) ** 2))
        alone = type(member)(**member.get_params() | {"C": found.setting}).fit(data)
        total += alone.coef_ / spread
        assert one.stays
        assert one.value.value == pytest.approx(evaluate(data, found.scores, measures=["nDCG@10"]).means["nDCG@10"])
    np.testing.assert_allclose(ranker.model_.coef, total, rtol=1e-9)


def test_linear_members_and_trees_are_one_model_that_is_saved_whole(tmp_path):
    X, y, qid = make(n_queries=25, noise=1.0)
    ranker = AutoRanker(members=BOTH).fit(X, y, qid)
    assert isinstance(ranker.model_, SumModel)
    ranker.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert bits(saved.predict(X)) == bits(ranker.predict(X))
    assert saved.method == "auto"
    assert [member[0] for member in saved.training["members"]] == BOTH
    assert [line.partition("\t")[0] for line in saved.training["summary"]] == ["holds", "alone", "expect", "against"]
    mixed = np.random.default_rng(3).permutation(len(y))
    again = AutoRanker(members=BOTH, n_jobs=2).fit(X[mixed], y[mixed], qid[mixed])
    assert bits(again.predict(X)) == bits(ranker.predict(X))
    assert again.committee_.expectation == ranker.committee_.expectation


def test_explainable_is_one_weight_per_feature():
    X, y, qid = make(n_queries=20, noise=1.0)
    ranker = AutoRanker(explainable=True, members=["lambdamart-10", "rank-svm"]).fit(X, y, qid)
    assert isinstance(ranker.model_, LinearModel)
    assert [member.name for member in ranker.committee_.members] == ["rank-svm"]
    with pytest.raises(InputError, match="members names no linear ranker"):
        AutoRanker(explainable=True, members=["lambdamart-10"]).fit(X, y, qid)


def test_the_floor_is_the_best_single_feature():
    """One feature knows the order, hundreds do not, and few queries say which."""
    rng = np.random.default_rng(0)
    y = np.tile([1, 0, 0, 0, 0, 0, 0, 0], 6)
    X = rng.normal(size=(48, 300))
    X[:, 7] = y
    ranker = AutoRanker(members=TWO).fit(X, y, np.repeat(np.arange(6), 8))
    assert ranker.committee_.floor
    assert np.flatnonzero(ranker.model_.coef).tolist() == [7]
    assert ranker.committee_.kept == ()
    assert ("holds", "the feature f8 alone, which is better than what was learnt") in ranker.committee_.words()


def test_random_labels_promise_nothing():
    """On average over several draws, the promise is what a random order gives."""
    y, qid = np.tile([1, 1, 0, 0, 0, 0, 0, 0], 40), np.repeat(np.arange(40), 8)
    found = []
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(320, 10))
        ranker = AutoRanker(members=TWO, eval_measure="nDCG@5").fit(X, y, qid)
        found.append(ranker.committee_.expectation.value.value)
    assert abs(np.mean(found) - np.mean(_ndcg_of_all_orders())) < 3 * np.std(found, ddof=1) / np.sqrt(8)


def _ndcg_of_all_orders():
    """nDCG@5 of two relevant documents among eight, for every pair of ranks they may have."""
    gains = 1 / np.log2(np.arange(2, 10)) * (np.arange(8) < 5)
    return [(gains[a] + gains[b]) / (gains[0] + gains[1]) for a, b in itertools.combinations(range(8), 2)]


def test_time_that_is_over_leaves_members_out():
    X, y, qid = make(n_queries=10, noise=1.0)
    ranker = AutoRanker(members=BOTH, minutes=1e-9).fit(X, y, qid)
    assert ranker.committee_.floor
    assert ranker.committee_.unfinished == tuple(BOTH)
    seen = []

    class Watch:
        def __call__(self, step):
            if len(seen) == 2:
                raise KeyboardInterrupt

        def member(self, name, number, of):
            seen.append((name, number, of))

    with pytest.warns(InputWarning, match="interrupted; the model has 1 of 2 members"):
        stopped = AutoRanker(members=BOTH, callback=Watch()).fit(X, y, qid)
    assert seen == [("svm-map", 1, 2), ("lambdamart-4", 2, 2)]
    assert [member.name for member in stopped.committee_.kept] in ([], ["svm-map"])
    assert stopped.committee_.unfinished == ("lambdamart-4",)


def test_validation_data_decides_where_it_is_given():
    X, y, qid = make(n_queries=30, noise=2.0)
    train, valid = qid < 20, qid >= 20
    ranker = AutoRanker(members=TWO)
    ranker.fit(X[train], y[train], qid[train], eval_set=(X[valid], y[valid], qid[valid]))
    committee = ranker.committee_
    assert committee.held_out == "validation data"
    assert committee.n_queries == 10
    for name, member in zip(TWO, committee.members, strict=True):
        alone = {"svm-map": StructuredSVM("map", C="auto"), "rank-svm": RankingSVM("auto")}[name]
        alone.eval_measure = "AP"
        alone.fit(X[train], y[train], qid[train], eval_set=(X[valid], y[valid], qid[valid]))
        assert member.setting == f"C {alone.C_:g}"
        assert member.value.value == pytest.approx(alone.score(X[valid], y[valid], qid[valid]))


def test_folds_do_not_go_with_validation_data():
    X, y, qid = make(n_queries=4)
    with pytest.raises(InputError, match="cv chooses by cross-validation, eval_set by validation data"):
        AutoRanker(cv=3).fit(X, y, qid, eval_set=(X, y, qid))


def test_missing_values_leave_it_to_the_trees():
    X, y, qid = make(n_queries=20, noise=1.0)
    X[::7, 1] = np.nan
    ranker = AutoRanker(members=BOTH).fit(X, y, qid)
    assert [member.name for member in ranker.committee_.members] == ["lambdamart-4"]
    assert np.isfinite(ranker.predict(X)).all()
    with pytest.raises(InputError, match="missing features"):
        AutoRanker(explainable=True).fit(X, y, qid)


def test_categories_are_for_the_trees():
    X, y, qid = make(n_queries=30, noise=1.0)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["kind"] = pd.Categorical(np.where(y == 1, "good", "bad"))
    ranker = AutoRanker(members=BOTH).fit(frame, y, qid)
    assert [member.name for member in ranker.committee_.members] == BOTH
    assert ranker.score(frame, y, qid) > 0.99
    part = ranker.predict(frame.iloc[:20])
    assert bits(part) == bits(ranker.predict(frame)[:20])


def test_categories_as_whole_numbers():
    X, y, qid = make(n_queries=30, noise=1.0)
    codes = np.where(y == 1, 7.0, np.random.default_rng(0).choice([3.0, 12.0], size=len(y)))
    X = np.column_stack([X, codes])
    ranker = AutoRanker(members=BOTH, categorical=[5]).fit(X, y, qid)
    assert ranker.score(X, y, qid) > 0.99
    linear = AutoRanker(members=TWO, categorical=[5]).fit(X, y, qid)
    assert linear.model_.coef[5] == 0.0
    assert linear.committee_.feature != "f6"


def test_one_query_is_enough_for_a_model_but_not_for_a_promise():
    X, y, qid = make(n_queries=1, n_docs=30)
    ranker = AutoRanker(members=TWO).fit(X, y, qid)
    assert ranker.score(X, y, qid) == 1.0
    assert ranker.committee_.expectation is None
    assert ranker.committee_.words()[-1][1].startswith("unknown: only one query")


def test_labels_that_average_precision_cannot_tell_apart():
    """All documents are relevant, more or less: settings are chosen by nDCG."""
    X, y, qid = make(n_queries=20, noise=1.5)
    ranker = AutoRanker(members=["rank-svm"]).fit(X, y + 1, qid)
    data = RankingData.from_arrays(X, y + 1, qid)
    found = cross_validate(RankingSVM("auto"), data, Folds.draw(data, "auto"), measure="nDCG@10")
    assert ranker.committee_.members[0].setting == f"C {found.setting:g}"
