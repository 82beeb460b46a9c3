"""A ranker of many clicks, adapted to few judgements: what the last paragraph of EMNLP'09 proposes."""

import numpy as np

from rankwright import RankingData, RankingSVM, adapt, evaluate, load_model

SHOWN, FEATURES, LOOKS_GOOD = 8, 40, 4
THETA = 1 / np.arange(1, SHOWN + 1)


def made(rng, n_queries):
    """Grades follow three features; the others mean nothing."""
    X = rng.normal(size=(n_queries, SHOWN, FEATURES))
    hidden = X[..., 0] + 0.7 * X[..., 1] + 0.5 * X[..., 2] + 0.5 * rng.normal(size=X.shape[:2])
    return X, np.digitize(hidden, [0.5, 1.3, 2.2])


def judged(X, grades):
    return RankingData.from_arrays(X.reshape(-1, FEATURES), grades.ravel(), group=[SHOWN] * len(X))


def ranker_of_clicks(rng, n_pages=3000):
    """Users look at the top first, and click what merely looks good three times as often."""
    X, grades = made(rng, 60)
    query = rng.integers(0, len(X), n_pages)
    docs = np.argsort(-(X[query, :, 1] + rng.normal(size=(n_pages, SHOWN))), axis=1)
    chance = (0.1 + 0.3 * grades) * np.where(X[..., LOOKS_GOOD] > 0, 1.0, 1 / 3)
    clicked = rng.random(docs.shape) < chance[query[:, None], docs] * THETA
    pages = RankingData.from_arrays(
        X[query[:, None], docs].reshape(-1, FEATURES), clicked.ravel().astype(float), group=[SHOWN] * n_pages
    )
    position = np.tile(np.arange(1, SHOWN + 1), n_pages)
    return RankingSVM(1.0).fit(pages, position=position, propensities=THETA)


def test_clicks_and_judgements_together_are_better_than_either(tmp_path):
    values = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        background = ranker_of_clicks(rng)
        few, test = judged(*made(rng, 20)), judged(*made(rng, 150))
        assert background.coef_[LOOKS_GOOD] > 0.2 * background.coef_[0]  # clicks mistake it for relevance
        both, alone = (adapt(background, few, method=method) for method in ("interpolate", "in-domain"))
        scores = [model.predict(test) for model in (background, alone, both)]
        values.append([evaluate(test, one, measures=["nDCG@10"]).means["nDCG@10"] for one in scores])
    clicks, judgements, together = np.mean(values, axis=0)
    assert together > max(clicks, judgements) + 0.01
    both.save(tmp_path / "adapted.rkw")
    assert np.array_equal(load_model(tmp_path / "adapted.rkw").model.predict(test), scores[-1])
