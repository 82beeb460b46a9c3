"""Training asks a measure; nothing outside `measures/` tells measures apart by their files, types or names."""

import ast
import importlib
import pkgutil
from pathlib import Path

import rankwright
from rankwright import measures
from rankwright.measures.base import REGISTRY

SOURCE = Path(rankwright.__file__).parent
OUTSIDE = [path for path in sorted(SOURCE.rglob("*.py")) if SOURCE / "measures" not in path.parents]
FILES = {
    f"rankwright.measures.{module.name}"
    for module in pkgutil.iter_modules(measures.__path__)
    for loaded in [importlib.import_module(f"rankwright.measures.{module.name}")]
    if any(kind.__module__ == loaded.__name__ for kind in REGISTRY.values())
}
CLASSES = {kind.__name__ for kind in REGISTRY.values()} | {"BinaryMeasure", "PositionSum"}


def imported(tree):
    """Lines and full names of everything that is imported, anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


def compared(tree):
    """Lines with classes that isinstance asks for, and with comparisons and lookups of the name of a measure."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from ((node.lineno, part.id) for part in ast.walk(node.args[1]) if isinstance(part, ast.Name))
        if isinstance(node, ast.Compare | ast.Subscript) and "measure.name" in ast.unparse(node):
            yield node.lineno, ast.unparse(node)


def test_nothing_outside_switches_on_a_measure():
    problems = []
    for path in OUTSIDE:
        tree, place = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(SOURCE.parent).as_posix()
        if path != SOURCE / "__init__.py":  # which offers them to users
            problems += [f"{place}:{line}: {name}" for line, name in imported(tree) if name.startswith(tuple(FILES))]
        switches = [(line, name) for line, name in compared(tree) if name in CLASSES or "measure.name" in name]
        problems += [f"{place}:{line}: {name}" for line, name in switches]
    assert not problems, "\n" + "\n".join(problems)


def test_the_walk_sees_what_it_looks_for():
    source = "from rankwright.measures.ap import AP\nif isinstance(m, AP) or self.measure.name == 'RR': pass"
    tree = ast.parse(source)
    assert len(FILES) >= 6
    assert [name for _, name in imported(tree) if name.startswith(tuple(FILES))] == ["rankwright.measures.ap.AP"]
    assert list(compared(tree)) == [(2, "AP"), (2, "self.measure.name == 'RR'")]
