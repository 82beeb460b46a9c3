"""How time and memory grow with documents, queries, features, C and threads: fitted exponents, and a plot.

One axis changes at a time, around 300 queries of 48 documents with 40 float32 features, C = 0.1 and one thread. An
exponent is the slope of a straight line through the logarithms: at 1, twice the documents take twice the time. Time is
CPU time (wall time for threads), the best of two runs; memory is the peak during the run above what was there before,
where Linux tells. Nothing is claimed: the table and the plot say what was measured.

LambdaMART and LightGBM grow 20 trees of 31 leaves, linear LambdaRank takes 5 epochs, max-margin training runs until it
is proved to be within its default tolerance. scikit-learn's LinearSVC is given all pairs as rows, where these are few
enough to be held.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

from rankwright import LambdaMART, LambdaRank, RankingSVM, StructuredSVM, evaluate, read_letor
from rankwright.data.display import look, new_figure, write_figure

Array = npt.NDArray[Any]
TREES, LEAVES, EPOCHS = 20, 31, 5
MOST_PAIRS = 300_000  # rows for LinearSVC
MMAP_THRESHOLD = -3  # mallopt's number for the size from which memory is given back at once


@dataclass(frozen=True)
class Case:
    """What one measurement is made of."""

    docs: int = 48  # per query
    queries: int = 300
    features: int = 40
    C: float = 0.1
    threads: int = 1


@dataclass(frozen=True)
class Data:
    """Drawn data, and the same as a LETOR file."""

    X: Array
    labels: Array
    qid: Array
    file: Path


def draw(case: Case, folder: Path) -> Data:
    """Five grades that depend on three features and on noise."""
    rng = np.random.default_rng(0)
    n = case.docs * case.queries
    X = rng.standard_normal((n, case.features), dtype=np.float32)
    worth = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + rng.standard_normal(n)
    labels = np.digitize(worth, [0.5, 1.2, 2.0, 2.8]).astype(np.float64)
    qid = np.repeat(np.arange(case.queries), case.docs)
    file = folder / f"{n}-{case.features}.txt"
    if not file.exists():
        rows = (" ".join(f"{j}:{value:.4f}" for j, value in enumerate(row, 1)) for row in X.tolist())
        lines = (f"{label:.0f} qid:{q} {row}\n" for label, q, row in zip(labels, qid, rows, strict=True))
        file.write_text("".join(lines))
    return Data(X, labels, qid, file)


def rank_svm(data: Data, case: Case) -> Any:
    """Max-margin training over all pairs."""
    return RankingSVM(C=case.C, n_jobs=case.threads).fit(data.X, data.labels, data.qid)


def svm_map(data: Data, case: Case) -> Any:
    """Max-margin training for average precision."""
    return StructuredSVM("map", C=case.C, n_jobs=case.threads).fit(data.X, data.labels, data.qid)


def linear_svc(data: Data, case: Case) -> Any:
    """scikit-learn's SVM over differences of documents; None where there are too many."""
    if case.queries * case.docs**2 * 0.35 > MOST_PAIRS or case.threads > 1:
        return None
    grades = data.labels.reshape(case.queries, case.docs)
    query, above, below = np.nonzero(grades[:, :, None] > grades[:, None, :])
    signs = np.where(np.arange(len(query)) % 2, 1.0, -1.0)  # two classes
    apart = signs[:, None] * (data.X[query * case.docs + above] - data.X[query * case.docs + below])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may stop before it converges
        cost = case.C * case.queries / len(query)
        return LinearSVC(loss="hinge", C=cost, fit_intercept=False).fit(apart, signs)


def lambda_mart(data: Data, case: Case) -> Any:
    """LambdaMART."""
    return LambdaMART(n_trees=TREES, max_leaves=LEAVES, n_jobs=case.threads).fit(data.X, data.labels, data.qid)


def lightgbm_ranker(data: Data, case: Case) -> Any:
    """LightGBM's LambdaMART."""
    from lightgbm import LGBMRanker

    settings: dict[str, Any] = {"n_estimators": TREES, "num_leaves": LEAVES, "n_jobs": case.threads, "verbose": -1}
    return LGBMRanker(**settings).fit(data.X, data.labels, group=np.full(case.queries, case.docs))


def lambda_rank(data: Data, case: Case) -> Any:
    """LambdaRank with one weight per feature."""
    return LambdaRank(hidden=0, epochs=EPOCHS, n_jobs=case.threads).fit(data.X, data.labels, data.qid)


def evaluation(data: Data, case: Case) -> Any:
    """Three measures of a ranking."""
    return evaluate(data.labels, data.X[:, 0], data.qid, measures=["AP", "nDCG@10", "RR"])


def reading(data: Data, case: Case) -> Any:
    """Reading LETOR text."""
    return read_letor(data.file)


def reading_svmlight(data: Data, case: Case) -> Any:
    """The same by scikit-learn, into sparse features."""
    return load_svmlight_file(str(data.file), query_id=True)


TASKS: dict[str, tuple[Callable[[Data, Case], Any], str | None]] = {  # with the task that a peer is compared with
    "max-margin pairs": (rank_svm, None),
    "LinearSVC on pairs": (linear_svc, "max-margin pairs"),
    "svm-map": (svm_map, None),
    "LambdaMART": (lambda_mart, None),
    "LightGBM": (lightgbm_ranker, "LambdaMART"),
    "linear LambdaRank": (lambda_rank, None),
    "evaluation": (evaluation, None),
    "reading text": (reading, None),
    "load_svmlight_file": (reading_svmlight, "reading text"),
}
FIXED = ("evaluation", "reading text", "load_svmlight_file")  # have neither C nor threads
COSTLY = ("max-margin pairs", "LinearSVC on pairs", "svm-map")  # have a C


def axes(steps: int) -> dict[str, list[Case]]:
    """The cases along every axis: documents, queries and features halved and doubled ``steps`` times."""
    base, factors = Case(), [2.0**step for step in range(-steps, steps + 1)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = sorted({*(2**step for step in range(6) if 2**step < cores), cores})
    return {
        "docs": [replace(base, docs=int(base.docs * factor)) for factor in factors],
        "queries": [replace(base, queries=int(base.queries * factor)) for factor in factors],
        "features": [replace(base, features=int(base.features * factor)) for factor in factors],
        "C": [replace(base, C=base.C * 10.0**step) for step in range(-1, 3)],
        "threads": [replace(base, queries=2 * base.queries, threads=count) for count in threads],
    }


def peak_above(run: Callable[[], Any]) -> float:
    """Peak memory in MB during a run, above that before it; nan where the system does not tell."""
    try:
        _give_back_from(1 << 16)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before = _status("VmRSS")
        run()
        return (_status("VmHWM") - before) / 1024
    except OSError:
        return float("nan")
    finally:
        _give_back_from(1 << 25)


def _give_back_from(size: int) -> None:
    """Have memory of this size returned to the system when freed, so that the next run has to ask for it again."""
    with suppress(AttributeError, OSError):  # not glibc
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, size)
        library.malloc_trim(0)


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(field)))


def measured(name: str, data: Data, case: Case, clock: Callable[[], float], repeat: int) -> tuple[float, float] | None:
    """Seconds and MB of one task; None if it cannot do that."""
    task = TASKS[name][0]
    if task(data, case) is None:  # also loads what is compiled
        return None
    times = []
    for _ in range(repeat):
        began = clock()
        task(data, case)
        times.append(clock() - began)
    return min(times), peak_above(lambda: task(data, case))


def slope(sizes: list[float], values: list[float]) -> float:
    """The exponent: the slope of the logarithms; nan for fewer than two points or nothing to measure."""
    if len(sizes) < 2 or not all(value > 0 for value in values):
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


Points = Mapping[tuple[str, str], list[tuple[float, float, float]]]


def measure_all(steps: int, repeat: int, folder: Path) -> Iterator[tuple[str, str, float, float, float]]:
    """Axis, task, size, seconds and MB of every measurement."""
    for axis, cases in axes(steps).items():
        clock = time.perf_counter if axis == "threads" else time.process_time
        for case in cases:
            data = draw(case, folder)
            for name in TASKS:
                if (axis == "C" and name not in COSTLY) or (axis == "threads" and name in FIXED):
                    continue
                with suppress(ImportError):  # a peer that is not installed
                    found = measured(name, data, case, clock, repeat)
                    if found is not None:
                        yield axis, name, getattr(case, axis), *found


def show(points: Points) -> None:
    """The table of exponents."""
    names = list(axes(1))
    head = "".join(f"{axis + (' t' if of == 0 else ' mem'):>14}" for axis in names for of in (0, 1))
    print(f"\nexponents of time (t) and memory (mem)\n{'':20}{head}")
    for name, (_, peer) in TASKS.items():
        cells = ""
        for axis in names:
            rows = points.get((axis, name), [])
            sizes = [row[0] for row in rows]
            for of in (1, 2):
                found = slope(sizes, [row[of] for row in rows])
                cells += f"{'-' if np.isnan(found) else f'{found:.2f}':>14}"
        print(f"{'  ' if peer else ''}{name:<{18 if peer else 20}}{cells}")


def plot(points: Points, target: Path) -> None:
    """Seconds by size: a panel for every axis, peers with thin lines."""

    def draw_all() -> Any:
        figure = new_figure(5.2)
        panels = figure.subplots(2, 3)
        for panel, axis in zip(panels.flat, axes(1), strict=False):
            for number, (name, (_, peer)) in enumerate(TASKS.items()):
                rows = points.get((axis, name), [])
                if rows:
                    style = look(number) | ({"linewidth": 0.7} if peer else {})
                    panel.plot([row[0] for row in rows], [row[1] for row in rows], label=name, **style)
            panel.set(xscale="log", yscale="log", title=axis if axis != "docs" else "documents per query")
            sizes = sorted({row[0] for (of, _), rows in points.items() if of == axis for row in rows})
            panel.set_xticks(sizes, [f"{size:g}" for size in sizes])
            panel.minorticks_off()
        panels[0, 0].set_ylabel("CPU seconds")
        panels[1, 0].set_ylabel("CPU seconds")
        panels[1, 1].set_ylabel("wall seconds")
        panels[1, 2].axis("off")
        panels[1, 2].legend(*panels[0, 0].get_legend_handles_labels(), loc="center", frameon=False)
        return figure

    write_figure(target, draw_all)
    print(f"wrote {target}")


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=int, default=2, help="how often documents, queries and features are halved and doubled"
    )
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="an .svg or .png file")
    arguments = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, scikit-learn {version('scikit-learn')}")
    points: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for axis, name, size, seconds, peak in measure_all(arguments.steps, arguments.repeat, Path(folder)):
            points.setdefault((axis, name), []).append((size, seconds, peak))
            print(f"  {axis:<9}{size:>9g}  {name:<20}{seconds:9.3f} s{peak:9.1f} MB", flush=True)
    show(points)
    if arguments.plot is not None:
        plot(points, arguments.plot)


if __name__ == "__main__":
    main()
