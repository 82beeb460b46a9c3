"""Thresholds in float32: the same side as in float64 for every float32 value, whatever the threshold."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from made_models import ODD

from rankwright.boosting.float32 import SOLR_SLACK, for_at_most, for_below, for_slack, number_text, rounded_down

LARGEST = float(np.finfo(np.float32).max)
THRESHOLDS = st.one_of(st.sampled_from(ODD), st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
INSIDE = st.floats(allow_nan=False, width=32, min_value=-LARGEST / 2, max_value=LARGEST / 2)


def neighbours(threshold):
    """Return the float32 numbers next to a threshold, inside the range of float32."""
    on = np.float32(np.clip(threshold, -LARGEST / 2, LARGEST / 2))
    return [
        np.nextafter(on, np.float32(-np.inf)),
        on,
        np.nextafter(on, np.float32(np.inf)),
        np.float32(0),
        np.float32(-0.0),
    ]


@given(THRESHOLDS, INSIDE)
@example(0.0, -0.0)
@example(-0.0, 0.0)
@example(-5e-324, 0.0)
def test_values_stay_on_their_side(threshold, value):
    for x in [np.float32(value), *neighbours(threshold)]:
        ours = float(x) <= threshold
        assert bool(x <= for_at_most(threshold)) == ours
        assert bool(x < for_below(threshold)) == ours


@pytest.mark.parametrize("threshold", [0.5, 0.7, 16777217.0])
def test_merely_cast_thresholds_do_not(threshold):
    cast = np.float32(threshold)
    sides = [(bool(x < cast), float(x) <= threshold) for x in neighbours(threshold)]
    assert any(theirs != ours for theirs, ours in sides)


@given(THRESHOLDS)
def test_slack_comes_to_the_threshold_or_to_the_next_sum_below(threshold):
    written, comes_to = for_slack(threshold)
    wanted = for_at_most(threshold)
    assert comes_to == np.float32(written) + SOLR_SLACK
    assert comes_to <= wanted
    with np.errstate(over="ignore"):
        next_sum = np.nextafter(np.float32(written), np.float32(np.inf)) + SOLR_SLACK
        assert comes_to == wanted or next_sum > wanted
    if wanted > 1e-2:  # numbers below are at least as dense; those below -1 are not
        assert comes_to == wanted


@given(THRESHOLDS)
def test_zero_never_changes_its_side_by_the_slack(threshold):
    assert bool(for_slack(threshold)[1] >= 0) == (threshold >= 0)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_texts_give_the_number_back(value):
    text = number_text(np.float32(value))
    for read in (np.float32(text), np.float32(float(text)), np.float32(json.loads(text))):
        assert read == np.float32(value)


def test_rounding_down_is_not_rounding_to_the_nearest():
    up = 1.0 + 0.9 * float(np.finfo(np.float32).eps)
    assert np.float32(up) > 1
    assert rounded_down(up) == 1
    assert rounded_down(-np.inf) == -np.inf
