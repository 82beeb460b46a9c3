"""Builds the wheel, looks at what is in it, and tries it as a stranger would.

For every Python that is named, the wheel is installed into an empty environment, whose files are then made read-only.
The commands and a fit in Python must work, without a traceback or a warning, three times:

    read-only    neither the package nor the home folder can be written
    one folder   nothing can be written but the folder with the data, and HOME is not set
    nowhere      nothing can be written, not even where the program is started

``NUMBA_CACHE_DIR`` names a folder that cannot be written, and `doctor` must say where compiled code is instead.

Permissions deny the first, also to root, whose right to pass them over is given up. Landlock, a part of Linux from 5.13
on, denies the others to everybody; where it is missing, they are left out, which is said.

    python benchmarks/check_wheel.py                          this Python
    python benchmarks/check_wheel.py python3.12 python3.13    others
    python benchmarks/check_wheel.py --wheel dist/rankwright-0.1.0-py3-none-any.whl python3.13
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = "rankwright"
INFO = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
WORDS = ("Traceback", "Error", "warning", "Warning")  # none of these may be printed
DOCTOR = "note     compiled code"  # must be said by it
NOT_OURS = "joblib"  # says that it has no semaphores, to whoever imports scikit-learn

FIT = """
import numpy as np, rankwright
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3)); y = (X[:, 0] > 0).astype(int); qid = np.repeat(np.arange(10), 20)
for ranker in (rankwright.StructuredSVM("map"), rankwright.LambdaMART(n_trees=5)):
    value = rankwright.evaluate(y, ranker.fit(X, y, qid).predict(X, qid), qid, measures=["AP"]).means["AP"]
    assert value > 0.9, (ranker, value)
print("fitted")
"""

_DROP_BOUND, _PASS_OVER, _NO_NEW_PRIVILEGES = 24, 1, 38  # prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE), PR_SET_…
_CREATE_RULES, _ADD_RULE, _RESTRICT = 444, 445, 446  # system calls of Landlock, the same on all architectures
_WRITE, _CHANGES = 1 << 1, 0b1111111110010  # of a file; all ways to write, make and remove


class _Below(ctypes.Structure):
    """What is allowed below a folder: struct landlock_path_beneath_attr."""

    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


@dataclass(frozen=True)
class Round:
    """How little can be written, and what must work then; ``{data}`` stands for the folder with the data."""

    name: str
    deny: Callable[[], None]
    variables: dict[str, str]
    start: Path
    data: Path
    commands: tuple[str, ...]


def main() -> None:
    """Check the contents of the wheel, then the wheel under every Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--wheel", type=Path, help="this one, instead of building it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rankwright-wheel-") as name:
        folder = Path(name)
        wheel = given.wheel or built(folder)
        wrong = wrong_contents(wheel)
        print(
            f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, " + ("; ".join(wrong) or "has what the sources have")
        )
        for at, python in enumerate(given.pythons):
            wrong += tried(python, wheel.resolve(), folder / str(at))
    sys.exit(1 if wrong else 0)


def built(folder: Path) -> Path:
    """The wheel, made from the sources."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def wrong_contents(wheel: Path) -> list[str]:
    """What is missing in the wheel, or should not be there."""
    sources = ROOT / "src"
    files = {path.relative_to(sources).as_posix() for path in (sources / PACKAGE).rglob("*") if path.is_file()}
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    expected = {name for name in files if "__pycache__" not in name} | {f"{info}/{name}" for name in INFO}
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    wrong = [f"{name} is missing" for name in sorted(expected - found)]
    return wrong + [f"{name} should not be there" for name in sorted(found - expected)]


def tried(python: str, wheel: Path, folder: Path) -> list[str]:
    """Install the wheel for a Python, go through all rounds, and print what happened; the failures."""
    began = time.perf_counter()
    bin_folder = installed(python, wheel, folder / "env")
    version = subprocess.run([bin_folder / "python", "--version"], check=True, capture_output=True, text=True).stdout
    print(f"{version.strip()}: installed into an empty environment ({time.perf_counter() - began:.0f} s)")
    wrong = []
    try:
        for one in rounds(folder):
            began = time.perf_counter()
            failures = failed(one, bin_folder)
            result = f"FAILED\n{chr(10).join(failures)}" if failures else f"{len(one.commands)} commands work"
            print(f"  {one.name:<10} {result} ({time.perf_counter() - began:.0f} s)", flush=True)
            wrong += failures
    finally:
        set_writable(folder, True)
    return wrong


def installed(python: str, wheel: Path, environment: Path) -> Path:
    """Make an environment with the wheel and what it needs; the folder of its programs."""
    subprocess.run([python, "-m", "venv", environment], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(wheel)], check=True)
    set_writable(environment, False)
    return environment / "bin"


def rounds(folder: Path) -> list[Round]:
    """The rounds that this machine can deny."""
    home, first, second = (folder / name for name in ("home", "first", "second"))
    for new in (home, first, second):
        new.mkdir()
    write_data(second)
    home.chmod(0o555)
    few = ("rankwright --version", "rankwright doctor", "python -c FIT")
    files = (
        "rankwright train {data}/train.txt -o {data}/model.rkw",
        "rankwright rank {data}/model.rkw {data}/test.txt -o {data}/test.scores",
        "rankwright evaluate {data}/test.txt {data}/test.scores",
        "rankwright compare {data}/test.txt {data}/first.scores {data}/test.scores",
    )
    refused = {"NUMBA_CACHE_DIR": str(home / "numba")}
    with_home = refused | {"HOME": str(home), "TMPDIR": str(first)}
    found = [Round("read-only", obey_permissions, with_home, first, first, few)]
    if ctypes.CDLL(None).syscall(_CREATE_RULES, None, 0, 1) < 1:
        print("  (no Landlock here: the other rounds are left out)")
        return found
    found.append(Round("one folder", lambda: confine([second]), refused, second, second, (*few, *files)))
    found.append(Round("nowhere", lambda: confine([]), refused, Path("/"), second, (*few, files[2])))
    return found


def failed(one: Round, bin_folder: Path) -> list[str]:
    """Run the commands of a round; those that fail, or say what they should not."""
    kept = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    failures = []
    for command in one.commands:
        words = [FIT if word == "FIT" else word.format(data=one.data) for word in command.split()]
        words[0] = str(bin_folder / words[0])
        own: dict[str, Any] = {"env": kept | one.variables, "cwd": one.start, "preexec_fn": one.deny}
        done = subprocess.run(words, **own, capture_output=True, text=True, check=False)
        said = [line for line in done.stderr.splitlines() if NOT_OURS not in line and "warnings.warn(" not in line]
        bad = done.returncode or any(word in line for line in said for word in WORDS)
        if bad or (command == "rankwright doctor" and DOCTOR not in done.stdout):
            failures.append(f"    {command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failures


def write_data(folder: Path) -> None:
    """Features to train on and to test with, and the scores of one feature."""
    draw = random.Random(1).random
    for name, queries in (("train", 40), ("test", 20)):
        rows = [[draw() for _ in range(4)] for _ in range(12 * queries)]
        lines = [
            f"{int(row[0] + row[1] / 2 > 0.9)} qid:{at // 12} " + " ".join(f"{f}:{x:.4f}" for f, x in enumerate(row, 1))
            for at, row in enumerate(rows)
        ]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        (folder / "first.scores").write_text("".join(f"{row[0]}\n" for row in rows))


def set_writable(folder: Path, allowed: bool) -> None:
    """Allow or deny changes in a folder and all below."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755 if allowed else 0o555)


def obey_permissions() -> None:
    """Give up the right to pass over permissions; for the process that is started next."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_DROP_BOUND, _PASS_OVER, 0, 0, 0)


def confine(folders: Sequence[Path]) -> None:
    """Deny all writing but to these folders; for this process and those it starts, for good."""
    library = ctypes.CDLL(None, use_errno=True)
    changes = ctypes.c_uint64(_CHANGES)
    rules = library.syscall(_CREATE_RULES, ctypes.byref(changes), ctypes.sizeof(changes), 0)
    for path, allowed in [(Path(os.devnull), _WRITE), *((folder, _CHANGES) for folder in folders)]:
        below = _Below(allowed, os.open(path, os.O_PATH))
        if library.syscall(_ADD_RULE, rules, 1, ctypes.byref(below), 0):
            raise OSError(ctypes.get_errno(), f"Landlock took no rule for {path}")
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if library.syscall(_RESTRICT, rules, 0):
        raise OSError(ctypes.get_errno(), "Landlock could not be used")


if __name__ == "__main__":
    main()
