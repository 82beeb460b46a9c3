"""The lowest versions that are tested are those that pyproject.toml promises."""

import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def promised(name):
    """The lowest version of every requirement, our own extras left out."""
    lines = PROJECT["dependencies"] if name is None else PROJECT["optional-dependencies"][name]
    found = [Requirement(line) for line in lines]
    return {
        one.name: min(Version(spec.version) for spec in one.specifier if spec.operator == ">=")
        for one in found
        if one.name != PROJECT["name"]
    }


@pytest.fixture
def sessions(monkeypatch):
    """The functions of noxfile.py by name, and the versions of Python they are for; nox itself is not needed."""
    pythons = {}

    def session(python):
        def keep(function):
            pythons[function.__name__] = python
            return function

        return keep

    fake = SimpleNamespace(session=session, options=SimpleNamespace(), Session=object)
    monkeypatch.setitem(sys.modules, "nox", fake)
    return runpy.run_path(str(ROOT / "noxfile.py")), pythons


def installed(function):
    calls = []
    ignored = SimpleNamespace(posargs=[], run=lambda *_: None, install=lambda *given: calls.append(given))
    function(ignored)
    return [word for call in calls for word in call]


def test_the_lowest_session_installs_the_lowest_versions(sessions):
    functions, _ = sessions
    pins = [Requirement(word) for word in installed(functions["lowest"]) if "==" in word]
    assert all(len(pin.specifier) == 1 for pin in pins)
    found = {pin.name: Version(next(iter(pin.specifier)).version) for pin in pins}
    extras = ("tables", "export", "pyterrier", "serve", "test")
    promises = [promised(None), *map(promised, extras)]
    assert found == {name: version for one in promises for name, version in one.items()}
    assert "--no-deps" in installed(functions["lowest"])  # nothing is upgraded afterwards


def test_every_python_that_is_promised_is_tested(sessions):
    _, pythons = sessions
    listed = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert pythons["tests"] == sorted(listed, key=Version)
    assert PROJECT["requires-python"] == f">={pythons['lowest']}" == f">={listed[0]}"
    assert pythons["newest"] == listed[-1]


def test_a_requirement_without_a_lowest_version_is_refused(sessions, monkeypatch):
    functions, _ = sessions
    monkeypatch.setitem(functions["lowest_pins"].__globals__, "PROJECT", {**PROJECT, "dependencies": ["numpy<3"]})
    with pytest.raises(ValueError, match=r"'numpy<3' in pyproject\.toml has no lowest version"):
        functions["lowest_pins"]()
