"""A results folder as an experiment leaves it, made up: methods that differ by a known amount on random queries."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np

METHODS = {"bm25": None, "svm-map": "AP", "svm-ndcg": "nDCG@10", "svm-mrr": "RR@10", "lambdamart": "nDCG@10"}
GAINS = {"bm25": 0.0, "svm-map": 0.06, "svm-ndcg": 0.045, "svm-mrr": 0.005, "lambdamart": -0.05}
MEASURES = ("AP", "nDCG@10", "RR")
GRID = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
WORDS = ("lift", "drag", "wing", "flow", "heat", "shock", "layer", "plate", "wave", "cone", "jet", "mach", "angle")


def write_results(
    folder: Path,
    *,
    data=("cranfield", "python-docs"),
    n_queries: int = 60,
    n_splits: int = 5,
    sizes=None,
    seed: int = 0,
    optional: bool = True,
    text: str | None = None,
    more: int = 0,
    empty=(),
    same: bool = False,
) -> Path:
    """Write the files; ``sizes`` are training set sizes for learning curves, ``text`` that of every query.

    ``more`` is the number of further methods, with long names; ``empty`` are queries without a relevant document; all
    methods are the ``same`` but for noise.
    """
    rng = np.random.default_rng(seed)
    methods = METHODS | {f"svm-map, adapted by way {at}": "AP" for at in range(more)}
    gains = GAINS | {name: 0.003 * at for at, name in enumerate(methods) if name not in GAINS}
    gains = dict.fromkeys(gains, 0.0) if same else gains
    folder.mkdir(parents=True, exist_ok=True)
    scores, runs, queries, paths, rounds, health, rankings = [], [], [], [], [], [], []
    for name in data:
        ease = rng.beta(2, 2.5, n_queries)
        ease[list(empty)] = -9
        for q in range(n_queries):
            words = text or " ".join(rng.choice(WORDS, rng.integers(3, 12)))
            kind = "informational" if q % 3 else "navigational"
            queries.append([name, f"q{q}", words, kind, 0 if q in empty else 3])
        for size, split in itertools.product(sizes or [40], range(n_splits)):
            label = f"{size}/{split}" if sizes else str(split)
            for method, goal in methods.items():
                place = [name, label, method]
                gain = gains[method] * (1 if not sizes else np.log(size) / np.log(max(sizes)))
                scores += [[*place, *row] for row in _scores(rng, ease, gain, range(split, n_queries, n_splits))]
                rankings += [[*place, *row] for row in _ranked(method, range(split, n_queries, n_splits), empty)]
                runs.append([*place, *_run(rng, method, goal, split, size)])
                if method == "lambdamart":
                    rounds += [[*place, r, 0.45 - 0.1 / r - r / 9000] for r in range(1, 81 + split)]
                paths += [[*place, json.dumps(point), value] for point, value in _points(rng, method, goal)]
        for method in ("svm-map", "svm-mrr", *list(methods)[len(METHODS) :]):
            for at, C in enumerate(GRID):
                slack = 1.0 if method == "svm-mrr" else 0.95 - 0.03 * at
                health.append([name, method, C, slack, slack, 0.0 if method == "svm-mrr" else 0.05 * 2**at, 5 + at])
    manifest = {
        "name": "demo-experiment",
        "command": "rankwright experiment run demo.toml",
        "started": "2025-05-04T10:00:00",
        "finished": "2025-05-04T10:12:31",
        "seed": 7,
        "versions": {"rankwright": "0.1.0", "numpy": "2.1.0", "python": "3.11.7"},
        "hashes": {name: "blake2b:" + f"{at}af09c" * 8 for at, name in enumerate(data)},
        "baseline": "bm25",
        "measures": list(MEASURES),
        "tests": ["wilcoxon", "t"],
        "correction": "holm",
        "definitions": {name: ["AP: relevant from label 1", f"nDCG@10: gain of {name}"] for name in data},
        "cells": {"total": 50, "done": 48, "failed": 2, "missing": 0},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    _write(folder / "per_query.csv", "data,split,method,query,measure,value", scores)
    if optional:
        header = "data,split,method,parameters,validation,training,seconds_train,seconds_tune"
        _write(folder / "runs.csv", f"{header},n_train_queries,note", runs)
        _write(folder / "queries.csv", "data,query,text,kind,relevant", queries)
        _write(folder / "rankings.csv", "data,split,method,query,rank,document,grade", rankings)
        _write(folder / "paths.csv", "data,split,method,parameters,validation", paths)
        _write(folder / "rounds.csv", "data,split,method,round,validation", rounds)
        _write(folder / "health.csv", "data,method,C,slack_ratio,objective_ratio,norm,passes", health)
    return folder


def _scores(rng, ease, gain, queries):
    """Query, measure and value; every ninth query is a tie."""
    for q in queries:
        for m, measure in enumerate(MEASURES):
            value = np.clip(ease[q] + gain + rng.normal(0.02 * m, 0.08), 0, 1)
            yield f"q{q}", measure, f"{max(ease[q], 0) if q % 9 == 0 else value:.6f}"


def _ranked(method, queries, empty):
    """Query, rank, document and grade: ten of fifteen documents in an order of the method's own; d0 is not judged."""
    for q in queries:
        order = np.random.default_rng([q, len(method)]).permutation(15)
        for rank, document in enumerate(order[:10], 1):
            grade = "" if document == 0 else 2 if document in (3, 4, 5) and q not in empty else 0
            yield f"q{q}", rank, f"d{document}", grade


def _run(rng, method, goal, split, size):
    """A row of runs.csv without its place."""
    tuned = {"C": float(rng.choice(GRID[2:5])), "loss": goal} if goal else {}
    seconds = [f"{rng.uniform(0.1, 0.4):.3f}", f"{rng.uniform(2, 4):.3f}"] if goal else ["0", "0"]
    if method == "lambdamart":
        tuned, seconds = {"learning_rate": 0.1, "max_leaves": 8, "measure": goal}, ["12.5", "120.1"]
    note = "stopped at 200 passes, gap 0.0021" if method == "svm-mrr" and split == 1 else ""
    return [json.dumps(tuned), 0.41, 0.47, *seconds, size, note]


def _points(rng, method, goal):
    """The points that a method has tried, and their values."""
    if method == "lambdamart":
        for rate, leaves in itertools.product((0.03, 0.1, 0.3), (4, 8, 16)):
            value = 0.45 - abs(np.log10(rate / 0.1)) / 20 - leaves / 1000 + rng.normal(0, 0.003)
            yield {"learning_rate": rate, "max_leaves": leaves}, value
    elif goal:
        for C in GRID:
            yield {"C": C}, 0.42 + 0.02 * np.exp(-(np.log10(C) ** 2)) + rng.normal(0, 0.004)


def _write(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)
