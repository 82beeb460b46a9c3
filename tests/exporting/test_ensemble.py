"""The ensemble of any model scores like the model, whatever it is a sum of."""

import numpy as np
import pytest
from made_models import NAMES, random_trees

from rankwright import BinnedModel, GradeModel, InputError, LinearModel, NetModel, SumModel, TreeModel
from rankwright.data.categories import number_of
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.target import refuse_others

RNG = np.random.default_rng(5)
X = RNG.lognormal(size=(300, 6))
X[RNG.random(X.shape) < 0.05] = 0.0
HOLED = np.where(RNG.random(X.shape) < 0.1, np.nan, X)


def scores_of(ensemble, X):
    """Return what an ensemble says, by the pieces of the package that trained models are scored with."""
    linear = LinearModel(ensemble.weights).score(X)
    return (
        ensemble.constant
        + linear
        + TreeModel(len(ensemble.names), None, ensemble.trees, categories=ensemble.categories).score(X)
    )


def test_trees_stay_as_they_are():
    model = random_trees()
    ensemble = ensemble_of(model)
    np.testing.assert_array_equal(scores_of(ensemble, HOLED), model.score(HOLED))
    assert ensemble.names == NAMES
    assert not ensemble.is_linear


@pytest.mark.parametrize("n_thresholds", [0, 1, 2, 3, 17])
def test_steps_become_a_tree_of_the_same_levels(n_thresholds):
    rng = np.random.default_rng(n_thresholds)
    thresholds = [np.sort(rng.choice(X[:, j], n_thresholds, replace=False)) for j in range(6)]
    thresholds = [np.unique(part) for part in thresholds]
    starts = np.cumsum([0, *map(len, thresholds)])
    model = BinnedModel(np.concatenate(thresholds), starts, rng.normal(size=starts[-1]))
    np.testing.assert_array_equal(scores_of(ensemble_of(model), HOLED), model.score(HOLED))
    assert ensemble_of(model).trees.n_trees == (6 if n_thresholds else 0)


def test_sums_within_sums_with_other_orders_of_features():
    first, second = random_trees(1), random_trees(2, names=NAMES[::-1])
    linear = LinearModel([1.0, -2.0], (NAMES[3], NAMES[1]))
    model = SumModel((SumModel((first, linear), [2.0, -0.5]), second, SumModel((linear,), [0.0])), [0.25, -3.0, 1.0])
    order = [NAMES.index(name) for name in model.names]
    ensemble = ensemble_of(model)
    np.testing.assert_allclose(scores_of(ensemble, X[:, order]), model.score(X, NAMES), rtol=1e-12)
    assert ensemble.has_weights
    assert ensemble.trees.n_trees == first.forest.n_trees + second.forest.n_trees


def test_trees_without_a_split_are_a_constant():
    model = SumModel((LinearModel([1.0] * 6, NAMES), random_trees(n_leaves=1, n_trees=3)), [1.0, 2.0])
    ensemble = ensemble_of(model)
    assert ensemble.is_linear
    np.testing.assert_allclose(scores_of(ensemble, X), model.score(X, NAMES), rtol=1e-12)
    assert ensemble.constant == pytest.approx(2 * random_trees(n_leaves=1, n_trees=3).forest.value.sum())


@pytest.mark.parametrize("values", [((3, 1, 7), (7, 9, 3, 2)), (("a", "b", "c"), ("c", "d"))])
def test_categories_of_several_parts(values):
    parts = [random_trees(seed, categories=len(own), values=own) for seed, own in enumerate(values)]
    model = SumModel(tuple(parts), [1.0, 2.0])
    rows = HOLED.copy()
    known = sorted({*values[0], *values[1]})
    unknown = "zz" if isinstance(known[0], str) else 55
    rows[:, 0] = RNG.choice([*map(number_of, [*known, unknown]), np.nan], len(rows))
    np.testing.assert_allclose(scores_of(ensemble_of(model), rows), model.score(rows, NAMES), rtol=1e-12)


def test_a_feature_is_either_a_number_or_a_category():
    with pytest.raises(InputError, match="'title_bm25' as a number in one part and as a category in another"):
        ensemble_of(SumModel((random_trees(categories=3), random_trees()), [1.0, 1.0]))


def test_other_parts_stay_whole_and_are_named_in_refusals():
    net = NetModel(RNG.normal(size=(2, 6)), [0.0, 1.0], [1.0, 2.0], NAMES)
    ensemble = ensemble_of(SumModel((net, LinearModel([1.0] * 6, NAMES)), [3.0, 1.0]))
    assert [other.weight for other in ensemble.others] == [3.0]
    assert "net" in refuse_others(ensemble)
    assert refuse_others(ensemble_of(net), nets=True) is None
    assert refuse_others(ensemble, nets=True) == "it adds a net to other parts"
    scaled = ensemble_of(LinearModel([1.0, 2.0], query_scaling="minmax"))
    assert "within each query" in refuse_others(scaled)
    trees = random_trees()
    grades = GradeModel(6, NAMES, np.array([0.0, 1.0]), (trees.forest,), np.zeros(1), "ordinal")
    assert "expected grade" in refuse_others(ensemble_of(grades))
    assert refuse_others(ensemble_of(random_trees(categories=3))) == "it splits on categories, not on thresholds only"


def test_missing_values_go_where_zero_goes():
    model = random_trees(3)
    ensemble = ensemble_of(model).zero_filled()
    np.testing.assert_array_equal(scores_of(ensemble, HOLED), model.score(np.nan_to_num(HOLED)))
