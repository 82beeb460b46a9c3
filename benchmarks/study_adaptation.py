"""Adaptation: a background ranker from a rich domain and a little data from another (EMNLP'09).

- MQ2007 to MQ2008: five folds; 40 in-domain queries to train, 40 to validate, the fold's test part as closed test.
- TREC-COVID, with features that do not identify a run: rounds 1 and 2 to round 3; twenty random splits of its 40 topics
  (15 to train, 10 to validate, 15 as closed test), and round 4 as open test: later judgements of old and new topics.
- Text: cisi, cacm and npl to cran; five random splits (50 queries to train, 50 to validate, the others closed test).
- Text, three backgrounds, as the paper's English, Japanese and Chinese to Korean: a 2-layer LambdaRank on each of cisi,
  cacm and npl, an in-domain LambdaRank, interpolations up to 4-way and with neighbours, and boosting with leaves and
  rate chosen on validation data.

In the first three, the background ranker is LambdaMART on the rich data, the in-domain ranker RankingSVM with C chosen
on validation data, and there is a learning curve on the first split. A query's values are averaged over the splits that
test it. p: paired t-test on nDCG@10 per query, not corrected. Harm: share of queries whose nDCG@10 falls more than .05
below that of the background. Needs the folders `mq2007`, `mq2008`, `trec_covid_runs` and `text`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright import (
    LambdaMART,
    LambdaRank,
    RankingData,
    adapt,
    build_index,
    evaluate,
    feature_set,
    make_features,
    read_qrels,
)
from rankwright.adaptation.robustness import learning_curve
from rankwright.evaluation.significance import p_value
from rankwright.text.documents import read_documents
from study_data import Shown, Table, mq2008_folds, read, run_study

Array = npt.NDArray[Any]
MEASURES = ("nDCG@1", "nDCG@3", "nDCG@10", "AveNDCG")
CHOOSE = "nDCG@10"
LEAVES = (2, 4, 10, 20)
NAMES = {
    "background": "background",
    "in-domain": "in-domain",
    "interpolate": "2-way interpolation",
    "interpolate-3": "3-way interpolation",
    "augment": "in-domain + neighbours",
    "lambdaboost": "LambdaBoost (L = 1)",
}


@dataclass
class Task:
    """A background ranker with its data, and splits of the new domain: train, valid and named tests."""

    background: Any
    background_data: RankingData
    splits: list[tuple[RankingData, RankingData, dict[str, RankingData]]]


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, ("mq2007", "mq2008", "trec_covid_runs", "text"), _pages)
    return 0


def _pages(root: Path) -> Iterable[Shown]:
    warnings.simplefilter("ignore")
    rows: list[list[Any]] = []
    curves: list[list[Any]] = []
    for name, make in {"MQ2007 to MQ2008": letor, "TREC-COVID": covid, "Text": text}.items():
        task = make(root)
        rows += [[name, *row] for row in _on_task(task)]
        train, valid, tests = task.splits[0]
        curve = learning_curve(task.background, train, valid, tests["closed"], sizes=(5, 10, 20, 40), repeats=3)
        curves += [[name, point.method, str(point.n_queries), point.mean, point.low, point.high] for point in curve]
        print(name, file=sys.stderr, flush=True)
    rows += [["Text, three backgrounds", *row] for row in _several(root)]
    p = ["p, background", "p, in-domain"]
    head = ["task", "test", "ranker", "queries", *MEASURES, *p, "harm"]
    yield Table("means", head, rows, ["", "", "", "integer", *["short"] * len(MEASURES), "p", "p", "percent"])
    yield f"\nLearning curves: {CHOOSE} on the closed test of the first split, three samples of each size.\n"
    yield Table("curves", ["task", "ranker", "queries", "mean", "lowest", "highest"], curves, "short")


def _background(data: RankingData, valid: RankingData) -> Any:
    ranker = LambdaMART(300, 0.1, 20, randomize_nodes=True, eval_measure=CHOOSE)
    return ranker.fit(data, eval_set=valid).model_


def letor(root: Path) -> Task:
    """MQ2007 to MQ2008."""
    rich = [read(root / "mq2007" / f"S{k}.txt.gz") for k in range(1, 5)]
    background = _background(RankingData.concatenate(rich[:3]), rich[3])
    splits = []
    for train, valid, test in mq2008_folds(root):
        splits.append((_some(train, 40), _some(valid, 40), {"closed": test}))
    return Task(background, RankingData.concatenate(rich), splits)


def _some(data: RankingData, count: int) -> RankingData:
    """Draw some queries that have an order to learn, with seed 0."""
    lowest = np.minimum.reduceat(data.labels, data.indptr[:-1])
    useful = np.flatnonzero(np.maximum.reduceat(data.labels, data.indptr[:-1]) > lowest)
    return data.select(np.sort(np.random.default_rng(0).permutation(useful)[:count]))


def covid(root: Path) -> Task:
    """TREC-COVID rounds 1 and 2 to 3 and, as open test, 4."""
    rounds = [read(root / "trec_covid_runs" / f"covid_round{n}.agg.txt.gz", sparse=False) for n in range(1, 5)]
    renamed = [_with_prefix(data, f"round{n}-") for n, data in enumerate(rounds, 1)]
    background = _background(renamed[0], renamed[1])
    splits = []
    for part in _random_splits(renamed[2], 20, 15, 10):
        splits.append((*part[:2], {"closed": part[2], "open": renamed[3]}))
    return Task(background, _joined(renamed[:2]), splits)  # type: ignore[arg-type]


def _with_prefix(data: RankingData, prefix: str) -> RankingData:
    ids = np.char.add(prefix, data.query_ids.astype(str))
    return RankingData.from_arrays(data.X, data.labels, np.repeat(ids, data.sizes))


def _joined(parts: Sequence[RankingData]) -> RankingData:
    return RankingData.concatenate(list(parts))


def _random_splits(data: RankingData, repeats: int, n_train: int, n_valid: int) -> Iterator[tuple[RankingData, ...]]:
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(data.n_queries)
        parts = (order[:n_train], order[n_train : n_train + n_valid], order[n_train + n_valid :])
        yield tuple(data.select(np.sort(part)) for part in parts)


def text(root: Path) -> Task:
    """Three text collections to cran."""
    made = {name: _features(root / "text" / name) for name in ("cisi", "cacm", "npl", "cran")}
    rich = _joined([made["cisi"], made["npl"]])
    background = _background(rich, made["cacm"])
    splits = [(a, b, {"closed": c}) for a, b, c in _random_splits(made["cran"], 5, 50, 50)]
    data = _joined([rich, made["cacm"]])
    return Task(background, data, splits)


def _several(root: Path) -> Iterable[list[Any]]:
    """Three backgrounds, each alone and together: the rows of Tables 5, 7, 9 and 11."""
    made = {name: _features(root / "text" / name) for name in ("cisi", "cacm", "npl", "cran")}
    cran = made.pop("cran")
    backgrounds = {name: LambdaRank(CHOOSE, hidden=15).fit(data).model_ for name, data in made.items()}
    net: dict[str, Any] = {"in_domain": "lambdarank", "in_domain_settings": {"hidden": 10}}
    tuned: dict[str, Any] = {"leaves": LEAVES, "rate": (0.1, 0.5), "trees": 500}
    ways = {
        "interpolation": ("interpolate", net),
        "LambdaBoost": ("lambdaboost", tuned),
        "LambdaMART": ("lambdamart", tuned),
    }
    values: dict[str, dict[str, list[Array]]] = {}
    for train, valid, test in _random_splits(cran, 5, 50, 50):
        models: dict[str, Any] = {f"background ({name})": model for name, model in backgrounds.items()}
        shared: dict[str, Any] = {"measure": CHOOSE, "background_data": [*made.values()]}
        for name, way, settings in (
            ("in-domain", "in-domain", net),
            ("backgrounds, interpolated", "background", {}),
            *((f"{how} ({one})", *ways[how]) for how in ways for one in backgrounds),
            *((f"{'4-way ' * (how == 'interpolation')}{how} (all)", *ways[how]) for how in ways),
            ("in-domain + neighbours", "augment", net),
            ("5-way interpolation, with neighbours", "interpolate-3", net),
        ):
            used = {one: model for one, model in backgrounds.items() if f"({one})" in name} or backgrounds
            models[name] = adapt(used, train, valid, method=way, **shared, **settings).model
        for name, model in models.items():
            _collect(values.setdefault(name, {}), test, model)
    return _rows("closed", values, "backgrounds, interpolated")


def _collect(per_query: dict[str, list[Array]], data: RankingData, model: Any) -> None:
    """Add the values of a model on test data to those of other splits."""
    found = evaluate(data, model.predict(data), measures=MEASURES)
    for query, row in zip(found.query_ids.tolist(), found.values, strict=True):
        per_query.setdefault(str(query), []).append(row)


def _features(folder: Path) -> RankingData:
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = {str(entry["id"]): entry["text"] for entry in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as scratch:
        index = build_index(read_documents(folder / "docs.jsonl.gz"), Path(scratch, "index"))
        names = [*feature_set("base"), *feature_set("sigir06")]
        data = make_features(
            index, queries, features=names, qrels=read_qrels(folder / "qrels.txt"), candidates="union", depth=100
        ).data
    ids = np.char.add(f"{folder.name}-", data.query_ids.astype(str))
    return RankingData.from_arrays(data.X, data.labels, np.repeat(ids, data.sizes), feature_names=names)


def _on_task(task: Task) -> Iterable[list[Any]]:
    values: dict[str, dict[str, dict[str, list[Array]]]] = {}
    for train, valid, tests in task.splits:
        for name, model in _models(task, train, valid).items():
            for test, data in tests.items():
                _collect(values.setdefault(test, {}).setdefault(name, {}), data, model)
    for test, systems in values.items():
        yield from _rows(test, systems, "background")


def _models(task: Task, train: RankingData, valid: RankingData) -> dict[str, Any]:
    found = adapt(task.background, train, valid, background_data=task.background_data, measure=CHOOSE)
    models = {NAMES[one.name]: one.model for one in found.candidates if one.name in NAMES}
    for randomize_nodes in (False, True):
        for leaves in LEAVES:
            ranker = LambdaMART(
                500, 0.1, leaves, measure=CHOOSE, eval_measure=CHOOSE, randomize_nodes=randomize_nodes,
                background=task.background,
            )  # fmt: skip
            name = f"LambdaMART, L = {leaves}{', random nodes' if randomize_nodes else ''}"
            models[name] = ranker.fit(train, eval_set=valid).model_
    return models


def _rows(test: str, systems: dict[str, dict[str, list[Array]]], background: str) -> Iterable[list[Any]]:
    """Test, ranker, number of queries, means, p-values against background and in-domain ranker, and harm."""
    means = {name: np.array([np.mean(rows, axis=0) for rows in found.values()]) for name, found in systems.items()}
    at = MEASURES.index(CHOOSE)
    for name, found in means.items():
        apart = [found[:, at] - means[other][:, at] for other in (background, "in-domain")]
        p = [p_value("t", less) if less.any() else None for less in apart]
        harm = None if name == background else float((apart[0] < -0.05).mean())
        yield [test, name, len(found), *found.mean(axis=0).tolist(), *p, harm]


if __name__ == "__main__":
    raise SystemExit(main())
