"""A claim about the paired randomisation test: 10,000 queries, 9,999 resamples, at most 0.5 s.

The peer is `scipy.stats.permutation_test`, which draws the same kind of signs; both p-values are printed.
"""

from __future__ import annotations

import time

import numpy as np
import scipy
from scipy import stats

from rankwright.evaluation.significance import p_value
from timing import best_cpu_seconds

N_QUERIES, RESAMPLES, MOST = 10_000, 9999, 0.5


def main() -> None:
    """Time both on the same differences."""
    differences = np.random.default_rng(0).normal(0.002, 0.1, N_QUERIES)
    ours = p_value("randomization", differences, n_resamples=RESAMPLES)
    seconds = best_cpu_seconds(lambda: p_value("randomization", differences, n_resamples=RESAMPLES))
    began = time.process_time()
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, batch=100, rng=0
    )
    peer = time.process_time() - began
    says = "holds" if seconds <= MOST else "DOES NOT HOLD"
    print(f"{N_QUERIES:,} queries, {RESAMPLES:,} resamples: {seconds:.3f} CPU s (claim ≤ {MOST}): {says}")
    print(f"scipy {scipy.__version__}: {peer:.2f} CPU s, {peer / seconds:.0f}×; p {ours:.4f} and {theirs.pvalue:.4f}")


if __name__ == "__main__":
    main()
