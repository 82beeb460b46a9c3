"""ARCHITECTURE.md is short, names every room and nothing that is not there, and its recipes hold."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "rankwright"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", PAGE.partition("## To change")[2], re.MULTILINE)[1:])


def test_it_fits_on_a_page():
    assert len(PAGE.encode()) <= 6000


def test_every_room_has_a_line_and_every_path_is_there():
    rooms = {path.parent.name for path in SRC.glob("*/__init__.py")}
    listed = set(re.findall(r"^\| .*", PAGE, re.MULTILINE))
    named = {name for line in listed for name in re.findall(r"`(\w+)/`", line)}
    assert named - {"oracles"} == rooms
    for path in re.findall(r"`([\w/]+\.py)`", PAGE):
        assert (ROOT / path if path.startswith("tests/") else SRC / path).is_file(), path


def recipe(words):
    return next(text for change, text in RECIPES.items() if words in change)


def test_there_are_ten_recipes():
    assert len(RECIPES) == 10


@pytest.mark.parametrize("change", RECIPES)
def test_what_a_recipe_names_is_in_its_file(change):
    names = re.findall(r"`([\w/]+\.py|\w+)`", RECIPES[change])
    path = next((name for name in names if name.endswith(".py")), None)
    if path is None:
        return
    text = (SRC / path).read_text(encoding="utf-8")
    defined = {
        target.id
        for node in ast.walk(ast.parse(text))
        for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
        if isinstance(target, ast.Name)
    }
    defined |= {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {name for name in names if not name.endswith(".py")} <= defined
