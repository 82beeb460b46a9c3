"""`rankwright doctor`: checks an installation in one screen, with what to do about each problem.

Every check is a function that returns a row; one that fails is a row as well. The last one trains, saves and loads a
ranker, which tells more than versions do.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

import rankwright
from rankwright._types import Array
from rankwright.caching import VARIABLE, cache_refused, keeps_code, temporary_cache
from rankwright.cli.main import installed_version
from rankwright.cli.options import json_option
from rankwright.cli.precompile import noting_compilation
from rankwright.cli.printing import counted, print_json, styled
from rankwright.errors import InputError

_GB = 1e9
_LITTLE_MEMORY, _LITTLE_SPACE = 1.0, 0.5  # GB
_WIDTH = 78  # of the text of a row
_SHOWN = ("numpy", "scipy", "numba", "scikit-learn")
_UNKNOWN = "install in a new environment (python -m venv), or report it with the output of rankwright doctor --json"
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:>=\s*([\d.]+))?")

EXTRAS = {
    "catboost": ("CatBoost as a method", ("catboost",)),
    "dask": ("training on a cluster", ("dask", "distributed")),
    "excel": ("Excel files", ("python-calamine",)),
    "export": ("models as ONNX", ("onnx",)),
    "gpu": ("training on an NVIDIA GPU", ("numba-cuda", "numpy")),
    "html": ("web pages as documents", ("lxml",)),
    "ir-datasets": ("collections of ir_datasets", ("ir_datasets",)),
    "lightgbm": ("LightGBM as a method", ("lightgbm",)),
    "pyterrier": ("PyTerrier", ("pyterrier",)),
    "serve": ("serve and judge", ("starlette", "uvicorn")),
    "tables": ("Parquet", ("pyarrow",)),
    "xgboost": ("XGBoost as a method", ("xgboost-cpu", "xgboost")),
}
"""What each extra is for, and the packages that it installs."""


@dataclass(frozen=True)
class Finding:
    """The row of one check.

    `state`: a note is worth knowing, a problem keeps something from working. `found`: what the check saw. `todo`: what
    to do about it; empty if nothing.
    """

    state: Literal["ok", "note", "problem"]
    found: str
    todo: str = ""


@click.command("doctor")
@json_option("Print the checks as one JSON object.")
def command(as_json: bool) -> None:
    """Check that this installation works: versions, extras, folders, memory, and a small training.

    Nothing is changed and nothing is sent anywhere. The first training on a machine compiles code, which takes up to 40
    seconds. Exit code 1 if there is a problem.

    \b
    Example:
      rankwright doctor
      rankwright doctor --json
    """
    findings = {name: _checked(check) for name, check in _CHECKS.items()}
    problems = sum(finding.state == "problem" for finding in findings.values())
    if as_json:
        checks = [{"name": name, **asdict(finding)} for name, finding in findings.items()]
        print_json({"version": rankwright.__version__, "problems": problems, "checks": checks}, indent=2)
    else:
        for name, finding in findings.items():
            _show(name, finding)
        outcome = f"{counted(problems, 'problem')}, marked above" if problems else "everything works"
        click.echo(styled(outcome, bold=True))
    click.get_current_context().exit(1 if problems else 0)


def _checked(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # whatever is broken is what people want to know
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Finding("problem", reason, _UNKNOWN)


def _show(name: str, finding: Finding) -> None:
    mark = {"ok": "ok", "note": "note", "problem": "PROBLEM"}[finding.state]
    lines = textwrap.wrap(finding.found, _WIDTH, break_long_words=False, break_on_hyphens=False)
    lines += [f"→ {line}" for line in finding.todo.splitlines()]
    for at, line in enumerate(lines or [""]):
        lead = f"{mark:<8} {name:<14}" if not at else " " * 23
        click.echo(styled(lead, bold=finding.state == "problem") + line)


def _program() -> Finding:
    place = f"{rankwright.__version__} in {Path(rankwright.__file__).parent}"
    first = shutil.which("rankwright")
    folder = Path(sys.executable).parent
    if first is not None and Path(first).parent.resolve() != folder.resolve() and (folder / "rankwright").exists():
        return Finding("note", f"{place}; the one on the path is {first}", f"to use this one: {folder}")
    return Finding("ok", place)


def _python() -> Finding:
    facts = f"{platform.python_version()}, {platform.system()} {platform.machine()}, {sys.executable}"
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        return Finding("note", f"{facts}; output is {sys.stdout.encoding}", "set PYTHONUTF8=1 for all letters")
    return Finding("ok", facts)


def _libraries() -> Finding:
    """The packages that must be there, with their lowest versions as the installed package declares them."""
    problems, versions = [], []
    if not _is_installed("rankwright"):  # run from its sources
        return Finding("note", "not known: rankwright is not installed", "pip install . in its folder")
    for requirement in importlib.metadata.requires("rankwright") or ():
        if "extra ==" in requirement:
            continue
        matched = _REQUIREMENT.match(requirement)
        assert matched is not None
        name, minimum = matched[1], matched[2] or "0"
        version = installed_version(name)
        if version is None:
            problems.append(f"{name} is missing")
            continue
        if name in _SHOWN:
            versions.append(f"{name} {version}")
        if _numbers(version) < _numbers(minimum):
            problems.append(f"{name} {version} is older than {minimum}")
    if problems:
        return Finding("problem", ", ".join(problems), "pip install --upgrade rankwright")
    return Finding("ok", ", ".join(sorted(versions, key=lambda version: _SHOWN.index(version.split()[0]))))


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: (1, 26) of 1.26rc1."""
    matched = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in (matched[0] if matched else "").split(".") if part)


def _extras() -> Finding:
    installed = [name for name, (_, packages) in EXTRAS.items() if all(map(_is_installed, packages))]
    missing = {name: purpose for name, (purpose, _) in EXTRAS.items() if name not in installed}
    facts = f"installed: {', '.join(installed) or 'none'}"
    if not missing:
        return Finding("ok", facts)
    facts += f"; not: {', '.join(f'{name} ({purpose})' for name, purpose in missing.items())}"
    return Finding("ok", facts, f"if you need them: pip install 'rankwright[{','.join(missing)}]'")


def _is_installed(package: str) -> bool:
    names = ("xgboost", "xgboost-cpu") if package.startswith("xgboost") else (package,)  # either is enough
    return any(installed_version(name) is not None for name in names)


def _threads() -> Finding:
    from rankwright.data.threads import usable_cores

    facts = f"{usable_cores()} cores; commands use one unless --threads says more"
    set_by = [name for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS") if os.environ.get(name)]
    facts += "".join(f"; {name}={os.environ[name]}" for name in set_by)
    return Finding("ok", facts)


def _gpu() -> Finding:
    from rankwright.gpu import device

    try:
        device.check_device()
    except InputError as error:
        return Finding("ok", f"not used: {error.message.removeprefix(device.NEEDED).partition(';')[0]}")
    return Finding("ok", f"{device.name()}, {device.free_bytes() / _GB:.1f} GB free, for --device cuda")


def _memory() -> Finding:
    free, total = _free_memory()
    if total is None:
        return Finding("ok", "not known on this system")
    facts = f"{free / _GB:.1f} of {total / _GB:.1f} GB free"
    if free < _LITTLE_MEMORY * _GB:
        todo = "folders (rankwright convert … -o data.rank) are mapped, and need less than text"
        return Finding("note", facts, todo)
    return Finding("ok", facts)


def _free_memory() -> tuple[float, float | None]:
    """Bytes that can be had and bytes that there are; a limit of the container counts."""
    try:
        text = Path("/proc/meminfo").read_text()
        sizes = {line.split(":")[0]: 1024.0 * int(line.split()[1]) for line in text.splitlines()}
        free, total = sizes["MemAvailable"], sizes["MemTotal"]
    except (OSError, KeyError, ValueError, IndexError):
        return 0.0, None
    try:
        limit, used = (float(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        free, total = min(free, limit - used), min(total, limit)
    except (OSError, ValueError):  # no limit
        pass
    return free, total


def _folder(folder: Path, todo: str) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding("problem", f"{folder} cannot be written: {error.strerror}", todo)
    free = shutil.disk_usage(folder).free / _GB
    if free < _LITTLE_SPACE:
        return Finding("problem", f"{folder}: {free:.2f} GB free", f"free some space, or: {todo}")
    return Finding("ok", f"{folder} can be written, {free:,.0f} GB free")


def _here() -> Finding:
    finding = _folder(Path.cwd(), "work in a folder of yours: cd ~")
    return finding if finding.state != "problem" else replace(finding, state="note")


def _temporary() -> Finding:
    todo = "set TMPDIR to a folder that can be written"
    try:
        folder = tempfile.gettempdir()
    except OSError:
        problem = "no folder for temporary files: ranking to the screen, reading pipes and large data may fail"
        return Finding("note", problem, todo)
    return _folder(Path(folder), todo)


def _cache() -> Finding:
    todo = f"set {VARIABLE} to a folder that can be written and stays, such as ~/.cache/numba"
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        problem = "NUMBA_DISABLE_JIT is set: nothing is compiled, and training does not work"
        return Finding("problem", problem, "unset NUMBA_DISABLE_JIT")
    if not keeps_code():
        return Finding("note", "no folder for it can be written: every run compiles what it uses", todo)
    try:
        from rankwright.maxmargin.smoothed import minimise
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return Finding("problem", "no folder for compiled code can be written", todo)
    folder, refused = Path(minimise.stats.cache_path), cache_refused()
    if temporary_cache() is not None:
        return Finding("note", f"in {folder}, compiled again after a restart of the machine", todo)
    if refused is not None:
        return Finding("note", f"in {folder}, because {VARIABLE} ({refused}) cannot be written", todo)
    return _folder(folder if folder.exists() else folder.parent, todo)


def _training() -> Finding:
    from rankwright.maxmargin.structured_svm import StructuredSVM

    X = np.random.default_rng(0).normal(size=(40, 3))
    labels, qid = (X[:, 0] > 0).astype(int), np.repeat(np.arange(4), 10)
    ranker = StructuredSVM("map", C=1000.0)
    began = time.perf_counter()
    with noting_compilation() as compiled:
        ranker.fit(X, labels, qid)
        first = time.perf_counter() - began
        began = time.perf_counter()
        scores = ranker.fit(X, labels, qid).predict(X, qid)
        same = _same_when_saved(ranker.model_, X)
        took = time.perf_counter() - began
    value = float(rankwright.evaluate(labels, scores, qid, measures=["AP"]).means["AP"])
    if value < 1 or same is False:
        problem = f"AP {value:.4f} where 1 was expected" if value < 1 else "a saved model has other scores"
        return Finding("problem", problem, _UNKNOWN)
    how = f"; compiled first, {first:.1f} s" if compiled() else ""
    done = "trained and evaluated" if same is None else "trained, saved, loaded and evaluated"
    return Finding("ok", f"{done} a ranker in {1000 * took:.0f} ms{how}")


def _same_when_saved(model: Any, X: Array) -> bool | None:
    """Save and load a model and compare the scores; None if no temporary file can be written."""
    from rankwright.models.saving import load_model, save_model

    try:
        folder = tempfile.TemporaryDirectory()
    except OSError:
        return None
    with folder as name:
        path = Path(name) / "model.rkw"
        save_model(model, path, method="svm-map", parameters={})
        return bool(np.array_equal(load_model(path).predict(X), model.predict(X)))


_CHECKS: dict[str, Any] = {
    "rankwright": _program,
    "Python": _python,
    "libraries": _libraries,
    "extras": _extras,
    "threads": _threads,
    "gpu": _gpu,
    "memory": _memory,
    "this folder": _here,
    "temporary": _temporary,
    "compiled code": _cache,
    "training": _training,
}
