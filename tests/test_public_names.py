"""The names that can be imported from `rankwright`: every ranker, measure and model, found by walking the package."""

import importlib
import pkgutil

import pytest

import rankwright
from rankwright.measures import measure_classes
from rankwright.models.base import Model
from rankwright.rankers.base import Ranker

for _module in pkgutil.walk_packages(rankwright.__path__, "rankwright."):
    importlib.import_module(_module.name)


def public_subclasses(base):
    """All classes below one that are not private and belong to the package."""
    for kind in base.__subclasses__():
        if not kind.__name__.startswith("_") and kind.__module__.startswith("rankwright."):
            yield kind
        yield from public_subclasses(kind)


def abstract(kind):
    """A base of other classes, which nobody makes an object of."""
    return any(below.__module__.startswith("rankwright.") for below in kind.__subclasses__())


CONCRETE = sorted(
    {kind for base in (Model, Ranker) for kind in public_subclasses(base) if not abstract(kind)},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", [*CONCRETE, *measure_classes().values()], ids=lambda kind: kind.__name__)
def test_rankers_models_and_measures_can_be_imported(kind):
    assert getattr(rankwright, kind.__name__) is kind
    assert kind.__name__ in dir(rankwright)


def test_there_are_some():
    names = {kind.__name__ for kind in CONCRETE}
    assert names >= {"StructuredSVM", "LambdaMART", "LinearModel", "TreeModel", "SumModel"}


@pytest.mark.parametrize("name", rankwright.__all__)
def test_every_listed_name_is_there(name):
    assert getattr(rankwright, name) is not None


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nope"):
        _ = rankwright.nope
