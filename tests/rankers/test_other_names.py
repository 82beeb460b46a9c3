"""Parameters as LightGBM and XGBoost call them: an error that says what they are called here."""

import inspect
import pickle

import lightgbm
import numpy as np
import pytest
import xgboost

from rankwright import LambdaMART, RankingSVM, train
from rankwright.cli.main import main
from rankwright.errors import InputError
from rankwright.rankers.parameters import _NAMES, _OURS

X, Y, QID = np.random.default_rng(0).normal(size=(40, 3)), np.tile([0, 1, 2, 0], 10), np.repeat(np.arange(10), 4)


@pytest.mark.parametrize(
    ("name", "own"), [("n_estimators", "n_trees"), ("num_leaves", "max_leaves"), ("early_stopping_rounds", "patience")]
)
def test_constructors_give_a_hint(name, own):
    message = f"LambdaMART has no parameter {name!r}; {name} of LightGBM and XGBoost is {own} here"
    with pytest.raises(TypeError) as error:
        LambdaMART(**{name: 5})
    assert str(error.value) == message
    with pytest.raises(ValueError, match=f"{name} of LightGBM and XGBoost is {own} here"):
        LambdaMART().set_params(**{name: 5})


def test_parameters_without_a_counterpart_are_listed():
    with pytest.raises(TypeError, match=r"RankingSVM has no parameter 'n_estimators'; expected one of C, .*"):
        RankingSVM(n_estimators=5)
    with pytest.raises(TypeError, match=r"LambdaMART has no parameter 'reg_alpha'; expected one of background, .*"):
        LambdaMART(reg_alpha=1.0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("early_stopping_rounds", "is patience here, a parameter of LambdaMART(…)"),
        ("eval_metric", "is eval_measure here, a parameter of LambdaMART(…)"),
        ("callbacks", "is callback here, a parameter of LambdaMART(…)"),
        ("n_trees", "it is a parameter of LambdaMART(…)"),
        ("nonsense", "expected one of X, y, qid, group"),
    ],
)
def test_fit_gives_a_hint(name, told):
    with pytest.raises(TypeError) as error:
        LambdaMART().fit(X, Y, qid=QID, **{name: 5})
    assert f"fit of LambdaMART has no argument {name!r}; " in str(error.value)
    assert told in str(error.value)


def test_group_sizes_work_as_in_lightgbm_and_xgboost():
    sizes = np.full(10, 4)
    by_group = LambdaMART(n_trees=3, min_rows=2).fit(X, Y, group=sizes, eval_set=[(X, Y)], eval_group=[sizes])
    by_id = LambdaMART(n_trees=3, min_rows=2).fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID])
    assert np.array_equal(by_group.predict(X), by_id.predict(X))


def test_the_signature_and_copies_stay():
    assert "n_trees" in inspect.signature(LambdaMART).parameters
    again = pickle.loads(pickle.dumps(LambdaMART(n_trees=7)))
    assert again.n_trees == 7


def test_the_command_line_gives_a_hint(tmp_path, capsys):
    words = ["train", "nothing.txt", "--method", "lambdamart", "--set", "num_leaves=7", "-o", str(tmp_path / "m.rkw")]
    assert main(words) == 2
    expected = "rankwright: --set is 'num_leaves=7'; num_leaves of LightGBM and XGBoost is max_leaves here\n"
    assert capsys.readouterr().err == expected
    with pytest.raises(InputError, match="lambdamart has no parameter 'eta'; eta of LightGBM and XGBoost is learning_"):
        train("lambdamart", None, settings={"eta": 0.1})


def test_the_names_are_theirs():
    """Every parameter of the two rankers that has a counterpart is known, and no name of ours is given away."""
    theirs = {*lightgbm.LGBMRanker().get_params(), *xgboost.XGBRanker().get_params()}
    ours = set(LambdaMART().get_params())
    without = {
        "boosting_type", "class_weight", "importance_type", "min_split_gain", "reg_alpha", "reg_lambda",
        "subsample_for_bin", "subsample_freq", "base_score", "booster", "colsample_bylevel", "device", "feature_types",
        "feature_weights", "gamma", "grow_policy", "interaction_constraints", "max_cat_threshold", "max_cat_to_onehot",
        "max_delta_step", "missing", "multi_strategy", "num_parallel_tree", "sampling_method", "scale_pos_weight",
        "tree_method", "validate_parameters",
    }  # fmt: skip
    assert theirs - ours - without <= set(_OURS)
    assert not set(_OURS) & set(_NAMES)
