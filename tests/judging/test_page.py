"""The judging page in a real browser: keyboard, files, states, widths, themes."""

import json

import pytest
from playwright.sync_api import expect
from tests.serving.browsing import needs_browser

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


def test_screens(opened, tmp_path):
    import os

    target = os.environ.get("SCREENS")
    if not target:
        pytest.skip("no SCREENS")
    for width in (400, 1400):
        for scheme in ("light", "dark"):
            page = opened(width, browsing={"color_scheme": scheme}, judge=f"ann{width}{scheme}")
            page.screenshot(path=f"{target}/{width}{scheme}.png")
