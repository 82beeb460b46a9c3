"""Paired tests on per-query differences, all two-tailed, from scipy.stats; corrections; bootstrap intervals.

Every test takes one difference per query (system minus baseline) and gives a p-value. Where all differences are 0 there
is nothing to test, and p is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from rankwright.errors import InputError

__all__ = ["CORRECTIONS", "TESTS", "bootstrap_interval", "corrected", "p_value"]

Array = npt.NDArray[Any]
CORRECTIONS = ("holm", "bonferroni", "none")
_BATCH = 1 << 22  # random numbers held at a time


def _t(differences: Array, n_resamples: int, seed: int) -> float:
    if np.ptp(differences) == 0:  # the same gain everywhere: no variance, and no doubt
        return 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: Array, n_resamples: int, seed: int) -> float:
    return float(stats.wilcoxon(differences, zero_method="wilcox").pvalue)


def _sign(differences: Array, n_resamples: int, seed: int) -> float:
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return float(stats.binomtest(wins, wins + losses).pvalue)


def _randomization(differences: Array, n_resamples: int, seed: int) -> float:
    result = stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=n_resamples,
        vectorized=True,
        batch=max(1, _BATCH // len(differences)),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


TESTS: dict[str, tuple[str, Callable[[Array, int, int], float]]] = {
    "t": ("paired t-test", _t),
    "wilcoxon": ("Wilcoxon signed-rank test", _wilcoxon),
    "sign": ("sign test", _sign),
    "randomization": ("paired randomisation test", _randomization),
}
"""Tests by name, with their name in words."""


def p_value(test: str, differences: npt.ArrayLike, *, n_resamples: int = 9999, seed: int = 0) -> float:
    """The two-tailed p-value of one paired test.

    Parameters
    ----------
    test : {"t", "wilcoxon", "sign", "randomization"}
        Which test.
    differences : array-like
        One number per query: system minus baseline.
    n_resamples, seed : int
        For the randomisation test: random sign flips (all of them where there are no more than that), and their seed.

    Examples
    --------
    >>> p_value("sign", [0.1, 0.2, 0.1, 0.3, 0.2, 0.1])
    0.03125
    """
    if test not in TESTS:
        raise InputError(f"unknown test {test!r}; expected one of {', '.join(TESTS)}")
    array = np.asarray(differences, np.float64)
    if len(array) < 2 or not array.any():
        return 1.0
    # Differences equal up to rounding are equal: ranks and signs must not hang on the last bit.
    return TESTS[test][1](np.round(array, 12), n_resamples, seed)


def corrected(p_values: Sequence[float], method: str = "holm") -> list[float]:
    """Correct p-values for the number of comparisons in a family.

    Examples
    --------
    >>> corrected([0.01, 0.04, 0.03], "holm")
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    if method == "none":
        return [float(value) for value in p]
    if method == "bonferroni":
        return [float(value) for value in np.minimum(p * len(p), 1.0)]
    if method != "holm":
        raise InputError(f"unknown correction {method!r}; expected one of {', '.join(CORRECTIONS)}")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    result = np.empty(len(p))
    result[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in result]


def bootstrap_interval(
    differences: npt.ArrayLike, *, confidence: float = 0.95, n_resamples: int = 9999, seed: int = 0
) -> tuple[float, float]:
    """Confidence interval of the mean difference over queries (bias-corrected and accelerated bootstrap).

    Examples
    --------
    >>> low, high = bootstrap_interval([0.1, 0.0, 0.2, 0.1, 0.3])
    >>> 0 < low < 0.14 < high < 0.3
    True
    """
    array = np.asarray(differences, np.float64)
    if len(array) == 0:
        return float("nan"), float("nan")
    if np.ptp(array) == 0:
        return float(array[0]), float(array[0])
    result = stats.bootstrap(
        (array,),
        np.mean,
        confidence_level=confidence,
        n_resamples=n_resamples,
        batch=max(1, _BATCH // len(array)),
        method="BCa",
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
