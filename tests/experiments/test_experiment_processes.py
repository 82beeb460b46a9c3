"""Processes of an experiment: progress, and what one that dies leaves undone."""

import subprocess
import sys
from collections import deque
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import pytest
from tests.experiments.experiment_files import write_all, write_experiment

from rankwright.experiments import load_experiment, run_experiment
from rankwright.experiments import running as running_module


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    return tmp_path


def test_progress_tells_what_is_left(folder):
    seen = []
    run_experiment(write_experiment(folder), progress=seen.append)
    cells = [status for status in seen if status.total]
    assert [status.done for status in cells] == sorted(status.done for status in cells)
    assert (cells[-1].done, cells[-1].total, cells[-1].left) == (6, 6, 0.0)
    assert cells[0].left is None
    assert any(status.left and status.left > 0 for status in cells)
    assert "split 1" in cells[0].doing


class _Pool:
    """Stands for a pool of processes of which one dies at its second cell."""

    def __init__(self):
        self.cells = []

    def submit(self, function, cell):
        if len(self.cells) == 3:
            raise BrokenProcessPool
        self.cells.append(cell)
        future = Future()
        if len(self.cells) == 1:
            future.set_result(function(cell))
        else:
            future.set_exception(BrokenProcessPool())
        return future


def test_a_process_that_dies_fails_only_the_cells_that_were_computed(folder):
    experiment = load_experiment(write_experiment(folder))
    running_module._make_folder(experiment.output)
    prepared = [running_module.prepare(experiment.data[0], experiment.output / "cache")]
    cells = running_module._cells(experiment, prepared)
    watch = running_module._Watch(cells, cells, 2, lambda _: None)
    queue = deque(cells)
    running_module._run_until_broken(_Pool(), queue, 2, watch)
    assert (watch.done, len(watch.failures), len(queue)) == (1, 1, 4)
    assert all("process died" in failure.reason for failure in watch.failures)
    assert [cell.file for cell in queue] == [cell.file for cell in cells[2:]]


PARENT = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from rankwright.data.threads import end_with_parent

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 120).result()
"""


def test_workers_end_with_a_killed_experiment(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as one:
        assert int(one.stdout.readline()) != one.pid
        one.kill()
        out, _ = one.communicate(timeout=30)  # ends when the last process that can write to it has ended
        assert out == b""
