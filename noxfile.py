"""The tests on every Python that is supported, and on the lowest and the newest versions of what they need.

`nox` runs all sessions, `nox -s lowest` one of them; Pythons that are not installed are skipped. The versions come from
pyproject.toml: the lowest of a requirement is the one after its `>=`, so every requirement must have one.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nox

PROJECT = tomllib.loads((Path(__file__).parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.fullmatch(r".*Python :: 3\.\d+", line)
]  # ascending
TESTED = ("tables", "export", "pyterrier", "serve", "test")  # the optional dependencies that the tests need

nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True


def lowest_pins() -> list[str]:
    """Every requirement that the tests need, at the lowest version that pyproject.toml allows."""
    extras = PROJECT["optional-dependencies"]
    listed = [*PROJECT["dependencies"], *(line for extra in TESTED for line in extras[extra])]
    pins = []
    for line in listed:
        if line.startswith(f"{PROJECT['name']}["):  # one of our own extras, which is in TESTED
            continue
        found = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)(?:,[^;]*)?(;.*)?", line)  # the last part names platforms
        if found is None:
            raise ValueError(f"{line!r} in pyproject.toml has no lowest version; expected name>=version")
        pins.append(f"{found[1]}=={found[2]}{found[3] or ''}")
    return pins


def run_tests(session: nox.Session) -> None:
    """The tests, or those that follow `--` on the command line."""
    parallel = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")
    session.run("python", "-m", "pytest", *parallel, *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests with whatever versions pip chooses."""
    session.install("-e", ".[test]")
    run_tests(session)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """The tests on the lowest Python, with the lowest version of every requirement."""
    session.install("--only-binary", ":all:", *lowest_pins())
    session.install("--no-deps", "-e", ".")
    run_tests(session)


@nox.session(python=PYTHONS[-1])
def newest(session: nox.Session) -> None:
    """The tests on the newest Python, with the newest versions, releases to come included."""
    session.install("--upgrade", "--upgrade-strategy", "eager", "--pre", "--prefer-binary", "-e", ".[test]")
    run_tests(session)
