from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.order import rank_order, sizes_to_indptr
from rankwright.errors import InputError

LAYOUTS = {
    "equal": st.builds(lambda size, n: [size] * n, st.integers(0, 6), st.integers(0, 6)),
    "few large": st.lists(st.integers(60, 140), min_size=1, max_size=3),
    "many small": st.lists(st.integers(0, 4), max_size=30),
}


def plain(scores, indptr, ids=None):
    """Python's sort is stable, also in reverse."""
    order = []
    for start, stop in pairwise(indptr):
        rows = range(start, stop)
        key = (lambda row: scores[row]) if ids is None else (lambda row: (scores[row], str(ids[row])))
        order += sorted(rows, key=key, reverse=True)
    return order


@st.composite
def queries(draw, layout):
    sizes = draw(LAYOUTS[layout])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_levels = draw(st.sampled_from([1, 3, 1000]))  # all tied, many ties, few ties
    scores = rng.integers(-n_levels, n_levels, sum(sizes)) / 4
    return scores, sizes_to_indptr(np.array(sizes, int)), rng.permutation(sum(sizes) + 5)[: sum(sizes)]


@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=st.data())
def test_order_is_that_of_a_plain_sort(layout, data):
    scores, indptr, numbers = data.draw(queries(layout))
    given_scores, given_indptr = scores.copy(), indptr.copy()
    assert rank_order(scores, indptr).tolist() == plain(scores, indptr)
    texts = np.array([f"d{number}" for number in numbers], "U8")
    for ids in (texts, texts.astype("S8"), texts.astype(object), numbers):
        assert rank_order(scores, indptr, ids).tolist() == plain(scores, indptr, [_text(id_) for id_ in ids])
    assert (scores == given_scores).all()
    assert (indptr == given_indptr).all()


def _text(id_):
    return id_.decode() if isinstance(id_, bytes) else str(id_)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc")), max_size=12))
def test_equal_ids_keep_input_order(documents):
    scores = np.array([score for score, _ in documents], float)
    ids = np.array([id_ for _, id_ in documents], "U1")
    indptr = np.array([0, len(documents)])
    assert rank_order(scores, indptr, ids).tolist() == plain(scores, indptr, ids)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3), max_size=8))
def test_unicode_ids_compare_as_strings(ids):
    indptr = np.array([0, len(ids)])
    assert rank_order(np.zeros(len(ids)), indptr, np.array(ids, "U3")).tolist() == plain([0] * len(ids), indptr, ids)


def test_integer_ids_compare_as_strings():
    assert rank_order(np.zeros(3), np.array([0, 3]), np.array([10, 9, 100])).tolist() == [1, 2, 0]


def test_ties_do_not_reach_over_query_boundaries():
    order = rank_order(np.array([2.0, 1.0, 1.0, 0.0]), np.array([0, 2, 2, 4]), np.array(["a", "b", "c", "d"]))
    assert order.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "scores",
    [
        np.array([False, True]),
        np.array([0, 255], np.uint8),
        np.array([-128, 127], np.int8),
        np.array([-(2**63), 2**63 - 1], np.int64),
        np.array([2**63, 2**63 + 1], np.uint64),
        np.array([-3e38, 3e38], np.float32),
    ],
    ids=lambda scores: str(scores.dtype),
)
def test_scores_of_any_number_type(scores):
    assert rank_order(scores, np.array([0, 2])).tolist() == [1, 0]


def test_negative_zero_equals_zero():
    assert rank_order(np.array([-0.0, 0.0, -0.0]), np.array([0, 3])).tolist() == [0, 1, 2]


@pytest.mark.parametrize("indptr", [[0], [0, 0], [0, 0, 0]])
@pytest.mark.parametrize("ids", [None, np.array([], "U1")])
def test_nothing_to_order(indptr, ids):
    assert rank_order(np.zeros(0), np.array(indptr), ids).tolist() == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_must_be_finite(bad):
    with pytest.raises(InputError, match=rf"the score of document 1 \(from 0\) is {bad}; scores must be finite"):
        rank_order(np.array([0.0, bad, bad]), np.array([0, 3]))
