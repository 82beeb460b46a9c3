"""How far judges agree beyond chance, and how far two runs overlap.

Cohen's kappa of two judges, weighted or not, and Fleiss' kappa of several:

    kappa = 1 − Σ w_ij O_ij / Σ w_ij E_ij

O_ij is how often one judge says i and the other j, E_ij how often they would if they were independent and gave their
grades as often as they do. w_ij is 1 for different grades, |i − j| (linear) or (i − j)² (quadratic). Fleiss' kappa
compares the share of pairs of judges that agree on a document with what all their grades together make likely.

Rank-biased overlap of two runs (Webber, Moffat and Zobel 2010): how alike they are, whatever is relevant. With X_d
documents that both have among their first d, RBO = (1 − p) Σ_d p^(d−1) X_d / d. Runs are finite: beyond their ends the
overlap goes on as it was (equation 32 of the paper). With s and l the lengths of the shorter and the longer,

    RBO = (1−p)/p · [Σ_{d≤l} p^d X_d / d + Σ_{s<d≤l} p^d X_s (d − s) / (s d)] + p^l · [(X_l − X_s) / l + X_s / s]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.fusion import Pool, ranks
from rankwright.errors import InputError
from rankwright.io.trec import TrecSource, trec_table

__all__ = ["Agreement", "RunOverlap", "agreement", "cohen_kappa", "fleiss_kappa", "rank_biased_overlap"]

Grades = Mapping[tuple[str, str], float]
WEIGHTS = ("none", "linear", "quadratic")


@dataclass(frozen=True)
class PairOfJudges:
    """Two judges, on the documents that both have graded.

    `judges`: their names. `documents`: documents that both have graded. `same`: share of these that got the same grade
    twice. `kappa`, `linear`, `quadratic`: cohen's kappa, unweighted and weighted; nan if it is not defined.
    """

    judges: tuple[str, str]
    documents: int
    same: float
    kappa: float
    linear: float
    quadratic: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of several judges.

    Attributes
    ----------
    judges : dict of str to int
        Documents that each has graded.
    pairs : tuple of PairOfJudges
        Every two of them that have a document in common.
    fleiss : float
        Fleiss' kappa on the documents that all have graded; nan if there are none.
    documents : int
        How many these are.
    disagreements : tuple
        Query, document and the grades by judge, of every document with different grades; the widest range first.
    """

    judges: dict[str, int]
    pairs: tuple[PairOfJudges, ...]
    fleiss: float
    documents: int
    disagreements: tuple[tuple[str, str, dict[str, float]], ...]


def agreement(grades: Mapping[str, Grades]) -> Agreement:
    """How far judges agree.

    Parameters
    ----------
    grades : mapping
        For each judge, the grade by (query, document).

    Examples
    --------
    >>> result = agreement({"ann": {("q", "a"): 2, ("q", "b"): 0}, "bob": {("q", "a"): 2, ("q", "b"): 1}})
    >>> result.pairs[0].same, result.disagreements
    (0.5, (('q', 'b', {'ann': 0, 'bob': 1}),))
    """
    if len(grades) < 2:
        named = ", ".join(grades) or "none"
        raise InputError(f"agreement is about at least two judges; found {named}")
    pairs = []
    for judge, other in combinations(grades, 2):
        both = sorted(grades[judge].keys() & grades[other].keys())
        if both:
            first, second = ([grades[name][key] for key in both] for name in (judge, other))
            same = float(np.mean(np.asarray(first) == np.asarray(second)))
            kappas = (cohen_kappa(first, second, weights) for weights in WEIGHTS)
            pairs.append(PairOfJudges((judge, other), len(both), same, *kappas))
    common = sorted(set.intersection(*map(set, grades.values())))
    fleiss = fleiss_kappa([[judged[key] for judged in grades.values()] for key in common]) if common else math.nan
    return Agreement(
        {judge: len(judged) for judge, judged in grades.items()}, tuple(pairs), fleiss, len(common), _apart(grades)
    )


def _apart(grades: Mapping[str, Grades]) -> tuple[tuple[str, str, dict[str, float]], ...]:
    """Documents with different grades, the widest range first."""
    rows = []
    for key in sorted(set().union(*grades.values())):
        given = {name: judged[key] for name, judged in grades.items() if key in judged}
        if len(set(given.values())) > 1:
            rows.append((*key, given))
    return tuple(sorted(rows, key=lambda row: min(row[2].values()) - max(row[2].values())))


def cohen_kappa(first: npt.ArrayLike, second: npt.ArrayLike, weights: str = "none") -> float:
    """Cohen's kappa of two judges' grades of the same documents; nan where chance alone would make them agree.

    Parameters
    ----------
    first, second : array-like
        Their grades, document by document.
    weights : {"none", "linear", "quadratic"}
        How much different grades count: 1, their difference, or its square.

    Examples
    --------
    >>> round(cohen_kappa([0, 1, 2, 2], [0, 1, 1, 2]), 4), round(cohen_kappa([0, 1, 2, 2], [0, 1, 1, 2], "linear"), 4)
    (0.6364, 0.7143)
    """
    ours, theirs = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1 or not len(ours):
        raise InputError(f"grades of shape {ours.shape} and {theirs.shape}; expected one of each judge per document")
    if weights not in WEIGHTS:
        raise InputError(f"weights is {weights!r}; expected one of {', '.join(WEIGHTS)}")
    power = WEIGHTS.index(weights)
    observed = float(_costs(ours - theirs, power).mean())
    values, places = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    counts = [np.bincount(half, minlength=len(values)) / len(ours) for half in np.split(places, 2)]
    expected = float(counts[0] @ _costs(values[:, None] - values[None, :], power) @ counts[1])
    return 1.0 - observed / expected if expected else math.nan


def _costs(gaps: Array, power: int) -> Array:
    """What differences of grades count; 0 to the power of 0 is 0 here."""
    return np.where(gaps == 0, 0.0, np.abs(gaps) ** power)


def fleiss_kappa(grades: npt.ArrayLike) -> float:
    """Fleiss' kappa of several judges; nan where chance alone would make them agree.

    Parameters
    ----------
    grades : array-like of shape (documents, judges)
        The grades; the order of judges does not matter.

    Examples
    --------
    >>> round(fleiss_kappa([[0, 0, 0], [1, 1, 0], [2, 2, 2]]), 4)
    0.6538
    """
    table: Array = np.asarray(grades, np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise InputError(f"grades of shape {table.shape}; expected documents × at least two judges")
    n_judges = table.shape[1]
    counts = (table[:, :, None] == np.unique(table)).sum(axis=1)
    agreeing = ((counts * (counts - 1)).sum(axis=1) / (n_judges * (n_judges - 1))).mean()
    by_chance = float(np.square(counts.sum(axis=0) / table.size).sum())
    return float((agreeing - by_chance) / (1.0 - by_chance)) if by_chance < 1.0 else math.nan


@dataclass(frozen=True, eq=False)
class RunOverlap:
    """Rank-biased overlap of two runs, query by query.

    Attributes
    ----------
    query_ids : ndarray of str
        The queries that both have.
    values : ndarray
        Overlap of each, from 0 (no document in common) to 1 (equal lists).
    p : float
        The weight of each rank relative to the one above it.
    depth : int or None
        Documents per query that were looked at; None: all.
    left_out : int
        Queries that only one of the runs has.
    """

    query_ids: Array
    values: Array
    p: float
    depth: int | None
    left_out: int

    @property
    def mean(self) -> float:
        """Mean over the queries."""
        return float(self.values.mean())


def rank_biased_overlap(run: TrecSource, other: TrecSource, *, p: float = 0.9, depth: int | None = None) -> RunOverlap:
    """How alike two runs are, with more weight on the first ranks.

    Parameters
    ----------
    run, other : path, TrecTable, dict, data frame, or object of ranx or ir_measures
        The runs, in any form that :func:`evaluate_run` takes.
    p : float
        How likely a reader is to go on to the next rank; 0.9 puts 86 % of the weight on the first ten.
    depth : int, optional
        Documents of each query that count; all by default.

    Examples
    --------
    >>> result = rank_biased_overlap({"1": {"a": 3, "b": 2, "c": 1}}, {"1": {"a": 3, "c": 2, "b": 1}})
    >>> round(result.mean, 4)
    0.955
    """
    if not 0 < p < 1:
        raise InputError(f"p is {p}; expected a number between 0 and 1")
    if depth is not None and depth < 1:
        raise InputError(f"depth is {depth}; expected at least 1")
    tables = [trec_table(run, "run"), trec_table(other, "run")]
    pool = Pool.of(tables)
    rank = np.full((2, len(pool.keys)), np.inf)
    for at, table in enumerate(tables):
        places, rows = pool.places(at)
        rank[at, places] = ranks(table)[rows]
    if depth is not None:
        rank[rank > depth] = np.inf
    names, values = [], []
    bounds = np.searchsorted(pool.query, np.arange(len(pool.queries) + 1))
    for q, query in enumerate(pool.queries):
        ranks_of_query = rank[:, bounds[q] : bounds[q + 1]]
        shorter, longer = sorted(np.isfinite(ranks_of_query).sum(axis=1).tolist())
        if shorter:
            names.append(query)
            values.append(_overlap(ranks_of_query.max(axis=0), shorter, longer, p))
    if not names:
        raise InputError("the runs have no query in common")
    return RunOverlap(np.array(names, dtype=str), np.array(values), p, depth, len(pool.queries) - len(names))


def _overlap(lower: Array, shorter: int, longer: int, p: float) -> float:
    """The overlap of one query, from the lower of the two ranks of each document; inf if only one run has it."""
    met = np.bincount(lower[np.isfinite(lower)].astype(np.int64), minlength=longer + 1)
    common = np.cumsum(met)[1:]
    d = np.arange(1, longer + 1)
    weights, at_end = p**d, common[shorter - 1]
    total = (weights * common / d).sum()
    total += (weights * at_end * np.maximum(d - shorter, 0) / (shorter * d)).sum()
    beyond = (common[-1] - at_end) / longer + at_end / shorter
    return float((1 - p) / p * total + p**longer * beyond)
