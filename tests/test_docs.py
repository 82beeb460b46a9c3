"""What the documents show is what the code does."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import click
import pytest

import rankwright
from rankwright.cli.main import cli

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
MODULES = [module.name for module in pkgutil.walk_packages(rankwright.__path__, "rankwright.")]


def test_the_measure_in_the_docs_is_the_real_file():
    shown = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-measure.md").read_text(), re.DOTALL)
    assert shown is not None
    assert shown[1] == (ROOT / "src" / "rankwright" / "measures" / "rbp.py").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_in_the_documents_exist(document):
    text = re.sub(r"\\\n\s*", " ", document.read_text())
    for command, rest in re.findall(r"^[ $]*rankwright ([a-z]+)([^\n]*)$", text, re.MULTILINE):
        known = cli.get_command(click.Context(cli), command)
        assert known is not None, command
        options = {name for parameter in known.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"(?<!\S)(--?[A-Za-z][\w-]*)", re.sub(r"\s#.*|\"[^\"]*\"|'[^']*'", "", rest)):
            assert option in options | {"--help"}, f"rankwright {command} {option}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_public_names_in_the_documents_exist(document):
    for name in re.findall(r"\brankwright\.([A-Za-z_]+)\(", document.read_text()):
        assert hasattr(rankwright, name), name


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
