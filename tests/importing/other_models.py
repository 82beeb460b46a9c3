"""For the tests of importing: data with missing values, rows on every threshold, trees of RankLib."""

from __future__ import annotations

import numpy as np

FEATURES = 6
QUERIES = 60
PER_QUERY = 10
GROUP = [PER_QUERY] * QUERIES


def made_data(seed=0, *, zeros=0.3, missing=0.1):
    """Features with zeros and missing values, and grades from 0 to 4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(QUERIES * PER_QUERY, FEATURES))
    X[rng.random(X.shape) < zeros] = 0.0
    X[rng.random(X.shape) < missing] = np.nan
    known = np.nan_to_num(X)
    grades = np.round(known[:, 0] + known[:, 1] * known[:, 2] + 0.3 * rng.normal(size=len(X))) + 1
    return X, np.clip(grades, 0, 4).astype(int)


def rows_on_thresholds(model, X, seed=1):
    """Rows whose values are thresholds of the model, the next number above, or special."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(X, 2, axis=0)
    for feature in range(X.shape[1]):
        own = model.forest.threshold[model.forest.feature == feature]
        own = np.append(own, np.array(own, np.float32))
        if len(own):
            picked = rng.choice(own, len(rows))
            picked = np.where(rng.random(len(rows)) < 0.5, np.nextafter(picked, np.inf), picked)
            rows[:, feature] = np.where(rng.random(len(rows)) < 0.6, picked, rows[:, feature])
    tiny = float(np.float32(1e-35))
    rows[~(np.abs(rows) < 3e38)] = np.nan
    special = [0.0, -0.0, np.nan, 1e-36, -1e-36, 1e-46, -1e-46, tiny, -tiny, 1e30, -1e30]
    return np.vstack([rows, *([[value] * X.shape[1]] for value in special)])


def random_split(rng, depth, indent="\t\t", place=""):
    """A split as RankLib writes it."""
    if depth == 0 or rng.random() < 0.2:
        inside = f"{indent}\t<output> {np.float32(rng.normal())} </output>\n"
    else:
        threshold = np.float32(rng.choice([rng.normal(), 0.0, -0.0]))
        inside = (
            f"{indent}\t<feature> {rng.integers(1, 7)} </feature>\n{indent}\t<threshold> {threshold} </threshold>\n"
            + random_split(rng, depth - 1, indent + "\t", ' pos="left"')
            + random_split(rng, depth - 1, indent + "\t", ' pos="right"')
        )
    return f"{indent}<split{place}>\n{inside}{indent}</split>\n"


def random_ensemble(seed, trees=5):
    """Trees as RankLib writes them, over six features."""
    rng = np.random.default_rng(seed)
    body = "".join(
        f'\t<tree id="{at + 1}" weight="{np.float32(rng.choice([0.1, 0.3]))}">\n{random_split(rng, 4)}\t</tree>\n'
        for at in range(trees)
    )
    return f"<ensemble>\n{body}</ensemble>\n"
