"""The names that can be imported from `rankwright`: every ranker, measure and model, found by walking the package."""

import importlib
import inspect
import pkgutil

import pytest

import rankwright
from rankwright.measures import measure_classes
from rankwright.models.base import Model
from rankwright.rankers.base import Ranker

for _module in pkgutil.walk_packages(rankwright.__path__, "rankwright."):
    importlib.import_module(_module.name)


INTERNAL = {"RampStart"}  # a step of the training of StructuredSVM


def public_subclasses(base):
    """All classes below one that are not private and belong to the package."""
    for kind in base.__subclasses__():
        if kind.__name__ not in INTERNAL and not kind.__name__.startswith("_") and is_ours(kind):
            yield kind
        yield from public_subclasses(kind)


def abstract(kind):
    """A base of other classes, which nobody makes an object of."""
    return any(is_ours(below) and below.__name__ not in INTERNAL for below in kind.__subclasses__())


def is_ours(kind):
    return kind.__module__.startswith("rankwright.")


CONCRETE = sorted(
    {kind for base in (Model, Ranker) for kind in public_subclasses(base) if not abstract(kind)},
    key=lambda kind: kind.__name__,
)


def test_rankers_models_and_measures_can_be_imported():
    kinds = [*CONCRETE, *measure_classes().values()]
    problems = [
        f"{kind.__module__}: {kind.__name__}"
        for kind in kinds
        if getattr(rankwright, kind.__name__, None) is not kind or kind.__name__ not in dir(rankwright)
    ]
    assert not problems, "\n".join(problems)


def test_there_are_some():
    names = {kind.__name__ for kind in CONCRETE}
    assert names >= {"StructuredSVM", "LambdaMART", "LinearModel", "TreeModel", "SumModel"}


def test_every_listed_name_is_there():
    missing = [name for name in rankwright.__all__ if getattr(rankwright, name, None) is None]
    assert not missing


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="nope"):
        _ = rankwright.nope


OTHER_WORDS = {"seed", "threads", "jobs", "n_threads", "rng"}  # for random_state and n_jobs


def public_members():
    """Every public function and class, and what a class defines for users: its full name, itself, its class."""
    for name in rankwright.__all__:
        thing = getattr(rankwright, name)
        yield name, thing, None
        for base in inspect.getmro(thing) if inspect.isclass(thing) else ():
            if base.__module__.startswith("rankwright."):
                for member in vars(base):
                    if not member.startswith("_"):
                        yield f"{name}.{member}", inspect.getattr_static(thing, member), thing


def test_python_speaks_scikit_learn():
    problems = []
    for name, thing, kind in public_members():
        member = getattr(kind, name.rpartition(".")[2]) if kind else thing
        if callable(member) and not (inspect.isclass(member) and issubclass(member, Exception)):
            problems += [f"{name}: {word}" for word in OTHER_WORDS & set(inspect.signature(member).parameters)]
    assert not problems, "\n".join(problems)


def test_every_public_name_and_method_has_a_docstring():
    problems = []
    for name, thing, kind in public_members():
        described = isinstance(thing, property | classmethod | staticmethod) or inspect.isroutine(thing)
        member = getattr(kind, name.rpartition(".")[2]) if kind and not isinstance(thing, property) else thing
        if (kind is None or described) and name != "__version__" and not inspect.getdoc(member):
            problems.append(name)
    assert not problems, "\n".join(problems)
