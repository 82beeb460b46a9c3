"""`adapt` with several backgrounds, any in-domain method and tuned boosting: each against doing it by hand."""

import itertools

import numpy as np
import pytest
from tests.adaptation.test_choice import NAMES, NEW, RICH, domain, mean

from rankwright import (
    InputError,
    Interpolation,
    LambdaBoost,
    LambdaMART,
    RankingData,
    RankingSVM,
    adapt,
    augment,
    learning_curve,
    load_model,
    robustness,
)
from rankwright.errors import InputWarning
from rankwright.models.linear import LinearModel
from rankwright.training.train import train as train_by_name

OTHER = (0.0, 0.4, 1.0, 0.1)


@pytest.fixture(scope="module")
def models():
    return {
        "web": RankingSVM(C=0.1).fit(domain(RICH, 30, 0)).model_,
        "news": LambdaMART(8, min_rows=5, max_leaves=4).fit(domain(OTHER, 30, 9)).model_,
    }


@pytest.fixture(scope="module")
def data():
    return domain(NEW, 12, 1), domain(NEW, 12, 2), domain(NEW, 20, 3)


def same(one, other, test):
    return one.predict(test).tobytes() == other.predict(test).tobytes()


def test_interpolations_have_every_background_as_a_component(models, data):
    train, valid, test = data
    rich = [domain(RICH, 30, 0), domain(OTHER, 30, 0)]  # the same query ids in both
    in_domain = train_by_name("rank-svm", train, valid, measure="ndcg@10").model
    web = RankingData.concatenate([rich[0], domain(OTHER, 30, 0, prefix="x")])
    taken = augment(web, train).data
    augmented = train_by_name("rank-svm", RankingData.concatenate([train, taken]), valid, measure="ndcg@10").model
    by_hand = {
        "background": [*models.values()],
        "interpolate": [*models.values(), in_domain],
        "interpolate-3": [*models.values(), in_domain, augmented],
    }
    named = {"background": (), "interpolate": ("in-domain",), "interpolate-3": ("in-domain", "augment")}
    for method, parts in by_hand.items():
        expected = Interpolation(parts).fit(valid)
        found = adapt(models, train, valid, background_data=rich, method=method)
        assert same(found.model, expected.model_, test), method
        assert found.chosen.facts["weights"] == dict(zip([*models, *named[method]], expected.weights_, strict=True))
    taken_all = adapt(models, train, valid, background_data=rich, method="augment").chosen.facts["documents taken"]
    assert taken_all == taken.n_docs == sum(augment(part, train).data.n_docs for part in rich)  # from each


def test_boosting_starts_from_the_interpolation_of_the_backgrounds(models, data):
    train, valid, test = data
    start = Interpolation([*models.values()]).fit(valid).model_
    shared = {"background": start, "measure": "ndcg@10", "eval_measure": "ndcg@10"}
    by_hand = {
        "lambdaboost": LambdaBoost(10, **shared),
        "lambdamart": LambdaMART(10, max_leaves=10, randomize_nodes=True, **shared),
    }
    for method, ranker in by_hand.items():
        found = adapt([*models.values()], train, valid, method=method, trees=10)
        assert same(found.model, ranker.fit(train, eval_set=valid).model_, test)


def test_every_background_is_a_candidate_and_the_better_one_comes_first(models, data):
    train, valid, test = data
    found = adapt(models, train, valid, trees=10)
    names = [one.name for one in found.candidates]
    alone = {f"background ({name})": model for name, model in models.items()}
    assert sorted(names[:2]) == sorted(alone)
    assert names[2:] == ["background", "in-domain", "interpolate", "lambdaboost", "lambdamart"]
    assert found.candidates[0].value >= found.candidates[1].value
    for one in found.candidates[:2]:
        assert same(one.model, alone[one.name], test)
        assert one.value == pytest.approx(mean(alone[one.name], valid))
    report = robustness(found, {"closed": test})
    assert [row.method for row in report.rows] == names
    curve = learning_curve(models, train, valid, test, sizes=(4,), repeats=1, methods=("interpolate",))
    assert [point.method for point in curve] == ["background", "interpolate"]


def test_one_background_of_several_can_be_the_answer(data, tmp_path):
    perfect = LinearModel(np.array(NEW), NAMES)
    train, valid, test = (domain(NEW, 8, seed, noise=0.0) for seed in (1, 2, 3))
    found = adapt({"bad": LinearModel(-np.array(NEW), NAMES), "good": perfect}, train, valid, trees=3)
    assert found.chosen.name == "background (good)"
    found.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert (saved.method, saved.training["background"]) == ("adapted-background", "good")
    assert same(saved.model, perfect, test)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("lambdarank", {"hidden": 3, "epochs": 4}),
        ("ranknet", {"hidden": 0, "epochs": 4}),
        ("svm-map", {"C": 1.0}),
        ("svm-acc3", {}),
        ("lambdaboost", {"n_rounds": 5}),
        ("lambdamart", {"n_trees": 4, "min_rows": 5}),
        ("mcrank", {"n_trees": 3, "min_rows": 5}),
    ],
)
def test_the_in_domain_ranker_may_be_any_method(models, data, tmp_path, method, settings):
    train, valid, test = data
    chosen = {"in_domain": method, "in_domain_settings": settings}
    own = {} if method in ("ranknet", "svm-map", "svm-acc3", "mcrank") else {"measure": "ndcg@10"}
    in_domain = train_by_name(method, train, valid, settings=settings | own, measure="ndcg@10").model
    assert same(adapt(models["news"], train, valid, method="in-domain", **chosen).model, in_domain, test)
    found = adapt(models, train, valid, method="interpolate", **chosen)
    expected = Interpolation([*models.values(), in_domain]).fit(valid).model_
    assert same(found.model, expected, test)
    found.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw").model
    assert same(saved, found.model, test)
    parts = saved.contributions(test.X[0], test.X[1], NAMES, test.X[:12])
    assert parts.shape == (4,)
    if not saved.scales_queries:
        scores = saved.score(test.X[:2], NAMES)
        assert parts.sum() == pytest.approx(scores[0] - scores[1], abs=1e-6)


def test_settings_of_boosting_are_those_of_a_loop(models, data):
    train, valid, test = data
    grid = {"leaves": [2, 5], "rate": [0.05, 0.5], "randomize_nodes": [False, True]}
    shared = {"background": models["web"], "measure": "ndcg@10", "eval_measure": "ndcg@10"}
    best, tried = None, []
    for leaves, rate, nodes in itertools.product(*grid.values()):
        one = LambdaMART(8, rate, leaves, randomize_nodes=nodes, **shared).fit(train, eval_set=valid)
        tried.append(({"leaves": leaves, "rate": rate, "randomize_nodes": nodes}, mean(one.model_, valid)))
        if best is None or tried[-1][1] > tried[best[0]][1]:
            best = len(tried) - 1, one
    seen = []
    found = adapt(
        models["web"],
        train,
        valid,
        method="lambdamart",
        trees=8,
        n_jobs=2,
        progress=lambda *at: seen.append(at),
        **grid,
    )
    assert same(found.model, best[1].model_, test)
    assert [point for point, _ in found.chosen.tried] == [point for point, _ in tried]
    assert [value for _, value in found.chosen.tried] == pytest.approx([value for _, value in tried])
    assert found.chosen.facts == tried[best[0]][0] | {"trees": best[1].n_trees_}
    assert seen == [(done, 9) for done in range(1, 10)]
    boosted = [LambdaBoost(8, rate, **shared).fit(train, eval_set=valid) for rate in grid["rate"]]
    values = [mean(one.model_, valid) for one in boosted]
    found = adapt(models["web"], train, valid, method="lambdaboost", trees=8, **grid)  # has a rate only
    assert [point for point, _ in found.chosen.tried] == [{"rate": rate} for rate in grid["rate"]]
    assert same(found.model, boosted[int(np.argmax(values))].model_, test)


def test_the_first_of_equal_settings_is_chosen():
    train, valid = domain(NEW, 8, 1, noise=0.0), domain(NEW, 8, 2, noise=0.0)
    perfect = LinearModel(np.array(NEW), NAMES)
    found = adapt(perfect, train, valid, method="lambdamart", leaves=[4, 2], rate=[0.1, 0.3], trees=3)
    assert [value for _, value in found.chosen.tried] == pytest.approx([1.0] * 4)
    assert (found.chosen.details["leaves"], found.chosen.details["rate"]) == (4, 0.1)


def test_weights_by_lambdarank(models, data):
    train, valid, test = data
    found = adapt(models, train, valid, method="background", weights="lambdarank")
    assert same(found.model, Interpolation([*models.values()], "lambdarank").fit(valid).model_, test)


def test_backgrounds_may_know_other_features(models, data):
    train, valid, test = data
    narrow = LinearModel(np.array([0.5, 1.0]), ("b", "a"))
    with pytest.warns(InputWarning, match="2 of 4 features are unknown to the background model narrow"):
        found = adapt({"narrow": narrow, **models}, train, valid, method="interpolate")
    assert np.isfinite(found.predict(test)).all()
    wide = LinearModel(np.ones(5), (*NAMES, "e"))
    with pytest.raises(InputError, match="the background model wide does not fit the data"):
        adapt({**models, "wide": wide}, train, valid)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"background": []}, "there is no background"),
        ({"background": ["twice", "twice"]}, "a background model is given twice"),
        ({"background": {"in-domain": 1, "b": 2}}, "called 'in-domain', as a way to adapt is"),
        ({"in_domain": "lambdarnk"}, "unknown method 'lambdarnk'; did you mean lambdarank"),
        ({"in_domain": "lambdarank", "in_domain_settings": {"hiden": 3}}, "lambdarank has no parameter 'hiden'"),
        ({"in_domain": "lambdarank", "in_domain_settings": {"hidden": -3}}, "hidden is -3; expected"),
        ({"in_domain": "lambdamart", "in_domain_settings": {"background": None}}, "in-domain ranker has a background"),
        ({"weights": "equal"}, "weights is 'equal'; expected powell or lambdarank"),
        ({"leaves": []}, "leaves is empty"),
        ({"leaves": [4, 1]}, "max_leaves is 1; expected"),
        ({"rate": [0.1, 0]}, "learning_rate is 0; expected"),
        ({"trees": 0}, "is 0; expected a whole number from 1"),
        ({"background_data": [domain(RICH, 3, 0), 3]}, "is a int; expected a RankingData"),
    ],
)
def test_bad_input(models, data, settings, message):
    given = dict(settings)
    background = given.pop("background", models["web"])
    if isinstance(background, list):
        background = [models["web"] for _ in background]
    if isinstance(background, dict):
        background = dict(zip(background, models.values(), strict=True))
    with pytest.raises(InputError, match=message):
        adapt(background, *data[:2], **given)
