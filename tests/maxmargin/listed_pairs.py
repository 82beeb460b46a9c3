"""The pairs of a Ranking SVM listed one by one, and its objective over them."""

import itertools

import numpy as np
import pytest

MEASURES = {  # how the measure is named, the ranks that count, whether gains are exponential
    "ndcg@1": (1, True),
    "ndcg@3": (3, True),
    "ndcg": (99, True),
    "nDCG(gain=linear)@2": (2, False),
}


def ndcg(ranked, k, exponential):
    gains = [2.0**label - 1 if exponential else label for label in ranked]
    ideal = sorted(gains, reverse=True)
    dcg, best = (sum(gain / np.log2(2 + rank) for rank, gain in enumerate(row[:k])) for row in (gains, ideal))
    return dcg / best


def drops(labels, a, b, k, exponential):
    """What each swap of a document of label a and one of label b takes from a perfect ranking."""
    perfect = sorted(labels, reverse=True)
    assert ndcg(perfect, k, exponential) == pytest.approx(1)
    found = []
    for i, j in itertools.product(range(len(perfect)), repeat=2):
        if perfect[i] == a and perfect[j] == b:
            swapped = list(perfect)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            found.append(1 - ndcg(swapped, k, exponential))
    return found


def listed_pairs(X, y, qid, weights):
    """x_i − x_j of every pair with z_i > z_j, with τ μ."""
    tau = weights.get("rank_weights")
    queries = [y[qid == q].tolist() for q in dict.fromkeys(qid)]
    if isinstance(tau, str):
        tau = {
            (a, b): np.mean(
                [np.mean(drops(q, a, b, *MEASURES.get(tau, (5, True)))) for q in queries if {a, b} <= set(q)]
            )
            for a, b in [(1, 0), (2, 0), (2, 1)]
        }
    counts = [sum(a > b for a, b in itertools.permutations(query, 2)) for query in queries]
    rows, values = [], []
    for q, count in zip(dict.fromkeys(qid), counts, strict=True):
        documents = np.flatnonzero(qid == q)
        for i, j in itertools.permutations(documents, 2):
            if y[i] > y[j]:
                rows.append(X[i] - X[j])
                values.append(
                    (tau[y[i], y[j]] if tau else 1.0) * (max(counts) / count if "query_weights" in weights else 1)
                )
    return np.array(rows), np.array(values), sum(count > 0 for count in counts)


def objective(w, rows, costs):
    return 0.5 * w @ w + costs @ np.maximum(0.0, 1 - rows @ w)
