"""Kills every command that writes, at random moments, and looks at what is left.

Half of the moments are spread over the whole run, half over the time in which it writes: from when its temporary file
appears. Runs that end before they are killed do not count.

After each kill -9 the target must be the old one or the new one, complete; nothing but temporary files may lie beside
it; and after one more run, to its end, nothing of the killed one is left. An experiment must resume.

One process imports the package and compiles everything; every run is a fork of it, so that 500 kills take minutes. The
state is kept in FOLDER/state.json: the same command again goes on where it stopped.

    python benchmarks/kill_writers.py FOLDER --times 500 --seed 0
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Index, InputError, load_model, read_data
from rankwright.cli.main import main as rankwright
from rankwright.data.dataset import RankingData
from rankwright.io.container import Container
from rankwright.io.folder import FOLDER
from rankwright.io.letor import write_letor
from rankwright.io.trec import read_run

TRIALS = """
[experiment]
measures = ["AP", "nDCG@5"]
baseline = "first"
tests = ["wilcoxon"]
save_models = true

[[data]]
name = "all"
features = "train.txt"

[protocol]
kind = "trials"
trials = 2
train = 10
valid = 8
test = 8

[[method]]
name = "first"
method = "feature:1"

[[method]]
method = "svm-map"
parameters = { max_passes = 20 }
[method.grid]
C = [0.1, 1, 10]
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
WORDS = [f"word{i}" for i in range(300)]
PART = ".part"
LONGEST_WRITE = 0.03
SLOW = ("adapt", "diagnose", "collection", "experiment")


@dataclass(frozen=True)
class Writer:
    """A command that writes.

    Attributes
    ----------
    command : str
        Its arguments.
    targets : tuple of str
        What it writes.
    old : bool
        Whether the targets are there before.
    refuses : bool
        Whether a second run is refused, as with documents that have been added.
    """

    command: str
    targets: tuple[str, ...]
    old: bool = True
    refuses: bool = False


def _writers() -> dict[str, Writer]:
    adapt = "adapt web.rkw train.txt --valid vali.txt --test test.txt --method interpolate"
    found = {
        "index": Writer("index docs.tsv -o a.index", ("a.index",)),
        "index --add": Writer("index more.tsv -o a.index --add", ("a.index",), refuses=True),
        "features .rank": Writer("features b.index queries.tsv -o f.rank", ("f.rank",)),
        "features .txt": Writer("features b.index queries.tsv -o f.txt", ("f.txt",)),
        "search": Writer("search b.index queries.tsv -o s.run", ("s.run",)),
        "train": Writer("train train.txt --method svm-map --C 1 -o m.rkw", ("m.rkw",)),
        "train lambdamart": Writer(
            "train train.txt --valid vali.txt --method lambdamart --set n_trees=10 -o t.rkw", ("t.rkw",)
        ),
        "adapt": Writer(f"{adapt} --curve 5,10 --repeats 1 --plot curve.svg -o a.rkw", ("a.rkw", "curve.svg")),
        "rank": Writer("rank web.rkw test.txt -o r.run", ("r.run",)),
        "rank .gz": Writer("rank web.rkw test.txt -o r.scores.gz", ("r.scores.gz",)),
        "fuse": Writer("fuse one.run two.run -o fused.run", ("fused.run",)),
        "diagnose": Writer(
            "diagnose train.txt --losses map,pairs --C-grid 0.1,1 -o h.svg --csv h.csv", ("h.svg", "h.csv")
        ),
        "experiment run": Writer("experiment run exp.toml --threads 1 -o results", ("results",)),
        "experiment report": Writer("experiment report done -o report.html", ("report.html",)),
        "collection": Writer("collection python-docs -o docs", ("docs",)),
    }
    for suffix in ("rank", "parquet", "txt", "txt.gz"):
        found[f"convert .{suffix}"] = Writer(f"convert train.txt -o c.{suffix}", (f"c.{suffix}",))
    fresh = {f"{name}, new": Writer(one.command, one.targets, False) for name, one in found.items() if not one.refuses}
    both = "experiment run exp.toml --threads 2 -o results"
    return found | fresh | {"experiment run, 2 processes": Writer(both, ("results",), False)}


def _choice(names: list[str], at: int) -> str:
    """The command of a run: all in turn, but of those that take long one in eight."""
    slow = [name for name in names if name.startswith(SLOW)]
    fast = [name for name in names if name not in slow]
    if not fast or (slow and at % 8 == 7):
        return slow[at // 8 % len(slow)]
    return fast[(at - at // 8 if slow else at) % len(fast)]


def make_data(folder: Path, seed: int) -> None:
    """Write small inputs of every kind."""
    rng = np.random.default_rng(seed)
    for at, (name, n_queries) in enumerate({"train": 26, "vali": 12, "test": 12}.items()):
        X = rng.normal(size=(n_queries * 8, 5)).astype(np.float32)
        labels = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X)) > 0.5).astype(int)
        qid = np.repeat([f"q{100 * at + q}" for q in range(n_queries)], 8)
        ids = [f"d{row % 8}" for row in range(len(X))]
        write_letor(RankingData.from_arrays(X, labels, qid, doc_ids=ids), folder / f"{name}.txt")
    for name, first, number in (("docs", 0, 300), ("more", 300, 50)):
        texts = (" ".join(rng.choice(WORDS, 40)) for _ in range(number))
        lines = [f"d{first + at}\t{text}\n" for at, text in enumerate(texts)]
        (folder / f"{name}.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{' '.join(rng.choice(WORDS, 3))}\n" for q in range(12)))
    (folder / "exp.toml").write_text(TRIALS)


def run(folder: Path, command: str, wait: float | None = None, writes: bool = False) -> tuple[int | None, float]:
    """Run a command in a fork; its exit code, None if killed, and its time.

    With ``wait``, it is killed after so many seconds, from when it begins to write if ``writes``.
    """
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for number, name in ((1, "out.log"), (2, "err.log")):
            os.dup2(os.open(folder.parent / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        code = 99
        try:
            code = rankwright(command.split())
            sys.stdout.flush()
        finally:
            os._exit(code)
    if wait is not None:
        while writes and not any(name.endswith(PART) for name in os.listdir(folder)):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), time.perf_counter() - began


def digest(path: Path) -> str:
    """A hash of a file or folder; empty if there is none. Temporary files do not count."""
    if not path.exists():
        return ""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        found.update(f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def listing(folder: Path) -> set[str]:
    """All files and folders, temporary ones too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def is_whole(path: Path) -> bool:
    """Whether a file or folder can be loaded and passes its checks."""
    if path.is_dir() and path.suffix not in (".index", ".rank"):
        return all(is_whole(entry) for entry in path.iterdir() if not entry.name.startswith("."))
    checks: dict[str, Callable[[Path], Any]] = {
        ".json": lambda path: json.loads(path.read_text()),
        ".csv": lambda path: path.read_text().endswith("\n") or 1 / 0,
        ".index": lambda path: Index.open(path).verify(),
        ".rank": lambda path: Container.open(path, FOLDER).verify(),
        ".rkw": load_model,
        ".run": read_run,
        ".svg": lambda path: path.read_text().rstrip().endswith("</svg>") or 1 / 0,
        ".html": lambda path: path.read_text().rstrip().endswith("</html>") or 1 / 0,
    }
    try:
        checks.get(path.suffix, lambda path: path.read_bytes())(path)
        if path.suffix in (".txt", ".rank", ".parquet"):
            read_data(path)
    except (InputError, ZeroDivisionError, ValueError):
        return False
    return True


class Trial:
    """The files before a command runs, and what they are after it has run to its end."""

    def __init__(self, base: Path, name: str, writer: Writer, work: Path) -> None:
        self.name, self.writer, self.work = name, writer, work
        self.base = base
        self.start()
        self.before = {target: digest(work / target) for target in writer.targets}
        code, self.seconds = run(work, writer.command)
        if code != 0:
            raise SystemExit(f"{name}: {(work.parent / 'err.log').read_text()}")
        self.after = {target: digest(work / target) for target in writer.targets}
        self.names = listing(work)
        self.start()
        self.seconds = min(self.seconds, run(work, writer.command)[1])
        again = {target: digest(work / target) for target in writer.targets}
        self.is_fixed = again == self.after  # times in a file make it differ

    def start(self) -> None:
        """Lay out the files."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.base, self.work, copy_function=os.link)  # no writer may change a file in place
        for target in self.writer.targets if not self.writer.old else ():
            path = self.work / target
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def kill(self, share: float, writes: bool) -> tuple[str, list[str]]:
        """Kill the command after a share of its time; what became of it, and what is wrong."""
        self.start()
        wait = share * (min(self.seconds, LONGEST_WRITE) if writes else self.seconds)
        code, seconds = run(self.work, self.writer.command, wait, writes)
        if code is not None:
            self.seconds = min(self.seconds, seconds)
            return "ended", []
        wrong = []
        found = "killed"
        for target in self.writer.targets:
            now = digest(self.work / target)
            may_differ = not self.is_fixed or target in ("results", "docs")  # folders of files, each of them whole
            if now not in (self.before[target], self.after[target]) and not (
                may_differ and now and is_whole(self.work / target)
            ):
                wrong.append(f"{target} is neither the old one nor the new one")
        known = self.names | listing(self.base)
        left = {name for name in listing(self.work) - known if PART not in name and ".old" not in name}
        if left and "results" not in self.writer.targets:
            wrong.append(f"left beside the target: {sorted(left)}")
        found += ", left something" if listing(self.work) - known else ""
        return found, wrong + self._again()

    def _again(self) -> list[str]:
        was_added = self.writer.refuses and digest(self.work / self.writer.targets[0]) == self.after["a.index"]
        code, _ = run(self.work, self.writer.command)
        wrong = []
        if code != (2 if was_added else 0):
            wrong.append(f"the next run ends with {code}: {(self.work.parent / 'err.log').read_text()}")
        for target in self.writer.targets:
            whole = digest(self.work / target) == self.after[target] if self.is_fixed else is_whole(self.work / target)
            if not whole:
                wrong.append(f"{target} is not whole after the next run")
        if listing(self.work) != self.names:
            wrong.append(f"after the next run: {sorted(listing(self.work) ^ self.names)}")
        return wrong


def make_base(folder: Path, writers: list[Writer]) -> Path:
    """All inputs, and an old version of every target."""
    base, made = folder / "base", folder / "made"
    shutil.rmtree(base, ignore_errors=True)
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    make_data(made, 1)
    first = ["index docs.tsv -o b.index", "train train.txt --method rank-svm --C 0.1 -o web.rkw"]
    first += [
        f"search b.index queries.tsv -o {name}.run --function {f}" for name, f in (("one", "bm25"), ("two", "jm"))
    ]
    first += ["experiment run exp.toml --threads 1 -o done"] if any("done" in one.command for one in writers) else []
    first += ["index docs.tsv -o a.index"]
    for command in dict.fromkeys([*first, *(one.command for one in writers if not one.refuses)]):
        print("once:", command, flush=True)
        here = os.getcwd()
        os.chdir(made)
        code = rankwright(command.split())  # here, so that every fork has it compiled
        os.chdir(here)
        if code != 0:
            raise SystemExit(f"failed: {command}")
    make_data(made, 0)  # so that the new targets differ from the old ones
    made.rename(base)
    return base


def main() -> None:
    """Kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="commands whose name contains this")
    parser.add_argument("--fast", action="store_true", help="without those that take seconds")
    options = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():  # threads do not survive a fork
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * options.minutes
    writers = {name: one for name, one in _writers().items() if options.only in name}
    if options.fast:
        writers = {name: one for name, one in writers.items() if not name.startswith(SLOW)}
    base, file = make_base(folder, list(writers.values())), folder / "state.json"
    state: dict[str, Any] = (
        json.loads(file.read_text()) if file.exists() else {"done": 0, "tried": 0, "found": {}, "wrong": []}
    )
    trials: dict[str, Trial] = {}
    while state["done"] < options.times and time.monotonic() < until:
        at = state["tried"]
        name = _choice(list(writers), at)
        if name not in trials:
            trials[name] = Trial(base, name, writers[name], folder / "work")
        share, way = np.random.default_rng([options.seed, at]).random(2).tolist()
        found, wrong = trials[name].kill(share, way < 0.5 and not name.startswith(("experiment", "collection")))
        counts = state["found"].setdefault(name, {})
        counts[found] = counts.get(found, 0) + 1
        state["wrong"] += [f"{at} {name}, at {share:.3f}: {what}" for what in wrong]
        for what in state["wrong"][len(state["wrong"]) - len(wrong) :]:
            print("WRONG", what, flush=True)
        state["tried"] += 1
        state["done"] += found != "ended"
        file.write_text(json.dumps(state, indent=1))
    for name, counts in state["found"].items():
        print(f"{name:32s} " + ", ".join(f"{found}: {number}" for found, number in sorted(counts.items())))
    print(f"{state['done']} of {options.times} kills, {len(state['wrong'])} wrong")
    sys.exit(1 if state["wrong"] else 0)


if __name__ == "__main__":
    main()
