"""Precompiling: warmups compile what trainings need, and workers never get in the way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rankwright
from rankwright.cli import precompile
from rankwright.data.dataset import RankingData
from rankwright.training import warmup as warmup
from rankwright.training.methods import NAMES
from rankwright.training.warmup import Warmup, few_documents, form_of, warmups

POSIX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
SOURCES = str(Path(rankwright.__file__).parents[1])

COVERED = """
import gc, json, sys
from numba.core.dispatcher import Dispatcher
from rankwright.training.warmup import few_documents, warmups
from rankwright.training.train import train

def known():
    kernels = [thing for thing in gc.get_objects() if issubclass(type(thing), Dispatcher)]
    return {(one.py_func.__module__, one.py_func.__name__, str(types)) for one in kernels for types in one.signatures}

method, form, skipped, settings = json.loads(sys.argv[1])
for part in warmups(method):
    if part.name != skipped:
        part.run(few_documents(form))
before = known()
data = few_documents(form)
train(method, data, data, settings=settings)
print(json.dumps(sorted(known() - before)))
"""


def left_to_training(method, form="dense-float32", skipped=None, **settings):
    """Functions of the package that a training compiles, or loads, after the warmups."""
    given = json.dumps([method, form, skipped, settings])
    done = subprocess.run([sys.executable, "-c", COVERED, given], capture_output=True, text=True, check=True)
    found = {tuple(one[:2]) for one in json.loads(done.stdout)}
    return {f"{module}.{name}" for module, name in found if module.startswith("rankwright.")}


@pytest.mark.parametrize(
    ("method", "form", "settings"),
    [
        ("svm-map", "dense-float32", {}),
        ("svm-map", "csr-float32", {}),
        ("rank-svm", "dense-float64", {}),
        ("lambdarank", "dense-float32", {"epochs": 2}),
        ("lambdamart", "dense-float32", {"n_trees": 3, "min_rows": 1, "max_bins": 16}),
    ],
)
def test_nothing_but_the_order_of_the_data_is_left_to_training(method, form, settings):
    left = left_to_training(method, form, **settings)
    assert not {name for name in left if "data.hashes" not in name}, left


def test_a_part_that_has_no_warmup_is_left_to_training():
    assert "rankwright.maxmargin.smoothed.minimise" in left_to_training("svm-map", skipped="planes")


@pytest.mark.parametrize("method", NAMES)
def test_the_kernel_of_every_part_exists_and_is_cached(method):
    parts = warmups(method)
    assert len({part.name for part in parts}) == len(parts)
    for part in parts:
        assert part.is_compiled() in (True, False)  # AttributeError if it was renamed


@pytest.mark.parametrize("form", ["dense-float32", "dense-float64", "csr-float32"])
def test_few_documents_have_the_form_that_was_asked_for(form):
    data = few_documents(form)
    assert form_of(data) == form
    assert data.has_order.all()


class Parts:
    """Parts that note who ran them."""

    def __init__(self, monkeypatch, *, compiled=False):
        self.ran = []
        parts = [Warmup(name, lambda data, name=name: self.run(name, data), "", True) for name in ("a", "b")]
        monkeypatch.setattr(warmup, "warmups", lambda method: parts)
        monkeypatch.setattr(Warmup, "is_compiled", lambda part: compiled)
        monkeypatch.setattr(precompile, "_cores", lambda: 2)

    def run(self, name, data):
        self.ran.append((name, form_of(data)))


def start_script(monkeypatch, script):
    """Workers run a script instead, with the folder as its argument."""
    started = []

    def start(method, folder):
        started.append(subprocess.Popen([sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr(precompile, "_start", start)
    return started


def some_data():
    return RankingData.from_arrays(np.eye(4), [0, 1, 0, 1], [1, 1, 2, 2])


def test_a_worker_that_dies_leaves_its_parts_to_others(monkeypatch):
    parts, told = Parts(monkeypatch), []
    workers = start_script(monkeypatch, "raise SystemExit(3)")
    with precompile.precompiling("svm-map", lambda: told.append(1)) as found:
        found.finish(some_data())
    assert parts.ran == [("a", "dense-float64"), ("b", "dense-float64")]
    assert told == [1]
    assert [worker.returncode for worker in workers] == [3]


def test_what_a_worker_claims_is_not_done_twice(monkeypatch):
    parts = Parts(monkeypatch)
    claim = "import pathlib, sys; pathlib.Path(sys.argv[1], 'a').touch()"
    workers = start_script(monkeypatch, claim)
    with precompile.precompiling("svm-map", lambda: None) as found:
        workers[0].wait()
        found.finish(some_data())
    assert [name for name, _ in parts.ran] == ["b"]


def test_a_part_that_fails_does_not_stop_the_training(monkeypatch):
    parts = Parts(monkeypatch)
    start_script(monkeypatch, "")
    monkeypatch.setattr(parts, "run", lambda name, data: 1 / 0)
    with precompile.precompiling("svm-map", lambda: None) as found:
        found.finish(some_data())


@pytest.mark.parametrize("cores", [1, 2])
def test_no_worker_without_a_second_core_or_with_a_full_cache(monkeypatch, cores):
    Parts(monkeypatch, compiled=cores > 1)
    monkeypatch.setattr(precompile, "_cores", lambda: cores)
    monkeypatch.setattr(precompile, "_start", lambda *_: pytest.fail("a worker was started"))
    with precompile.precompiling("svm-map", lambda: pytest.fail("said that it compiles")) as found:
        found.finish(some_data())
    assert not found.announced


@pytest.mark.parametrize(
    ("load", "now", "busy"), [(0.4, "9/99", 0), (3.4, "9/99", 3), (3.4, "2/99", 1), (3.4, "1/99", 0), (3.4, None, 3)]
)
def test_busy_cores_are_left_alone(monkeypatch, tmp_path, load, now, busy):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr(precompile, "_LOAD", tmp_path / "loadavg")
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if now is not None:
        precompile._LOAD.write_text(f"{load} 0.00 0.00 {now} 123\n")
    assert precompile._cores() == free - busy


def test_without_processes_all_is_done_here(monkeypatch):
    parts = Parts(monkeypatch)

    def refuse(*_):
        raise OSError("no more processes")

    monkeypatch.setattr(precompile, "_start", refuse)
    with precompile.precompiling("svm-map", lambda: None) as found:
        found.finish(some_data())
    assert [name for name, _ in parts.ran] == ["a", "b"]


def test_workers_end_when_reading_fails(monkeypatch):
    Parts(monkeypatch)
    workers = start_script(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(ValueError, match="broken file"), precompile.precompiling("svm-map", lambda: None):
        raise ValueError("broken file")
    assert [worker.returncode for worker in workers] == [-signal.SIGKILL if os.name == "posix" else 1]


def test_garbage_collection_is_as_before(monkeypatch):
    import gc

    Parts(monkeypatch)
    start_script(monkeypatch, "")
    usual = gc.get_threshold()
    with precompile.precompiling("svm-map", lambda: None) as found:
        found.finish(some_data())
    assert gc.get_threshold() == usual


@POSIX
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_command(tmp_path, sent):
    lines = [f"{y % 2} qid:{y // 4} 1:{y}" for y in range(400)]
    tmp_path.joinpath("data.txt").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled"), "PYTHONPATH": SOURCES}
    arguments = ["train", "data.txt", "--method", "svm-map", "-o", "m.rkw"]
    script = "import sys; from rankwright.cli import main, precompile; "
    script += "precompile._cores = lambda: 2; sys.exit(main.program())"
    command = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    workers = waited_for(lambda: children(command.pid))
    command.send_signal(sent)
    _, said = command.communicate(timeout=60)
    assert "Traceback" not in said
    assert command.returncode in (130, -sent)
    assert waited_for(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers))
    assert not tmp_path.joinpath("m.rkw").exists()


def children(pid):
    """Workers that a process has started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for one in found if b"rankwright.cli.precompile" in Path(f"/proc/{one}/cmdline").read_bytes()]


def waited_for(found, seconds=60.0):
    """What a function returns, once that is true."""
    ends = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < ends:
        time.sleep(0.02)
    return value


def test_nothing_is_compiled_ahead_for_a_gpu():
    with precompile.precompiling("svm-map", lambda: pytest.fail("said that it compiles"), "cuda") as found:
        assert not found.announced
