"""Cross-validation: the choice, the honest estimate, and what must not leak into them."""

from dataclasses import replace

import numpy as np
import pytest
from contract import bits
from scipy import sparse

from rankwright import (
    AccuracySVM,
    InputError,
    InputWarning,
    Interpolation,
    LambdaBoost,
    LambdaMART,
    LambdaRank,
    McRank,
    RankingData,
    RankingSVM,
    RankNet,
    StructuredSVM,
    evaluate,
)
from rankwright.rankers.cross_validation import Folds, cross_validate

GRID = [0.01, 1.0, 100.0]
TREES = {"n_trees": 12, "max_leaves": 4, "min_rows": 4, "patience": None}
BY_COST = {
    "rank-svm": RankingSVM("auto", C_grid=GRID),
    "rsvm-ir": RankingSVM("auto", C_grid=GRID, rank_weights="ndcg@1", query_weights=True),
    "svm-map": StructuredSVM("map", "auto", C_grid=GRID),
    "svm-acc": AccuracySVM("auto", C_grid=GRID),
    "svm-acc4": AccuracySVM("auto", C_grid=GRID, query_scaling="minmax"),
}
BY_ROUNDS = {
    "lambdamart": (LambdaMART(**TREES), "n_trees"),
    "lambdamart-drawn": (LambdaMART(**TREES, tree_rows=0.7, tree_features=0.7, random_state=3), "n_trees"),
    "mcrank": (McRank(**TREES), "n_trees"),
    "mcrank-ordinal": (McRank(**TREES, link="ordinal"), "n_trees"),
    "lambdaboost": (LambdaBoost(15, patience=None), "n_rounds"),
    "lambdarank": (LambdaRank(hidden=3, epochs=8, patience=None), "epochs"),
    "ranknet": (RankNet(hidden=0, epochs=8, patience=None), "epochs"),
}
ALL = {**BY_COST, **{name: ranker for name, (ranker, _) in BY_ROUNDS.items()}}
RAMP = StructuredSVM("ndcg@5", "auto", C_grid=[0.1, 10.0])


def make(n_queries=15, n_docs=8, seed=0, ids=True):
    """Graded labels with much noise; two queries without an order."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.normal(size=(len(qid), 5))
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 3] + 0.7 * X[:, 1] * X[:, 2] + rng.normal(size=len(qid))), 0, 2)
    y[qid == 3], y[qid == 5] = 0, 1
    names = [f"d{number}" for number in rng.permutation(len(qid))] if ids else None
    return RankingData.from_arrays(X, y, qid, doc_ids=names)


def parts(data, folds):
    """The training and the held-out part of each fold."""
    for number in range(folds.n_held_out):
        yield data.select(folds.of_query != number), data.select(folds.of_query == number)


def values(ranker, data):
    """The measure that the ranker chooses by, of every query."""
    return evaluate(data, ranker.predict(data), measures=[ranker.measure_to_choose_by()]).values[:, 0]


def shuffled_labels(data, queries, seed=1):
    """The labels of some queries dealt anew within each: they have an order all the same."""
    rng, labels = np.random.default_rng(seed), data.labels.copy()
    for query in queries:
        rows = slice(data.indptr[query], data.indptr[query + 1])
        labels[rows] = rng.permutation(labels[rows])
    return data.with_labels(labels)


@pytest.mark.parametrize("name", BY_COST)
def test_C_is_the_one_that_a_loop_over_folds_finds(name):
    data, ranker = make(), BY_COST[name]
    folds = Folds.draw(data, 4)
    total = np.zeros(len(GRID))
    for train, held_out in parts(data, folds):
        path = ranker.fit(train, eval_set=held_out).C_path_
        total += [row[str(ranker.measure_to_choose_by())] * held_out.n_queries for row in path]
    found = cross_validate(ranker, data, folds)
    np.testing.assert_allclose(found.means, total / data.n_queries, rtol=1e-12)
    assert found.setting == GRID[int(np.argmax(total))]
    assert len(set(found.means)) > 1
    facts = ranker.fit_data(data, choice=found)
    coef = ranker.coef_
    assert found.setting == facts.C
    assert [row["C"] for row in facts.tried] == GRID
    assert ranker.set_params(C=found.setting).fit(data).coef_.tobytes() == coef.tobytes()
    ranker.set_params(C="auto")


@pytest.mark.parametrize("name", BY_ROUNDS)
def test_rounds_are_those_that_a_loop_over_folds_finds(name):
    data, (ranker, most) = make(), BY_ROUNDS[name]
    folds = Folds.draw(data, 4)
    total, fitted = 0.0, []
    for train, held_out in parts(data, folds):
        ranker.fit(train, eval_set=held_out)
        total = total + np.array([row.value for row in ranker.path_]) * held_out.n_queries
    found = cross_validate(ranker, data, folds)
    np.testing.assert_allclose(found.means, total / data.n_queries, rtol=1e-12)
    assert found.setting == 1 + int(np.argmax(total))
    assert len(set(found.means)) > 1
    ranker.fit_data(data, choice=found)
    scores, number = ranker.predict(data), getattr(ranker, most)
    fitted = ranker.set_params(**{most: found.setting}).fit(data)
    assert bits(fitted.predict(data)) == bits(scores)
    for (train, held_out), setting, at in zip(parts(data, folds), found.fold_settings, range(4), strict=True):
        others = found.values[:, folds.of_query != at]
        assert setting == 1 + int(np.argmax(np.round(others.mean(axis=1), 12)))
        again = ranker.set_params(**{most: setting}).fit(train).predict(held_out)
        assert bits(found.scores[np.repeat(folds.of_query == at, data.sizes)]) == bits(again)
    ranker.set_params(**{most: number})


def test_scores_are_those_of_the_C_that_is_best_on_the_other_folds():
    data, ranker = make(), BY_COST["svm-acc4"]
    folds = Folds.draw(data, 5)
    found = cross_validate(ranker, data, folds, measure="ndcg@5")
    for at, (train, held_out) in enumerate(parts(data, folds)):
        best = GRID[int(np.argmax(np.round(found.values[:, folds.of_query != at].mean(axis=1), 12)))]
        assert found.fold_settings[at] == best
        own = AccuracySVM(best, query_scaling="minmax").fit(train).predict(held_out)
        np.testing.assert_allclose(found.scores[np.repeat(folds.of_query == at, data.sizes)], own, rtol=1e-12)
    shown = evaluate(data, found.scores, measures=["ndcg@5"])
    np.testing.assert_allclose(found.query_values, shown.values[:, 0])
    assert found.value == pytest.approx(shown.means["nDCG@5"])


@pytest.mark.filterwarnings("ignore:the model learnt next to nothing")
def test_the_ramp_bound_starts_from_a_fold_s_own_svm_map():
    data = make()
    folds = Folds.draw(data, 3)
    found = cross_validate(RAMP, data, folds)
    start = cross_validate(RAMP._starter(), data, folds)
    assert (found.start.setting, found.start.fold_settings) == (start.setting, start.fold_settings)
    convex = start.start
    facts = RAMP.fit_data(data, choice=found)
    moved = RAMP.start_
    assert (found.setting, start.setting, convex.setting) == (facts.C, moved.epochs_, moved.convex.C_)
    for at, (train, held_out) in enumerate(parts(data, folds)):
        again = StructuredSVM("ndcg@5", found.fold_settings[at], tol=1e-6)
        path = RAMP._starter()
        path.convex.C = convex.fold_settings[at]
        epochs = replace(start, setting=start.fold_settings[at], start=None)
        path.fit_data(train, choice=epochs)
        scores = again.start_from(path.coef_).fit(train).predict(held_out)
        own = found.scores[np.repeat(folds.of_query == at, data.sizes)]
        assert np.corrcoef(own, scores)[0, 1] > 0.99


@pytest.mark.parametrize("name", [*ALL, "ramp"])
def test_labels_of_a_fold_do_not_reach_the_models_that_score_it(name, monkeypatch):
    data, ranker = make(), {**ALL, "ramp": RAMP}[name]
    folds = Folds.draw(data, 3)
    # What the other folds choose is set, here to the last of all: they are trained on these labels.
    last = lambda values, weights=None: len(values) - 1  # noqa: E731
    monkeypatch.setattr("rankwright.rankers.base.best_setting", last)
    monkeypatch.setattr("rankwright.maxmargin.start.best_beyond_first", last)
    first = cross_validate(ranker, data, folds)
    for at in range(3):
        mine = folds.of_query == at
        changed = shuffled_labels(data, np.flatnonzero(mine))
        assert Folds.draw(changed, 3).of_query.tolist() == folds.of_query.tolist()
        again = cross_validate(ranker, changed, folds)
        rows = np.repeat(mine, data.sizes)
        assert again.scores[rows].tobytes() == first.scores[rows].tobytes()
        # The others' scores do change, so this test would see a leak.
        assert not np.array_equal(again.scores[~rows], first.scores[~rows])
        assert not np.array_equal(again.values[:, mine], first.values[:, mine])


@pytest.mark.parametrize("name", ["rank-svm", "svm-acc4", "lambdamart", "lambdarank"])
def test_with_one_fold_held_out_a_setting_is_chosen_on_the_other_half(name):
    data, ranker = make(n_queries=24), ALL[name]
    drawn = Folds.draw(data, 2)
    folds = Folds(np.where(drawn.of_query == 0, 0, -1), 5)
    assert folds.words == "cross-validation with one of 5 folds"
    first = cross_validate(ranker, data, folds)
    assert len(first.fold_settings) == 2
    held_out = np.repeat(folds.of_query == 0, data.sizes)
    np.testing.assert_array_equal(np.isnan(first.scores), ~held_out)
    np.testing.assert_array_equal(np.isnan(first.query_values), folds.of_query < 0)
    # Labels of one half decide on the setting of the other alone.
    moved = set()
    for query in np.flatnonzero(folds.of_query == 0):
        again = cross_validate(ranker, shuffled_labels(data, [query]), folds)
        rows = data.query_of_row() == query
        assert again.scores[rows].tobytes() == first.scores[rows].tobytes()
        moved |= set(again.fold_settings)
    assert moved


@pytest.mark.parametrize("ranker", [RankingSVM("auto"), LambdaMART(**TREES, cv=5)], ids=["rank-svm", "lambdamart"])
def test_random_labels_are_not_learnt(ranker):
    rng = np.random.default_rng(4)
    qid = np.repeat(np.arange(60), 8)
    data = RankingData.from_arrays(rng.normal(size=(len(qid), 8)), rng.integers(0, 2, len(qid)), qid)
    ranker.fit(data)
    chance = np.mean([evaluate(data, rng.normal(size=480), measures=["ndcg@10"]).values[:, 0] for _ in range(200)], 0)
    apart = ranker.cv_.query_values - chance
    assert apart.mean() < 2.5 * apart.std() / np.sqrt(len(apart))
    assert ranker.score(data) > ranker.cv_.value + 0.01  # the training data does look learnt


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", [*ALL, "ramp"])
def test_neither_the_order_of_rows_nor_threads_matter(name, form):
    data, ranker = make(ids=False), {**ALL, "ramp": RAMP}[name]
    X, y, qid = np.round(data.X), data.labels, data.qid  # many documents have equal scores
    rows = np.random.default_rng(2).permutation(len(y))
    ranker.set_params(cv=3)
    plain = ranker.fit(form(X), y, qid).predict(form(X), qid)
    first = ranker.cv_
    if hasattr(ranker, "n_jobs"):
        ranker.set_params(n_jobs=2)
    again = ranker.fit(form(X[rows]), y[rows], qid[rows]).predict(form(X), qid)
    ranker.set_params(cv=None, **({"n_jobs": None} if hasattr(ranker, "n_jobs") else {}))
    assert ranker.cv_.setting == first.setting
    np.testing.assert_allclose(ranker.cv_.means, first.means, rtol=1e-12)
    np.testing.assert_allclose(again, plain, rtol=1e-9, atol=1e-9)
    moved = RankingData.from_arrays(X[rows], y[rows], qid[rows]).to_caller_order(ranker.cv_.scores)
    np.testing.assert_allclose(moved, first.scores[rows], rtol=1e-9, atol=1e-9)


def test_the_fit_of_C_auto_without_validation_data_is_cross_validated():
    data = make()
    ranker = RankingSVM("auto", C_grid=GRID).fit(data.X, data.labels, data.qid)
    found = ranker.cv_
    assert found is ranker.training_.cross_validation
    assert (found.folds.n_folds, found.folds.n_held_out) == (5, 5)
    assert found.folds.words == "5-fold cross-validation"
    assert ranker.C_ == found.setting == GRID[int(np.argmax(found.means))]
    assert [row["nDCG@10"] for row in ranker.training_.tried] == list(found.means)
    assert ranker.fit(data, eval_set=make(seed=1)).cv_ is None


def test_a_given_C_is_estimated_only():
    data = make()
    ranker = RankingSVM(0.3, cv=3).fit(data)
    assert (ranker.C_, ranker.cv_.settings, ranker.cv_.fold_settings) == (0.3, (0.3,), (0.3,) * 3)
    assert ranker.cv_.value == ranker.cv_.means[0]
    by_lam = RankingSVM(lam=2.0, cv=3).fit(data)
    assert by_lam.cv_.settings == (by_lam.C_,)
    assert by_lam.coef_.tobytes() == RankingSVM(lam=2.0).fit(data).coef_.tobytes()


def test_patience_is_that_of_the_mean_over_folds():
    data = make()
    ranker = LambdaMART(40, max_leaves=4, min_rows=4, patience=3, cv=4).fit(data)
    means = np.array(ranker.cv_.means)
    best = 1 + int(np.argmax(means))
    assert ranker.n_trees_ == ranker.cv_.setting == best
    assert len(means) == best + 3
    stopped = []

    def stop(row):
        stopped.append(row)
        return len(stopped) == 2

    ranker.set_params(callback=stop).fit(data)
    assert [row.round for row in stopped][:2] == [1, 2]
    assert [row.value for row in stopped[:2]] == list(ranker.cv_.means) == means[:2].tolist()


def test_a_background_may_be_best_alone():
    data = make()
    best = RankingData.from_arrays(data.labels[:, None] + 0.0, data.labels, data.qid, doc_ids=data.doc_ids)
    wide = data.with_features(np.column_stack([best.X, data.X]))
    background = RankingSVM(10.0).fit(wide)
    ranker = LambdaMART(**TREES, cv=3, background=background, measure="ndcg@5").fit(wide)
    assert ranker.cv_.settings[0] == ranker.cv_.setting == ranker.n_trees_ == 0
    assert bits(ranker.predict(wide)) == bits(background.predict(wide))


def test_weights_count_in_means_and_0_is_absent():
    data = make()
    weights = np.random.default_rng(0).integers(0, 3, data.n_queries).astype(float)
    folds = Folds.draw(data.select(weights > 0), 3)
    wide = np.full(data.n_queries, -1)
    wide[weights > 0] = folds.of_query
    some = cross_validate(RankingSVM("auto"), data.select(weights > 0), folds, weights=weights[weights > 0])
    found = cross_validate(RankingSVM("auto"), data, Folds(wide, 3), weights=weights)
    assert (found.setting, found.means, found.value) == (some.setting, some.means, some.value)
    assert found.scores[np.repeat(weights > 0, data.sizes)].tobytes() == some.scores.tobytes()
    assert np.isnan(found.scores[np.repeat(weights == 0, data.sizes)]).all()
    expected = np.average(found.values[2][weights > 0], weights=weights[weights > 0])
    assert found.means[2] == pytest.approx(expected)
    doubled = cross_validate(RankingSVM("auto"), data, Folds(wide, 3), weights=2 * weights)
    assert doubled.means == pytest.approx(found.means, rel=1e-12)


def test_an_interrupted_fold_does_not_count():
    data, seen = make(), []

    def interrupt_at(number):
        def callback(check):
            seen.append(check)
            if sum(row.passes == 1 for row in seen) == number:
                raise KeyboardInterrupt

        return callback

    ranker = RankingSVM("auto", C_grid=GRID, cv=4, callback=interrupt_at(8))
    with pytest.warns(InputWarning, match="interrupted; the choice is by cross-validation with 2 of 4 folds"):
        ranker.fit(data)
    found = ranker.cv_
    assert found.folds.n_held_out == 2
    whole = cross_validate(RankingSVM("auto", C_grid=GRID), data, 4)
    kept = np.isin(whole.folds.of_query, [0, 1])
    np.testing.assert_array_equal(found.values, np.where(kept, whole.values, np.nan))
    assert GRID[int(np.argmax(whole.values[:, kept].mean(axis=1)))] == ranker.C_
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        RankingSVM("auto", cv=4, callback=interrupt_at(2)).fit(data)


def test_interrupted_rounds_are_chosen_from_so_far():
    def interrupt(row):
        if row.round == 4 and row.value == row.value:
            raise KeyboardInterrupt

    data = make()
    ranker = LambdaMART(**TREES, cv=3, callback=interrupt)
    with pytest.warns(InputWarning, match="cross-validation was interrupted"):
        ranker.fit(data)
    assert ranker.cv_.settings == (1, 2, 3, 4)
    assert ranker.n_trees_ == 1 + int(np.argmax(ranker.cv_.means))


@pytest.mark.parametrize("ranker", [RankingSVM("auto"), RAMP, LambdaMART(**TREES, cv=5)], ids=["C", "ramp", "trees"])
def test_few_queries(ranker):
    data = make()
    two = ranker.fit(data.select([0, 3, 1])).cv_
    assert (two.folds.n_folds, two.folds.n_held_out) == (2, 2)
    with pytest.warns(InputWarning, match="one query has an order to learn, and none can be held out"):
        ranker.fit(data.select([0, 3]))
    assert ranker.cv_ is None
    assert getattr(ranker, "C_", 1.0) == 1.0
    assert getattr(ranker, "n_trees_", 12) == 12
    with pytest.raises(InputError, match="expected at least two with an order"):
        cross_validate(ranker, data.select([0]))


def test_a_fold_whose_others_have_nothing_to_learn():
    y = np.array([0, 2, 1, 0, 2, 1, 0, 1, 0, 1, 0, 1])
    data = RankingData.from_arrays(y[:, None] + np.linspace(0, 0.5, 12)[:, None], y, np.repeat(np.arange(4), 3))
    folds = Folds(np.array([0, 0, 1, 1]), 2)
    for ranker in (StructuredSVM("map", "auto", relevant_from=2), AccuracySVM("auto", relevant_from=2)):
        found = cross_validate(ranker, data, folds)
        assert (found.scores[:6] == 0).all()
        assert found.scores[6:].any()


def test_a_rate_that_is_too_large_ends_the_epochs():
    data = make()
    ranker = LambdaRank(learning_rate=1e60, weight_decay=1e60, epochs=30, cv=3)
    with pytest.raises(InputError, match="is too large: the weights grew without bounds in the first epoch"):
        ranker.fit(data)
    with pytest.raises(InputError, match="Interpolation leaves nothing open"):
        cross_validate(Interpolation(), data)


def test_weights_of_pairs_that_a_fold_does_not_have():
    data = make()
    pairs = {(2.0, 1.0): 1.0, (2.0, 0.0): 3.0, (1.0, 0.0): 1.0}
    labels = np.where(data.query_of_row() < 2, data.labels, np.minimum(data.labels, 1))
    ranker = RankingSVM("auto", rank_weights=pairs, query_weights=dict.fromkeys(range(15), 1.0), C_grid=GRID)
    found = cross_validate(ranker, data.with_labels(labels), Folds(np.arange(15) // 2, 8))
    assert np.isfinite(found.scores).all()


def test_validation_data_and_folds_exclude_each_other():
    with pytest.raises(InputError, match="cv chooses by cross-validation, eval_set by validation data"):
        RankingSVM("auto", cv=3).fit(make(), eval_set=make(seed=1))


def test_folds_are_even_and_the_same_for_any_order():
    data = make(n_queries=31)
    folds = Folds.draw(data, 4)
    assert np.ptp(np.bincount(folds.of_query[data.has_order])) <= 1
    assert np.ptp(np.bincount(folds.of_query)) <= 2
    rows = np.random.default_rng(0).permutation(data.n_docs)
    moved = RankingData.from_arrays(data.X[rows], data.labels[rows], data.qid[rows])
    of_query = dict(zip(moved.query_ids.tolist(), Folds.draw(moved, 4).of_query.tolist(), strict=True))
    assert [of_query[query] for query in data.query_ids.tolist()] == folds.of_query.tolist()
    assert Folds.draw(data, 4, seed=1).of_query.tolist() != folds.of_query.tolist()
    assert Folds.draw(data, 100).n_folds == int(data.has_order.sum())


def test_much_data_has_one_fold_held_out():
    data = make(n_queries=502, n_docs=2)
    assert Folds.draw(data, "auto").n_held_out == 5
    folds = Folds.draw(data, "auto", useful=np.ones(502, bool))
    assert (folds.n_folds, folds.n_held_out) == (5, 1)
    assert (folds.of_query == 0).sum() == 101
    assert Folds.draw(data, 5, useful=np.ones(502, bool)).n_held_out == 5


def test_the_ranker_stays_as_it_is():
    data, ranker = make(), LambdaRank(epochs=3, random_state=np.random.RandomState(0), cv=2)
    before = set(vars(ranker))
    cross_validate(ranker, data, 3)
    assert set(vars(ranker)) == before
    assert ranker.cv == 2
