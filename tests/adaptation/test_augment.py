"""Neighbour augmentation against brute force, and its rules one by one."""

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, RankingData
from rankwright.adaptation import augment as module
from rankwright.adaptation.augment import augment, label_entropy


def make(n_queries, seed, n_docs=7, d=4, shift=0.0, grades=3, prefix=""):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, d)) * np.array([1.0, 10.0, 0.1, 3.0])[:d] + shift
    qid = [f"{prefix}{number}" for number in np.repeat(np.arange(n_queries), n_docs)]
    return RankingData.from_arrays(X, rng.integers(0, grades, len(qid)), qid)


def by_brute_force(background, in_domain, share, neighbours, distance):
    entropies = []
    for q in range(in_domain.n_queries):
        labels = in_domain.labels[in_domain.indptr[q] : in_domain.indptr[q + 1]].tolist()
        shares = [labels.count(label) / len(labels) for label in set(labels)]
        entropies.append(-sum(part * np.log2(part) for part in shares))
    order = sorted(range(in_domain.n_queries), key=lambda q: (entropies[q] == 0, entropies[q], q))
    seeds = sorted(order[: max(1, round(share * in_domain.n_queries))])
    chosen = in_domain.select(seeds)
    mean, scale = in_domain.X.mean(axis=0), in_domain.X.std(axis=0)
    unit = [row / np.linalg.norm(row) for row in (chosen.X - mean) / scale]
    if distance is None:
        own = [sorted(1 - row @ other for other in unit)[neighbours] for row in unit]
        distance = np.median(own)
    taken = []
    for at, row in enumerate((background.X - mean) / scale):
        far = sorted((1 - row @ other / np.linalg.norm(row), number) for number, other in enumerate(unit))[:neighbours]
        same = any(chosen.labels[number] == background.labels[at] for _, number in far)
        if far[-1][0] <= distance and same:
            taken.append(at)
    return taken, seeds, distance


@pytest.mark.parametrize("block", [5, 4096])
@pytest.mark.parametrize(
    ("share", "neighbours", "distance"), [(0.5, 3, None), (1.0, 3, 0.2), (0.3, 1, 0.05), (0.4, 5, 0.5)]
)
def test_equal_to_brute_force(monkeypatch, share, neighbours, distance, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    monkeypatch.setattr(module, "_SEEDS", block + 3)
    for seed in range(4):
        background, in_domain = make(12, seed, prefix="b"), make(8, 100 + seed, shift=0.3)
        found = augment(background, in_domain, share=share, neighbours=neighbours, distance=distance)
        rows, seeds, limit = by_brute_force(background, in_domain, share, neighbours, distance)
        assert found.rows.tolist() == rows
        assert found.seeds.tolist() == seeds
        assert found.distance == pytest.approx(limit)
        assert found.data.X.tolist() == background.X[rows].tolist()
        assert found.data.labels.tolist() == background.labels[rows].tolist()
        assert sum(found.taken.values()) == len(rows)
        assert sum(taken for taken, _ in found.by_label.values()) == len(rows)
        assert "documents from" in str(found)


def test_sparse_features_give_the_same():
    background, in_domain = make(12, 0, prefix="b"), make(8, 1)
    thin = [data.with_features(sparse.csr_array(data.X)) for data in (background, in_domain)]
    assert augment(*thin).rows.tolist() == augment(background, in_domain).rows.tolist()


def test_queries_keep_apart_and_their_documents_together():
    background, in_domain = make(6, 0), make(6, 1)  # the same query ids
    found = augment(background, in_domain, distance=2.0)
    assert all(str(query).startswith("background-") for query in found.data.query_ids)
    assert set(found.taken) == set(found.data.query_ids.tolist())
    both = RankingData.concatenate([in_domain, found.data])
    assert both.n_queries == 6 + found.data.n_queries


def test_the_entropy_of_labels():
    data = RankingData.from_arrays(np.zeros((8, 1)), [0, 0, 0, 0, 0, 1, 2, 3], ["a"] * 4 + ["b"] * 4)
    assert label_entropy(data).tolist() == [0.0, 2.0]
    assert augment(
        make(5, 0, d=1), RankingData.from_arrays(np.arange(8.0)[:, None], data.labels, data.qid)
    ).seeds.tolist() == [1]


def test_nothing_near_is_an_answer():
    found = augment(make(5, 0, prefix="b"), make(5, 1), distance=0.0)
    assert len(found.rows) == 0
    assert found.data.n_docs == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0}, "share"),
        ({"neighbours": 0}, "neighbours"),
        ({"distance": 3.0}, "distance"),
        ({"neighbours": 500}, "expected more than 500"),
    ],
)
def test_bad_input(settings, message):
    with pytest.raises(InputError, match=message):
        augment(make(5, 0), make(5, 1), **settings)
    with pytest.raises(InputError, match="same features"):
        augment(make(5, 0, d=3), make(5, 1))
