"""The ramp bound against the papers' hinge: SVMndcg, SVMmrr, DORM and SVMcombo beside SVMmap, with default settings.

OHSUMED and MQ2008 in LETOR's folds, MQ2007 in four folds (two parts train, one validates, one tests), ClueWeb09 in
five, TREC-COVID rounds 1 to 3 (submitted runs as features), the demo (Python's documentation) and five text collections
(15 base functions) in five random folds. C by validation, each method by its own measure, SVMmap by AP. SVMcombo has
the paper's three losses, AP, RR@10 and nDCG@10. Values are means of fold means, over the queries and candidates of the
feature files; times are CPU seconds of whole fits, validation included, summed over folds, after compiling.

Needs the folders of `study_data` and `mq2007`, `clueweb09_webis`, `text` in the given folder or in RANKWRIGHT_DATA.
Prints Markdown; `--markdown FILE` also writes it to a file, `--results FILE` writes the figures as data. The second
table takes longer than the first.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import (
    QueryKFold,
    RankingData,
    StructuredSVM,
    build_index,
    evaluate,
    feature_set,
    letor_folds,
    make_features,
    read_qrels,
    read_queries,
)
from rankwright.datasets import python_docs
from study_data import Fold, Shown, Table, all_folds, read, run_study, signed

MEASURES = ("AP", "nDCG@10", "RR@10")
COMBO = ["map", "mrr@10", "ndcg@10"]
PAPERS_MAPS = [None, "mrr", None]
LARGE = ("MQ2007", "cran", "npl", "cisi")  # left out of the second table
TARGET = 0.02


@dataclass(frozen=True)
class Method:
    """A ranker, the measure it is trained for, and how it differs from the default."""

    measure: str
    loss: str | list[str]
    parameters: dict[str, Any]
    start: str = "map"
    pulled: bool = True

    def fit(self, train: RankingData, valid: RankingData) -> StructuredSVM:
        """Train with C by validation."""
        ranker = StructuredSVM(self.loss, C="auto", **self.parameters)
        ranker._start_loss, ranker._pulled_to_start = self.start, self.pulled
        return ranker.fit(train, eval_set=valid)


HINGE = {"bound": "hinge"}
DEFAULTS = {
    "SVMmap": Method("AP", "map", {}),
    "SVMndcg": Method("nDCG@10", "ndcg@10", {}),
    "SVMmrr": Method("RR@10", "mrr@10", {}),
    "DORM": Method("nDCG@10", "dorm@10", {}),
    "SVMcombo": Method("AP", COMBO, {}),
}
PAPERS = {
    "SVMndcg": Method("nDCG@10", "ndcg@10", HINGE),
    "SVMmrr": Method("RR@10", "mrr@10", {**HINGE, "feature_map": "mrr"}),
    "DORM": Method("nDCG@10", "dorm@10", HINGE),
    "SVMcombo": Method("AP", COMBO, {**HINGE, "feature_map": PAPERS_MAPS}),
}
CONVEX = {
    "SVMmap": Method("AP", "map", {"bound": "ramp"}),
    "SVMauc": Method("AUC", "auc", {"bound": "ramp"}),
    "SVMndcg-nc": Method("nDCG", "ndcg", {"bound": "ramp"}),
}
FAR = (0.1, 1.0, 10.0, 100.0)


def variants(method: Method) -> dict[str, Method]:
    """Other starts, rounds and pulls of a method."""
    zero = replace(method, pulled=False, parameters={**method.parameters, "C_grid": FAR})
    found = {
        "default": method,
        "from SVMauc": replace(method, start="auc"),
        "pulled to 0": zero,
        "two rounds": replace(method, parameters={**method.parameters, "max_rounds": 2}),
        "ten rounds": replace(method, parameters={**method.parameters, "max_rounds": 10}),
    }
    if method.loss == "mrr@10":
        found["its own map"] = replace(method, parameters={"feature_map": "mrr"})
    if method.loss == COMBO:
        found["shared slack"] = replace(method, parameters={"slack": "shared"})
        found["MRR on its own map"] = replace(method, parameters={"feature_map": PAPERS_MAPS})
    return found


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore")  # notices of useless hinges are what the table shows
    run_study(__doc__, ("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Read the data, then one page after the other."""
    data = every_fold(root)
    for folds in data.values():
        warm_up(folds[0][0])
    base = {name: run(folds, DEFAULTS["SVMmap"]) for name, folds in data.items()}
    yield from against_map(data, base)
    small = {name: folds for name, folds in data.items() if name not in LARGE}
    yield from other_settings(small, base)
    yield from convex_losses(small, base)


# Data


def every_fold(root: Path) -> dict[str, list[Fold]]:
    """Read or make all data sets, as folds."""
    folds = all_folds(root)
    four = [read(root / "mq2007" / f"S{k}.txt.gz") for k in range(1, 5)]
    folds["MQ2007"] = [
        (RankingData.concatenate([four[k], four[(k + 1) % 4]]), four[(k + 2) % 4], four[(k + 3) % 4]) for k in range(4)
    ]
    folds["ClueWeb09"] = list(letor_folds([read(root / "clueweb09_webis" / f"S{k}.txt.gz") for k in range(1, 6)]))
    with tempfile.TemporaryDirectory() as place:
        collection = python_docs()
        index = build_index(collection.documents, Path(place) / "docs.index", split_identifiers=True, field_views=True)
        names = [*feature_set("base", index.fields), *feature_set("sigir06")]
        made = make_features(index, collection.queries, features=names, qrels=collection.qrels, depth=100)
        folds["demo"] = random_folds(made.data)
        for name in ("cran", "cisi", "med", "cacm", "npl"):
            folder = root / "text" / name
            index = build_index(folder / "docs.jsonl.gz", Path(place) / f"{name}.index")
            queries, qrels = read_queries(folder / "queries.jsonl"), read_qrels(folder / "qrels.txt")
            made = make_features(index, queries, features=feature_set("base"), qrels=qrels)
            folds[name] = random_folds(made.data)
    return folds


def random_folds(data: RankingData) -> list[Fold]:
    """Return five folds, one part each for validation and testing."""
    data = replace(data, doc_ids=None)
    splits = QueryKFold(5, valid_folds=1).split_queries(data)
    return [(data.select(split.train), data.select(split.valid), data.select(split.test)) for split in splits]


# Training


@dataclass(frozen=True)
class Result:
    """Means over folds: measures on the test queries, CPU seconds of all folds, the chosen C, bound over loss."""

    values: dict[str, float]
    seconds: float
    costs: list[float]
    zero: int


def run(folds: Sequence[Fold], method: Method) -> Result:
    """Train and test on every fold."""
    values, seconds, costs, zero = [], 0.0, [], 0
    for train, valid, test in folds:
        began = time.process_time()
        ranker = method.fit(train, valid)
        seconds += time.process_time() - began
        found = evaluate(test, ranker.predict(test), measures=[*MEASURES, "AUC", "nDCG"]).means
        values.append(found)
        costs.append(ranker.C_)
        row = next(row for row in ranker.C_path_ if row["C"] == ranker.C_)
        zero += row["slack_ratio"] >= 0.99
    means = {measure: float(np.mean([found[measure] for found in values])) for measure in values[0]}
    return Result(means, seconds, costs, zero)


def warm_up(data: RankingData) -> None:
    """Compile everything, or load it from disk."""
    few = data.select(np.arange(min(20, data.n_queries)))
    for method in (*DEFAULTS.values(), *PAPERS.values()):
        method.fit(few, few)


# Tables


def against_map(data: dict[str, list[Fold]], base: dict[str, Result]) -> Iterable[Shown]:
    """Every method with the papers' hinge and with the default, against SVMmap."""
    rows: list[list[Any]] = []
    changes, hinges, ratios = [], [], []
    names = [name for name in DEFAULTS if name != "SVMmap"]
    for dataset, folds in data.items():
        cells: list[Any] = [dataset, base[dataset].values["AP"]]
        changed, hinged, ratio = [], [], []
        for name in names:
            new, old = run(folds, DEFAULTS[name]), run(folds, PAPERS[name])
            measure = DEFAULTS[name].measure
            reference = base[dataset].values[measure]
            cells += [reference, old.values[measure], new.values[measure] - reference]
            changed.append(new.values[measure] - reference)
            hinged.append(old.values[measure] - reference)
            ratio.append(new.seconds / base[dataset].seconds)
        rows.append(cells)
        changes.append(changed)
        hinges.append(hinged)
        ratios.append(ratio)
        print(dataset, *map(signed, changed), *(f"{value:.1f}x" for value in ratio), file=sys.stderr, flush=True)
    head = ["data", "SVMmap, AP"]
    head += [
        text for name in names for text in (f"SVMmap, {DEFAULTS[name].measure}", f"{name}, hinge", f"{name}, ramp")
    ]
    summary = [
        [name, DEFAULTS[name].measure, was, mean, low, longest]
        for name, was, mean, low, longest in zip(
            names, np.mean(hinges, axis=0), np.mean(changes, axis=0), np.min(changes, axis=0), np.max(ratios, axis=0),
            strict=True,
        )
    ]  # fmt: skip
    ends = ["method", "measure", "hinge − SVMmap, mean", "ramp − SVMmap, mean", "lowest", "longest time / SVMmap's"]
    yield "## Beside SVMmap\n\nRamp: the difference from SVMmap in the measure trained for.\n"
    yield Table("beside", head, rows, ["", "short", *["short", "short", "signed"] * len(names)])
    yield Table("summary", ends, summary, ["", "", "signed", "signed", "signed", "times"])
    yield "CPU time of a fit, over that of SVMmap's, all values of C and folds:\n"
    yield Table("times", ["data", *names], [[name, *row] for name, row in zip(data, ratios, strict=True)], "times")


def other_settings(data: dict[str, list[Fold]], base: dict[str, Result]) -> Iterable[Shown]:
    """Start, pull, rounds and feature map: mean and lowest difference from SVMmap."""
    rows = []
    for name, method in DEFAULTS.items():
        if name == "SVMmap":
            continue
        for what, variant in variants(method).items():
            results = {dataset: run(folds, variant) for dataset, folds in data.items()}
            changes = [found.values[method.measure] - base[at].values[method.measure] for at, found in results.items()]
            seconds = sum(found.seconds for found in results.values()) / sum(base[at].seconds for at in results)
            mean, low = float(np.mean(changes)), min(changes)
            rows.append([name, what, method.measure, mean, low, seconds])
            print(name, what, signed(mean), signed(low), file=sys.stderr, flush=True)
    head = ["method", "setting", "measure", "mean difference from SVMmap", "lowest", "time / SVMmap's"]
    yield f"## Start, pull, rounds\n\nOn {', '.join(data)}.\n"
    yield {"settings on": list(data)}
    yield Table("settings", head, rows, ["", "", "", "signed", "signed", "times"])


def convex_losses(data: dict[str, list[Fold]], base: dict[str, Result]) -> Iterable[Shown]:
    """The ramp bound where the hinge is the default."""
    rows = []
    for name, method in CONVEX.items():
        hinge = replace(method, parameters={"bound": "hinge"})
        pairs = [(run(folds, hinge), run(folds, method)) for folds in data.values()]
        changes = [ramp.values[method.measure] - old.values[method.measure] for old, ramp in pairs]
        better = sum(change > 0 for change in changes)
        rows.append([name, method.measure, float(np.mean(changes)), min(changes), better, len(changes)])
        print(name, signed(float(np.mean(changes))), signed(min(changes)), file=sys.stderr, flush=True)
    head = ["method", "measure", "ramp − hinge, mean", "lowest", "ramp better", "of"]
    yield "## AP, AUC and nDCG without clip\n"
    yield Table("convex", head, rows, ["", "", "signed", "signed", "integer", "integer"])


if __name__ == "__main__":
    sys.exit(main())
