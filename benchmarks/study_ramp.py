"""What SVMndcg, SVMmrr, DORM and SVMcombo gain over SVMmap in the measures they are trained for, with default settings.

Twenty data sets: OHSUMED and MQ2008 in LETOR's folds, MQ2007 in four folds (two parts train, one validates, one tests),
ClueWeb09 in five; in five random folds TREC-COVID rounds 1 to 4 (submitted runs as features, and features with one
meaning in every round), the demo (Python's documentation), five text collections (15 base functions), samples of
MSLR-WEB10K, and LightGBM's example. What is open is chosen on validation queries, for SVMmap by AP. SVMcombo has the
paper's three losses, and is measured by the mean of their measures. Values are means of fold means, over the queries
and candidates of the feature files; p is that of a randomisation test of all test queries; times are CPU seconds of
whole fits, validation included, summed over folds, after compiling.

Needs the folders of `study_auto` in the given folder or in RANKWRIGHT_DATA. Prints Markdown; `--markdown FILE` also
writes it to a file, `--results FILE` writes the figures as data.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import (
    LambdaRank,
    QueryKFold,
    RankingData,
    StructuredSVM,
    build_index,
    evaluate,
    feature_set,
    letor_folds,
    make_features,
    read_letor,
    read_qrels,
    read_queries,
)
from rankwright.data.order import share_reordered
from rankwright.datasets import python_docs
from rankwright.evaluation.significance import p_value
from rankwright.maxmargin import ramp, start
from study_data import Fold, Shown, Table, all_folds, read, run_study, signed, trec_covid

COMBO = ["map", "mrr@10", "ndcg@10"]
PAPERS_MAPS = [None, "mrr", None]
LARGE = ("cran", "npl", "cisi", "demo")  # left out of the table of settings
FEW = 2  # folds in that table
LAMBDARANK = "LambdaRank"
PARTS = ("train", "test")


@dataclass(frozen=True)
class Method:
    """A ranker, the measures it is trained for, and how it differs from the default.

    `patched`: what the method takes from `rankwright.maxmargin` in place of the constants there. `start`: whose weights
    the ramp bound starts from, unmoved.
    """

    measures: tuple[str, ...]
    loss: str | list[str]
    parameters: dict[str, Any]
    patched: tuple[tuple[Any, str, Any], ...] = ()
    start: str | None = None

    def fit(self, train: RankingData, valid: RankingData) -> Any:
        """Train, with what is open chosen on the validation queries."""
        if self.loss == LAMBDARANK:
            return LambdaRank("ndcg@10", hidden=0).fit(train, eval_set=valid)
        ranker = StructuredSVM(self.loss, C="auto", **self.parameters)
        if self.start is not None:
            ranker.start_from(replace(METHODS[self.start], patched=()).fit(train, valid).coef_)
        with changed(self.patched):
            return ranker.fit(train, eval_set=valid)


@contextmanager
def changed(patched: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Change constants for a while."""
    kept = [(module, name, getattr(module, name)) for module, name, _ in patched]
    for module, name, value in patched:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


NDCG, RR, ALL = ("nDCG@10",), ("RR@10",), ("AP", "RR@10", "nDCG@10")
METHODS = {
    "SVMmap": Method(("AP",), "map", {}),
    "linear LambdaRank": Method(NDCG, LAMBDARANK, {}),
    "SVMndcg": Method(NDCG, "ndcg@10", {}),
    "SVMmrr": Method(RR, "mrr@10", {}),
    "DORM": Method(NDCG, "dorm@10", {}),
    "SVMcombo": Method(ALL, COMBO, {}),
}
TRAINED = ("SVMndcg", "SVMmrr", "DORM", "SVMcombo")
HINGE = {"bound": "hinge"}
PAPERS = {
    "SVMndcg": Method(NDCG, "ndcg@10", HINGE),
    "SVMmrr": Method(RR, "mrr@10", {**HINGE, "feature_map": "mrr"}),
    "DORM": Method(NDCG, "dorm@10", HINGE),
    "SVMcombo": Method(ALL, COMBO, {**HINGE, "feature_map": PAPERS_MAPS}),
}


def variants(name: str) -> dict[str, Method]:
    """A method with other settings."""
    method = METHODS[name]

    def other(**parameters: Any) -> Method:
        return replace(method, parameters={**method.parameters, **parameters})

    found = {
        "default": method,
        "from SVMmap, not moved": replace(method, start="SVMmap"),
        "from LambdaRank, not moved": replace(method, start="linear LambdaRank"),
        "epochs by the highest mean": replace(method, patched=((start, "best_beyond_first", highest),)),
        "epochs without training queries": replace(method, patched=((start, "_MANY_QUERIES", 10**9),)),
        "C from 0.001 to 1": other(C_grid=(0.001, 0.01, 0.1, 1.0)),
        "tightness 0.5": replace(method, patched=((ramp, "_TIGHT", 0.5),)),
        "tightness 0.9": replace(method, patched=((ramp, "_TIGHT", 0.9),)),
        "one round": other(max_rounds=1),
        "twenty rounds": other(max_rounds=20),
    }
    if name == "SVMmrr":
        found["its own map"] = other(feature_map="mrr")
    if name == "SVMcombo":
        found["MRR on its own map"] = other(feature_map=PAPERS_MAPS)
        found["shared slack"] = other(slack="shared")
        found["learnt weights"] = other(loss_weights="auto")
    return found


def highest(values: Any, weights: Any = None) -> int:
    """Return the setting with the highest mean."""
    return int(np.argmax(np.mean(values, axis=1)))


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore")  # notices of useless hinges are what the table shows
    needed = ("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text", "mslr_sample")
    run_study(__doc__, (*needed, "lightgbm_rank"), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Read the data, then one table after the other."""
    data = every_set(root)
    for folds in data.values():
        warm_up(folds[0][0])
    base = {name: run(folds, METHODS["SVMmap"]) for name, folds in data.items()}
    yield {"training queries": {name: folds[0][0].n_queries for name, folds in data.items()}}
    yield from beside_map(data, base)
    small = {name: folds[:FEW] for name, folds in data.items() if name not in LARGE}
    yield from other_settings(small, {name: run(folds, METHODS["SVMmap"]) for name, folds in small.items()})


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


def every_set(root: Path) -> dict[str, list[Fold]]:
    """Read or make all data sets, as folds."""
    folds = every_fold(root)
    folds["TREC-COVID 4"] = random_folds(trec_covid(root, 4, sparse=False))
    for number in range(1, 5):
        path = root / "trec_covid_runs" / f"covid_round{number}.agg.txt.gz"
        folds[f"COVID features {number}"] = random_folds(read_letor(path))
    folder = root / "mslr_sample"
    parts = [read_letor(folder / name) for name in ("mslr.changli.vali.18q.txt.gz", "msn1.fold1.train.5k.txt.gz")]
    folds["MSLR sample"] = random_folds(RankingData.concatenate([replace(part, doc_ids=None) for part in parts]))
    folds["LightGBM's example"] = random_folds(lightgbm_example(root / "lightgbm_rank"))
    return folds


def lightgbm_example(folder: Path) -> RankingData:
    """Join both parts; queries are numbered."""
    width = max(
        read_letor(folder / f"rank.{part}.gz", group=folder / f"rank.{part}.query").n_features for part in PARTS
    )
    parts = [
        read_letor(folder / f"rank.{part}.gz", group=folder / f"rank.{part}.query", n_features=width, sparse=False)
        for part in PARTS
    ]
    renamed = [
        replace(part, query_ids=np.array([f"{at}-{q}" for q in part.query_ids])) for at, part in enumerate(parts)
    ]
    return RankingData.concatenate(renamed)


# Training


@dataclass(frozen=True)
class Result:
    """Of every fold: values of the measures by part, scores of the test queries, epochs; CPU seconds of all."""

    values: list[dict[str, dict[str, Any]]]
    scores: list[Any]
    epochs: list[int | None]
    seconds: float

    def of(self, part: str, measures: Sequence[str]) -> list[Any]:
        """Return the mean of some measures for the queries of every fold."""
        return [np.mean([fold[part][measure] for measure in measures], axis=0) for fold in self.values]

    def gain(self, other: Result, part: str, measures: Sequence[str]) -> float:
        """Return the difference of the means of fold means."""
        pairs = zip(self.of(part, measures), other.of(part, measures), strict=True)
        return float(np.mean([np.mean(own) - np.mean(reference) for own, reference in pairs]))

    def p(self, other: Result, measures: Sequence[str]) -> float:
        """Return p of the differences of all test queries."""
        differences = np.concatenate(self.of("test", measures)) - np.concatenate(other.of("test", measures))
        return p_value("randomization", differences) if differences.any() else 1.0


def run(folds: Sequence[Fold], method: Method) -> Result:
    """Train on every fold, and rank its training and test queries."""
    values, scores, epochs, seconds = [], [], [], 0.0
    for train, valid, test in folds:
        began = time.process_time()
        ranker = method.fit(train, valid)
        seconds += time.process_time() - began
        scores.append(ranker.predict(test))
        fold = {}
        for part, data, of_part in (("train", train, ranker.predict(train)), ("test", test, scores[-1])):
            found = evaluate(data, of_part, measures=ALL)
            fold[part] = dict(zip(ALL, found.values.T, strict=True))
        values.append(fold)
        epochs.append(getattr(getattr(ranker, "start_", None), "epochs_", None))
    return Result(values, scores, epochs, seconds)


def warm_up(data: RankingData) -> None:
    """Compile everything, or load it from disk."""
    few = data.select(np.arange(min(20, data.n_queries)))
    for method in (*METHODS.values(), *PAPERS.values()):
        method.fit(few, few)


# Tables


def beside_map(data: dict[str, list[Fold]], base: dict[str, Result]) -> Iterable[Shown]:
    """Every method, and the papers' problem, beside SVMmap."""
    rows: list[list[Any]] = []
    values: list[list[Any]] = []
    for name, folds in data.items():
        reference, smooth = base[name], run(folds, METHODS["linear LambdaRank"])
        values.append([name, *(float(np.mean([np.mean(v) for v in reference.of("test", (m,))])) for m in ALL)])
        gains = [smooth.gain(reference, part, NDCG) for part in PARTS]
        rows.append([name, "linear LambdaRank", "nDCG@10", *gains, smooth.p(reference, NDCG), 0.0, None, None, None])
        for method in TRAINED:
            measures = METHODS[method].measures
            found, paper = run(folds, METHODS[method]), run(folds, PAPERS[method])
            training, tested = (found.gain(reference, part, measures) for part in PARTS)
            moved = [
                share_reordered(before, after, test.indptr)
                for before, after, (_, _, test) in zip(reference.scores, found.scores, folds, strict=True)
            ]
            rows.append([
                name, method, " + ".join(measures), training, tested, found.p(reference, measures),
                found.gain(smooth, "train", measures), paper.gain(reference, "test", measures),
                float(np.mean(moved)), found.seconds / reference.seconds,
            ])  # fmt: skip
            print(name, method, signed(training), signed(tested), found.epochs, file=sys.stderr, flush=True)
    yield "## Beside SVMmap\n\nSVMmap's values on the test queries:\n"
    yield Table("SVMmap", ["data", *ALL], values, ["", *["short"] * len(ALL)])
    yield "\nDifferences from it in the measure trained for:\n"
    head = [
        "data", "method", "measure", "training", "test", "p", "training − LambdaRank's", "hinge, test", "reordered",
        "time",
    ]  # fmt: skip
    formats = ["", "", "", "signed", "signed", "p", "signed", "signed", "percent", "times"]
    yield Table("beside", head, rows, formats)


def other_settings(data: dict[str, list[Fold]], base: dict[str, Result]) -> Iterable[Shown]:
    """Start, pull, tightness, rounds and feature map: differences from SVMmap."""
    rows = []
    for name in ("SVMndcg", "SVMmrr", "SVMcombo"):
        measures = METHODS[name].measures
        for what, variant in variants(name).items():
            results = {dataset: run(folds, variant) for dataset, folds in data.items()}
            training, test = ([found.gain(base[at], part, measures) for at, found in results.items()] for part in PARTS)
            seconds = sum(found.seconds for found in results.values()) / sum(base[at].seconds for at in results)
            rows.append([name, what, float(np.mean(training)), float(np.mean(test)), min(test), seconds])
            print(*rows[-1], file=sys.stderr, flush=True)
    head = ["method", "setting", "training", "test", "lowest, test", "time"]
    yield f"## Other settings\n\nMean differences from SVMmap, two folds each of {', '.join(data)}.\n"
    yield {"settings on": list(data)}
    yield Table("settings", head, rows, ["", "", "signed", "signed", "signed", "times"])


if __name__ == "__main__":
    sys.exit(main())
