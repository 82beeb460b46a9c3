"""Looks at every page of the built site in Chromium, at 400 and 1400 pixels, light and dark.

    make docs && python benchmarks/look_at_site.py

Fails if a page is wider than its window, if the button that copies a block covers its text, or if words have a contrast
below 4.5 (3 for large ones, as WCAG 2 asks). With --pictures it keeps a picture of every page, to look at.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import sync_playwright

SITE = Path(__file__).parent.parent / "site"
WIDTHS = (400, 1400)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
COVERED = """() => [...document.querySelectorAll("pre")].filter((pre) => {
    const [button, code] = [pre.querySelector(".md-code__nav, .md-clipboard"), pre.querySelector("code")];
    if (!button || !code) return false;
    const [over, text] = [button.getBoundingClientRect(), code.getBoundingClientRect()];
    return over.left < text.right - 0.5 && over.top < text.bottom;
}).map((pre) => pre.innerText.slice(0, 60))"""

FAINT = """() => {
    const numbers = (color) => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = (ink, paper) => [0, 1, 2].map((i) => ink[i] * ink[3] + paper[i] * (1 - ink[3]));
    const light = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
        const part = color[i] / 255;
        return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    }, 0);
    const paper = (element) => {
        if (!element) return [255, 255, 255];
        const color = numbers(getComputedStyle(element).backgroundColor);
        return color[3] === 1 ? color : over(color, paper(element.parentElement));
    };
    const faint = new Set();
    for (const element of document.querySelectorAll(".md-content :not(.headerlink, script, style)")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !element.getClientRects().length) continue;
        const [style, behind] = [getComputedStyle(element), paper(element)];
        const [dark, bright] = [light(over(numbers(style.color), behind)), light(behind)].sort((a, b) => a - b);
        const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
        if ((bright + 0.05) / (dark + 0.05) < least) faint.add(element.textContent.trim().slice(0, 40));
    }
    return [...faint];
}"""


def problems(page: Any, address: str) -> list[str]:
    """Open a page and return what is wrong with it."""
    page.goto(address)
    page.wait_for_selector("[data-md-color-scheme]")
    page.wait_for_function("!document.querySelector('pre > code') || document.querySelector('.md-code__nav')")
    found = [f"a button covers: {text}" for text in page.evaluate(COVERED)]
    found += [f"too faint: {text}" for text in page.evaluate(FAINT)]
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [*found, f"{wide} pixels too wide"] if wide > 0 else found


def main() -> int:
    """Look at all pages; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", nargs="*", default=[], help="pages to look at, such as index.html; all if not given")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of every page")
    parser.add_argument("--chromium", help="the browser; Playwright's own if not given")
    given = parser.parse_args()
    pages = [SITE / name for name in given.pages] or sorted(SITE.rglob("*.html"))
    wrong = 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=given.chromium, args=["--no-sandbox"])
        for width, theme in product(WIDTHS, THEMES):
            page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
            for path in pages:
                name = path.relative_to(SITE).as_posix()
                for problem in problems(page, path.as_uri()):
                    print(f"{name}, {width} pixels, {theme}: {problem}")
                    wrong += 1
                if given.pictures is not None:
                    file = given.pictures / f"{name.replace('/', '-').removesuffix('.html')}-{width}-{theme}.png"
                    page.screenshot(path=file, full_page=True)
            page.close()
        browser.close()
    print(f"{len(pages)} pages, {wrong} problems")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
