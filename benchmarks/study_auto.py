"""`auto` against every single method and the best single feature, on queries that none of them has seen.

The data sets of `study_ramp`, two splits of each, one of those of 50,000 documents and more. A split has training
and test queries only (the validation part of a fold is trained on): what a method leaves open it chooses by its own
cross-validation, as `rankwright train FILE` does. The best single feature is the one that is best on the training
queries. To save time, RankNet, DORM without cutoff, SVMs for accuracy and McRank with ordinal link are left out, and
McRank on large data.

Values are means of nDCG@10 over splits, then over data sets. Takes half an hour; with `--keep FOLDER` the results of
every split are kept there, so an interrupted study goes on where it was, unless the code has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from code_hash import code_of
from rankwright import RankingData, evaluate
from rankwright.evaluation.significance import p_value
from rankwright.io.files import replace_file
from rankwright.training.train import plan
from study_data import Fold, Shown, Table, run_study, short
from study_ramp import every_set

MEASURE = "nDCG@10"
AUTO = ("auto", "auto, explainable")
FEATURE = "best feature"
SINGLE = (
    *("svm-map", "svm-auc", "svm-ndcg", "svm-ndcg-nc", "svm-mrr", "dorm", "svm-combo", "rank-svm", "rsvm-ir"),
    *("lambdarank", "lambdarank, linear", "lambdaboost", "lambdamart", "mcrank"),
)
NOT_ON_LARGE = ("mcrank",)
LARGE = 50_000  # documents
SPLITS, LARGE_SPLITS = 2, 1
BEHIND, RESAMPLES = 0.01, 9999
NEEDED = (
    "ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text", "mslr_sample", "lightgbm_rank",
)  # fmt: skip
Found = dict[str, Any]


def main() -> int:
    """Run the study and print its tables."""
    run_study(__doc__, NEEDED, pages, options)
    return 0


def options(parser: argparse.ArgumentParser) -> None:
    """Add an option."""
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the results of every split")


def pages(root: Path, args: argparse.Namespace) -> Iterable[Shown]:
    """Train everything everywhere, then make the tables."""
    warnings.simplefilter("ignore")
    results: dict[str, list[Found]] = {}
    documents = {}
    for name, folds in sorted(every_set(root).items()):
        documents[name] = folds[0][0].n_docs + folds[0][1].n_docs
        for number, fold in enumerate(folds[: LARGE_SPLITS if documents[name] > LARGE else SPLITS]):
            results.setdefault(name, []).append(run(f"{name} {number + 1}", fold, args.keep))
    yield from tables(results, documents)


# Training


def run(name: str, fold: Fold, keep: Path | None) -> Found:
    """Train everything on one split, and test it; what was kept is not run again."""
    train, valid, test = fold
    data = RankingData.concatenate([train, valid])
    code = hashlib.sha256(json.dumps(code_of("study_auto")).encode()).hexdigest()[:8]
    kept = None if keep is None else keep / f"{name} {code}.json"
    found: Found = json.loads(kept.read_text()) if kept is not None and kept.is_file() else {}
    wanted = [FEATURE, *AUTO, *(method for method in SINGLE if data.n_docs <= LARGE or method not in NOT_ON_LARGE)]
    if not set(wanted) <= set(found):
        one("auto", data.select(np.flatnonzero(data.has_order)[:6]), test)  # compiles
    for method in wanted:
        if method not in found:
            found[method] = feature(data, test) if method == FEATURE else one(method, data, test)
            print(f"{name}, {method}: {short(found[method]['value'])}", file=sys.stderr, flush=True)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                with replace_file(kept) as out:
                    out.write(json.dumps(found).encode())
    return found


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
        promised = committee.to_dict()
        found |= {key: promised[key] for key in ("expected_value", "expected_difference")}
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


def tables(results: dict[str, list[Found]], documents: dict[str, int]) -> Iterable[Shown]:
    """Values of all methods, auto against the best feature and the best method, and what was promised."""
    yield f"## By method\n\nMeans of {MEASURE} over splits, and of CPU seconds.\n"
    rows = [
        [name, method, *(float(np.mean([split[method][what] for split in splits])) for what in ("value", "seconds"))]
        for name, splits in results.items()
        for method in splits[0]
    ]
    yield Table("methods", ["data", "method", MEASURE, "seconds"], rows, ["", "", "short", "1 digits"])
    yield (
        "\n## By data set\n\nDocuments trained on; p: of `auto` against the best feature; p (.01 behind): whether it "
        "is as far below the best method; `auto` less the method that is best on the other splits.\n"
    )
    head = ["data", "documents", "splits", "test queries", "p", "p (.01 behind)", "auto − the best by other splits"]
    lines = [
        [
            name, documents[name], len(splits), sum(len(split["auto"]["values"]) for split in splits),
            p_value("randomization", joined(splits, "auto") - joined(splits, FEATURE)), p_behind(splits),
            by_others(splits),
        ]
        for name, splits in results.items()
    ]  # fmt: skip
    yield Table("sets", head, lines, ["", "integer", "integer", "integer", "p", "p", "signed"])
    yield "\n## Found less promised\n"
    yield promises([split for splits in results.values() for split in splits])


def joined(splits: Sequence[Found], method: str) -> Any:
    """Return the values of all test queries."""
    return np.concatenate([split[method]["values"] for split in splits])


def p_behind(splits: Sequence[Found]) -> float:
    """How likely some method would seem so far above auto if auto were .01 below the best: it is the best of many.

    By bootstrap over queries of the largest of all methods' differences from auto, each less its mean.
    """
    apart = np.column_stack([joined(splits, m) - joined(splits, "auto") for m in splits[0] if m in SINGLE])
    means = apart.mean(axis=0)
    rng = np.random.default_rng(0)
    draws = rng.multinomial(len(apart), np.full(len(apart), 1 / len(apart)), size=RESAMPLES) / len(apart)
    largest = (draws @ (apart - means)).max(axis=1)
    return float((1 + (largest >= means.max() - BEHIND).sum()) / (1 + RESAMPLES))


def by_others(splits: Sequence[Found]) -> float | None:
    """Compare auto with the single method that is best on the other splits: what a user could have known."""
    if len(splits) < 2:
        return None
    apart = []
    for split in splits:
        others = [other for other in splits if other is not split]
        best = max(
            (method for method in split if method in SINGLE),
            key=lambda method: float(np.mean([other[method]["value"] for other in others])),
        )
        apart.append(split["auto"]["value"] - split[best]["value"])
    return float(np.mean(apart))


def promises(splits: Sequence[Found]) -> Table:
    """What was promised against what was found: in how many splits they agree, by the 95 % of both, and the means."""
    rows = []
    for name in AUTO:
        apart, gains, within = [], [], 0
        for split in splits:
            promised, low, high = split[name]["expected_value"]
            values = np.array(split[name]["values"])
            error = np.hypot((high - low) / 2 / 1.96, values.std(ddof=1) / np.sqrt(len(values)))
            apart.append(float(values.mean() - promised))
            gains.append(float((values - split[FEATURE]["values"]).mean() - split[name]["expected_difference"][0]))
            within += bool(abs(apart[-1]) <= 1.96 * error)
        rows.append([name, len(splits), within, float(np.mean(apart)), float(np.mean(gains))])
    head = ["model", "splits", "within both errors", MEASURE, "its gain over the best feature"]
    return Table("promises", head, rows, ["", "integer", "integer", "signed", "signed"])


if __name__ == "__main__":
    sys.exit(main())
