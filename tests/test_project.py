"""The files around the package: they can be parsed, agree with each other, and the wheel holds the package, no more."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

import rankwright

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
CHECK = runpy.run_path(str(ROOT / "benchmarks" / "check_wheel.py"))


def loaded(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_has_what_the_format_requires():
    found = loaded("CITATION.cff")
    assert found["cff-version"] == "1.2.0"
    assert found["authors"]
    assert found["message"]
    assert found["title"].lower() == PROJECT["name"]
    assert found["license"] == PROJECT["license"]
    papers = "\n".join(path.read_text() for path in (ROOT / "docs" / "papers").glob("*.md"))
    text = " ".join(papers.split())
    assert all(" ".join(paper["title"].split()) in text for paper in found["references"])


def test_there_is_one_version():
    latest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    found = {PROJECT["version"], rankwright.__version__, str(loaded("CITATION.cff")["version"]), latest}
    assert found == {rankwright.__version__}
    assert (ROOT / "docs" / "releases" / f"{rankwright.__version__}.md").exists()


def test_the_workflow_runs_the_check_on_every_python():
    job = loaded(".github/workflows/check.yml")["jobs"]["check"]
    listed = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert job["strategy"]["matrix"]["python"] == listed
    commands = [step["run"] for step in job["steps"] if "run" in step]
    made = [word for command in commands for word in re.findall(r"\bmake (\w+)", command)]
    assert made == ["check"]
    assert set(made) <= TARGETS
    assert any("chromium" in command for command in commands)  # or the browser tests fail


def test_the_hooks_are_the_linters_of_make_lint():
    entries = [hook["entry"] for repo in loaded(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert all(entry.startswith(".venv/bin/") for entry in entries)  # no versions of their own
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    linted = [line.split()[:2] for line in recipe.replace("$(BIN)", ".venv/bin").splitlines()]
    assert [entry.split()[:2] for entry in entries] == [[word for word in line if word != "."] for line in linted]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_of_issues_can_be_shown(path):
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        return
    assert form["name"]
    assert form["description"]
    assert len({part["id"] for part in form["body"]}) == len(form["body"])
    assert {part["type"] for part in form["body"]} <= {"textarea", "dropdown", "input", "checkboxes", "markdown"}
    assert all(part["attributes"]["label"] for part in form["body"])


def test_bugs_are_reported_with_what_the_doctor_says():
    asked = {part["id"]: part for part in loaded(".github/ISSUE_TEMPLATE/bug.yml")["body"]}
    assert "rankwright doctor" in asked["doctor"]["attributes"]["label"]
    assert asked["doctor"]["validations"]["required"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    from hatchling.builders.wheel import WheelBuilder

    (made,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"])
    return Path(made)


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    assert CHECK["wrong_contents"](wheel) == []


def test_what_is_wrong_in_a_wheel_is_seen(wheel, tmp_path):
    import zipfile

    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if name != "rankwright/py.typed":
                new.writestr(name, b"")
        new.writestr("tests/test_project.py", b"")
    wrong = ["rankwright/py.typed is missing", "tests/test_project.py should not be there"]
    assert CHECK["wrong_contents"](other) == wrong
