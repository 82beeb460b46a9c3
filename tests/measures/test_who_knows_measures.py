"""Training asks a measure; nothing outside `measures/` tells measures apart by their files, types or names."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

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
    """Full names of everything that is imported, anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def compared(tree):
    """Classes that isinstance asks for, and comparisons and lookups of the name of a measure."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from (part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name))
        if isinstance(node, ast.Compare | ast.Subscript) and "measure.name" in ast.unparse(node):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_outside_switches_on_a_measure(path):
    tree = ast.parse(path.read_text())
    public = path == SOURCE / "__init__.py"  # offers them to users
    found = [name for name in imported(tree) if name.startswith(tuple(FILES))]
    assert not found or public
    switches = [name for name in compared(tree) if name in CLASSES or "measure.name" in name]
    assert not switches


def test_the_walk_sees_what_it_looks_for():
    source = "from rankwright.measures.ap import AP\nif isinstance(m, AP) or self.measure.name == 'RR': pass"
    tree = ast.parse(source)
    assert len(FILES) >= 6
    assert [name for name in imported(tree) if name.startswith(tuple(FILES))] == ["rankwright.measures.ap.AP"]
    assert list(compared(tree)) == ["AP", "self.measure.name == 'RR'"]
