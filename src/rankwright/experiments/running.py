"""Runs an experiment: prepares its data, computes its cells on all cores, writes its results.

Cells are computed by processes that map the data from disk. Each writes its own file, so an interrupted experiment
resumes where it stopped; results do not depend on the number of processes. A cell that fails is recorded with the
reason, and tried again when the experiment is run again. Measures are computed from the scores of all cells at the end.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rankwright.data.threads import end_with_parent, usable_cores
from rankwright.errors import InputError
from rankwright.experiments.backgrounds import prepare_background
from rankwright.experiments.cells import Cell, Failure, make_cell, run_cell
from rankwright.experiments.checks import load_experiment
from rankwright.experiments.config import ADAPT, HINDSIGHT, DataSource, Experiment, MethodSpec
from rankwright.experiments.preparing import Prepared, prepare, splits_of, with_best
from rankwright.experiments.results import Results
from rankwright.experiments.writing import write_results, write_runs
from rankwright.io.files import remove_leftovers
from rankwright.plugins import load_plugin
from rankwright.reports.results import MANIFEST, read_manifest
from rankwright.training.methods import parse_method

_ON_DEVICE = 4  # processes that share a GPU: each starts its libraries, and has a copy of the features there
_DIED = "its process died, perhaps out of memory; run again with fewer --threads"


@dataclass(frozen=True)
class Status:
    """Progress of an experiment: the current step, numbers of cells, and the estimated seconds left."""

    doing: str
    done: int = 0
    failed: int = 0
    total: int = 0
    left: float | None = None


def run_experiment(
    experiment: Experiment | str | Path,
    *,
    n_jobs: int = 1,
    data: str | Path | None = None,
    output: str | Path | None = None,
    device: str | None = None,
    plugins: bool = False,
    progress: Callable[[Status], None] | None = None,
    command: str | None = None,
    runs: str | None = None,
) -> Results:
    """Run an experiment, or resume it.

    Parameters
    ----------
    experiment : Experiment or path
        What to run.
    n_jobs : int
        Number of cells to compute in parallel, each in a process of its own; the results do not depend on it. A script
        that asks for more than one must be safe to import (``if __name__ == "__main__":``).
    data : path, optional
        Folder for data files that are not next to the experiment file. Default: RANKWRIGHT_DATA.
    output : path, optional
        Results folder, instead of the one in the file.
    device : {"cpu", "cuda"}, optional
        Where methods are trained that do not set it themselves; those that cannot use a GPU stay on the CPU.
    plugins : bool
        Whether Python code that the file names (``plugins``, ``python:FILE.py:CLASS``) may be run.
    progress : callable, optional
        Called with a :class:`Status` at every change.
    command : str, optional
        The command, for the manifest.
    runs : {"plain", "annotated"}, optional
        Write the rankings of all cells as TREC runs to ``runs`` in the results folder; annotated ones begin with their
        ir_metadata, which trec_eval does not read.

    Returns
    -------
    Results
        Results of all cells that succeeded; ``failures`` has the others. If some failed, and the folder has results of
        more cells from before, those stay, and the returned results are in the folder ``unfinished`` inside.

    Examples
    --------
    >>> results = run_experiment("exp.toml", n_jobs=4)  # doctest: +SKIP
    >>> print(results.table("means"))  # doctest: +SKIP
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1:
        raise InputError(f"n_jobs is {n_jobs!r}; expected a positive integer")
    if runs not in (None, "plain", "annotated"):
        raise InputError(f"runs is {runs!r}; expected plain or annotated")
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment, data=data, plugins=plugins)
    if output is not None:
        experiment = dataclasses.replace(experiment, output=Path(output))
    if device is not None:
        experiment = _on_device(experiment, device)
    _make_folder(experiment.output)
    for folder in (experiment.output, *(path for path in experiment.output.rglob("*") if path.is_dir())):
        remove_leftovers(folder)
    notify = progress or (lambda _: None)
    started, began = datetime.now(UTC), time.perf_counter()
    prepared = [_prepared(experiment, source, n_jobs, notify) for source in experiment.data]
    cells = _cells(experiment, prepared)
    waiting = list({cell.file: cell for cell in cells if not cell.is_done}.values())  # seeds share single features
    threads = max(1, n_jobs // max(1, len(waiting)))
    waiting = [dataclasses.replace(cell, threads=threads) for cell in waiting]
    watch = _Watch(cells, waiting, n_jobs, notify)
    try:
        if n_jobs == 1 or len(waiting) < 2:
            for cell in waiting:
                watch.begun(cell)
                watch.ended(cell, run_cell(cell))
        else:
            _run_all(waiting, n_jobs, watch, experiment.plugins)
    finally:  # also after an interruption: the results so far can be looked at
        session = {
            "command": command or "",
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": time.perf_counter() - began,
            "threads": n_jobs,
            "cells": watch.done,
        }
        folder = write_results(experiment, prepared, cells, watch.failures, session, watch.testing)
    if runs is not None:
        write_runs(experiment, cells, read_manifest(folder), runs == "annotated", watch.testing)
    return Results.open(folder)


def _on_device(experiment: Experiment, device: str) -> Experiment:
    """The experiment with a device for all methods that have one and do not set it."""
    if device == "cuda":
        from rankwright.gpu.device import check_device

        check_device()

    def placed(spec: MethodSpec | None) -> Any:
        if spec is None or spec.is_feature or spec.method.startswith(ADAPT):
            return spec
        if "device" not in parse_method(spec.method).defaults():
            return spec
        return dataclasses.replace(spec, parameters={"device": device} | dict(spec.parameters))

    methods = tuple(placed(spec) for spec in experiment.methods)
    data = tuple(
        dataclasses.replace(
            source,
            backgrounds=tuple(
                dataclasses.replace(background, spec=placed(background.spec)) for background in source.backgrounds
            ),
        )
        for source in experiment.data
    )
    if methods == experiment.methods and data == experiment.data and device == "cuda":
        raise InputError("device is 'cuda', but no method of the experiment uses a GPU, or all set it themselves")
    return dataclasses.replace(experiment, methods=methods, data=data)


def _make_folder(folder: Path) -> None:
    """Make the results folder; a folder with other files in it is left alone."""
    ours = (folder / MANIFEST).is_file() or (folder / "cells").is_dir()
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("exists and contains no results of an experiment; expected a new name for the output", folder)
    try:
        for name in ("cells", "cache", "models"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", folder) from None


def _prepared(experiment: Experiment, source: DataSource, threads: int, notify: Callable[[Status], None]) -> Prepared:
    """A prepared data set, with those of its backgrounds that a method adapts."""
    settings: Any = {"threads": threads, "say": lambda doing: notify(Status(doing))}
    cache = experiment.output / "cache"
    prepared = prepare(source, cache, **settings)
    if source.without_best or any(spec.method == HINDSIGHT for spec in experiment.methods):
        splits = splits_of(prepared, experiment.protocol, experiment.seed)
        prepared = with_best(prepared, splits, experiment.measures[0])
    backgrounds = tuple(
        prepare_background(source, background, prepared.parts, cache, seed=experiment.seed, **settings)
        for background in source.backgrounds
        if any(spec.adapts(background.name) for spec in experiment.methods)
    )
    return dataclasses.replace(prepared, backgrounds=backgrounds)


def _cells(experiment: Experiment, prepared: Sequence[Prepared]) -> list[Cell]:
    return [
        make_cell(experiment, source, number, split, spec, seed)
        for source in prepared
        for number, split in enumerate(splits_of(source, experiment.protocol, experiment.seed), 1)
        for seed in experiment.seeds or (experiment.seed,)
        for spec in experiment.methods
    ]


class _Watch:
    """Counts cells, keeps failures, and estimates the time left from the finished cells."""

    def __init__(
        self, cells: Sequence[Cell], waiting: Sequence[Cell], jobs: int, notify: Callable[[Status], None]
    ) -> None:
        self.failures: list[Failure] = []
        self.done = 0
        self._total, self._before = len(cells), len(cells) - len(waiting)
        self._waiting = {cell.file: cell for cell in waiting}
        self._jobs, self._notify = jobs, notify
        self._began: dict[Path, float] = {}
        self._seconds: dict[tuple[str, str], list[float]] = {}

    def begun(self, cell: Cell) -> None:
        self._began[cell.file] = time.perf_counter()
        self._show(cell)

    def ended(self, cell: Cell, failure: Failure | None) -> None:
        self._waiting.pop(cell.file, None)
        taken = time.perf_counter() - self._began[cell.file]
        self._seconds.setdefault((cell.data, cell.spec.name), []).append(taken)
        if failure is None:
            self.done += 1
        else:
            self.failures.append(failure)
        self._show(cell)

    def testing(self, done: int) -> None:
        """Show how many cells have been evaluated."""
        finished = self._before + self.done + len(self.failures)
        doing = f"computing measures, {done} of {self._total}"
        self._notify(Status(doing, finished, len(self.failures), self._total, self._left()))

    def _show(self, cell: Cell) -> None:
        doing = f"{cell.spec.name} on {cell.data}, split {cell.split}"
        done = self._before + self.done + len(self.failures)
        self._notify(Status(doing, done, len(self.failures), self._total, self._left()))

    def _left(self) -> float | None:
        """Every cell left is expected to take as long as similar ones took."""
        if not self._seconds:
            return None
        means = {place: sum(seconds) / len(seconds) for place, seconds in self._seconds.items()}
        overall = sum(means.values()) / len(means)
        by_method: dict[str, list[float]] = {}
        for (_, method), mean in means.items():
            by_method.setdefault(method, []).append(mean)
        expected = 0.0
        for cell in self._waiting.values():
            name = cell.spec.name
            elsewhere = by_method.get(name, [overall])
            total = means.get((cell.data, name), sum(elsewhere) / len(elsewhere))
            gone = time.perf_counter() - self._began[cell.file] if cell.file in self._began else 0.0
            expected += max(0.0, total - gone)
        return expected / min(self._jobs, max(1, len(self._waiting)))


def _run_all(waiting: Sequence[Cell], jobs: int, watch: _Watch, plugins: Sequence[Path]) -> None:
    """Compute cells in several processes, ``jobs`` at a time."""
    queue = deque(waiting)
    while queue:
        others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(queue)), context, _begin_worker, (plugins,))
        try:
            _run_until_broken(pool, queue, jobs, watch)
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _run_until_broken(pool: ProcessPoolExecutor, queue: deque[Cell], jobs: int, watch: _Watch) -> None:
    """Compute cells until none is left, or a process has died, which breaks the whole pool."""
    running: dict[Future[Failure | None], Cell] = {}
    broken = False
    while running or (queue and not broken):
        while queue and len(running) < jobs and not broken:
            try:
                future = pool.submit(run_cell, queue[0])
            except BrokenExecutor:
                broken = True
                break
            running[future] = queue.popleft()
            watch.begun(running[future])
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            cell = running.pop(future)
            try:
                failure = future.result()
            except BrokenExecutor:
                broken, failure = True, Failure.of(cell, _DIED)
            watch.ended(cell, failure)


def _begin_worker(plugins: Sequence[Path]) -> None:
    """Let a worker end at once with Ctrl-C or with the process of the experiment: half a cell is no result.

    Own measures are known in it, too, before it is sent a cell that has some.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()
    for path in plugins:
        load_plugin(path)


def default_jobs(device: str | None = None) -> int:
    """Number of cells to compute in parallel: one for each core, but a few where they share a GPU.

    Examples
    --------
    >>> default_jobs("cuda") <= min(4, default_jobs())
    True
    """
    return min(usable_cores(), _ON_DEVICE) if device == "cuda" else usable_cores()
