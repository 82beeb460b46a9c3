"""The look of the search page in a real browser: widths, names for screen readers, themes."""

import re

import pytest

from in_browser import needs_browser

pytestmark = needs_browser


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_overflows(opened, width):
    long = "a-model-with-a-very-long-name-" * 3
    page = opened(f"?q=wing+%3Cb%3E&left={long}&right=trees", width)
    page.wait_for_selector("#lists li:visible")
    page.locator("#lists li:visible").nth(0).click()
    page.locator("#lists li:visible").nth(1).click()
    page.wait_for_selector(".bars")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((e) => !e.closest("select, .unseen, #moves") && e.getClientRects().length)
            .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []


def test_narrow_screens_show_one_list_at_a_time(opened):
    page = opened("?q=wing&left=linear&right=bm25", 400)
    page.wait_for_selector("#lists li")
    assert page.locator("section[data-side=left]").is_visible()
    assert page.locator("section[data-side=right]").is_hidden()
    page.click("#tabs [data-side=right]")
    assert page.locator("section[data-side=right]").is_visible()
    assert page.locator("section[data-side=left]").is_hidden()
    assert page.locator("#tabs [data-side=right]").get_attribute("aria-pressed") == "true"
    page.locator("section[data-side=right] li").nth(0).focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("section[data-side=left]").is_visible()


def test_everything_has_a_name(opened):
    page = opened("?q=wing")
    page.wait_for_selector("#lists li")
    unnamed = "all => all.filter((e) => !(e.textContent.trim() || e.ariaLabel)).length"
    assert page.eval_on_selector_all("button, a, [role=option]", unnamed) == 0
    assert page.eval_on_selector_all("select, input", "all => all.filter((e) => !e.labels.length).length") == 0
    assert page.eval_on_selector_all("[role=listbox]", "all => all.map((e) => e.ariaLabel)") == [
        "Results of linear",
        "Results of bm25",
    ]


def luminance(color):
    numbers = [int(part) for part in re.findall(r"\d+", color)[:3]]
    parts = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in numbers]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(page, selector, behind="body", name="color"):
    paper, ink = page.evaluate(
        """([selector, behind, name]) => {
            const style = (one) => getComputedStyle(document.querySelector(one));
            return [style(behind).backgroundColor, style(selector)[name]];
        }""",
        [selector, behind, name],
    )
    light, dark = sorted((luminance(paper), luminance(ink)), reverse=True)
    return luminance(paper), (light + 0.05) / (dark + 0.05)


def test_light_and_dark(opened):
    for scheme in ("light", "dark"):
        page = opened("?q=wing+lift&left=linear&right=bm25", color_scheme=scheme)
        page.wait_for_selector("#lists li")
        page.locator("section[data-side=left] li").nth(0).click()
        page.locator("section[data-side=left] li").nth(7).click()
        page.wait_for_selector(".bars")
        page.mouse.move(1, 1)
        checks = [
            (".snippet", "body"),
            (".rank", "body"),
            (".moved", "body"),
            ("#status", "body"),
            ("mark", "mark"),
            ("small", "#why"),
        ]
        for selector, behind in checks:
            paper, ratio = contrast(page, selector, behind)
            assert (paper < 0.5) == (scheme == "dark")
            assert ratio >= 4.5, (scheme, selector)
        assert contrast(page, ".bar i", "#why", "backgroundColor")[1] >= 3
        assert contrast(page, ".query button", ".query button")[1] >= 4.5
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "Theme: light"
    assert contrast(page, "body")[0] > 0.5
