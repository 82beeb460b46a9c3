"""Guards that keep the code readable and installable: file and function sizes, declared dependencies, light imports."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ALL = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
FILE_LINES = 420
FUNCTION_LINES = 60
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_a_file_is_short_enough_to_read(path):
    assert len(path.read_text().splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_function_is_short_enough_to_read(path):
    too_long = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            if lines > FUNCTION_LINES:
                too_long[node.name] = lines
    assert not too_long


def imported(path):
    """Yield the top-level names of the packages that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def declared(requirements):
    """Return the canonical names of the required distributions."""
    return {canonical(re.match(r"[\w.-]+", requirement)[0]) for requirement in requirements}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_is_a_declared_dependency():
    extras = PROJECT["optional-dependencies"]
    named = ("tables", "export", "pyterrier", "serve", "verify", "dask")
    optional = [requirement for extra in named for requirement in extras[extra]]
    known = declared([*PROJECT["dependencies"], *optional, "rankwright", "pandas", "polars"])
    distributions = packages_distributions()
    missing = {
        name: relative(path)
        for path in SOURCES
        for name in imported(path)
        if name not in sys.stdlib_module_names
        and not known & {canonical(found) for found in distributions.get(name, [name])}
    }
    assert not missing


def test_matplotlib_is_loaded_only_for_plotting():
    top = [
        relative(path)
        for path in SOURCES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "matplotlib" in ast.unparse(node)
    ]
    assert not top


def test_importing_everything_does_not_load_matplotlib():
    code = (
        "import importlib, pkgutil, sys, rankwright\n"
        "for module in pkgutil.walk_packages(rankwright.__path__, 'rankwright.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def compiled_functions():
    """Functions below ``@njit`` or ``@overload`` with the keywords of that decorator, ``jit_options`` included."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(node, "decorator_list", []):
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") in ("njit", "overload"):
                    words = {word.arg: word.value for word in decorator.keywords}
                    inner = words.get("jit_options", ast.Dict([], []))
                    words |= {key.value: value for key, value in zip(inner.keys, inner.values, strict=True)}
                    yield path, node, {name: ast.unparse(value) for name, value in words.items()}


def test_sums_that_may_be_reordered_are_compiled_into_their_caller():
    # Without this a model depended on what was compiled and what came from the cache, probably because code of one name
    # from several modules is taken from whichever is loaded first. See benchmarks/study_reproducible.py.
    called = {
        call.func.id
        for _, node, _ in compiled_functions()
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    wrong = {
        node.name: relative(path)
        for path, node, words in compiled_functions()
        if words.get("fastmath", "False") != "False"
        and words.get("forceinline") != "True"
        and (node.name in called or "jit_options" in words)
    }
    assert not wrong
    assert any(words.get("forceinline") == "True" for _, _, words in compiled_functions())
