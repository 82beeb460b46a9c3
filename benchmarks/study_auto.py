"""`auto` against every single method and the best single feature, on queries that none of them has seen.

Data as in `study_ramp`, and: TREC-COVID round 4, the run-anonymous features of its four rounds, samples of MSLR-WEB10K,
LightGBM's example, and MQ2007's hold-out. Every split has training and test queries only (the validation part of a fold
is trained on): what a method leaves open it chooses by its own cross-validation, as `rankwright train FILE` does. The
best single feature is the one that is best on the training queries.

    python benchmarks/study_auto.py DATA --splits 3 --jobs 2 --markdown auto.md

Values are means of nDCG@10 over splits, then over data sets. Needs the folders of `study_ramp`, `mslr_sample` and
`lightgbm_rank`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import RankingData, evaluate
from rankwright.evaluation.significance import p_value
from rankwright.training.methods import NAMES
from rankwright.training.train import plan
from study_data import Fold, p_text, short, signed, table
from study_ramp import every_set

MEASURE = "nDCG@10"
AUTO = ("auto", "auto, explainable")
FEATURE = "best feature"
SLOW = ("mcrank", "mcrank-ordinal", "ranknet", "svm-acc", "svm-acc4")  # left out on large data: minutes a split
MANY = 50_000
BEHIND, RESAMPLES = 0.01, 9999
NEEDED = (
    "ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text", "mslr_sample", "lightgbm_rank",
)  # fmt: skip
METHODS = [*AUTO, "lambdarank, linear", *(name for name in NAMES if name != "auto")]
Found = dict[str, Any]


def main() -> int:
    """Run the study and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=os.environ.get("RANKWRIGHT_DATA"), help="data folder")
    parser.add_argument("--splits", type=int, default=3, help="splits of each data set, up to 5")
    parser.add_argument("--large-splits", type=int, default=2, help="those of data sets of 50,000 documents and more")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="*", help="some data sets, by name")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--keep", type=Path, help="folder for the results of every split, which are not run again")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables to this file")
    args = parser.parse_args()
    if AUTO[0] not in args.methods or set(args.methods) <= set(AUTO):
        parser.error("--methods needs auto, and at least one single method to compare it with")
    root = Path(args.data or ".")
    missing = [name for name in NEEDED if not (root / name).is_dir()]
    if missing:
        parser.error(f"no {', '.join(missing)} found; give the data folder or set RANKWRIGHT_DATA")
    tasks = [
        (name, number, fold, args.methods, args.keep)
        for name, folds in every_set(root).items()
        if not args.only or name in args.only
        for number, fold in enumerate(folds[: args.large_splits if is_large(folds[0]) else args.splits])
    ]
    tasks.sort(key=lambda task: (is_large(task[2]), task[1], task[2][0].n_docs))
    results: dict[str, list[Found]] = {}
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for name, number, found in pool.imap_unordered(run, tasks):
            print(f"{name} {number + 1}: auto {short(found[AUTO[0]]['value'])}", file=sys.stderr, flush=True)
            results.setdefault(name, []).append(found)
    page = "\n".join(pages({name: results[name] for name in sorted(results)}))
    print(page)
    if args.markdown:
        args.markdown.write_text(page, encoding="utf-8")
    return 0


# Data


def is_large(fold: Fold) -> bool:
    """Whether a data set takes minutes a split."""
    return fold[0].n_docs + fold[1].n_docs > MANY


# Training


def run(task: tuple[str, int, Fold, Sequence[str], Path | None]) -> tuple[str, int, Found]:
    """Train everything on one split, and test it."""
    name, number, (train, valid, test), methods, keep = task
    warnings.simplefilter("ignore")
    data = RankingData.concatenate([train, valid])
    one("auto", data.select(np.flatnonzero(data.has_order)[:6]), test)  # compiles
    kept = None if keep is None else keep / f"{name} {number}.json"
    found: Found = json.loads(kept.read_text()) if kept is not None and kept.is_file() else {}
    for method in (FEATURE, *methods):
        if method in found or (method in SLOW and data.n_docs > MANY):
            continue
        found[method] = feature(data, test) if method == FEATURE else one(method, data, test)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
    return name, number, found


def one(method: str, data: RankingData, test: RankingData) -> Found:
    """Train one method as the command line does, and test it."""
    name, _, rest = method.partition(", ")
    changed: dict[str, dict[str, Any]] = {"explainable": {"explainable": True}, "linear": {"hidden": 0}}
    settings = changed.get(rest, {}) | ({} if name == "auto" else {"cv": "auto"})
    planned = plan(name, settings, measure=MEASURE)
    began = time.process_time()
    trained = planned.train(data)
    seconds = time.process_time() - began
    values = evaluate(test, trained.model.predict(test), measures=[MEASURE]).values[:, 0]
    found: Found = {"value": float(values.mean()), "values": values.tolist(), "seconds": seconds}
    committee = trained.facts.committee
    if committee is not None:
        found |= committee.to_dict()
    return found


def feature(data: RankingData, test: RankingData) -> Found:
    """Find the best single feature on the training queries, and test it."""
    means = [evaluate(data, column(data, at), measures=[MEASURE]).means[MEASURE] for at in range(data.n_features)]
    values = evaluate(test, column(test, int(np.argmax(means))), measures=[MEASURE]).values[:, 0]
    return {"value": float(values.mean()), "values": values.tolist(), "seconds": 0.0}


def column(data: RankingData, at: int) -> Any:
    """Return one feature of all documents."""
    found = data.X[:, [at]]
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, np.float64).ravel()


# Tables


def pages(results: dict[str, list[Found]]) -> Iterable[str]:
    """Make the tables."""
    found = {method: None for splits in results.values() for split in splits for method in split}
    methods = [method for method in found if method not in (*AUTO, FEATURE)]
    means = {
        name: {
            method: float(np.mean([split[method]["value"] for split in splits]))
            for method in splits[0]
            if all(method in split for split in splits)
        }
        for name, splits in results.items()
    }
    yield by_set(results, means, methods)
    yield by_method(means, methods)
    yield promises(results)


def by_set(results: dict[str, list[Found]], means: dict[str, dict[str, float]], methods: Sequence[str]) -> str:
    """Every data set: auto, the best single method there, the best feature, p against it."""
    rows = []
    for name, splits in results.items():
        own = means[name]
        best = max((method for method in methods if method in own), key=lambda method: own[method])
        rank = 1 + sum(own[method] > own["auto"] for method in methods if method in own)
        values = [np.concatenate([split[m]["values"] for split in splits]) for m in ("auto", FEATURE)]
        p = p_value("randomization", values[0] - values[1])
        queries, seconds = sum(len(split["auto"]["values"]) for split in splits), [s["auto"]["seconds"] for s in splits]
        rows.append([
            name, str(len(splits)), str(queries), short(own["auto"]), short(own[AUTO[1]]), f"{short(own[best])} {best}",
            signed(own["auto"] - own[best]), p_text(p_behind(splits, methods)), by_others(splits, methods), str(rank),
            short(own[FEATURE]), signed(own["auto"] - own[FEATURE]),
            p_text(p), f"{np.mean(seconds):.0f}",
        ])  # fmt: skip
    head = [
        "data", "splits", "test queries", "auto", "explainable", "best single method", "auto − it", "p (.01 behind)",
        "auto − the best by other splits", "rank of auto",
        "best feature", "auto − it", "p", "CPU s",
    ]  # fmt: skip
    return table(head, rows)


def p_behind(splits: Sequence[Found], methods: Sequence[str]) -> float:
    """How likely some method would seem so far above auto if auto were .01 below the best: it is the best of many.

    By bootstrap over queries of the largest of all methods' differences from auto, each less its mean.
    """
    known = [method for method in methods if all(method in split for split in splits)]
    values = {m: np.concatenate([split[m]["values"] for split in splits]) for m in ("auto", *known)}
    apart = np.column_stack([values[method] - values["auto"] for method in known])
    means = apart.mean(axis=0)
    rng = np.random.default_rng(0)
    draws = rng.multinomial(len(apart), np.full(len(apart), 1 / len(apart)), size=RESAMPLES) / len(apart)
    largest = (draws @ (apart - means)).max(axis=1)
    return float((1 + (largest >= means.max() - BEHIND).sum()) / (1 + RESAMPLES))


def by_others(splits: Sequence[Found], methods: Sequence[str]) -> str:
    """Compare auto with the single method that is best on the other splits: what a user could have known."""
    if len(splits) < 2:
        return "–"
    known = [method for method in methods if all(method in split for split in splits)]
    apart = []
    for split in splits:
        others = [other for other in splits if other is not split]
        best = max(known, key=lambda method: float(np.mean([other[method]["value"] for other in others])))
        apart.append(split["auto"]["value"] - split[best]["value"])
    return signed(float(np.mean(apart)))


def by_method(means: dict[str, dict[str, float]], methods: Sequence[str]) -> str:
    """The mean over data sets of every method; those that were left out on some are compared on the others."""
    rows = []
    for method in (*AUTO, FEATURE, *methods):
        on = [own for own in means.values() if method in own]
        value, auto = np.mean([own[method] for own in on]), np.mean([own["auto"] for own in on])
        below = sum(own["auto"] < own[method] for own in on)
        lowest = min(own[method] - max(own[m] for m in methods if m in own) for own in on)
        rows.append(
            (
                float(value - auto),
                [
                    method,
                    short(float(value)),
                    signed(float(value - auto)),
                    f"{below} of {len(on)}",
                    signed(float(lowest)),
                ],
            )
        )
    rows.sort(key=lambda row: -row[0])
    head = ["method", "mean", "− auto", "above auto on", "lowest against the best single method"]
    return table(head, [row for _, row in rows])


def promises(results: dict[str, list[Found]]) -> str:
    """What was promised against what was found, in units of the error of their difference."""
    apart, gains, inside, total = [], [], 0, 0
    for splits in results.values():
        for split in splits:
            feature_values = np.array(split[FEATURE]["values"])
            for name in AUTO:
                promised, low, high = split[name]["expected_value"]
                values = np.array(split[name]["values"])
                error = np.hypot((high - low) / 2 / 1.96, values.std(ddof=1) / np.sqrt(len(values)))
                apart.append(values.mean() - promised)
                gains.append((values - feature_values).mean() - split[name]["expected_difference"][0])
                inside += abs(values.mean() - promised) <= 1.96 * error
                total += 1
    value, gain = signed(float(np.mean(apart))), signed(float(np.mean(gains)))
    found = f"Found less promised: {value} on average, within the 95 % of both in {inside} of {total}"
    return f"{found}; of the difference from the best single feature {gain}.\n"


if __name__ == "__main__":
    sys.exit(main())
