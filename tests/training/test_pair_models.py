"""Models of some pairs alone, against models trained on data that has only these pairs."""

import json

import numpy as np
import pytest

from rankwright import InputError, RankingData, RankingSVM, pair_models
from rankwright.training.pair_models import plane_of


def some_data(seed=0, n_queries=10):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(6, 14, n_queries))
    X = rng.normal(size=(len(qid), 4))
    labels = np.digitize(X @ [1.0, 0.5, -0.5, 0] + rng.normal(size=len(qid)), [0.0, 1.0])
    return RankingData.from_arrays(X, labels, qid)


def centred(data, scores):
    return np.concatenate(
        [scores[a:b] - scores[a:b].mean() for a, b in zip(data.indptr[:-1], data.indptr[1:], strict=True)]
    )


def agreement(data, one, other):
    return np.corrcoef(centred(data, one), centred(data, other))[0, 1]


def test_agreements_are_correlations_of_scores():
    data = some_data()
    found = pair_models(data, C=0.5, standardize=False, tol=1e-6)
    lam = int(data.has_order.sum()) / (2 * 0.5)
    settings = {"lam": lam, "standardize": False, "tol": 1e-6}
    whole = RankingSVM(**settings).fit(data).predict(data)
    weighted = RankingSVM(**settings, rank_weights="ndcg@1", query_weights=True).fit(data).predict(data)
    assert found.all_pairs.rsvm == pytest.approx(1)
    assert found.all_pairs.rsvm_ir == pytest.approx(agreement(data, whole, weighted), abs=1e-3)
    for row in found.by_labels:
        high, low = (float(part) for part in row.part.removeprefix("labels ").split(" over "))
        both = np.isin(data.labels, [high, low])
        alone = RankingSVM(**settings).fit(data.X[both], data.labels[both], data.qid[both]).predict(data.X)
        assert row.rsvm == pytest.approx(agreement(data, alone, whole), abs=1e-3)
        assert row.rsvm_ir == pytest.approx(agreement(data, alone, weighted), abs=1e-3)
    for row in found.by_query:
        of_query = np.array([f"query {query}" == row.part for query in data.qid])
        alone = RankingSVM(**settings).fit(data.X[of_query], data.labels[of_query], data.qid[of_query]).predict(data.X)
        assert row.rsvm == pytest.approx(agreement(data, alone, whole), abs=1e-3)
        assert found.of(row.part) is row
    assert sum(row.share for row in found.by_labels) == pytest.approx(1)
    assert sum(row.share for row in found.by_query) == pytest.approx(1)
    assert [row.pairs for row in found.by_query] == sorted((row.pairs for row in found.by_query), reverse=True)


def test_the_plane_keeps_the_pairs():
    data = some_data(1)
    # With two features the plane is all there is: pairs differ by the same vectors, but for a rotation.
    flat = RankingData.from_arrays(data.X[:, :2], data.labels, data.qid)
    plane = plane_of(flat, np.array([2, 5]), "ndcg@1", {"lam": 1.0})
    assert plane.explained == pytest.approx(1)
    both = flat.select(np.array([2, 5]))
    assert plane.labels.tolist() == both.labels.tolist()
    for q in range(2):
        rows = slice(both.indptr[q], both.indptr[q + 1])
        points, X = plane.points[rows], both.X[rows]
        assert points.mean(axis=0) == pytest.approx(np.zeros(2), abs=1e-12)
        scaled = (X - X.mean(axis=0)) / np.concatenate(
            [both.X[a:b] - both.X[a:b].mean(axis=0) for a, b in zip(both.indptr[:-1], both.indptr[1:], strict=True)]
        ).std(axis=0)
        assert points @ points.T == pytest.approx(scaled @ scaled.T)
    for direction in (*plane.by_labels.values(), *plane.by_query.values()):
        assert np.linalg.norm(direction) == pytest.approx(1)
    assert plane.degrees(plane.by_query)["all pairs (RSVM)"] == pytest.approx(0, abs=1e-4)


def test_labels_without_pairs_in_the_two_queries_are_not_drawn(tmp_path):
    X = np.random.default_rng(0).normal(size=(8, 1))  # one feature: a plane that is a line
    found = pair_models(RankingData.from_arrays(X, [2, 0, 0, 1, 0, 0, 2, 1], [1, 1, 1, 2, 2, 2, 3, 3]), queries=[1, 2])
    assert set(found.plane.by_labels) == {"all pairs (RSVM)", "RSVM-IR", "labels 2 over 0", "labels 1 over 0"}
    assert not found.plane.points[:, 1].any()
    found.plot(tmp_path / "a.svg")


def test_what_is_shown(tmp_path):
    found = pair_models(some_data(), queries=[3, "4"])
    text = str(found)
    assert "labels 2 over 1" in text
    assert "a query, of the 3 with most pairs" in text
    assert text.index("query 3") > text.index("fewest pairs")
    record = json.loads(found.render("json"))
    assert record["plane"]["queries"] == ["3", "4"]
    assert len(record["by_query"]) == 10
    assert len(found.render("csv").splitlines()) == 1 + 1 + 3 + 10
    for name in ("a.png", "a.svg"):
        found.plot(tmp_path / name)
    assert "query 3, label 0" in (tmp_path / "a.svg").read_text()
    assert len(found.figure().axes) == 3
    with pytest.raises(InputError, match="unknown format"):
        found.render("pdf")
    with pytest.raises(InputError, match="'query 77' is not in the table"):
        found.of("query 77")


def test_progress_counts_every_model():
    seen = []
    pair_models(some_data(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 15) for number in range(1, 16)]


@pytest.mark.parametrize(
    ("labels", "queries", "message"),
    [
        ([1, 1, 1, 1], (), "no query with documents of different labels"),
        ([1, 0, 1, 1], (), "one query with documents of different labels; expected at least two"),
        ([1, 0, 1, 0], (1,), "1 queries to draw; expected two different ones"),
        ([1, 0, 1, 0], (1, 9), "has no query '9'"),
        (list(range(40)), (), "too many different labels"),
    ],
)
def test_bad_input(labels, queries, message):
    data = RankingData.from_arrays(np.arange(len(labels))[:, None], labels, group=[2] * (len(labels) // 2))
    with pytest.raises(InputError, match=message):
        pair_models(data, queries=queries)
