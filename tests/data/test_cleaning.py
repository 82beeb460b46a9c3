"""Cleaning against a double loop over pairs in exact arithmetic; its invariances; missing values; extremes."""

import dataclasses
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from rankwright import Cleaner, InputError, QueryScaler, RankingData
from rankwright.data import cleaning
from rankwright.data.kernels import _MANY


def contradict(one, other, threshold):
    """Whether the cosine of two rows is above the threshold, without rounding."""
    product, t = sum(a * b for a, b in zip(one, other, strict=True)), Fraction(threshold)
    return product > 0 and product**2 > t**2 * sum(a * a for a in one) * sum(b * b for b in other)


def by_double_loop(data, cleaner):
    """Return the rows that stay, and the counts, as their definitions say."""
    X = data.X.toarray() if data.is_sparse else data.X
    rows = [[Fraction(0) if math.isnan(value) else Fraction(value) for value in row] for row in X.tolist()]
    labels = data.labels.tolist()
    zero = [not any(row) for row in rows]
    good = [label >= cleaner.relevant_from for label in labels]
    gone, pairs, emptied, without = set(), 0, 0, 0
    for start, stop in pairwise(data.indptr.tolist()):
        here = [at for at in range(start, stop) if not zero[at]]
        for i in here:
            for k in here:
                if good[i] and not good[k] and contradict(rows[i], rows[k], cleaner.threshold):
                    gone |= {i, k}
                    pairs += 1
        left = {labels[at] for at in here if at not in gone}
        emptied += not left
        without += len(left) == 1 and len(set(labels[start:stop])) > 1
    kept = [not zero[at] and at not in gone for at in range(len(rows))]
    relevant = sum(good[at] for at in gone)
    return kept, (sum(zero), relevant, len(gone) - relevant, pairs, emptied, without)


def counts_of(found):
    return (
        found.all_zero,
        found.relevant,
        found.others,
        found.pairs,
        found.queries_emptied,
        found.queries_without_order,
    )


@st.composite
def data_sets(draw, missing=False):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    n_features = draw(st.integers(0, 10))
    values = st.sampled_from([0, 0, 0, 1, 1, 2, 7, -1] + [math.nan] * missing).map(float)
    X = draw(hnp.arrays(draw(st.sampled_from([np.float32, np.float64])), (sum(sizes), n_features), elements=values))
    labels = draw(hnp.arrays(int, sum(sizes), elements=st.integers(0, 3)))
    return RankingData.from_arrays(X, labels, group=sizes, allow_missing=missing)


CLEANERS = st.builds(Cleaner, st.sampled_from([0.05, 0.37, 0.83, 0.99, 1 - 1e-12]), st.sampled_from([1, 2]))


@given(data=data_sets(), cleaner=CLEANERS, small=st.booleans())
def test_agrees_with_the_double_loop(data, cleaner, small):
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(cleaning, "_CHUNK_VALUES", 8)
        found = cleaner.find(data)
    kept, counts = by_double_loop(data, cleaner)
    assert found.kept.tolist() == kept
    assert counts_of(found.report()) == counts
    assert found.report().dropped == data.n_docs - sum(kept)


@given(data=data_sets(missing=True), cleaner=CLEANERS)
def test_missing_values_count_as_zero(data, cleaner):
    found = cleaner.find(data)
    assert found.kept.tolist() == by_double_loop(data, cleaner)[0]
    assert found.kept.tolist() == cleaner.find(data.with_features(np.nan_to_num(data.X))).kept.tolist()


@given(data=data_sets(), cleaner=CLEANERS, seed=st.integers(0, 99))
def test_neither_order_nor_storage_nor_threads_matter(data, cleaner, seed):
    order = np.random.default_rng(seed).permutation(data.n_docs)
    shuffled = RankingData.from_arrays(data.X[order], data.labels[order], data.qid[order])
    kept, given_kept = cleaner.find(data).kept, cleaner.find(shuffled)
    assert shuffled.to_caller_order(given_kept.kept).tolist() == kept[order].tolist()
    report = cleaner.find(data).report()
    assert given_kept.report() == report
    X = sparse.csr_array(data.X)
    for other in (X, X.astype(np.float64), data.X.astype(np.float64)):
        found = cleaner.find(data.with_features(other), n_jobs=3)
        assert (found.kept.tolist(), found.report()) == (kept.tolist(), report)


def noisy(seed, sizes, n_features=20, noise=0.15):
    """Rows near a few directions, so that many cosines are close to the threshold."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.random((5, n_features))[rng.integers(0, 5, n)] + noise * rng.normal(size=(n, n_features))
    X[rng.random(n) < 0.05] = 0
    return RankingData.from_arrays(X, rng.integers(0, 3, n), group=sizes)


def test_long_queries_agree_with_cosines_by_numpy():
    data = noisy(1, [1500, 3, 90])  # relevant rows of more than one block
    unit = data.X / np.maximum(np.linalg.norm(data.X, axis=1), 1e-300)[:, None]
    zero, good = ~data.X.any(axis=1), data.labels >= 1
    gone = np.zeros(data.n_docs, bool)
    for start, stop in pairwise(data.indptr):
        near = unit[start:stop] @ unit[start:stop].T > 0.9
        near &= good[start:stop, None] != good[start:stop]
        gone[start:stop] = near.any(axis=1)
    found = Cleaner(0.9).find(data)
    assert good[:1500].sum() > 2 * _MANY
    assert 50 < gone.sum() < data.n_docs - 50
    assert found.kept.tolist() == (~gone & ~zero).tolist()
    assert Cleaner(0.9).find(data.with_features(sparse.csr_array(data.X))).kept.tolist() == found.kept.tolist()


@pytest.mark.parametrize("factor", [1e-310, 1e-160, 1.0, 1e160, 1e307])
def test_size_does_not_matter(factor):
    X = np.array([[1.0, 2, 3], [3, 2, 1], [2, 4, 6.1], [0, 0, 0], [0, 1, 0]])
    data = RankingData.from_arrays(X * factor, [1, 1, 0, 0, 0], group=[5])
    assert Cleaner().find(data).kept.tolist() == [False, True, False, False, True]


def test_scaled_features_decide_but_are_not_kept():
    data = noisy(2, [40, 60])
    data = data.with_features(data.X * 10.0 ** np.arange(20) + 5)
    cleaner = Cleaner(0.9, 2, scaled=True)
    scaled = QueryScaler("minmax").transform(data)
    clean, found = cleaner.clean(data)
    expected = Cleaner(0.9, 2).find(scaled)
    assert clean.X.tolist() == data.X[expected.kept].tolist()
    assert dataclasses.replace(found, scaled=False) == expected.report()
    assert 0 < found.dropped < data.n_docs
    in_csr = cleaner.find(data.with_features(sparse.csr_array(data.X)))
    assert in_csr.kept.tolist() == expected.kept.tolist()


def test_everything_else_stays():
    X = [[0, 0], [1, 0], [5, 5], [0, 3], [2, 0.1], [1, 1]]
    data = RankingData.from_arrays(
        X, [1, 0, 1, 2, 1, 0], list("abbcbb"), doc_ids=list("uvwxyz"), feature_names=["f", "g"]
    )
    clean, found = Cleaner().clean(data)
    assert clean.doc_ids.tolist() == ["x"]
    assert clean.query_ids.tolist() == ["c"]
    assert clean.indptr.tolist() == [0, 1]
    assert clean.feature_names == ("f", "g")
    assert not clean.X.flags.writeable
    assert found.text == (
        "5 of 6 documents: 1 all-zero, 2 relevant and 2 others in 2 contradicting pairs (cosine above 0.99); "
        "of 3 queries, 2 left without documents"
    )
    again, nothing = Cleaner().clean(clean)
    assert again.X.tolist() == clean.X.tolist()
    assert nothing.dropped == 0
    assert nothing.text.endswith("of 1 queries, none left without an order")


def test_cleaning_twice_drops_nothing_more():
    clean, _ = Cleaner(0.9).clean(noisy(3, [50, 80, 20]))
    assert Cleaner(0.9).find(clean).kept.all()


def test_reports_can_be_summed_over_queries():
    data = noisy(4, [30, 50, 20])
    found = Cleaner(0.9).find(data)
    parts = [found.report(np.arange(3) == q) for q in range(3)]
    assert parts == [Cleaner(0.9).find(data.select([q])).report() for q in range(3)]
    assert cleaning.Cleaning.total(parts) == found.report()


def test_advice_is_for_large_features_only():
    data = RankingData.from_arrays([[900.0, 1], [800, 0], [0, 1], [0, 1]], [1, 0, 0, 1], group=[4])
    cleaner = Cleaner()
    assert "scaled" in cleaner.advice(data, cleaner.find(data).report())
    small = data.with_features(data.X / 900)
    assert not cleaner.advice(small, cleaner.find(small).report())
    assert not Cleaner(scaled=True).advice(data, Cleaner(scaled=True).find(data).report())


def test_nothing_left_is_an_error():
    data = RankingData.from_arrays([[0.0], [0.0]], [0, 1], group=[2])
    with pytest.raises(InputError, match="cleaning leaves nothing: it drops 2 of 2 documents"):
        Cleaner().clean(data)
    empty = RankingData.from_arrays(np.zeros((0, 2)), [], [])
    assert Cleaner().find(empty).report().documents == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1}, "threshold of cleaning is 1; expected a number between 0 and 1"),
        ({"threshold": 0}, "threshold of cleaning is 0"),
        ({"threshold": math.nan}, "threshold of cleaning is nan"),
        ({"threshold": "high"}, "threshold of cleaning is 'high'"),
        ({"threshold": True}, "threshold of cleaning is True"),
        ({"relevant_from": 0}, "relevant_from of cleaning is 0; expected a number above 0"),
        ({"relevant_from": 10**400}, "relevant_from of cleaning is 1000000"),
        ({"relevant_from": math.inf}, "relevant_from of cleaning is inf"),
        ({"scaled": "minmax"}, "scaled of cleaning is 'minmax'; expected True or False"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        Cleaner(**settings)


def test_masks_of_another_size_are_refused():
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], group=[2])
    for mask in ([True], [1, 0], [[True, False]]):
        with pytest.raises(InputError, match="a mask of 2 truth values"):
            data.select_docs(mask)
