"""`adapt` without validation data: what is trained, what is chosen, and that held-out labels stay out of it."""

import numpy as np
import pytest
from tests.adaptation.test_choice import NEW, RICH, domain, mean

from rankwright import InputError, LambdaBoost, LambdaMART, RankingSVM, evaluate, load_model
from rankwright.adaptation.robustness import learning_curve
from rankwright.adaptation.ways import METHODS, Adaptation, adapt
from rankwright.models.linear import LinearModel
from rankwright.rankers.cross_validation import Folds, cross_validate

NAMES = ("a", "b", "c", "d")
TRAIN, RICH_DATA, TEST = domain(NEW, 16, 1), domain(RICH, 30, 0), domain(NEW, 40, 3)
ONE = LinearModel(np.array(RICH), NAMES)
TWO = {"web": ONE, "news": LinearModel(np.array([0.0, 0.2, 1.0, 0.3]), NAMES)}
QUICK = {"trees": 12, "cv": 3}


def test_every_way_is_tried_and_the_new_domain_is_learnt(tmp_path):
    found = adapt(ONE, TRAIN, background_data=RICH_DATA, **QUICK)
    assert [one.name for one in found.candidates] == list(METHODS)
    assert found.failures == {}
    assert (found.folds.n_folds, found.folds.n_held_out) == (3, 3)
    assert "16 held-out queries" in found.reason
    assert mean(found.model, TEST) > mean(ONE, TEST) + 0.03
    for one in found.candidates:
        values = evaluate(TRAIN, TRAIN.to_caller_order(one.scores), measures=["nDCG@10"]).values
        np.testing.assert_array_equal(one.evaluation.values, values)
    found.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert saved.measures == {"cross-validated nDCG@10": found.chosen.value}
    assert saved.model.predict(TEST).tobytes() == found.predict(TEST).tobytes()


def test_single_ways_are_those_of_the_rankers():
    adaptation = Adaptation(ONE, TRAIN, **QUICK)
    folds = Folds.draw(TRAIN, 3)
    background = adaptation.candidate("background")
    assert background.model is ONE
    assert background.scores.tobytes() == ONE.score(TRAIN.X).tobytes()
    start = {"background": ONE, "measure": "ndcg@10"}
    for name, ranker in {
        "in-domain": RankingSVM("auto"),
        "lambdaboost": LambdaBoost(12, **start),
        "lambdamart": LambdaMART(12, max_leaves=10, randomize_nodes=True, **start),
    }.items():
        found = cross_validate(ranker, TRAIN, folds, measure="ndcg@10")
        ranker.fit_data(TRAIN, choice=found)
        one = adaptation.candidate(name)
        assert one.scores.tobytes() == found.scores.tobytes()
        assert one.model.predict(TEST).tobytes() == ranker.predict(TEST).tobytes()


def test_settings_of_boosting_are_chosen_for_a_fold_by_the_others():
    adaptation = Adaptation(ONE, TRAIN, rate=[0.02, 0.5], **QUICK)
    one = adaptation.candidate("lambdaboost")
    points = [
        cross_validate(LambdaBoost(12, rate, background=ONE), TRAIN, adaptation.folds, measure="ndcg@10")
        for rate in (0.02, 0.5)
    ]
    assert [(point["rate"], value) for point, value in one.tried] == [
        (rate, max(point.means)) for rate, point in zip((0.02, 0.5), points, strict=True)
    ]
    assert one.details["rate"] == (0.02, 0.5)[int(np.argmax([max(point.means) for point in points]))]
    for number in range(3):
        mine = adaptation.folds.of_query == number
        best = points[int(np.argmax([point.query_values[~mine].mean() for point in points]))]
        rows = np.repeat(mine, TRAIN.sizes)
        assert one.scores[rows].tobytes() == best.scores[rows].tobytes()


def test_weights_of_an_interpolation_are_fitted_on_the_other_folds():
    adaptation = Adaptation(ONE, TRAIN, **QUICK)
    one, in_domain = adaptation.candidate("interpolate"), adaptation.candidate("in-domain")
    folds = adaptation.folds.of_query
    apart = in_domain.scores - np.repeat(
        np.add.reduceat(in_domain.scores, TRAIN.indptr[:-1]) / TRAIN.sizes, TRAIN.sizes
    )
    scaled = in_domain.scores.copy()
    for number in range(3):
        rows = np.repeat(folds == number, TRAIN.sizes)
        scaled[rows] /= apart[rows].std()
    stacked = TRAIN.with_features(np.column_stack([ONE.score(TRAIN.X), scaled]), ["a", "b"])
    for number in range(3):
        fold = adaptation._sum(None, None)
        fold.fit_data(stacked.select(folds != number))
        rows = np.repeat(folds == number, TRAIN.sizes)
        np.testing.assert_allclose(one.scores[rows], fold.model_.score(stacked.X[rows]), rtol=1e-9)
    whole = adaptation._sum(None, None)
    whole.fit_data(stacked)
    assert list(one.details["weights"].values()) == pytest.approx(whole.weights_.tolist())


@pytest.mark.parametrize("background", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("name", ["background", "in-domain", "augment", "lambdaboost", "lambdamart"])
def test_labels_of_a_fold_do_not_reach_the_models_that_score_it(name, background, monkeypatch):
    # What the other folds choose is set: they are trained on these labels.
    monkeypatch.setattr("rankwright.rankers.base.best_setting", lambda values, weights: len(values) - 1)
    settings = {"background_data": RICH_DATA, **QUICK}
    first = Adaptation(background, TRAIN, **settings)
    scores = first.candidate(name).scores
    mine = first.folds.of_query == 1
    labels, rng = TRAIN.labels.copy(), np.random.default_rng(0)
    for query in np.flatnonzero(mine):
        rows = slice(TRAIN.indptr[query], TRAIN.indptr[query + 1])
        labels[rows] = rng.permutation(labels[rows])
    again = Adaptation(background, TRAIN.with_labels(labels), **settings)
    assert again.folds.of_query.tolist() == first.folds.of_query.tolist()
    rows = np.repeat(mine, TRAIN.sizes)
    changed = again.candidate(name).scores
    assert changed[rows].tobytes() == scores[rows].tobytes()
    # The others' scores do change, so this test would see a leak.
    assert (name == "background" and background is ONE) or not np.array_equal(changed[~rows], scores[~rows])


def test_random_labels_are_not_learnt():
    apart = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = domain(NEW, 20, seed).with_labels(rng.integers(0, 2, 240))
        chance = np.mean([evaluate(data, rng.normal(size=240), measures=["ndcg@10"]).values for _ in range(100)], 0)
        adaptation = Adaptation(TWO, data, trees=5, cv=3, leaves=4)
        apart.append([
            (adaptation.candidate(name).evaluation.values - chance)[:, 0]
            for name in ("background", "in-domain", "interpolate", "lambdaboost", "lambdamart")
        ])  # fmt: skip
    values = np.concatenate(apart, axis=1)
    assert (values.mean(axis=1) < 2.5 * values.std(axis=1) / np.sqrt(values.shape[1])).all()


def test_the_order_of_queries_does_not_matter():
    turned = TRAIN.select(np.arange(TRAIN.n_queries)[::-1])
    first, again = (Adaptation(TWO, data, **QUICK) for data in (TRAIN, turned))
    for name in ("background", "interpolate", "lambdaboost"):
        one, other = first.candidate(name), again.candidate(name)
        assert one.value == pytest.approx(other.value, rel=1e-9)
        np.testing.assert_allclose(one.model.predict(TEST), other.model.predict(TEST), rtol=1e-7)


def test_a_learning_curve_needs_no_validation_data_either():
    points = learning_curve(ONE, TRAIN, None, TEST, sizes=(1, 5), repeats=1, methods=("in-domain",), **QUICK)
    assert [(point.method, point.n_queries) for point in points] == [
        ("background", 1), ("background", 5), ("in-domain", 5),
    ]  # fmt: skip


def test_what_cannot_be_held_out():
    with pytest.raises(InputError, match="nothing can be held out to choose by: fewer than two"):
        adapt(ONE, TRAIN.select([0]))
    with pytest.raises(InputError, match="cv is 1; expected a whole number from 2"):
        adapt(ONE, TRAIN, cv=1)
