"""Tables of notebooks in a real browser: readable on light and dark pages, wide ones scroll, nothing in them runs."""

import pytest
from tests.evaluation.test_display import things

from in_browser import needs_browser

pytestmark = needs_browser
THEMES = {"light": ("#ffffff", "#1f1f1f"), "dark": ("#111111", "#e0e0e0")}  # as JupyterLab's
CONTRAST = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const page = numbers(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll("td, th, div[style*=opacity]")].map((cell) => {
    const style = getComputedStyle(cell);
    const [r, g, b, a = 1] = numbers(style.backgroundColor);
    if (a !== 0) return 0;  // a colour of its own fits one theme only
    const seen = numbers(style.color).map((c, i) => c * style.opacity + page[i] * (1 - style.opacity));
    const [low, high] = [light(seen), light(page)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  }));
}"""


@pytest.fixture
def opened(browser):
    contexts = []

    def open_page(theme, width):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        back, ink = THEMES[theme]
        parts = "".join(thing._repr_html_() for thing in things().values())
        page.set_content(f"<body style='background:{back};color:{ink};font:14px sans-serif'>{parts}</body>")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [400, 1400])
def test_tables_are_readable_and_stay_inside_the_page(opened, theme, width):
    page = opened(theme, width)
    assert page.locator("table").count() >= len(things())
    assert page.evaluate(CONTRAST) > 4.5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("script").count() == 0
    assert page.get_by_text("<script>").count() > 0
