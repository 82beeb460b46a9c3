"""Interpolation: weights for the measure, one model of the kind of its parts, and nothing made worse."""

import numpy as np
import pytest
from sklearn.base import clone

from rankwright import InputError, LambdaMART, RankingData, RankingSVM, evaluate, load_model
from rankwright.boosting.tree_model import TreeModel
from rankwright.committee.interpolation import Interpolation
from rankwright.errors import InputWarning
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel, interpolate

NAMES = ("a", "b", "c")


def make(n_queries=30, seed=0, n_docs=12, names=NAMES):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, 3))
    good = X @ [1.0, 0.8, 0.0] + 0.7 * rng.normal(size=len(X))
    qid = np.repeat(np.arange(n_queries), n_docs)
    return RankingData.from_arrays(X, np.digitize(good, [0.8, 1.8]), qid, feature_names=names)


def value(scores, data, measure="nDCG@10"):
    return evaluate(data, scores, measures=[measure]).means[measure]


def linear(*weights):
    return LinearModel(np.array(weights), NAMES)


@pytest.mark.parametrize("weights", ["powell", "lambdarank"])
def test_two_halves_make_a_whole(weights):
    data, new = make(), make(seed=1)
    joined = Interpolation([linear(1, 0, 0), linear(0, 3, 0)], weights).fit(data)
    alone = max(value(data.X[:, column], data) for column in (0, 1))
    assert joined.value_ > alone + 0.05
    assert joined.value_ == pytest.approx(value(joined.predict(data), data))
    assert value(joined.predict(new), new) > alone
    assert isinstance(joined.model_, LinearModel)
    assert joined.weights_ == pytest.approx(joined.model_.coef[:2] * [1, 1 / 3] * joined.scales_, abs=1e-12)


def test_it_is_at_least_as_good_as_every_part_on_what_it_saw():
    for seed in range(5):
        data = make(8, seed)
        parts = [linear(*row) for row in np.random.default_rng(seed).normal(size=(3, 3))]
        joined = Interpolation(parts, measure="map").fit(data)
        assert joined.value_ >= max(value(part.score(data.X), data, "AP") for part in parts) - 1e-12


def test_two_copies_are_the_model_itself():
    data, model = make(), linear(0.5, 1.0, 0.2)
    joined = Interpolation([model, model]).fit(data)
    assert isinstance(joined.model_, LinearModel)
    assert np.argsort(joined.predict(data)).tolist() == np.argsort(model.score(data.X)).tolist()


def test_a_perfect_part_is_not_made_worse():
    data = make()
    perfect = RankingData.from_arrays(np.column_stack([data.labels, data.X]), data.labels, data.qid)
    joined = Interpolation([0, 1, 2]).fit(perfect)
    assert joined.value_ == pytest.approx(1.0)


def test_trees_make_a_model_of_trees(tmp_path):
    data = make()
    trees = [LambdaMART(5, max_leaves=4, measure=measure).fit(data) for measure in ("ndcg", "map")]
    joined = Interpolation(trees).fit(data)
    assert isinstance(joined.model_, TreeModel)
    parts = [tree.predict(data) for tree in trees]
    expected = sum(w / s * part for w, s, part in zip(joined.weights_, joined.scales_, parts, strict=True))
    assert joined.predict(data) == pytest.approx(expected, abs=1e-12)
    mixed = Interpolation([trees[0], RankingSVM(C=1.0).fit(data), "b", 2]).fit(data)
    assert isinstance(mixed.model_, SumModel)
    mixed.save(tmp_path / "m.rkw")
    loaded = load_model(tmp_path / "m.rkw")
    assert loaded.model.score(data.X, NAMES, data.indptr).tobytes() == mixed.predict(data).tobytes()
    again = Interpolation([loaded, mixed], (0.5, 0.5), scale=False).fit(data)  # an interpolation of interpolations
    assert again.predict(data) == pytest.approx(mixed.predict(data), abs=1e-12)


def test_fixed_weights_and_constant_parts():
    data = make()
    joined = Interpolation([linear(1, 0, 0), linear(0, 0, 0)], (2.0, 1.0)).fit(data)
    assert joined.scales_[1] == 1.0
    assert joined.model_.coef == pytest.approx([2.0 / joined.scales_[0], 0, 0])
    assert Interpolation([linear(0, 0, 0), 0]).fit(data).value_ >= value(data.X[:, 0], data) - 1e-12


def test_little_data():
    one = make(1)
    assert Interpolation([0, 1]).fit(one).value_ > 0
    nothing = one.with_labels(np.zeros(one.n_docs))
    with pytest.warns(InputWarning, match="nothing to order"):
        joined = Interpolation([0, 1]).fit(nothing)
    assert joined.weights_[0] == joined.weights_[1] > 0


def test_clones_keep_the_rankers_fitted_and_threads_do_not_matter():
    data = make()
    joined = Interpolation([RankingSVM(C=1.0).fit(data), 0], n_jobs=1)
    other = clone(joined).set_params(n_jobs=2).fit(data)
    assert other.predict(data).tobytes() == joined.fit(data).predict(data).tobytes()


def test_weights_of_queries():
    data = make(10)
    weights = {query: float(query < 3) for query in range(10)}
    some = Interpolation([0, 1, 2]).fit(data.select(range(3)))
    assert Interpolation([0, 1, 2], scale=False).fit(data, query_weight=weights).value_ == pytest.approx(
        Interpolation([0, 1, 2], scale=False).fit(data.select(range(3))).value_
    )
    assert some.n_queries_ == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rankers": []}, r"rankers is \[\]; expected fitted rankers, models, or features, or None"),
        ({"rankers": "ab"}, "rankers is 'ab'; expected"),
        ({"rankers": [None]}, r"rankers is \[None\]; expected"),
        ({"rankers": ["nothing"]}, "no feature 'nothing'"),
        ({"rankers": [7]}, "no feature 7"),
        ({"rankers": [RankingSVM()]}, "not fitted"),
        ({"rankers": [0, 1], "weights": "magic"}, "magic"),
        ({"rankers": [0, 1], "weights": [1.0]}, "expected one for each of 2 rankers"),
        ({"rankers": [0, 1], "weights": [1.0, np.inf]}, "expected powell or lambdarank, or finite numbers"),
        ({"rankers": [0, 1], "measure": "nonsense"}, "nonsense"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(InputError, match=message):
        Interpolation(**settings).fit(make(2))


def test_sums_are_taken_apart_and_parts_of_weight_0_left_out():
    data = make(3)
    tree = LambdaMART(3, max_leaves=4).fit(data).model_
    nested = SumModel((linear(1, 2, 3), SumModel((tree, linear(1, 0, 0)), np.array([2.0, 0.5]))), np.array([1.0, 3.0]))
    flat = interpolate([nested, linear(9, 9, 9)], (2.0, 0.0))
    assert flat.score(data.X) == pytest.approx(2.0 * nested.score(data.X), abs=1e-12)
    assert not any(isinstance(part, SumModel) for part in flat.parts)
    assert interpolate([linear(1, 2, 3), tree], (0.0, 1.0)) is tree
    assert interpolate([linear(1, 2, 3)], (0.0,)).coef.tolist() == [0, 0, 0]
    assert interpolate([tree], (-2.0,)).score(data.X) == pytest.approx(-2.0 * tree.score(data.X), abs=1e-12)
    other = LinearModel(np.array([1.0, 1.0]), ("c", "a"))  # by name, though not one model
    joined = interpolate([linear(1, 2, 3), other], (1.0, 1.0))
    assert joined.score(data.X, NAMES) == pytest.approx(data.X @ [2, 2, 4], abs=1e-12)
