"""How far judges agree beyond chance: Cohen's kappa of two, weighted or not, and Fleiss' kappa of several.

    kappa = 1 − Σ w_ij O_ij / Σ w_ij E_ij

O_ij is how often one judge says i and the other j, E_ij how often they would if they were independent and gave their
grades as often as they do. w_ij is 1 for different grades, |i − j| (linear) or (i − j)² (quadratic). Fleiss' kappa
compares the share of pairs of judges that agree on a document with what all their grades together make likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["Agreement", "PairOfJudges", "agreement", "cohen_kappa", "fleiss_kappa"]

Array = npt.NDArray[Any]
Pair = tuple[str, str]
Grades = Mapping[Pair, float]
WEIGHTS = ("none", "linear", "quadratic")


@dataclass(frozen=True)
class PairOfJudges:
    """Two judges, on the documents that both have graded.

    Attributes
    ----------
    judges : tuple of str
        Their names.
    documents : int
        Documents that both have graded.
    same : float
        Share of these that got the same grade twice.
    kappa, linear, quadratic : float
        Cohen's kappa, unweighted and weighted; nan if it is not defined.
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
    >>> found = agreement({"ann": {("q", "a"): 2, ("q", "b"): 0}, "bob": {("q", "a"): 2, ("q", "b"): 1}})
    >>> found.pairs[0].same, found.disagreements
    (0.5, (('q', 'b', {'ann': 0, 'bob': 1}),))
    """
    if len(grades) < 2:
        named = ", ".join(grades) or "none"
        raise InputError(f"agreement is about at least two judges; found {named}")
    pairs = []
    for one, other in combinations(grades, 2):
        both = sorted(grades[one].keys() & grades[other].keys())
        if both:
            pairs.append(_pair((one, other), [grades[one][key] for key in both], [grades[other][key] for key in both]))
    common = sorted(set.intersection(*(set(one) for one in grades.values())))
    fleiss = fleiss_kappa([[one[key] for one in grades.values()] for key in common]) if common else math.nan
    return Agreement(
        {name: len(one) for name, one in grades.items()}, tuple(pairs), fleiss, len(common), _apart(grades)
    )


def _pair(judges: tuple[str, str], first: Sequence[float], second: Sequence[float]) -> PairOfJudges:
    same = float(np.mean(np.asarray(first) == np.asarray(second)))
    kappas = (cohen_kappa(first, second, weights) for weights in WEIGHTS)
    return PairOfJudges(judges, len(first), same, *kappas)


def _apart(grades: Mapping[str, Grades]) -> tuple[tuple[str, str, dict[str, float]], ...]:
    """Documents with different grades, the widest range first."""
    found = []
    for key in sorted(set().union(*grades.values())):
        given = {name: one[key] for name, one in grades.items() if key in one}
        if len(set(given.values())) > 1:
            found.append((*key, given))
    return tuple(sorted(found, key=lambda one: min(one[2].values()) - max(one[2].values())))


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
    counts = [np.bincount(part, minlength=len(values)) / len(ours) for part in np.split(places, 2)]
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
