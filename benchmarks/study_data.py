"""Helpers for the studies: the data sets as folds, and tables.

Documents are read without their ids, so that ties stay in input order. The features of TREC-COVID are the submitted
runs: 1 − ln(rank)/ln(1001), or 0 if a run did not retrieve the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from figures import Table, marked, p_text, short, signed, table
from rankwright import Evaluation, QueryKFold, RankingData, letor_folds, read_letor
from study_runs import Shown, run_study

__all__ = [
    "ROUNDS",
    "Fold",
    "Shown",
    "Table",
    "all_folds",
    "joined_tests",
    "marked",
    "mq2008_folds",
    "mq2008_parts",
    "ohsumed_folds",
    "p_text",
    "pooled",
    "read",
    "run_study",
    "short",
    "signed",
    "table",
    "trec_covid",
]

Fold = tuple[RankingData, RankingData, RankingData]
ROUNDS = (1, 2, 3)


# Data


def read(path: Path, **options: Any) -> RankingData:
    """Read a file without document ids, so that ties stay in input order."""
    return replace(read_letor(path, **options), doc_ids=None)


def ohsumed_folds(root: Path) -> list[Fold]:
    """Read LETOR 2.0's five folds."""
    parts = ("trainingset", "validationset", "testset")
    files = [[read(root / "ohsumed_letor2" / f"Fold{k}" / f"{part}.txt.gz") for part in parts] for k in range(1, 6)]
    return [(train, valid, test) for train, valid, test in files]


def mq2008_parts(root: Path) -> list[RankingData]:
    """Read S1 to S5."""
    return [read(root / "mq2008" / f"S{k}.txt.gz") for k in range(1, 6)]


def mq2008_folds(root: Path) -> list[Fold]:
    """Read LETOR 4.0's five folds."""
    return list(letor_folds(mq2008_parts(root)))


def trec_covid(root: Path, number: int, **options: Any) -> RankingData:
    """Read the judged documents of one round, with one feature per run."""
    return read(root / "trec_covid_runs" / f"covid_round{number}.runs.txt.gz", **options)


def all_folds(root: Path) -> dict[str, list[Fold]]:
    """Read OHSUMED, MQ2008 and TREC-COVID rounds 1 to 3; the rounds in five random folds, one for validation."""
    folds = {"OHSUMED": ohsumed_folds(root), "MQ2008": mq2008_folds(root)}
    for number in ROUNDS:
        data = trec_covid(root, number, sparse=False)
        splits = QueryKFold(5, valid_folds=1).split_queries(data)
        folds[f"TREC-COVID {number}"] = [
            (data.select(split.train), data.select(split.valid), data.select(split.test)) for split in splits
        ]
    return folds


def joined_tests(folds: Sequence[Fold]) -> RankingData:
    """Join the test parts of the folds: every query once."""
    return RankingData.concatenate([test for _, _, test in folds])


# Tables


def pooled(name: str, tables: Sequence[Evaluation], measures: Sequence[str]) -> Evaluation:
    """Pool the queries of several tables into one system, with some of the measures."""
    first = tables[0]
    columns = [list(map(str, first.measures)).index(measure) for measure in measures]
    return Evaluation(
        np.concatenate([part.query_ids for part in tables]),
        tuple(first.measures[c] for c in columns),
        np.concatenate([part.values for part in tables])[:, columns],
        tuple(first.definitions[c] for c in columns),
        name,
    )
