"""Counts of pairs against a double loop, and their plot."""

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from rankwright import InputError, RankingData, TrecTable, pair_summary
from rankwright.data.summary import pairs_of_queries


def random_data(seed, n_queries=9, n_labels=4):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(1, 12, n_queries))
    labels = rng.integers(0, n_labels, len(qid)) / 2
    return RankingData.from_arrays(np.zeros((len(qid), 1)), labels, [f"q{q}" for q in qid])


def listed(data):
    """Every pair: its query, the higher label and the lower one."""
    for q in range(data.n_queries):
        labels = data.labels[data.indptr[q] : data.indptr[q + 1]]
        for a, b in itertools.combinations(labels.tolist(), 2):
            if a != b:
                yield q, max(a, b), min(a, b)


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_double_loop(seed):
    data = random_data(seed)
    pairs = list(listed(data))
    found = pair_summary(data)
    assert found.pairs == len(pairs)
    assert found.of_query.tolist() == [sum(q == own for q, _, _ in pairs) for own in range(data.n_queries)]
    assert found.query_ids.tolist() == data.query_ids.tolist()
    assert found.queries_without_pairs == int((found.of_query == 0).sum())
    assert found.pairs_per_query.max == found.of_query.max()
    for at, row in enumerate(found.rank_pairs):
        own = [q for q, a, b in pairs if (a, b) == (row.higher, row.lower)]
        assert (row.pairs, row.queries) == (len(own), len(set(own)))
        assert found.by_query[:, at].tolist() == [own.count(q) for q in range(data.n_queries)]
    order = [(row.higher, row.lower) for row in found.rank_pairs]
    assert order == sorted(order, reverse=True)
    assert found.top_share == pytest.approx(found.of_query.max() / len(pairs))  # a tenth of 9 queries is one


@pytest.mark.parametrize("scale", [1, 7, 90, 3000])
def test_every_query_is_in_one_range(scale):
    rng = np.random.default_rng(scale)
    sizes = rng.integers(1, 4, 60) * scale
    labels = np.concatenate([np.append(1.0, np.zeros(size)) for size in sizes])  # size pairs each
    found = pair_summary(RankingData.from_arrays(np.zeros((len(labels), 1)), labels, group=sizes + 1))
    assert found.of_query.tolist() == sizes.tolist()
    for part in found.ranges:
        assert part.queries == int(((sizes >= part.low) & (sizes <= part.high)).sum())
    assert sum(part.queries for part in found.ranges) == 60
    assert all(after.low == before.high + 1 for before, after in itertools.pairwise(found.ranges))
    widths = {part.high - part.low + 1 for part in found.ranges[:-1]}
    assert len(widths) <= 1
    assert len(found.ranges) <= 13


def test_a_long_tail_shares_the_last_range():
    sizes = np.append(np.arange(1, 40), [5000])
    labels = np.concatenate([np.append(1.0, np.zeros(size)) for size in sizes])
    last = pair_summary(RankingData.from_arrays(np.zeros((len(labels), 1)), labels, group=sizes + 1)).ranges[-1]
    assert last.high == 5000
    assert last.low <= 60


def test_labels_of_any_kind():
    rng = np.random.default_rng(0)
    labels = rng.random(3000)
    indptr = np.arange(0, 3001, 30)
    assert (pairs_of_queries(labels, indptr) == 435).all()
    many = pair_summary(RankingData.from_arrays(np.zeros((3000, 1)), labels, group=[30] * 100))
    assert (many.rank_pairs, many.by_query.shape, many.pairs) == ((), (100, 0), 43500)
    qrels = TrecTable.from_columns(["a", "a", "a"], ["x", "y", "z"], [-1.0, 0.0, 2.0])
    assert pair_summary(qrels).pairs == 2  # -1 and 0 are both not relevant


def test_no_pairs():
    found = pair_summary(RankingData.from_arrays([[0.0], [1.0]], [1, 1], [1, 1]))
    assert (found.pairs, found.top_share, found.rank_pairs) == (0, 0.0, ())
    assert [(part.low, part.high, part.queries) for part in found.ranges] == [(0, 0, 1)]


def texts(path):
    return [node.text for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("n_labels", [1, 5, 40])
def test_the_plot_of_few_and_of_many_labels(n_labels, tmp_path):
    pair_summary(random_data(1, 30, n_labels)).plot(tmp_path / "a.svg")
    assert {"Pairs by labels", "Queries by number of pairs"} <= set(texts(tmp_path / "a.svg"))


def test_the_plot(tmp_path):
    found = pair_summary(random_data(1, 30, 3))
    for name in ("a.svg", "b.svg", "c.png"):
        found.plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert {"1 over 0.5", "labels 1 over 0.5"} <= set(texts(tmp_path / "a.svg"))
    assert len(found.figure().axes) == 3


def test_a_plot_of_an_unknown_kind(tmp_path):
    with pytest.raises(InputError, match=r"plots end in \.png or \.svg, not in '\.pdf'"):
        pair_summary(random_data(1)).plot(tmp_path / "a.pdf")
    assert not list(tmp_path.iterdir())
