"""The look of the judging page in a real browser: widths, names for screen readers, themes."""

import pytest

from in_browser import needs_browser

pytestmark = needs_browser


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_overflows(opened, width):
    page = opened(width, judge="a name of a judge that is as long as it may be, or so it seems.".replace(",", ""))
    page.keyboard.press("o")
    page.wait_for_selector("#whole:visible")
    page.keyboard.press("n")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((e) => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 0.5)
            .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []


@pytest.mark.parametrize("width", [400, 1400])
def test_grades_are_in_sight_below_a_long_document(opened, width):
    page = opened(width)
    page.evaluate("by('snippet').textContent = 'wing '.repeat(3000)")
    box = page.locator("[data-grade='3']").bounding_box()
    assert 0 < box["y"] < 900 - box["height"]


def test_everything_has_a_name(opened):
    page = opened()
    page.keyboard.press("n")
    unnamed = "all => all.filter((e) => !(e.textContent.trim() || e.ariaLabel)).length"
    assert page.eval_on_selector_all("button", unnamed) == 0
    assert page.eval_on_selector_all("textarea", "all => all.filter((e) => !e.labels.length).length") == 0
    assert page.locator("progress").get_attribute("aria-label")


def test_tab_order(opened):
    page = opened()
    page.locator("#theme").focus()
    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()[0]"))
    assert seen == list("0123csno")  # undo has nothing to undo
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def contrast(page, selector):
    """The contrast of a text with what is behind it, by WCAG."""
    return page.evaluate(
        """(selector) => {
            const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
            const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
                .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
                .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
            const element = document.querySelector(selector);
            let behind = element;
            while (/, 0\\)$/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
            const both = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
            const [a, b] = both.map((text) => light(numbers(text)) + 0.05);
            return Math.max(a, b) / Math.min(a, b);
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened, scheme):
    page = opened(browsing={"color_scheme": scheme})
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 30)"
    assert dark == (scheme == "dark")
    for selector in ("#query", ".kind", "#title", "#doc-id", "mark", "#facts", "[data-grade='0']", "kbd"):
        assert contrast(page, selector) >= 4.5, selector


def test_the_theme_button(opened):
    page = opened(browsing={"color_scheme": "light"})
    page.click("#theme")
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "Theme: dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 30)"
