"""`adapt`: what is tried, what is chosen and why, and what little data leads to."""

import warnings

import numpy as np
import pytest

import rankwright
from rankwright import InputError, LambdaMART, RankingData, RankingSVM, evaluate, load_model
from rankwright.adaptation.robustness import learning_curve, robustness, write_curve
from rankwright.adaptation.ways import METHODS, adapt
from rankwright.errors import InputWarning
from rankwright.models.linear import LinearModel

NAMES = ("a", "b", "c", "d")


def domain(weights, n_queries, seed, n_docs=12, noise=0.5, names=NAMES, prefix="q"):
    """Three grades by a linear function of the features, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, len(weights)))
    good = X @ np.array(weights) + noise * rng.normal(size=len(X))
    qid = np.repeat([f"{prefix}{seed}-{query}" for query in range(n_queries)], n_docs)
    return RankingData.from_arrays(X, np.digitize(good, [0.5, 1.5]), qid, feature_names=names)


RICH, NEW = (1.0, 0.5, 0.0, 0.0), (0.6, 0.5, 0.8, 0.0)


@pytest.fixture(scope="module")
def background():
    return RankingSVM(C=0.1).fit(domain(RICH, 60, 0))


def mean(model, data, measure="nDCG@10"):
    return evaluate(data, model.predict(data), measures=[measure]).means[measure]


def test_every_method_is_tried_and_the_new_domain_is_learnt(background):
    train, valid, test = (domain(NEW, n, seed) for n, seed in ((25, 1), (25, 2), (60, 3)))
    seen = []
    found = adapt(
        background, train, valid, background_data=domain(RICH, 60, 0), progress=lambda *place: seen.append(place)
    )
    assert [one.name for one in found.candidates] == list(METHODS)
    assert found.failures == {}
    assert seen == [(number, len(METHODS)) for number in range(1, len(METHODS) + 1)]
    assert found.chosen.name != "background"
    assert found.chosen.name in found.reason
    assert mean(found.model, test) > mean(background.model_, test) + 0.05
    assert found.predict(test).tolist() == found.model.predict(test).tolist()
    apart, (low, high), p = found.differences(found.chosen.name)
    assert low < apart < high
    assert p < 0.05


def test_the_simplest_that_is_not_significantly_worse(background):
    train, valid = domain(RICH, 6, 1), domain(RICH, 6, 2)  # nothing new to learn
    found = adapt(background, train, valid)
    assert found.chosen.name == "background"
    best = max(found.candidates, key=lambda one: one.value)
    assert best is found.chosen or best.name in found.reason


@pytest.mark.parametrize(
    "method", ["in-domain", "interpolate", "lambdaboost", "lambdamart", "augment", "interpolate-3"]
)
def test_a_method_that_is_asked_for(background, method, tmp_path):
    train, valid, test = (domain(NEW, n, seed) for n, seed in ((15, 1), (15, 2), (20, 3)))
    extra = {"background_data": domain(RICH, 40, 0)} if method in ("augment", "interpolate-3") else {}
    found = adapt(background, train, valid, method=method, **extra)
    assert found.chosen.name == method
    assert mean(found.model, test) > mean(background.model_, test)
    found.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert saved.method == f"adapted-{method}"
    assert saved.model.predict(test).tobytes() == found.predict(test).tobytes()


PAPER = {"gain": "squared", "normalize_queries": False, "nearness": 0, "background_spread": None}


def test_further_parameters_of_boosting_are_those_of_the_ranker(background):
    """Those of the paper's LambdaSMART, whose background scores are as they are."""
    train, valid = domain(NEW, 15, 1), domain(NEW, 15, 2)
    settings = {"leaves": 20, "rate": 0.5, "trees": 40, "boosting_settings": PAPER}
    found = adapt(background, train, valid, method="lambdamart", **settings)
    alone = LambdaMART(40, 0.5, 20, measure="ndcg@10", randomize_nodes=True, background=background, **PAPER)
    assert found.predict(valid).tolist() == alone.fit(train, eval_set=valid).predict(valid).tolist()
    ours = adapt(background, train, valid, method="lambdamart", **(settings | {"boosting_settings": {}}))
    assert ours.predict(valid).tolist() != found.predict(valid).tolist()
    both = adapt(background, train, valid, **settings)  # LambdaBoost takes what it has
    assert both.failures == {}


def test_a_perfect_background_is_not_made_worse():
    train, valid, test = (domain(NEW, n, seed, noise=0.0) for n, seed in ((10, 1), (10, 2), (20, 3)))
    found = adapt(LinearModel(np.array(NEW), NAMES), train, valid)
    assert found.chosen.name == "background"
    for one in found.candidates:
        assert one.value <= 1.0 + 1e-12
        if one.name in ("interpolate", "lambdaboost", "lambdamart"):
            assert mean(one.model, test) == pytest.approx(1.0), one.name


def test_one_query_and_nothing_to_learn_from(background):
    valid = domain(NEW, 5, 2)
    found = adapt(background, domain(NEW, 1, 1), valid)
    assert found.chosen.name in METHODS
    same = domain(NEW, 3, 1)
    nothing = same.with_labels(np.zeros(same.n_docs))
    found = adapt(background, nothing, valid)
    assert found.chosen.name == "background"
    assert "lambdamart" in found.failures
    with pytest.raises(InputError, match=r"cannot be used here: .*nothing"):
        adapt(background, nothing, valid, method="lambdaboost")
    with pytest.raises(InputError, match="no query with a relevant document"):
        adapt(background, same, nothing)


def test_features_are_matched_by_name_and_differences_are_told():
    background = LinearModel(np.array([0.5, 1.0]), ("b", "a"))
    train, valid = domain(NEW, 10, 1), domain(NEW, 10, 2)
    with pytest.warns(InputWarning, match="2 of 4 features are unknown to the background model"):
        found = adapt(background, train, valid)
    assert found.candidates[0].value == pytest.approx(mean(LinearModel(np.array([1.0, 0.5, 0, 0]), NAMES), valid))
    without = [RankingData.from_arrays(part.X, part.labels, part.qid) for part in (train, valid)]
    with pytest.raises(InputError, match="4 features"):
        adapt(LinearModel(np.array([0.5, 1.0])), *without, method="background")
    for method in ("background", "auto"):  # not even where other ways do without the background
        with pytest.raises(InputError, match="does not fit the data: the data has 4 features, but the model has 5"):
            adapt(LinearModel(np.ones(5)), *without, method=method)
    narrow = without[1].with_features(without[1].X[:, :3])  # of the same data as the training data: its last are 0
    assert adapt(LinearModel(np.ones(4)), without[0], narrow, method="background").candidates
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adapt(LinearModel(np.array(NEW), NAMES), train, valid, method="interpolate")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "expected auto or one of"),
        ({"method": "augment"}, "expected background_data"),
        ({"background": None}, "background is None"),
        ({"background": LambdaMART()}, "not fitted"),
        ({"train": [1, 2]}, "train is a list"),
        ({"measure": "nonsense"}, "nonsense"),
        (
            {"boosting_settings": {"gian": "squared"}},
            "cannot be given 'gian' here; expected one of background_spread, c",
        ),
        ({"boosting_settings": {"max_leaves": 3}}, "cannot be given 'max_leaves' here; it is set by leaves"),
        ({"boosting_settings": {"gain": "square"}}, "gain is 'square'; expected newton or squared"),
        ({"boosting_settings": PAPER, "method": "lambdaboost"}, "lambdaboost cannot be given 'gain' here"),
    ],
)
def test_bad_input(background, settings, message):
    given = {"background": background, "train": domain(NEW, 3, 1), "valid": domain(NEW, 3, 2)} | settings
    with pytest.raises(InputError, match=message):
        adapt(given.pop("background"), given.pop("train"), given.pop("valid"), **given)


def test_it_is_reachable_and_deterministic(background):
    train, valid = domain(NEW, 8, 1), domain(NEW, 8, 2)
    one = rankwright.adapt(background, train, valid, n_jobs=1)
    other = rankwright.adapt(background, train, valid, n_jobs=2)
    for a, b in zip(one.candidates, other.candidates, strict=True):
        assert a.model.predict(valid).tobytes() == b.model.predict(valid).tobytes()


def test_robustness_counts_queries(background):
    train, valid, closed, later = (domain(NEW, n, seed) for n, seed in ((15, 1), (15, 2), (20, 3), (10, 4)))
    found = adapt(background, train, valid)
    report = robustness(found, {"closed": closed, "open": later}, harm_from=0.1)
    assert [row.test for row in report.rows] == ["closed"] * len(found.candidates) + ["open"] * len(found.candidates)
    for row in report.rows:
        data = {"closed": closed, "open": later}[row.test]
        model = next(one.model for one in found.candidates if one.name == row.method)
        values = [
            evaluate(data, some.predict(data), measures=["nDCG@10"]).values[:, 0] for some in (model, background.model_)
        ]
        apart = values[0] - values[1]
        assert (row.wins, row.ties, row.losses) == ((apart > 0).sum(), (apart == 0).sum(), (apart < 0).sum())
        assert row.harm == (apart < -0.1).mean()
        assert row.mean == pytest.approx(values[0].mean())
    text = report.text()
    assert "harm" in text
    assert text.count("background") >= 2


def test_learning_curve_and_its_plot(background, tmp_path):
    train, valid, test = (domain(NEW, n, seed) for n, seed in ((20, 1), (10, 2), (30, 3)))
    methods = ("in-domain", "interpolate")
    curve = learning_curve(background, train, valid, test, sizes=(2, 10, 20, 500), repeats=3, methods=methods)
    assert [(point.method, point.n_queries) for point in curve] == [
        (method, size) for method in ("background", *methods) for size in (2, 10, 20)
    ]
    assert all(point.low <= point.mean <= point.high for point in curve)
    whole = next(point for point in curve if point.method == "in-domain" and point.n_queries == 20)
    assert whole.mean == pytest.approx(mean(adapt(background, train, valid, method="in-domain").model, test))
    for name in ("curve.png", "curve.svg"):
        write_curve(curve, "nDCG@10", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        write_curve(curve, "nDCG@10", tmp_path / "curve.pdf")
    with pytest.raises(InputError, match="expected whole numbers from 1"):
        learning_curve(background, train, valid, test, sizes=(0,))
