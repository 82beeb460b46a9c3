"""Code of users: a Python file that they name, or packages that they installed, with measures and rankers.

This is the one place that runs code of others, and only where it is asked for: by ``--plugin``, ``--plugins``,
``plugins=True``, or a name such as ``python:mine.py:MyRanker`` that is typed or passed. What is read never does.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rankwright.errors import InputError, InputWarning

__all__ = ["load_plugin", "register_ranker"]

PYTHON = "python:"
MEASURES, RANKERS = "rankwright.measures", "rankwright.rankers"
"""Groups of entry points."""

_PREFIX = "rankwright_plugin_"  # of the modules
_REGISTERED: dict[str, type] = {}
_Kind = TypeVar("_Kind", bound=type)


def register_ranker(kind: _Kind) -> _Kind:
    """Class decorator: make a ranker a method under its name, which is ``name`` of the class or else the class's own.

    A ranker is any class with ``fit(X, y, group)``, ``fit(X, y, qid)`` or ``fit(X, y)``, and ``predict(X)``.

    Examples
    --------
    >>> @register_ranker
    ... class FirstFeature:
    ...     def fit(self, X, y): ...
    ...     def predict(self, X):
    ...         return X[:, 0]
    >>> ranker_named("FirstFeature") is FirstFeature
    True
    """
    _REGISTERED[str(getattr(kind, "name", kind.__name__)).lower()] = kind
    return kind


def ranker_named(name: str) -> type | None:
    """The registered ranker of a name, or that of an installed package; None if there is none."""
    name = name.strip().lower()
    if name not in _REGISTERED:
        _REGISTERED.update({key.lower(): kind for key, kind in installed(RANKERS).items() if key.lower() == name})
    return _REGISTERED.get(name)


def ranker_names() -> list[str]:
    """The names of all registered and installed rankers."""
    return sorted({*_REGISTERED, *(name.lower() for name in installed(RANKERS))})


@cache
def installed(group: str) -> dict[str, Any]:
    """What packages offer under a group of entry points; a warning names one that cannot be loaded."""
    from importlib import metadata

    found = {}
    for point in metadata.entry_points(group=group):
        try:
            found[point.name] = point.load()
        except Exception as error:
            problem = f"{point.value} of the entry points {group} cannot be loaded"
            warnings.warn(f"{problem} ({type(error).__name__}: {error})", InputWarning, stacklevel=2)
    return found


def load_plugin(path: str | Path) -> ModuleType:
    """Run a Python file of your own, which registers measures and rankers; once, unless it has changed.

    Parameters
    ----------
    path : path
        A file whose classes are decorated with ``rankwright.measures.register`` or :func:`register_ranker`.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import parse_measure
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.py"
    ...     _ = path.write_text(
    ...         "from dataclasses import dataclass\\n"
    ...         "from rankwright.measures import BinaryMeasure, register\\n"
    ...         "@register\\n"
    ...         "@dataclass(frozen=True)\\n"
    ...         "class FirstIsGood(BinaryMeasure):\\n"
    ...         "    def value(self, rankings):\\n"
    ...         "        return rankings.top(1).max(self.worth(rankings.top(1).labels))\\n"
    ...     )
    ...     _ = load_plugin(path)
    >>> print(parse_measure("FirstIsGood(rel=2)"))
    FirstIsGood(rel=2)
    """
    path = Path(path)
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            "no such file; expected your Python file" if path.suffix == ".py" else "not a Python file (.py)", path
        )
    content, place = path.read_bytes(), str(path.resolve())
    # Named by its place, so that other processes find classes of this file under the same name.
    name = f"{_PREFIX}{path.stem}_{hashlib.sha256(place.encode()).hexdigest()[:8]}"
    before = sys.modules.get(name)
    if before is not None and vars(before).get("__content__") == content:
        return before
    spec = util.spec_from_file_location(name, place)
    assert spec is not None
    module = util.module_from_spec(spec)
    module.__dict__["__content__"] = content
    sys.modules[name] = module
    try:
        exec(compile(content, place, "exec"), module.__dict__)
    except Exception as error:
        problem, _, line = what_failed(error)
        sys.modules.pop(name)
        sys.modules.update({} if before is None else {name: before})
        line = error.lineno if isinstance(error, SyntaxError) else line
        raise InputError(f"cannot be loaded: {problem}", path, line) from error
    return module


def what_failed(error: Exception) -> tuple[str, str | None, int | None]:
    """What went wrong in code of a user: in words, and the file and line of it that were run last."""
    loaded = {vars(module).get("__file__") for name, module in list(sys.modules.items()) if name.startswith(_PREFIX)}
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in loaded]
    file, line = (places[-1].filename, places[-1].lineno) if places else (None, None)
    if isinstance(error, InputError):
        return error.message, file, line
    return " ".join(f"{type(error).__name__}: {error}".split()), file, line


def python_class(text: str) -> type:
    """The class that ``mine.py:MyRanker`` names; its file is run."""
    file, colon, name = text.removeprefix(PYTHON).rpartition(":")
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise InputError(f"{text!r} does not name a class; expected {PYTHON}FILE.py:CLASS")
    kind = getattr(load_plugin(file), name, None)
    if not isinstance(kind, type):
        raise InputError(f"has no class {name!r}; expected one with fit(X, y, group) and predict(X)", file)
    return kind


def code_of(kind: type) -> str:
    """A hash of the source files of a class and its bases, the package's own aside; empty if it is the package's.

    A class without a file (from a notebook) has another hash every time: nobody can tell whether it has changed.
    """
    digest, package = hashlib.sha256(), __name__.partition(".")[0]
    homes = {base.__module__ for base in inspect.getmro(kind)} - {"builtins", "abc"}
    own = sorted(home for home in homes if home.partition(".")[0] != package)
    for home in own:
        file = getattr(sys.modules.get(home), "__file__", None)
        digest.update(os.urandom(16) if file is None else Path(file).read_bytes())
    return digest.hexdigest() if own else ""


def codes_of(values: Iterable[Any]) -> dict[str, str]:
    """By their text, hashes of the classes of values; only those that are not the package's own."""
    codes = {str(value): code_of(type(value)) for value in values}
    return {text: code for text, code in codes.items() if code}
