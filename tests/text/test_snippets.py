"""Snippets against looking at every window, and what becomes of the words of a query."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_views import view_of

from rankwright.text.contents import View
from rankwright.text.search import Snippet, query_words, shorten, snippet


def lower(text):
    return text.lower().split()


def test_the_words_that_match_are_marked():
    part = snippet("The lift, of a\n(Wing)   in flight", {"wing": 2.0, "lift": 1.0}, lower, 80)
    assert part.marked(lambda word: f"[{word}]") == "The [lift], of a ([Wing]) in flight"
    assert [part.text[start:stop] for start, stop in part.marks] == ["lift", "Wing"]
    assert part.marked(str) == part.text


def test_the_best_window_is_shown():
    text = "wing " + "x " * 50 + "lift and wing " + "y " * 50 + "wing wing wing " + "z " * 50
    part = snippet(text, {"wing": 1.0, "lift": 1.0}, lower, 40)
    assert "lift and wing" in part.text
    assert part.text.startswith("… x ")
    assert part.text.endswith(" y …")
    part = snippet(text, {"wing": 1.0, "lift": 0.0}, lower, 40)
    assert "wing wing wing" in part.text


def test_no_match_gives_the_beginning():
    assert snippet("a b c d e f g", {"z": 1.0}, lower, 9) == Snippet("a b c …")
    assert snippet("", {"z": 1.0}, lower, 9) == Snippet("")
    assert shorten("one two three", 13) == "one two three"
    assert shorten("one two three", 12) == "one two …"


def test_a_word_longer_than_the_window_is_cut():
    assert len(shorten("x" * 100, 20)) <= 20
    assert shorten("x" * 100, 20).startswith("xxxxx")
    part = snippet("y " * 30 + "x" * 100 + " y" * 30, {"x" * 100: 1.0}, lower, 20)
    assert len(part.text) <= 20


def best_value(text, weights, width):
    """The most weight of different terms between two words that are not further apart than the width."""
    words, at = [], 0
    for word in text.split():
        words.append((at, at + len(word), word))
        at += len(word) + 1
    held = [(start, stop, word) for start, stop, word in words if word in weights]
    best = 0.0
    for (start, _, _), (_, stop, _) in itertools.product(held, held):
        if 0 < stop - start <= width:
            best = max(best, sum(weights[word] for word in {w for a, b, w in held if start <= a and b <= stop}))
    return best


@given(
    words=st.lists(st.sampled_from(["a", "bb", "ccc", "xxxx", "yyyyyyy", "z"]), max_size=60),
    weights=st.dictionaries(st.sampled_from(["a", "bb", "ccc"]), st.floats(0.1, 9), min_size=1),
    width=st.integers(12, 60),
)
@settings(deadline=None)
def test_no_window_has_more(words, weights, width):
    text = " ".join(words)
    part = snippet(text, weights, lower, width)
    assert len(part.text) <= width
    shown = part.text.removeprefix("… ").removesuffix(" …")
    assert f" {shown} " in f" {text} " or not shown
    marked = {part.text[start:stop] for start, stop in part.marks}
    assert marked == set(shown.split()) & set(weights)
    inner = width if len(text) <= width else width - 4
    assert sum(weights[word] for word in marked) >= best_value(text, weights, inner) - 1e-9


@given(st.text(max_size=300), st.integers(8, 40))
@settings(deadline=None)
def test_any_text_is_cut_to_the_width(text, width):
    part = snippet(text, {"a": 1.0, "b": 2.0}, lower, width)
    assert len(part.text) <= width
    assert all(0 <= start < stop <= len(part.text) for start, stop in part.marks)


def test_words_of_a_query_are_sorted_out():
    view = view_of([["wing", "lift"], ["wing"], []], vocabulary=["ghost"])
    stop = {"the", "of"}

    def analyze(text):
        return [word for word in text.lower().replace("-", " ").replace(",", " ").split() if word not in stop]

    view = View(view.terms, view.indptr, view.docs, view.counts, view.lengths, analyze)
    words = query_words(view, "The Wing, of Xyzzy-wing ghost xyzzy the")
    assert list(words.weights) == ["wing"]
    assert words.weights["wing"] == pytest.approx(0.9162907, abs=1e-6)
    assert words.unknown == ["Xyzzy", "ghost", "xyzzy"]
    assert words.dropped == ["The", "of", "the"]
