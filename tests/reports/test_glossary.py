"""The words of a report: every link has its explanation, only what is linked is explained, and notes are linked."""

import re

import pytest
from results_folder import write_results
from test_report import Page

from rankwright.reports import write_comparison, write_report
from rankwright.reports.glossary import _IN_NOTES, _WORDS, glossary, linked, word


def links(page):
    targets = [attributes["href"][1:] for tag, attributes in page.elements if tag == "a"]
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    return targets, ids


def test_no_link_is_dead_and_no_explanation_is_idle(tmp_path):
    first = write_results(tmp_path / "a", n_queries=20, sizes=[10, 40], n_splits=2)
    second = write_results(tmp_path / "b", n_queries=20, seed=1)
    pages = [write_report(first, tmp_path / "a.html"), write_comparison(first, second, tmp_path / "b.html")]
    for path in pages:
        targets, ids = links(Page(path.read_text()))
        assert set(targets) <= ids
        assert {name for name in ids if name.startswith("word-")} == {t for t in targets if t.startswith("word-")}
        assert "word-significant" in targets


def test_explanations_link_to_one_another():
    text = glossary(word("C"))
    assert {'id="word-C"', 'id="word-loss"', 'id="word-penalty"', 'id="word-validation"'} <= set(
        re.findall(r'id="[^"]*"', text)
    )
    assert 'id="word-gap"' not in text
    assert "{" not in glossary("".join(map(word, _WORDS)))
    assert glossary("<p>nothing</p>") == ""


@pytest.mark.parametrize("text", _IN_NOTES)
def test_words_of_notes_are_linked_once(text):
    shown = linked(f"{text} < {text} & x{text} {text}s")
    assert shown == f"{word(_IN_NOTES[text], text)} &lt; {text} &amp; x{text} {text}s"
