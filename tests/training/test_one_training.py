"""One training: what comes back, what is chosen, notices as values, and what is wrong named by its part of the data."""

import warnings

import numpy as np
import pytest

from every_measure import with_every_measure
from rankwright import InputError, RankingData, evaluate, load_model
from rankwright.models.linear import LinearModel
from rankwright.rankers.facts import Kind
from rankwright.training.methods import METHODS, NAMES
from rankwright.training.train import plan, train

FEW = {"n_trees": 3, "n_rounds": 3, "epochs": 2, "min_rows": 1}
NEEDED = {"svm-combo": {"losses": ["auc", "map"]}}


def made(seed=0, n_queries=10, names=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * 8, 3))
    labels = np.digitize(X @ [1.0, -0.5, 0.2] + 0.4 * rng.normal(size=len(X)), [0.3, 1.2])
    return RankingData.from_arrays(X, labels, np.repeat(np.arange(n_queries), 8), feature_names=names)


def quick(name):
    known = METHODS[name].defaults()
    return NEEDED.get(name, {}) | {key: value for key, value in FEW.items() if key in known}


@pytest.mark.parametrize("name", NAMES)
def test_every_method_trains_without_a_warning_and_saves_what_it_was(name, tmp_path):
    data, valid = made(0), made(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained = train(name, data, valid, settings=quick(name))
    facts = trained.facts
    assert trained.ranker.callback is None if hasattr(trained.ranker, "callback") else True
    assert not facts.interrupted
    assert facts.measure == trained.measure
    assert facts.n_queries + facts.n_queries_skipped == 10
    for part, of in (("training", data), ("validation", valid)):
        assert trained.values[part] == evaluate(of, trained.model.predict(of), measures=[trained.measure]).values.mean()
    if facts.C is not None:
        assert [row["C"] for row in facts.tried] == list(trained.ranker.default_grid())
        assert trained.values["validation"] == max(row[str(trained.measure)] for row in facts.tried)
    trained.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert saved.method == trained.method
    assert saved.measures == {f"{part} {trained.measure}": value for part, value in trained.values.items()}
    assert saved.model.predict(valid).tobytes() == trained.model.predict(valid).tobytes()


def test_a_plan_can_be_trained_again_and_stays_as_it_was():
    decided = plan("svm-map", {"C": 10})
    first = decided.train(made(0))
    second = decided.train(made(1))
    assert not hasattr(decided.ranker, "coef_")
    assert first.ranker is not second.ranker
    assert first.model.coef.tolist() != second.model.coef.tolist()


def test_bins_give_a_model_of_the_raw_features():
    data, valid = made(0), made(1)
    trained = train("svm-map", data, valid, settings={"bins": 5})
    assert trained.model.n_features == data.n_features
    assert trained.facts.n_features > data.n_features
    best = max(row["AP"] for row in trained.facts.tried)
    assert trained.values["validation"] == pytest.approx(best)


def test_a_gap_that_is_left_is_a_notice_with_its_numbers():
    trained = train("svm-map", made(), settings={"C": 100, "max_passes": 2})
    (notice,) = trained.facts.notices
    assert notice.kind is Kind.NOT_CONVERGED
    assert (notice.values["max_passes"], notice.values["tol"]) == (2, 1e-4)
    assert notice.values["gap"] == trained.facts.certificate.gap > 1e-3


@pytest.mark.parametrize("name", ["svm-map", "lambdamart"])
def test_an_interruption_is_a_value(name):
    def stop(check):
        if getattr(check, "passes", getattr(check, "round", 0)) >= 2:
            raise KeyboardInterrupt

    settings = {"C": 100, "tol": 1e-9} if name == "svm-map" else quick(name)
    trained = train(name, made(), settings=settings, callback=stop)
    assert trained.facts.interrupted
    assert [notice.kind for notice in trained.facts.notices] == [Kind.INTERRUPTED]
    assert trained.model.predict(made()).any()


def test_nothing_to_order_is_a_notice():
    data = made().with_labels(np.ones(80))
    (notice,) = train("rank-svm", data).facts.notices
    assert notice.kind is Kind.NOTHING_TO_ORDER


def test_it_starts_from_a_model_matched_by_name():
    data = made(names=["a", "b", "c"])
    first = train("svm-map", data, settings={"C": 100, "tol": 1e-6})
    turned = LinearModel(first.model.coef[::-1].copy(), ("c", "b", "a"))
    again = train("svm-map", data, settings={"C": 100, "tol": 1e-3}, start=turned)
    assert again.facts.certificate.passes < first.facts.certificate.passes
    assert again.facts.certificate.objective == pytest.approx(first.facts.certificate.objective, rel=1e-3)


def test_validation_queries_that_were_trained_on_are_a_notice():
    data = made(0, 12)
    valid = RankingData.concatenate([made(1, 3), data.select([7, 4])])
    assert train("svm-map", data, made(1, 3)).facts.notices == ()
    (found,) = train("svm-map", data, valid).facts.notices
    assert (found.kind, found.values) == (Kind.SHARED_QUERIES, {"shared": 2, "queries": 5})
    assert found.text.startswith("2 of 5 validation queries are also in the training data (first: 7): results on them")


def test_validation_data_that_lacks_features_is_a_notice():
    data = made(0)
    (found,) = train("svm-map", data, made(1).with_features(made(1).X[:, :2])).facts.notices
    assert found.kind is Kind.OTHER_FEATURES
    assert found.text.startswith("the validation data has 2 of the training data's 3 features; the others count as 0")


def test_validation_data_is_matched_to_the_training_data():
    data, valid = made(0, names=["a", "b", "c"]), made(1)
    turned = valid.with_features(valid.X[:, ::-1], ["c", "b", "a"])
    one = train("svm-map", data, turned)
    other = train("svm-map", data, valid.with_features(valid.X, ["a", "b", "c"]))
    assert one.values == other.values


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"valid": RankingData.from_arrays(np.eye(5), [1, 0, 0, 0, 0], group=[5])},
            "validation data: the data has 5 features",
        ),
        (
            {"data": made().with_labels(np.full(80, 2000.0)), "method": "rank-svm"},
            "training data: the label 2000 is too",
        ),
        ({"valid": made().with_labels(np.full(80, 2000.0)), "method": "rank-svm"}, "validation data: the label 2000"),
        ({"start": LinearModel(np.ones(4))}, "starting model: has 4 features, but the training data has 3"),
        (
            {"start": lambda: train("lambdamart", made(), settings=quick("lambdamart")).model},
            "starting model: not a linear",
        ),
        ({"start": LinearModel(np.ones(3)), "method": "svm-acc"}, "starting model: svm-acc cannot continue"),
        ({"start": LinearModel(np.ones(3)), "settings": {"bins": 4}}, "starting model: bins cannot continue"),
    ],
)
def test_errors_name_the_part_of_the_data(changed, message):
    given = {"method": "svm-map", "data": made(), "valid": None, **changed}
    if callable(given.get("start")):  # only now: while tests are collected, all workers would compile it
        given["start"] = given["start"]()
    with pytest.raises(InputError) as caught:
        train(given.pop("method"), given.pop("data"), given.pop("valid"), **given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("highest", [0.0, 1.0, 4.0, 5.0, 2000.0, 1e300])
@with_every_measure(5, parameters=False)
def test_labels_are_checked_as_an_evaluation_would(measure, highest):
    data = RankingData.from_arrays([[0.0], [1.0]], [0.0, highest], group=[2])
    complaints = [
        complaint(measure.resolve("letor").check_labels, data.labels),
        complaint(evaluate, data, [0, 1], measures=[measure]),
    ]
    assert complaints[0] == complaints[1]


def complaint(check, *given, **options):
    try:
        check(*given, **options)
    except InputError as error:
        return error.message
    return None
