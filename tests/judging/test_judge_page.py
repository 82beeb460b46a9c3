"""The judging page in a real browser: keyboard, files, states."""

import json

from playwright.sync_api import expect
from tests.judging.at_work import compared_session, make_session

from in_browser import ANSWERS, NO_ANSWER, needs_browser
from rankwright.judging import records, session
from rankwright.judging.stopping import Decision

pytestmark = needs_browser


def shown(page):
    return page.evaluate("[now.query.id, now.document.id]")


def on_disk(page):
    return [json.loads(line) for line in (page.session.folder / "ann.jsonl").read_text().splitlines()]


def press(page, key):
    """Press a key, and wait until the service has answered."""
    before = page.evaluate("now.seen")
    page.keyboard.press(key)
    page.wait_for_selector(f"body[data-seen='{before + 1}']")


def test_grades_by_key_are_on_disk_before_the_next_is_shown(opened):
    page = opened()
    seen = []
    for key in ("2", "0", "3", "1"):
        seen.append((*shown(page), int(key)))
        press(page, key)
        assert [(one["query"], one["document"], one["grade"]) for one in on_disk(page)] == seen
    assert len({one[:2] for one in seen}) == 4
    qrels = (page.session.folder / "qrels.txt").read_text().split("\n")
    assert sorted(filter(None, qrels)) == sorted(f"{query} 0 {document} {grade}" for query, document, grade in seen)
    expect(page.locator("#facts")).to_contain_text("4 of")
    page.reload()
    expect(page.locator("#facts")).to_contain_text("4 of")


def test_by_keyboard_alone(opened):
    page = opened()
    first = shown(page)
    press(page, "2")
    second = shown(page)
    press(page, "u")
    assert shown(page) == first
    expect(page.locator("#status")).to_contain_text("Undone")
    press(page, "c")
    assert shown(page) == second
    press(page, "s")
    expect(page.locator("#facts")).to_contain_text("2 of")
    expect(page.locator("#facts")).to_contain_text("1 skipped")
    third = shown(page)
    page.keyboard.press("n")
    page.keyboard.type("2 wings, or 3?")  # keys within a note are text
    press(page, "Enter")
    assert shown(page) == third
    expect(page.locator("#said")).to_have_text("Note: 2 wings, or 3?")
    page.keyboard.press("n")
    page.keyboard.type("never mind")
    page.keyboard.press("Escape")
    expect(page.locator("#note-form")).to_be_hidden()
    press(page, "3")
    told = [(one["action"], one.get("grade"), one.get("note")) for one in on_disk(page)]
    assert told == [
        ("grade", 2, None),
        ("undo", None, None),
        ("cannot tell", None, None),
        ("skip", None, None),
        ("note", None, "2 wings, or 3?"),
        ("grade", 3, None),
    ]
    for key in ("4", "x", "Enter", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Control+1")
    assert len(on_disk(page)) == 6


def test_undo_takes_back_one_at_a_time(opened):
    page = opened()
    first = shown(page)
    press(page, "1")
    second = shown(page)
    press(page, "3")
    press(page, "u")
    assert shown(page) == second
    press(page, "u")
    assert shown(page) == first
    expect(page.locator("#undo")).to_be_disabled()
    page.keyboard.press("u")
    assert len(on_disk(page)) == 4
    assert (page.session.folder / "qrels.txt").read_text() == ""


def test_the_whole_document(opened):
    page = opened()
    page.keyboard.press("o")
    expect(page.locator("#whole")).to_be_visible()
    query, document = shown(page)
    told = page.request.get(f"{page.address}document", params={"query": query, "document": document}).json()
    for one in told["fields"]:
        expect(page.locator("#whole")).to_contain_text(one["text"])
    assert page.locator("#whole mark").count() == sum(len(one["marks"]) for one in told["fields"])
    expect(page.locator("#snippet")).to_be_hidden()
    page.keyboard.press("o")
    expect(page.locator("#whole")).to_be_hidden()
    expect(page.locator("#snippet")).to_be_visible()
    page.keyboard.press("o")
    expect(page.locator("#whole")).to_be_visible()
    press(page, "2")
    expect(page.locator("#whole")).to_be_hidden()  # it belonged to the document before


def test_by_mouse(opened):
    page = opened()
    page.click("[data-grade='1']")
    page.wait_for_selector("body[data-seen='1']")
    page.click("#undo")
    page.wait_for_selector("body[data-seen='2']")
    page.click("[data-do=skip]")
    page.wait_for_selector("body[data-seen='3']")
    page.click("#note-open")
    page.fill("#note", "by mouse")
    page.click("#note-form button")
    page.wait_for_selector("body[data-seen='4']")
    assert [one["action"] for one in on_disk(page)] == ["grade", "undo", "skip", "note"]


def test_markup_of_documents_and_queries_is_text(opened):
    page = opened()
    seen = set()
    while page.locator("#task").is_visible():
        page.keyboard.press("o")
        expect(page.locator("#whole")).to_be_visible()
        assert page.locator("#task b, #task script, #task img").count() == 0
        query, document = shown(page)
        seen.add(document)
        if query == "q1":
            expect(page.locator("#need")).to_have_text("How a <b>thin</b> wing lifts; theory counts, too.")
        press(page, "0")
    assert "ünïcode/№1&<x>" in seen


def test_the_end_and_back(opened):
    page = opened(depth=1)
    n_docs = len(page.session.pairs)
    for _ in range(n_docs):
        press(page, "1")
    expect(page.locator("#end-title")).to_have_text("Everything is judged")
    expect(page.locator("#end-text")).to_contain_text(f"{n_docs} of {n_docs} documents")
    expect(page.locator("#grades")).to_be_hidden()
    page.keyboard.press("2")  # there is nothing to grade
    press(page, "u")
    expect(page.locator("#task")).to_be_visible()
    expect(page.locator("#grades")).to_be_visible()


def test_a_decision_and_judging_on(opened, monkeypatch):
    page = opened(compare=("bm25", "tfidf"))
    expect(page.locator("#facts")).to_contain_text("of 40 needed")
    monkeypatch.setattr(session.Sequential, "decision", lambda _: Decision("tfidf", (1.0, 44.0), 40.0, 3))
    press(page, "2")
    expect(page.locator("#end-title")).to_have_text("Decided: tfidf is better than bm25 by nDCG@4")
    page.keyboard.press("g")
    expect(page.locator("#task")).to_be_visible()
    press(page, "2")
    expect(page.locator("#task")).to_be_visible()


def test_what_is_not_kept_is_said(opened, monkeypatch):
    page = opened(allowed=["507"])
    first = shown(page)

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(records.os, "fsync", full)
        page.keyboard.press("2")
        expect(page.locator("#status.error")).to_contain_text("Nothing was kept")
    assert shown(page) == first
    press(page, "2")
    assert len(on_disk(page)) == 1


def test_two_pages_of_one_judge(opened):
    page = opened(allowed=["409"])
    other = page.context.new_page()
    other.goto(page.address)
    other.wait_for_selector("body[data-seen='0']")
    press(page, "2")
    second = shown(page)
    other.keyboard.press("0")
    expect(other.locator("#status.error")).to_contain_text("not up to date")
    expect(other.locator("#doc-id")).to_have_text(second[1])
    press(other, "0")
    assert [one["grade"] for one in on_disk(page)] == [2, 0]


def test_a_service_that_ended_is_said(opened, made, tmp_path):
    page = opened()
    page.evaluate(NO_ANSWER)
    page.keyboard.press("2")
    expect(page.locator("#status.error")).to_have_text("The service does not answer.")
    page.evaluate(ANSWERS)
    press(page, "2")


def test_a_session_goes_on_where_it_ended(opened, made, tmp_path):
    folder = tmp_path / "before"
    before, _ = make_session(made, folder)
    pairs = list(before.pairs)
    before.act(0, records.Action("grade", *pairs[0], 2))
    before.close()
    page = opened(session=make_session(made, folder))
    assert shown(page) == list(pairs[1])
    expect(page.locator("#facts")).to_contain_text("1 of")


def test_a_real_decision(opened, made, tmp_path):
    """One ranker has a perfect first document, the other a bad one: seven such queries are enough, and not six.

    The capital is the mean of (1 + λ)^n over the four bets: 26.98 for six queries, 50.05 for seven; 40 are needed.
    """
    found, shown_texts, good = compared_session(made, tmp_path / "judgements", n_queries=9)
    page = opened(session=(found, shown_texts))
    for at in range(14):
        if at == 12:
            expect(page.locator("#facts")).to_contain_text("evidence 26.98 of 40 needed")
        expect(page.locator("#end-title")).to_be_hidden()
        query, document = shown(page)
        press(page, "3" if good[query] == document else "0")
    expect(page.locator("#end-title")).to_have_text("Decided: good is better than bad by nDCG@1")
    assert found.decision().better == "good"
    assert len((found.folder / "qrels.txt").read_text().splitlines()) == 14
    press(page, "u")  # what was decided by the last judgement is open again without it
    expect(page.locator("#end-title")).to_be_hidden()
    query, document = shown(page)
    press(page, "3" if good[query] == document else "0")
    expect(page.locator("#end-title")).to_be_visible()
    page.keyboard.press("g")
    expect(page.locator("#end-title")).to_be_hidden()
    expect(page.locator("#facts")).to_contain_text("14 of 18")
