"""What starting costs: the first use of a method on a machine, later trainings on small data, and `evaluate`.

Every command is a process of its own on 60 queries of 10 documents, once with an empty cache for compiled code and then
with a full one, the best of several. Targets, in seconds on a quiet machine (CPU time is shown too, for busy ones):

1. The first `train` with a method takes at most 6 s longer than later ones, and gives the same model. On a machine with
   several cores, other processes compile a part of the code; CPU time is that of all of them.
2. Later ones take at most 1.2 s.
3. `evaluate` takes at most 0.4 s.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

METHODS = {
    "svm-map": ("--C", "1"),
    "svm-ndcg": ("--C", "1"),
    "dorm": ("--C", "1"),
    "svm-combo": ("--C", "1"),
    "rank-svm": ("--C", "1"),
    "svm-acc": ("--C", "1"),
    "lambdarank": ("--set", "epochs=3"),
    "lambdaboost": ("--set", "n_rounds=5"),
    "lambdamart": ("--set", "n_trees=5"),
    "mcrank": ("--set", "n_trees=5"),
    "auto": (),
}
COMPILING, LATER, EVALUATING = 6.0, 1.2, 0.4


def write(folder: Path) -> None:
    """A feature file with three grades, and scores."""
    rng = random.Random(1)
    grades = [rng.choice((0, 0, 1, 2)) for _ in range(600)]
    rows = (f"{y} qid:{i // 10} 1:{y + rng.random():.3f} 2:{rng.random():.3f} 3:{i % 7}" for i, y in enumerate(grades))
    Path(folder, "data.txt").write_text("\n".join(rows) + "\n")
    Path(folder, "scores.txt").write_text("".join(f"{rng.random():.4f}\n" for _ in grades))


def seconds(folder: Path, *arguments: str) -> tuple[float, float]:
    """Wall and CPU time of one command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "compiled")}
    command = [sys.executable, "-m", "rankwright.cli.main", *arguments]
    subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(folder: Path, repeat: int, *arguments: str) -> tuple[float, float]:
    """The shortest wall and the shortest CPU time of several runs."""
    walls, processor = zip(*(seconds(folder, *arguments) for _ in range(repeat)), strict=True)
    return min(walls), min(processor)


def verdict(wall: float, limit: float) -> str:
    """Whether a target is reached."""
    return f"target {limit:g}: {'reached' if wall <= limit else 'MISSED'}"


def main() -> None:
    """Time all methods, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    unknown = set(arguments.methods) - set(METHODS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    cores = f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}"
    print(f"numba {version('numba')}, Python {sys.version.split()[0]}, {cores}; wall s (CPU s)")
    for method in arguments.methods or METHODS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder)
            options = METHODS[method]
            valid = ("--valid", "data.txt") if "--set" in options else ()
            train = ("train", "data.txt", "--method", method, *options, *valid, "-o")
            first, later = seconds(folder, *train, "first.rkw"), best(folder, arguments.repeat, *train, "later.rkw")
            same = Path(folder, "first.rkw").read_bytes() == Path(folder, "later.rkw").read_bytes()
            compiled = first[0] - later[0]
            spent = f"{compiled:5.1f} ({first[1] - later[1]:4.1f}), {verdict(compiled, COMPILING)}"
            after = f"{later[0]:5.2f} ({later[1]:.2f}), {verdict(later[0], LATER)}"
            also = "the same model" if same else "ANOTHER MODEL"
            print(f"  {method:<12} compiling {spent}; later {after}; {also}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        wall, processor = best(Path(name), 2 * arguments.repeat, "evaluate", "data.txt", "scores.txt")
        print(f"  evaluate     {wall:5.2f} ({processor:.2f}), {verdict(wall, EVALUATING)}")


if __name__ == "__main__":
    main()
