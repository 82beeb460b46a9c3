"""Which code can move the figures of a study or an experiment, and a hash of each of its files.

The files are those reached by imports, at the top or inside functions: ``from rankwright import X`` leads to the home
of X, a module named in a string (`data/places.py` has some) counts as imported, and so do the estimators that the table
of methods names. A hash is that of the syntax without docstrings: comments and formatting do not change it, nor does
the version of Python. Left out, unless the script imports it itself: what prints, shows and serves, and what the
invariants of ARCHITECTURE.md keep from having any effect: threads, partitions and devices.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["EXPERIMENTS", "ROOT", "STUDIES", "code_of", "syntax_hash"]

ROOT = Path(__file__).parent.parent
STUDIES, EXPERIMENTS = ROOT / "benchmarks", ROOT / "experiments"
PACKAGE = ROOT / "src" / "rankwright"
METHODS = PACKAGE / "training" / "methods.py"
_LEFT_OUT = (
    *("cli", "reports", "serving", "exporting", "importing", "cluster", "gpu"),
    *("__init__.py", "_types.py", "caching.py", "errors.py", "data/display.py", "data/threads.py"),
    *("evaluation/render.py", "training/warmup.py", "experiments/__init__.py"),
)
_HANDED_OVER = ("code_hash.py", "figures.py", "study_runs.py")  # they carry raw numbers, and do not change them


def code_of(name: str) -> dict[str, str]:
    """Return the hash of every file that can move the figures of a study or an experiment, by path, sorted."""
    script = STUDIES / f"{name}.py"
    reached = _reached([script]) if script.is_file() else _reached_by_experiment(EXPERIMENTS / f"{name}.toml")
    files = sorted(path.relative_to(ROOT).as_posix() for path in reached)
    return {path: syntax_hash(ROOT / path) for path in files}


@cache
def syntax_hash(path: Path) -> str:
    """Return a hash of the content of a Python or TOML file, without comments, docstrings and formatting."""
    text = path.read_text(encoding="utf-8")
    content = json.dumps(tomllib.loads(text), default=str) if path.suffix == ".toml" else repr(_plain(ast.parse(text)))
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _plain(node: Any) -> Any:
    """Syntax as tuples, without empty fields, which differ between versions of Python."""
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_text(item)]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.JoinedStr):
        return ("JoinedStr", *_joined(node.values))
    fields = [(name, getattr(node, name, None)) for name in node._fields if name not in ("ctx", "kind", "type_comment")]
    return (
        type(node).__name__,
        *((name, _plain(value)) for name, value in fields if value is not None and value != []),
    )


def _joined(values: list[ast.expr]) -> list[Any]:
    """The parts of an f-string; text that is split is joined and empty text left out, as not every Python does."""
    parts: list[Any] = []
    for value in values:
        if not isinstance(value, ast.Constant):
            parts.append(_plain(value))
        elif parts and isinstance(parts[-1], str):
            parts[-1] += str(value.value)
        elif value.value:
            parts.append(str(value.value))
    return parts


def _is_text(node: Any) -> bool:
    """Whether this is a statement that is only a string: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# Imports


def _reached_by_experiment(file: Path) -> set[Path]:
    """The file itself and all that its methods use: everything that trains by name, if one adapts."""
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["method"]
    methods = {entry["method"].partition("@")[0] for entry in entries}
    starts = [file, STUDIES / "experiment_figures.py", PACKAGE / "experiments" / "running.py"]
    if any(method.startswith("adapt:") for method in methods):
        return _reached(starts)
    kinds = [kind for name, kind in _estimators().items() if name in methods]
    starts += [path for kind in kinds for path in _files(_homes()[kind])]
    return _reached(starts, ("adaptation", "experiments/backgrounds.py"), by_name=False)


def _reached(starts: Sequence[Path], without: Sequence[str] = (), *, by_name: bool = True) -> set[Path]:
    """All files that imports lead to. `by_name`: whether to follow the names in the table of methods."""
    reached, waiting = set(starts), list(starts)
    left_out = {*_LEFT_OUT, *without}
    while waiting:
        path = waiting.pop()
        files = {file for file in _imported(path) if file.name not in _HANDED_OVER}
        if path.parent == STUDIES:
            left_out -= {name for file in files for name in _LEFT_OUT if file.is_relative_to(PACKAGE / name)}
        new = {file for file in files - reached if not any(file.is_relative_to(PACKAGE / name) for name in left_out)}
        waiting += new
        reached |= new
        if path == METHODS and by_name:
            estimators = {file for kind in _estimators().values() for file in _files(_homes()[kind])}
            waiting += estimators - reached
            reached |= estimators
    return reached


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The project's files that a file imports."""
    if path.suffix != ".py":
        return frozenset()
    files = {file for name in _names(ast.parse(path.read_text(encoding="utf-8"))) for file in _files(name)}
    if path == PACKAGE / "measures" / "__init__.py":  # loads all of its folder
        files |= set(path.parent.glob("*.py"))
    return frozenset(files - {path, PACKAGE / "__init__.py"})


def _names(tree: ast.AST) -> Iterator[str]:
    """Names of modules, and of what may be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "rankwright":
            yield from (_homes().get(alias.name, f"rankwright.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("rankwright."):
            yield node.value


def _files(module: str) -> list[Path]:
    """The file of a module of the package or of a script beside this one; none if it is not of the project."""
    if module.partition(".")[0] == "rankwright":
        path = PACKAGE.parent.joinpath(*module.split("."))
        files = [path.with_name(f"{path.name}.py"), path / "__init__.py"] if path.name.isidentifier() else []
    else:
        files = [STUDIES / f"{module}.py"] if module.isidentifier() else []
    return [file for file in files if file.is_file()]


@cache
def _homes() -> dict[str, str]:
    """The module of every public name, from the table in the package's first file."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            return {name: home for home, names in ast.literal_eval(node.value).items() for name in names}
    raise ValueError(f"{PACKAGE / '__init__.py'}: no _HOMES; expected the table of public names")


@cache
def _estimators() -> dict[str, str]:
    """The estimator of every method, as the table of methods names it."""
    from rankwright.training.methods import METHODS as table

    return {method.name: method.kind for method in table.values()}
