"""What the documents show is what the code does."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import rankwright
from rankwright.cli.main import main

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


def test_the_session_in_the_readme_is_real(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    capsys.readouterr()
    session = re.search(r"\$ rankwright (evaluate demo.*?)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert session is not None
    assert main(session[1].split()) == 0
    assert capsys.readouterr().out == session[2]


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
