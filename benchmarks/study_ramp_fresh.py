"""What SVMndcg, SVMmrr, DORM and SVMcombo gain over SVMmap on data on which none of their settings was chosen.

`study_ramp` compares them on the twenty data sets on which their defaults were chosen. These four came later: CODEC
(runs of eight lexical and dense systems as features), and base functions over the fields of films with people's grades
(MSRD, 600 queries drawn from 8,110), of results of an open web search engine (mwmbl, 300 queries of 849, labels of
relevance) and of the products of an electronics shop (raters). Five random folds each, under three seeds; the rest is
as in `study_ramp`. The last table has the same with a start that must be better by one standard error, not by half, and
for the data of `study_ramp`, too.

Needs the folders `codec`, `msrd`, `mwmbl` and `raters` and those of `study_ramp` in the given folder or in
RANKWRIGHT_DATA. Prints Markdown; `--markdown FILE` also writes it to a file, `--results FILE` the figures as data.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import (
    QueryKFold,
    RankingData,
    TrecTable,
    build_index,
    feature_set,
    make_features,
    read_qrels,
    runs_to_data,
)
from rankwright.rankers import cross_validation
from study_data import Fold, Shown, Table, run_study
from study_ramp import METHODS, PARTS, TRAINED, Result, beside_map, run, warm_up
from study_ramp import every_set as twenty_sets

SEEDS = (1, 2, 3)
QUERIES = {"MSRD": 600, "mwmbl": 300}  # of so many, drawn at random
NEEDED = (
    *("ohsumed_letor2", "mq2008", "mq2007", "clueweb09_webis", "trec_covid_runs", "text", "mslr_sample"),
    "lightgbm_rank",
)
MOVIES = ("title", "overview", "actors", "characters")
NUMBERS = ("year", "votes", "rating", "popularity")


def main() -> int:
    """Run the study and print its tables."""
    warnings.simplefilter("ignore")  # notices of useless hinges are what the table shows
    run_study(__doc__, ("codec", "msrd", "mwmbl", "raters", *NEEDED), pages)
    return 0


def pages(root: Path) -> Iterable[Shown]:
    """Read the data, then all methods beside SVMmap."""
    data = {
        f"{name}, seed {seed}" if seed != SEEDS[0] else name: random_folds(whole, seed)
        for name, whole in every_set(root)
        for seed in SEEDS
    }
    warm_up(next(iter(data.values()))[0][0])
    yield {"training queries": {name: folds[0][0].n_queries for name, folds in data.items()}}
    base = {name: run(folds, METHODS["SVMmap"]) for name, folds in data.items()}
    yield from beside_map(data, base)
    yield "\n## A start that is better by one standard error\n"
    chosen_on = twenty_sets(root)
    yield stricter(data | chosen_on, base | {name: run(folds, METHODS["SVMmap"]) for name, folds in chosen_on.items()})


def stricter(data: Mapping[str, list[Fold]], base: Mapping[str, Result]) -> Table:
    """The same methods, where a start other than SVMmap's has to be better by one standard error."""
    rows = []
    for name, folds in data.items():
        for method in TRAINED:
            careful = replace(METHODS[method], patched=((cross_validation, "_CAUTION", 1.0),))
            found = run(folds, careful)
            gains = [found.gain(base[name], part, careful.measures) for part in PARTS]
            rows.append([name, method, *gains, found.p(base[name], careful.measures)])
    return Table("stricter", ["data", "method", "training", "test", "p"], rows, ["", "", "signed", "signed", "p"])


def random_folds(data: RankingData, seed: int) -> list[Fold]:
    """Return five random folds, one part each for validation and testing."""
    splits = QueryKFold(5, valid_folds=1, shuffle=True, random_state=seed).split_queries(replace(data, doc_ids=None))
    return [(data.select(split.train), data.select(split.valid), data.select(split.test)) for split in splits]


# Data


def every_set(root: Path) -> Iterator[tuple[str, RankingData]]:
    """Make the features of all four collections."""
    folder = root / "codec"
    runs = {path.name.removeprefix("document_"): run_of(path) for path in sorted((folder / "runs").glob("*.run.gz"))}
    yield "CODEC", runs_to_data(runs, read_qrels(folder / "qrels" / "document_ndcg.qrels"), documents="judged")
    with gzip.open(root / "msrd" / "movies-corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        movies = [json.loads(line) for line in lines]
    documents = [
        {"id": movie["id"]}
        | {name: words(movie[name]) for name in MOVIES}
        | {name: movie[name] or 0 for name in NUMBERS}
        for movie in movies
    ]
    with gzip.open(root / "msrd" / "judgments-dev.tsv.gz", "rt", encoding="utf-8") as lines:
        judged = [(row["query"], row["doc_id"], float(row["grade"])) for row in csv.DictReader(lines, delimiter="\t")]
    yield "MSRD", features(documents, judged, QUERIES["MSRD"], NUMBERS)
    with gzip.open(root / "mwmbl" / "learning-to-rank-llm.csv.gz", "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    documents = [{"id": str(at), **{name: row[name] for name in ("title", "extract")}} for at, row in enumerate(rows)]
    judged = [(row["query"], str(at), float(row["relevance"])) for at, row in enumerate(rows)]
    yield "mwmbl", features(documents, judged, QUERIES["mwmbl"])
    with open(root / "raters" / "Broad_Query_Set_individual_ratings.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    products = {row["docid"]: {name: row[name] for name in ("name", "description")} for row in rows}
    judged = [(row["query"], row["docid"], float(row["final_rating"])) for row in rows]
    yield "raters", features([{"id": key, **fields} for key, fields in products.items()], judged)


def run_of(path: Path) -> TrecTable:
    """Read a run; of a document that is in a query twice, as some are here, the higher score counts."""
    scores: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for query, _, document, _, score, *_ in map(str.split, lines):
            found = scores.setdefault(query, {})
            found[document] = max(float(score), found.get(document, -np.inf))
    return TrecTable.from_dict(scores)


def words(value: Any) -> str:
    """A text, or the texts of a list."""
    return " ".join(value) if isinstance(value, list) else str(value or "")


def features(
    documents: Sequence[Mapping[str, Any]],
    judged: list[tuple[str, str, float]],
    n_queries: int | None = None,
    numbers: Sequence[str] = (),
) -> RankingData:
    """Return base functions over all fields and each, and numbers of the documents, for the judged documents."""
    names = list(dict.fromkeys(query for query, _, _ in judged))
    if n_queries is not None:
        drawn = np.random.default_rng(0).choice(len(names), n_queries, replace=False)
        names = [names[at] for at in np.sort(drawn)]
    grades: dict[str, dict[str, float]] = {name: {} for name in names}
    for query, document, grade in judged:
        if query in grades:
            grades[query][document] = grade
    ids = {name: str(at) for at, name in enumerate(names)}
    qrels = TrecTable.from_dict({ids[name]: found for name, found in grades.items()})
    with tempfile.TemporaryDirectory() as place:
        index = build_index(documents, Path(place) / "index", numbers=numbers, field_views=True)
        columns = [*feature_set("base", index.fields), *numbers]
        queries = {number: name for name, number in ids.items()}
        return make_features(index, queries, features=columns, qrels=qrels, candidates="judged").data


if __name__ == "__main__":
    sys.exit(main())
