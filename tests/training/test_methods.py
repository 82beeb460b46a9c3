"""Methods by name: every entry of the table can be made, set and trained, and names with cutoffs mean what they say."""

import inspect

import pytest

from rankwright import InputError
from rankwright.measures import Measure
from rankwright.training.methods import LISTED, METHODS, NAMES, parse_method
from rankwright.training.train import plan

NEEDED = {"svm-combo": {"losses": ["auc", "map"]}}


@pytest.mark.parametrize("name", NAMES)
def test_what_can_be_set_is_what_the_estimator_takes(name):
    method = METHODS[name]
    known = method.defaults()
    presets = {"losses" if key == "loss" and name == "svm-combo" else key for key in method.presets}
    assert presets <= known.keys() | set(method.without)
    taken = inspect.signature(method.estimator).parameters
    assert known.keys() - {"bins", "losses"} <= taken.keys()
    made = method.make()
    assert {key: getattr(made, key) for key in method.presets} == dict(method.presets)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_chooses_by_what_its_estimator_chooses_by(name):
    settings = NEEDED.get(name, {})
    own = METHODS[name].make(**settings).measure_to_choose_by()
    assert isinstance(own, Measure)
    assert plan(name, settings, validated=True).measure == own
    asked = plan(name, settings, measure="P@3", validated=True)
    assert str(asked.measure) == str(asked.ranker.measure_to_choose_by()) == "P@3"


def test_accuracy_chooses_by_average_precision():
    assert str(plan("svm-acc", validated=True).measure) == "AP"
    assert str(plan("svm-map", {"relevant_from": 2}, validated=True).measure) == "AP(rel=2)"


@pytest.mark.parametrize("name", NAMES)
def test_only_names_with_a_cutoff_take_one(name):
    if METHODS[name].takes_cutoff:
        assert parse_method(f" {name.upper()}@7 ").loss.endswith("@7")
        assert f"{name}@K" in LISTED
        for wrong in ("0", "x", ""):
            with pytest.raises(InputError, match="expected a whole number from 1"):
                parse_method(f"{name}@{wrong}")
    else:
        with pytest.raises(InputError, match=f"unknown method '{name}@7'; did you mean {name}"):
            parse_method(f"{name}@7")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "svm-combo"])
def test_a_single_loss_has_nothing_to_weigh(name):
    assert METHODS[name].defaults().keys().isdisjoint({"loss", "losses", "loss_weights", "slack"})


def test_linear_methods_take_bins():
    with_bins = {name for name, method in METHODS.items() if "bins" in method.defaults()}
    assert with_bins == {name for name in NAMES if "svm" in name or name.startswith("dorm")}


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("lambdamart", {"C": 1}, "lambdamart has no parameter 'C'; expected one of background, "),
        ("svm-combo", {"losses": ["map"]}, "several losses"),
        ("svm-map", {"bins": 0}, "bins is 0; expected a whole number from 1"),
        ("svm-map", {"bins": True}, "bins is True"),
        ("svm-map", {"C": -1}, "C is -1"),
        ("svm-map", {"feature_map": "dorm"}, "feature map"),
        ("svm-mpa", {}, "unknown method 'svm-mpa'; did you mean svm-map"),
    ],
)
def test_what_cannot_be_trained_is_said_without_data(name, settings, message):
    with pytest.raises(InputError, match=message):
        plan(name, settings)
