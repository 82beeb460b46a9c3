"""The documentation site: every command and every piece of Python in the tutorial and the how-to pages runs."""

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import rankwright
from rankwright.cli.main import main
from rankwright.data.trec import TrecTable, write_qrels, write_run
from rankwright.datasets import Collection

DOCS = Path(__file__).parent.parent / "docs"
MENU = (DOCS.parent / "mkdocs.yml").read_text()
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if ".hooks" not in path.parts]
THINGS = 80
BELOW = [path for path in PAGES if path.parent != DOCS]  # tests/test_docs.py looks at the others


def small_collection():
    """Things and groups of things; the words of a query are those of its documents, among others."""
    rng = np.random.default_rng(0)
    noise = [f"word{number}" for number in range(60)]
    documents, queries, kinds, labels = [], {}, {}, {}
    for thing in range(THINGS):
        for number in range(3):
            text = f"thing{thing} group{thing % 8} {' '.join(rng.choice(noise, 12))}"
            documents.append((f"t{thing:02d}.{number}", {"name": f"Thing{thing % 20}", "text": text}))
        query = f"n{thing + 1:03d}"
        queries[query], kinds[query] = f"where is thing{thing} {noise[thing % 60]}", "navigational"
        labels[query] = {f"t{thing:02d}.{number}": 2 if number else 1 for number in range(3)}
    for group in range(8):
        query = f"i{group + 1:03d}"
        queries[query], kinds[query] = f"all of group{group} {noise[group]}", "informational"
        labels[query] = {f"t{thing:02d}.{number}": 1 for thing in range(group, THINGS, 8) for number in range(3)}
    return Collection("small", documents, queries, kinds, TrecTable.from_dict(labels))


def letor_text(seed, n_queries=16, n_docs=12, n_features=6, noise=1.0):
    """Labels follow the first two features, more or less."""
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(n_queries):
        X = rng.normal(size=(n_docs, n_features))
        hidden = X[:, 0] + 0.5 * X[:, 1] + noise * rng.normal(size=n_docs)
        labels = np.digitize(hidden, np.quantile(hidden, [0.6, 0.85]))
        for d, (label, row) in enumerate(zip(labels, X, strict=True)):
            features = " ".join(f"{at}:{value:.4f}" for at, value in enumerate(row, 1))
            lines.append(f"{label} qid:{seed * 1000 + query} {features} # docid = d{d}")
    return "\n".join(lines) + "\n"


def letor_files(folder):
    names = ("train.txt", "vali.txt", "test.txt", "web.txt", "web-valid.txt", *(f"S{part}.txt" for part in range(1, 6)))
    for seed, name in enumerate(names, 1):
        (folder / name).write_text(letor_text(seed))


def run_files(folder):
    """Two systems that see the labels through different noise."""
    rng = np.random.default_rng(1)
    labels, systems = {}, {"bm25": {}, "dense": {}}
    for query in range(30):
        grades = rng.integers(0, 3, 15) * (rng.random(15) < 0.5)
        grades[0] = 1
        labels[f"q{query}"] = {f"d{d}": int(grade) for d, grade in enumerate(grades)}
        for run in systems.values():
            run[f"q{query}"] = {f"d{d}": grade + rng.normal() for d, grade in enumerate(grades)}
    for name, run in systems.items():
        write_run(TrecTable.from_dict(run), folder / f"{name}.run", tag=name)
    write_qrels(TrecTable.from_dict(labels), folder / "qrels.txt")
    for part, name in enumerate(("train", "valid", "test")):
        some = {query: grades for query, grades in labels.items() if int(query[1:]) % 3 == part}
        write_qrels(TrecTable.from_dict(some), folder / f"{name}.qrels")


MATERIAL = {"fuse.md": run_files, "letor.md": letor_files, "adapt.md": letor_files, "certificate.md": letor_files}


def blocks(page):
    """The fenced blocks of a page: language and text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(text):
    """The commands of a block, one list of arguments each."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [shlex.split(line, comments=True) for line in joined.splitlines() if line.strip()]


@pytest.mark.parametrize("page", [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))], ids=lambda p: p.name)
def test_everything_shown_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rankwright.datasets.python_docs", lambda **_: small_collection())
    MATERIAL.get(page.name, lambda folder: None)(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for language, text in blocks(page):
        assert language in ("sh", "python"), f"a block in {language}: what is it for?"
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
            continue
        for program, *arguments in commands(text):
            assert program == "rankwright", program
            code = main(arguments)
            assert code == 0, f"rankwright {shlex.join(arguments)}\n{capsys.readouterr().err}"
            ran += 1
    assert ran > 0


def test_the_menu_has_every_page_and_no_other():
    listed = re.findall(r"^ +(?:- )?[^#\n]*: ([\w/-]+\.md)$", MENU, re.MULTILINE)
    listed += re.findall(r"^  - [^#\n]*: ([\w/-]+\.md)$", MENU, re.MULTILINE)
    assert sorted(set(listed)) == [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.parametrize("page", BELOW, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_links_of_the_pages_below_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def load_hook():
    spec = importlib.util.spec_from_file_location("reference_hook", DOCS / ".hooks" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_in_the_reference():
    hook = load_hook()
    text = "\n".join(hook.on_page_markdown(page.read_text()) for page in sorted((DOCS / "reference").glob("*.md")))
    shown = {line.removeprefix("::: ").rpartition(".")[2] for line in text.splitlines() if line.startswith("::: ")}
    assert shown >= set(rankwright.__all__) - {"__version__", *rankwright._PACKAGES}
    assert "write_report" in shown
    assert "## rankwright train" in text
    assert "[[" not in text
