"""How many queries a difference would need to be seen.

The smallest n for which a two-tailed paired t-test at level α rejects with probability 1 − β, if differences have mean
δ and standard deviation s: P(|T| > t) ≥ 1 − β, where T has the noncentral t distribution with n − 1 degrees of freedom
and noncentrality √n·δ/s, and t is the critical value of the central one. For many queries
that is about ((z_{1−α/2} + z_{1−β}) · s/δ)².
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["MOST_QUERIES", "queries_needed"]

MOST_QUERIES = 1_000_000
"""Differences that would need more are not looked into."""


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
    if _power(MOST_QUERIES, effect, alpha) < power:
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
