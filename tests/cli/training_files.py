"""Small feature files to train on, and `train` run on them."""

import json

import numpy as np

from rankwright import RankingData
from rankwright.cli.main import main

__all__ = ["N_FEATURES", "facts_of", "made", "one_line", "run"]

N_FEATURES = 5


def made(seed, n_queries, size=12, n_features=N_FEATURES):
    """Queries with a noisy linear truth; the last one has nothing to order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, n_features)).astype(np.float32)
    hidden = X @ np.linspace(2, -1, n_features) + rng.normal(size=len(X))
    labels = np.digitize(hidden, [1.0, 3.0]).astype(float)
    labels[-size:] = 0
    qid = np.repeat([f"q{number}" for number in range(n_queries)], size)
    ids = [f"{query}-{row}" for row, query in enumerate(qid)]
    return RankingData.from_arrays(X, labels, qid, doc_ids=ids)


def run(capsys, *args):
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def facts_of(capsys, *args):
    code, out, err = run(capsys, "train", "train.txt", "-o", "m.rkw", "--json", *args)
    assert (code, err) == (0, "")
    return json.loads(out)


def one_line(result, *parts):
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("rankwright: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
