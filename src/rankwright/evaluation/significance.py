"""Paired two-tailed tests on per-query differences; corrections; all pairs; bootstrap intervals; queries needed.

Every test takes one difference per query (system minus baseline) and returns a p-value: 1 if all differences are 0.
scipy.stats, which has most of them, takes a second to import: it is loaded by the first test that needs it.

The number of queries needed is the smallest n for which a two-tailed paired t-test at level α rejects with probability
1 − β, if differences have mean δ and standard deviation s: P(|T| > t) ≥ 1 − β, where T has the noncentral t
distribution with n − 1 degrees of freedom and noncentrality √n·δ/s, and t is the critical value of the central one. For
many queries that is about ((z_{1−α/2} + z_{1−β}) · s/δ)².
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.errors import InputError

__all__ = ["queries_needed"]

CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "fdr": "Benjamini–Hochberg", "none": "no"}
"""Corrections by name, with that of their authors."""
_BATCH = 1 << 22  # random numbers in memory at a time
_EXACT = 2.0**62  # sums of whole numbers up to this are exact
_UNIT = 1e12  # differences are whole numbers of this, as they are rounded to 12 digits
_TINY = 1e-12  # a deviation of this size is rounding
_FEW = 13  # up to this many queries scipy enumerates all signs if ranks are tied, which takes it seconds


def _t(differences: Array, n_resamples: int, random_state: int) -> float:
    if np.ptp(differences) == 0:  # the same gain everywhere: no variance
        return 0.0
    from scipy import stats

    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: Array, n_resamples: int, random_state: int) -> float:
    if len(differences) <= _FEW:
        return _signed_ranks(differences[differences != 0])
    from scipy import stats

    return float(stats.wilcoxon(differences, zero_method="wilcox").pvalue)


def _signed_ranks(differences: Array) -> float:
    """Wilcoxon's exact p-value, as scipy computes it for few queries; tied differences share their mean rank.

    Counts the ways to reach each sum of ranks, adding one rank at a time. Ranks are doubled to make them integers.
    """
    from scipy import stats

    ranks = np.rint(2 * stats.rankdata(np.abs(differences))).astype(np.int64)
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1.0
    for rank in ranks:
        ways[rank:] += ways[:-rank].copy()
    reached = int(ranks[differences > 0].sum())
    tail = min(ways[: reached + 1].sum(), ways[reached:].sum())
    return float(min(1.0, 2.0 * tail / 2.0 ** len(ranks)))


def _sign(differences: Array, n_resamples: int, random_state: int) -> float:
    from scipy import stats

    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return float(stats.binomtest(wins, wins + losses).pvalue)


def _randomization(differences: Array, n_resamples: int, random_state: int) -> float:
    """How often sums with random signs are as far out as the observed one, which counts as one of the draws.

    Differences become whole numbers, so that equal sums are equal in whatever order they were added.
    """
    size = np.abs(differences).sum()
    if not np.isfinite(size):
        return float("nan")
    integers = np.rint(differences * min(_UNIT, _EXACT / size)).astype(np.int64)
    few = len(integers) < 63 and 2 ** len(integers) <= n_resamples
    sums = _sums_of_signs(integers[None])[0] if few else _random_sums(integers, n_resamples, random_state)
    seen, drawn = (0, len(sums)) if few else (1, len(sums) + 1)
    tail = min(int((sums <= integers.sum()).sum()), int((sums >= integers.sum()).sum())) + seen
    return min(1.0, 2.0 * tail / drawn)


def _sums_of_signs(rows: Array) -> Array:
    """The sums of each row's numbers with all 2^n choices of signs."""
    sums = np.zeros((len(rows), 1), rows.dtype)
    for column in rows.T:
        sums = np.concatenate([sums + column[:, None], sums - column[:, None]], axis=1)
    return sums


def _random_sums(integers: Array, n_resamples: int, random_state: int) -> Array:
    """Sums with random signs: eight signs are one random byte, which picks one of the 256 sums of eight numbers."""
    groups = np.zeros((-(-len(integers) // 8), 8), np.int64)
    groups.flat[: len(integers)] = integers
    rng = np.random.default_rng(random_state)
    sums = np.zeros(n_resamples, np.int64)
    step = max(1, _BATCH // max(n_resamples, 256))
    for start in range(0, len(groups), step):
        tables = _sums_of_signs(groups[start : start + step])
        signs = np.frombuffer(rng.bytes(len(tables) * n_resamples), np.uint8).reshape(len(tables), n_resamples)
        for table, row in zip(tables, signs, strict=True):
            sums += table[row]
    return sums


TESTS: dict[str, tuple[str, Callable[[Array, int, int], float]]] = {
    "t": ("paired t-test", _t),
    "wilcoxon": ("Wilcoxon signed-rank test", _wilcoxon),
    "sign": ("sign test", _sign),
    "randomization": ("paired randomisation test", _randomization),
}
"""Tests by name, with a description."""


def p_value(test: str, differences: npt.ArrayLike, *, n_resamples: int = 9999, random_state: int = 0) -> float:
    """The two-tailed p-value of one paired test.

    `test`: one of ``TESTS``. `differences`: one number per query: system minus baseline. `n_resamples`, `random_state`:
    for the randomisation test: number of random sign flips (all, if there are no more), and random seed.
    """
    if test not in TESTS:
        raise InputError(f"unknown test {test!r}; expected one of {', '.join(TESTS)}")
    # Differences that are equal up to rounding are equal: ranks and signs must not depend on the last bit.
    array = np.round(np.asarray(differences, np.float64), 12)
    if len(array) < 2 or not array.any():
        return 1.0
    return TESTS[test][1](array, n_resamples, random_state)


def corrected(p_values: Sequence[float], method: str = "holm") -> list[float]:
    """Correct p-values for the number of comparisons in a family.

    ``holm`` and ``bonferroni`` bound the probability of one false finding or more, ``fdr`` (Benjamini and Hochberg
    1995) the expected share of false ones among the findings.

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
    if method not in CORRECTIONS:
        raise InputError(f"unknown correction {method!r}; expected one of {', '.join(CORRECTIONS)}")
    order = np.argsort(p, kind="stable")
    if method == "fdr":
        ranked = p[order] * len(p) / np.arange(1, len(p) + 1)
        stepped = np.minimum.accumulate(ranked[::-1])[::-1]
    else:
        stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    result = np.empty(len(p))
    result[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in result]


def interval_level(confidence: float, p_values: Sequence[float], method: str) -> float:
    """The level of each interval in a family, for which p-values are corrected by a method.

    For ``holm`` and ``bonferroni`` all intervals of the family hold together with the given confidence: Holm's steps
    have no intervals of their own, so both have Bonferroni's. For ``fdr`` the expected share of intervals that do not
    hold, among those of significant differences, is bounded (Benjamini and Yekutieli 2005).

    Examples
    --------
    >>> round(interval_level(0.95, [0.01, 0.2, 0.7, 0.9], "holm"), 6)
    0.9875
    """
    if method == "none" or not p_values:
        return confidence
    found = sum(p <= 1 - confidence for p in corrected(p_values, method)) if method == "fdr" else 1
    return 1 - (1 - confidence) * max(found, 1) / len(p_values)


def all_pairs(values: npt.ArrayLike, *, n_resamples: int = 9999, random_state: int = 0) -> Array:
    """Tukey's honestly significant difference by randomisation (Carterette 2012): the p-value of every pair of systems.

    Systems are exchanged at random within each query, independently; the p-value of a pair is how often the largest
    difference of two means is then at least as large as the pair's. The probability of one false finding or more among
    all pairs is so the level of the test, and needs no further correction.

    `values`: one row per query, one column per system. `n_resamples`, `random_state`: number of random exchanges (all,
    if there are no more), and random seed. Returns a symmetric matrix, with ones in its diagonal.

    Examples
    --------
    >>> all_pairs([[0.1, 0.5, 0.4], [0.2, 0.6, 0.7], [0.0, 0.4, 0.2], [0.3, 0.3, 0.4]])[0].round(3)
    array([1.   , 0.093, 0.148])
    """
    table = np.asarray(values, np.float64)
    table = table - table.mean(axis=1, keepdims=True)  # of a query: no difference depends on it
    size, n = np.abs(table).sum(), table.shape[1]
    if not np.isfinite(size) or not size:
        return np.ones((n, n))
    integers = np.rint(table.round(12) * min(_UNIT, _EXACT / size)).astype(np.int64)
    means = integers.sum(axis=0)
    apart = np.abs(means[:, None] - means[None, :])
    # In an order of their own, so that the draws do not depend on that of the systems and of the queries.
    varying = np.sort(integers[np.ptp(integers, axis=1) > 0], axis=1)
    varying = varying[np.lexsort(varying.T)]
    count = math.factorial(n) ** len(varying) if len(varying) < 20 else n_resamples + 1
    ranges = _exchanged(varying, n_resamples, random_state) if count > n_resamples else _all_exchanged(varying)
    seen = 1 if count > n_resamples else 0
    reached = len(ranges) - np.searchsorted(np.sort(ranges), apart)
    p: Array = np.minimum(1.0, (reached + seen) / (len(ranges) + seen))
    np.fill_diagonal(p, 1.0)
    return p


def _all_exchanged(integers: Array) -> Array:
    """The largest difference of two sums for all ways to exchange the numbers in every row."""
    sums = np.zeros((1, integers.shape[1]), np.int64)
    orders = np.array(list(itertools.permutations(range(integers.shape[1]))))
    for row in integers:
        sums = (sums[:, None] + row[orders][None]).reshape(-1, len(row))
    ranges: Array = np.ptp(sums, axis=1)
    return ranges


def _exchanged(integers: Array, n_resamples: int, random_state: int) -> Array:
    """The largest difference of two sums, for random ways to exchange the numbers in every row."""
    rng = np.random.default_rng(random_state)
    ranges = np.empty(n_resamples, np.int64)
    step = max(1, _BATCH // integers.size)
    for start in range(0, n_resamples, step):
        stop = min(start + step, n_resamples)
        drawn = rng.permuted(np.broadcast_to(integers, (stop - start, *integers.shape)), axis=2)
        ranges[start:stop] = np.ptp(drawn.sum(axis=1), axis=1)
    return ranges


def effect_size(differences: npt.ArrayLike) -> float:
    """Standardised mean difference of paired values: the mean over the standard deviation; nan if that is 0.

    Examples
    --------
    >>> effect_size([0.1, 0.0, 0.2, 0.1])
    1.224744871391589
    """
    values = np.round(np.asarray(differences, np.float64), 12)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()) / deviation if deviation > _TINY else float("nan")


def bootstrap_interval(
    differences: npt.ArrayLike, *, confidence: float = 0.95, n_resamples: int = 9999, random_state: int = 0
) -> tuple[float, float]:
    """Confidence interval of the mean difference over queries: bias-corrected and accelerated (BCa), as in scipy.

    Examples
    --------
    >>> low, high = bootstrap_interval([0.1, 0.0, 0.2, 0.1, 0.3])
    >>> 0 < low < 0.14 < high < 0.3
    True
    """
    return bootstrap_intervals(
        [differences], confidence=confidence, n_resamples=n_resamples, random_state=random_state
    )[0]


def bootstrap_intervals(
    columns: Sequence[npt.ArrayLike], *, confidence: float = 0.95, n_resamples: int = 9999, random_state: int = 0
) -> list[tuple[float, float]]:
    """Like :func:`bootstrap_interval`, for several columns of differences; columns of equal length share their draws.

    Examples
    --------
    >>> columns = [[0.1, 0.0, 0.2, 0.1, 0.3], [0.0, 0.0]]
    >>> intervals = bootstrap_intervals(columns)
    >>> intervals == [bootstrap_interval(column) for column in columns]
    True
    """
    arrays = [np.asarray(column, np.float64) for column in columns]
    intervals = [(float(array[0]),) * 2 if len(array) else (float("nan"),) * 2 for array in arrays]
    varying = [at for at, array in enumerate(arrays) if len(array) and np.ptp(array) > 0]
    for n in dict.fromkeys(len(arrays[at]) for at in varying):
        same = [at for at in varying if len(arrays[at]) == n]
        resampled = _resampled_means([arrays[at] for at in same], n_resamples, random_state)
        for at, means in zip(same, resampled, strict=True):
            intervals[at] = _bias_corrected(arrays[at], means, confidence)
    return intervals


def _resampled_means(columns: Sequence[Array], n_resamples: int, random_state: int) -> Array:
    """Means of resamples, one row per column; bit-equal to those of scipy.stats.bootstrap with the same generator."""
    n = len(columns[0])
    rng = np.random.default_rng(random_state)
    means = np.empty((len(columns), n_resamples))
    step = max(1, _BATCH // n)
    for start in range(0, n_resamples, step):
        stop = min(start + step, n_resamples)
        drawn = rng.integers(0, n, (stop - start, n))
        for at, column in enumerate(columns):
            means[at, start:stop] = column[drawn].mean(axis=-1)
    return means


def _bias_corrected(differences: Array, means: Array, confidence: float) -> tuple[float, float]:
    """BCa: percentiles of the resampled means, corrected for bias and skewness.

    The jackknife of a mean leaves out x_i and gets (Σx − x_i)/(n − 1); its skewness is that of the x themselves.
    """
    from scipy import special

    apart = differences - differences.mean()
    below = np.mean(means < differences.mean()) / 2 + np.mean(means <= differences.mean()) / 2
    bias = special.ndtri(below)
    if not np.isfinite(bias):  # too few resamples: none on one side
        return float("nan"), float("nan")
    acceleration = np.sum(apart**3) / np.sum(apart**2) ** 1.5 / 6
    ends = bias + special.ndtri((1 - confidence) / 2) * np.array([1.0, -1.0])
    shares = special.ndtr(bias + ends / (1 - acceleration * ends))
    low, high = np.percentile(means, 100 * shares)
    return float(low), float(high)


_MAX_QUERIES = 1_000_000  # differences that would need more are not looked into


def queries_needed(differences: npt.ArrayLike, *, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Number of queries with which a paired t-test would find a difference as large as this one.

    Parameters
    ----------
    differences : array-like
        One number per query: system minus baseline. Their mean and standard deviation are taken as the true ones.
    power : float
        Probability of finding it.
    alpha : float
        Level of the two-tailed test.

    Returns
    -------
    int or None
        None if there is no difference, or a million queries would not do.

    Examples
    --------
    >>> queries_needed([0.1, 0.0, 0.2, -0.1, 0.1, 0.0])
    37
    """
    if not 0 < alpha < power < 1:
        raise InputError(f"power is {power} and alpha {alpha}; expected 0 < alpha < power < 1")
    values = np.asarray(differences, np.float64)
    if len(values) < 2 or not np.isfinite(values).all() or abs(values.mean()) < 1e-12:
        return None
    deviation = float(values.std(ddof=1))
    if deviation < 1e-12 * abs(values.mean()):
        return 2
    effect = abs(float(values.mean())) / deviation
    if _power(_MAX_QUERIES, effect, alpha) < power:
        return None
    low, high = 1, 2  # too few, enough
    while _power(high, effect, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, effect, alpha) >= power else (middle, high)
    return high


def _power(n: int, effect: float, alpha: float) -> float:
    """Probability that the test rejects with n queries; ``effect`` is the mean over the standard deviation."""
    from scipy import special

    noncentrality = math.sqrt(n) * effect
    if noncentrality > 30:
        return 1.0 if n > 3 else float(special.ndtr(noncentrality - special.stdtrit(n - 1, 1 - alpha / 2)))
    critical = special.stdtrit(n - 1, 1 - alpha / 2)
    below = special.nctdtr(n - 1, noncentrality, -critical)  # next to nothing where scipy cannot tell
    return float(1.0 - special.nctdtr(n - 1, noncentrality, critical) + np.nan_to_num(below))
