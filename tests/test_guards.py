"""Guards that keep the code readable and installable: file and function sizes, declared dependencies, light imports.

A guard looks at every file and reports all offenders at once, with file and line.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import rankwright
from file_order import ORDER

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ALL = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
FILE_LINES = 900
FUNCTION_LINES = 60
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path, node=None):
    """File and line, as editors and terminals link them."""
    return f"{path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 1)}"


def report(problems):
    """All offenders, one a line."""
    return "\n" + "\n".join(sorted(problems))


def test_files_are_short_enough_to_read():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in ALL}
    problems = [f"{place(path)}: {lines} lines" for path, lines in lengths.items() if lines > FILE_LINES]
    assert not problems, report(problems)


def test_the_tests_that_run_first_exist():
    assert not [name for name in ORDER if not (ROOT / "tests" / name).exists()]


def length(function):
    """Lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


def test_functions_are_short_enough_to_read():
    problems = [
        f"{place(path, node)}: {node.name} has {length(node)} lines"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > FUNCTION_LINES
    ]
    assert not problems, report(problems)


def test_a_length_leaves_out_the_docstring():
    (function,) = ast.parse('def f():\n    """Two\n\n    lines."""\n    return 1').body
    assert length(function) == 2


def imported(path):
    """Yield the top-level names of the packages that a file imports anywhere, each with its node."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from ((node, name.name.partition(".")[0]) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node, node.module.partition(".")[0]


def declared(requirements):
    """Return the canonical names of the required distributions."""
    return {canonical(re.match(r"[\w.-]+", requirement)[0]) for requirement in requirements}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_is_a_declared_dependency():
    extras = PROJECT["optional-dependencies"]
    named = ("tables", "export", "excel", "pyterrier", "serve", "verify", "dask", "lightgbm", "xgboost", "catboost")
    optional = [requirement for extra in named for requirement in extras[extra]]
    known = declared([*PROJECT["dependencies"], *optional, "rankwright", "pandas", "polars"])
    distributions = packages_distributions()
    problems = [
        f"{place(path, node)}: {name}"
        for path in SOURCES
        for node, name in imported(path)
        if name not in sys.stdlib_module_names
        and not known & {canonical(distribution) for distribution in distributions.get(name, [name])}
    ]
    assert not problems, report(problems)


def test_matplotlib_is_loaded_only_for_plotting():
    problems = [
        place(path, node)
        for path in SOURCES
        for node in parsed(path).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "matplotlib" in ast.unparse(node)
    ]
    assert not problems, report(problems)


def test_importing_everything_does_not_load_matplotlib():
    code = (
        "import importlib, pkgutil, sys, rankwright\n"
        "for module in pkgutil.walk_packages(rankwright.__path__, 'rankwright.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@cache
def compiled_functions():
    """Functions below ``@njit`` or ``@overload`` with the keywords of that decorator, ``jit_options`` included."""
    functions = []
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            for decorator in getattr(node, "decorator_list", []):
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") in ("njit", "overload"):
                    words = {word.arg: word.value for word in decorator.keywords}
                    inner = words.get("jit_options", ast.Dict([], []))
                    words |= {key.value: value for key, value in zip(inner.keys, inner.values, strict=True)}
                    functions.append((path, node, {name: ast.unparse(value) for name, value in words.items()}))
    return functions


def test_sums_that_may_be_reordered_are_compiled_into_their_caller():
    # Without this a model depended on what was compiled and what came from the cache, probably because code of one name
    # from several modules is taken from whichever is loaded first. See benchmarks/study_reproducible.py.
    called = {
        call.func.id
        for _, node, _ in compiled_functions()
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    problems = [
        f"{place(path, node)}: {node.name}"
        for path, node, words in compiled_functions()
        if words.get("fastmath", "False") != "False"
        and words.get("forceinline") != "True"
        and (node.name in called or "jit_options" in words)
    ]
    assert not problems, report(problems)
    assert any(words.get("forceinline") == "True" for _, _, words in compiled_functions())


PACKAGE = ROOT / "src" / "rankwright"


def module_of(path):
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_only_modules_that_users_import_from_list_their_names():
    problems = [
        f"{place(path, node)}: __all__ in {module_of(path)}, which is not in rankwright._HOMES"
        for path in SOURCES
        if path.name != "__init__.py" and module_of(path) not in rankwright._HOMES
        for node in parsed(path).body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets)
    ]
    assert not problems, report(problems)


def test_no_public_class_is_defined_twice():
    places = defaultdict(list)
    for path in SOURCES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place(path, node))
    problems = [f"{' and '.join(where)}: {name}" for name, where in places.items() if len(where) > 1]
    assert not problems, report(problems)


def test_array_is_defined_in_one_module():
    problems = [
        f"{place(path, node)}: Array; expected `from rankwright._types import Array`"
        for path in SOURCES
        if path != PACKAGE / "_types.py"
        for node in parsed(path).body
        if isinstance(node, ast.Assign) and "Array" in [ast.unparse(target) for target in node.targets]
    ]
    assert not problems, report(problems)


# Module names that several packages have. Everywhere else a name is enough to find the file.
ON_A_DEVICE = "the same on the CPU and on a device"
SHARED_NAMES = {
    "app": "the paths of a web application",
    "base": "what all measures, models or rankers share",
    "dataset": "a data set in memory, and one whose features are in partitions",
    "kernels": "the compiled code of a package, apart because it loads numba",
    "lambdas": ON_A_DEVICE,
    "order": "the tie rule; the order of a max-margin training",
    "partitions": "partitions: on disk, of trees while they grow, and these on a device",
    "results": "the results folder of an experiment: written, and read by reports",
    "statistics": "of features; of the runs in a report",
    "tables": "read; shown in a report",
    "training": "a training set of a package: of nets, on a device",
}
COMMANDS = PACKAGE / "cli"  # one file per command, named as the command; what does the work may have that name, too


def test_module_names_that_exist_twice_have_a_reason():
    places = defaultdict(list)
    for path in SOURCES:
        if path.stem != "__init__" and COMMANDS not in path.parents:
            places[path.stem].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    problems = [
        f"{' and '.join(map(place, paths))}: {name}" for name, paths in twice.items() if name not in SHARED_NAMES
    ]
    problems += [
        f"tests/test_guards.py: {name} is not there twice any more" for name in SHARED_NAMES.keys() - twice.keys()
    ]
    assert not problems, report(problems)
