"""Simulated users with known habits: logs whose propensities and attractiveness are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright import ClickLog


@dataclass(frozen=True)
class Users:
    """A log, and what it was made with: α by query and document, and the position's propensity."""

    log: ClickLog
    alpha: np.ndarray
    theta: np.ndarray

    @property
    def truth(self):
        """Return α of every pair of the log."""
        log = self.log
        return self.alpha[log.query_ids.astype(int)[log.pair_query], log.doc_ids.astype(int)[log.pair_doc]]


def results(rng, alpha, n_pages, n_shown):
    """Return the query of every page and its documents: ranked by noisy scores, so that positions change."""
    query = rng.integers(0, len(alpha), n_pages)
    scores = alpha[query] + rng.normal(0, 0.3, (n_pages, alpha.shape[1]))
    return query, np.argsort(-scores, axis=1)[:, :n_shown]


def log_of(query, documents, clicked):
    n_pages, n_shown = documents.shape
    position = np.tile(np.arange(1, n_shown + 1), n_pages)
    session = np.repeat(np.arange(n_pages), n_shown)
    return ClickLog.from_columns(
        np.repeat(query, n_shown), documents.ravel(), position, clicked.ravel().astype(int), session=session
    )


def position_users(seed=0, n_pages=4000, n_queries=8, n_docs=8, n_shown=5, theta=None):
    """Users who look at every position with its own probability, and click what attracts them."""
    rng = np.random.default_rng(seed)
    alpha = rng.beta(1.5, 3, (n_queries, n_docs))
    theta = 1 / np.arange(1, n_shown + 1) if theta is None else np.asarray(theta)
    query, documents = results(rng, alpha, n_pages, n_shown)
    clicked = rng.random(documents.shape) < alpha[query[:, None], documents] * theta
    return Users(log_of(query, documents, clicked), alpha, theta)


def reading_users(seed=0, n_pages=4000, n_queries=4, n_docs=6, n_shown=4, gamma=0.8, satisfied=None):
    """Users who read from the top, may be satisfied by a click, and otherwise go on with probability ``gamma``."""
    rng = np.random.default_rng(seed)
    alpha = rng.beta(2, 3, (n_queries, n_docs))
    sigma = rng.beta(2, 2, alpha.shape) if satisfied is None else np.full(alpha.shape, satisfied)
    query, documents = results(rng, alpha, n_pages, n_shown)
    clicked, reads = np.zeros(documents.shape, bool), np.ones(n_pages, bool)
    looked = np.zeros(n_shown)
    for at in range(n_shown):
        looked[at] = reads.mean()
        shown = documents[:, at]
        clicked[:, at] = reads & (rng.random(n_pages) < alpha[query, shown])
        content = clicked[:, at] & (rng.random(n_pages) < sigma[query, shown])
        reads &= ~content & (rng.random(n_pages) < gamma)
    return Users(log_of(query, documents, clicked), alpha * sigma, looked)
