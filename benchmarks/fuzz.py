"""Feed damaged inputs of every kind to the command line, in process, with limits on memory and time.

    python benchmarks/fuzz.py --minutes 5          (make fuzz)
    python benchmarks/fuzz.py --inputs 1000000 --seed 7
    python benchmarks/fuzz.py --case 4711          one input again, in the foreground
    python benchmarks/fuzz.py --bounds --minutes 5 compiled code with bounds checks

Every input must end with exit code 0, or with exit code 2, one line on standard error and nothing written (an
experiment in which a method failed: with exit code 1 and the list of what failed). Anything else is a finding: an
exception, a crash, more than LIMIT seconds, more than 2 GiB of memory, control characters in what is printed, a file
left behind. Input number N of a seed is always the same; a run goes on where the last one with the same seed and state
folder stopped. Findings are kept in the state folder, one folder for each place in the code.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple, cast

from fuzz_files import KINDS, Kind, make_good, words

__all__ = ["main"]

LIMIT = 20.0  # seconds for one input
MEMORY = 2 << 30  # bytes on top of what a worker has when it starts
CHUNK = 500
RARE = 0.01
MISTAKEN = 0.02
EXAMPLES = 3  # kept of each finding
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
DATA = ("rank",)  # commands that print data for other programs


class Input(NamedTuple):
    """One damaged input and the command that reads it."""

    kind: str
    command: list[str]
    files: dict[str, bytes]  # to write into the folder of the case
    linked: dict[str, Path]  # unchanged files of a damaged folder


class Result(NamedTuple):
    """What came of it; ``finding`` is empty if all is well."""

    code: int
    finding: str
    details: str


class Corpus:
    """The good files, and from them the damaged input of every number."""

    def __init__(self, good: Path, seed: int) -> None:
        self.good, self.seed = good, seed
        self.content: dict[str, Any] = {}
        for kind in KINDS.values():
            path = good / kind.file
            files = {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}
            self.content[kind.file] = files if path.is_dir() else path.read_bytes()
        self.others = [content for content in self.content.values() if isinstance(content, bytes)]
        self.names = list(KINDS)
        self.weights = [kind.weight for kind in KINDS.values()]

    def make(self, number: int) -> Input:
        """The input of this number."""
        rng = random.Random(f"{self.seed} {number}")
        name = rng.choices(self.names, self.weights)[0]
        kind = KINDS[name]
        command = rng.choice(kind.rare if kind.rare and rng.random() < RARE else kind.commands)
        if name == "command line":
            command = words(rng, command)
        damaged = kind.damage(rng, self.content[kind.file], self.others)
        if isinstance(damaged, bytes) and rng.random() < MISTAKEN and name != "command line":
            damaged = rng.choice(self.others)  # a file of another kind
        return self._laid_out(name, kind, command, damaged)

    def whole(self, name: str, command: str) -> Input:
        """A good input."""
        kind = KINDS[name]
        return self._laid_out(name, kind, command, self.content[kind.file])

    def _laid_out(self, name: str, kind: Kind, command: str, damaged: Any) -> Input:
        target = "in" + Path(kind.file).suffix if kind.file != "e-results" else "e-results"
        files, linked = {target: damaged}, {}
        if isinstance(damaged, dict):
            good: dict[str, bytes] = self.content[kind.file]
            linked = {
                f"{target}/{part}": self.good / kind.file / part for part in damaged if damaged[part] is good.get(part)
            }
            files = {
                f"{target}/{part}": content for part, content in damaged.items() if f"{target}/{part}" not in linked
            }
        return Input(name, [self._word(word, target) for word in command.split(" ")], files, linked)

    def _word(self, word: str, target: str) -> str:
        if word == "@":
            return target
        return f"../good/{word[1:]}" if word.startswith("+") else word


def execute(given: Input) -> Result:
    """Run one input in the current folder, which is empty before and after."""
    from rankwright.cli.main import main as rankwright

    for name, content in given.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    for name, source in given.linked.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        os.link(source, name)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace"), io.StringIO()
    finding, details, code = "", "", 1
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            code = rankwright(given.command)
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "rankwright" in frame.filename]
        place = f"{Path(frames[-1].filename).name}-{frames[-1].lineno}" if frames else "?"
        finding, details = f"{type(error).__name__}-{place}", traceback.format_exc()
    text = err.getvalue()
    out.flush()
    shown = text if given.command[0] in DATA else text + out.buffer.getvalue().decode(errors="replace")
    finding = (
        finding
        or _complaint(given, code, text)
        or (f"control-characters-{given.command[0]}" if CONTROL.search(shown) else "")
    )
    for entry in os.scandir("."):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    return Result(code, finding, f"{text}\n{details}")


def _complaint(given: Input, code: int, text: str) -> str:
    """What is wrong with how a command ended."""
    lines = [line for line in text.splitlines() if line.startswith("rankwright: ")]
    made = {entry.name for entry in os.scandir(".")} - {
        name.partition("/")[0] for name in [*given.files, *given.linked]
    }
    if code == 1 and given.command[:2] == ["experiment", "run"] and re.search(r"cells? failed", text):
        return ""  # the others are there, and these are listed
    if code not in (0, 2):
        return f"exit-{code}"
    if "not enough memory" in text and given.kind != "command line":  # an option may ask for much
        return f"memory-{given.kind}"
    if code == 2 and len(lines) != 1:
        return f"{len(lines)}-lines-{given.command[0]}"
    if code == 2 and made and given.command[:2] != ["experiment", "run"]:
        return f"left-{given.command[0]}-{sorted(made)[0]}"
    if any(name.startswith(".") for name in made):
        return f"hidden-file-{given.command[0]}"
    return ""


def work(pipe: Any, clock: Any, corpus: Corpus, folder: Path, state: Path) -> None:
    """Run chunks of inputs until the process is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    clock[1] = 0.0
    for name, kind in KINDS.items():  # compile or load everything first
        for command in (*kind.commands, *kind.rare):
            result = execute(corpus.whole(name, command))
            if result.finding or result.code:
                print(f"a good input fails: {command}: {result.finding} {result.details}", file=sys.stderr)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    pipe.send(None)
    while True:
        first, last = pipe.recv()
        counts: Counter[tuple[str, int, bool]] = Counter()
        for number in range(first, last):
            clock[0], clock[1] = number, time.monotonic()
            given = corpus.make(number)
            result = execute(given)
            counts[given.kind, result.code, bool(result.finding)] += 1
            if result.finding:
                keep(state, number, given, result)
        clock[1] = 0.0
        pipe.send((first, last, counts))


def keep(state: Path, number: int, given: Input, result: Result) -> None:
    """Keep an example of a finding."""
    place = state / "findings" / re.sub(r"[^\w.-]+", "_", result.finding)[:80]
    place.mkdir(parents=True, exist_ok=True)
    if len(list(place.iterdir())) >= EXAMPLES:
        return
    example = place / str(number)
    for name, content in given.files.items():
        (example / name).parent.mkdir(parents=True, exist_ok=True)
        (example / name).write_bytes(content)
    (example / "finding.txt").write_text(
        f"{given.kind}: rankwright {' '.join(given.command)}\n{result.details}\n", errors="replace"
    )


class Pool:
    """Workers, each with a clock that tells when one hangs; those that crash or hang are started again."""

    def __init__(self, n: int, corpus: Corpus, folder: Path, state: Path) -> None:
        self.corpus, self.folder, self.state = corpus, folder, state
        self.context = multiprocessing.get_context("fork")
        self.workers: dict[Any, tuple[Any, Any]] = {}
        self.chunks: dict[Any, tuple[int, int]] = {}
        self.rest: list[tuple[int, int]] = []  # of chunks whose worker was lost
        for _ in range(n):
            self.start()

    def start(self) -> None:
        """Start one more worker."""
        ours, theirs = self.context.Pipe()
        clock = self.context.RawArray(ctypes.c_double, 2)
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="worker-"))
        process = self.context.Process(target=work, args=(theirs, clock, self.corpus, folder, self.state))
        process.start()
        theirs.close()
        self.workers[ours] = (process, clock)

    def results(self) -> list[Any]:
        """What idle workers have to say: (pipe, None or the counts of a chunk); crashed ones are replaced."""
        said = []
        for pipe in wait(list(self.workers), 0.2):
            try:
                said.append((pipe, cast(Any, pipe).recv()))
            except (EOFError, ConnectionResetError):
                self._replace(pipe, "crash")
        for pipe, (_, clock) in list(self.workers.items()):
            if clock[1] and time.monotonic() - clock[1] > LIMIT:
                self._replace(pipe, "hang")
        return said

    def close(self) -> None:
        """End all workers, which are idle."""
        for process, _ in self.workers.values():
            process.kill()
            process.join()

    def _replace(self, pipe: Any, why: str) -> None:
        process, clock = self.workers.pop(pipe)
        process.kill()
        process.join()
        number = int(clock[0])
        given = self.corpus.make(number)
        code = process.exitcode if why == "crash" else 0
        keep(self.state, number, given, Result(1, f"{why}-{given.kind}-{given.command[0]}", f"exit code {code}"))
        _, last = self.chunks.pop(pipe, (0, 0))
        self.start()
        if last > number + 1:  # the rest of the chunk
            self.rest.append((number + 1, last))


def run(pool: Pool, state: Path, done: int, total: int | None, seconds: float) -> tuple[int, Counter[Any]]:
    """Hand out chunks until enough inputs are done or time is up; gives the number up to which all are done."""
    counts: Counter[Any] = Counter()
    given, began, shown = done, time.monotonic(), 0.0
    idle: list[Any] = []
    while True:
        over = time.monotonic() - began > seconds or (total is not None and given >= total)
        while idle and (pool.rest or not over):
            pipe = idle.pop()
            chunk = pool.rest.pop() if pool.rest else (given, given + CHUNK)
            given = max(given, chunk[1])
            pool.chunks[pipe] = chunk
            pipe.send(chunk)
        if over and not pool.chunks and not pool.rest:
            return done, counts
        for pipe, answer in pool.results():
            idle.append(pipe)
            if answer is not None:
                pool.chunks.pop(pipe, None)
                counts += answer[2]
        idle = [pipe for pipe in idle if pipe in pool.workers]
        done = min((first for first, _ in [*pool.chunks.values(), *pool.rest]), default=given)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            found = len(list((state / "findings").glob("*")))
            print(f"{sum(counts.values()):,} inputs, {found} kinds of findings, {shown - began:.0f} s", flush=True)
            (state / "state.json").write_text(json.dumps({"seed": pool.corpus.seed, "done": done}))


def report(counts: Counter[Any], state: Path, seconds: float) -> int:
    """Print a table; gives the exit code."""
    print(f"{'kind':20} {'inputs':>9} {'accepted':>9} {'refused':>9} {'findings':>9}")
    for name in KINDS:
        own = {key: n for key, n in counts.items() if key[0] == name}
        columns = [sum(own.values())]
        columns += [sum(n for key, n in own.items() if key[1] == code and not key[2]) for code in (0, 2)]
        columns.append(sum(n for key, n in own.items() if key[2]))
        print(f"{name:20} " + " ".join(f"{n:9,}" for n in columns))
    print(f"{'all':20} {sum(counts.values()):9,}   in {seconds:,.0f} s")
    places = sorted((state / "findings").glob("*"))
    for place in places:
        print(f"finding: {place.name} ({place})")
    return 1 if places else 0


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=None, help="stop after this time")
    parser.add_argument("--inputs", type=int, default=None, help="stop after this many inputs, all runs together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, default=Path(".fuzz"), help="folder for findings and progress")
    parser.add_argument("--case", type=int, help="run one input and print what comes of it")
    parser.add_argument("--bounds", action="store_true", help="compile with bounds checks")
    options = parser.parse_args()
    state = options.state.resolve()
    (state / "findings").mkdir(parents=True, exist_ok=True)
    if options.bounds and os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        cache = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(state / "bounds-checked")}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | cache)
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as place:
        good = Path(place) / "good"
        good.mkdir()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            make_good(good)
        corpus = Corpus(good, options.seed)
        if options.case is not None:
            return _one(corpus, options.case, Path(place), state)
        saved = state / "state.json"
        known = json.loads(saved.read_text()) if saved.exists() else {}
        done = known.get("done", 0) if known.get("seed") == options.seed else 0
        seconds = 60 * options.minutes if options.minutes else (5 * 60 if options.inputs is None else float("inf"))
        print(f"seed {options.seed}, from input {done:,}")
        began = time.monotonic()
        pool = Pool(options.workers, corpus, Path(place), state)
        try:
            done, counts = run(pool, state, done, options.inputs, seconds)
        finally:
            pool.close()
        saved.write_text(json.dumps({"seed": options.seed, "done": done}))
        return report(counts, state, time.monotonic() - began)


def _one(corpus: Corpus, number: int, place: Path, state: Path) -> int:
    """Run one input in the foreground."""
    (place / "case").mkdir()
    os.chdir(place / "case")
    given = corpus.make(number)
    print(given.kind, given.command)
    result = execute(given)
    print(*result)
    if result.finding:
        keep(state, number, given, result)
    return int(bool(result.finding))


if __name__ == "__main__":
    sys.exit(main())
