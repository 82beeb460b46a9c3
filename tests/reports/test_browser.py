"""The report in a real browser: no errors, sorting, pointing, widths, text alternatives, themes, saving, paper."""

import struct
import xml.etree.ElementTree as ElementTree

import pytest
from results_folder import MEASURES, METHODS, write_results

from in_browser import needs_browser
from rankwright.reports import write_report

pytestmark = needs_browser
TEXT = "what is the lift of a thin wing"
PLOTS = ("differences", "queries", "criteria", "paths", "health", "curves", "time")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """All sections: two data sets, several training sizes, texts, paths and health."""
    folder = tmp_path_factory.mktemp("browser")
    results = write_results(folder / "results", sizes=[10, 40], n_queries=40, n_splits=2, text=TEXT)
    return write_report(results, folder / "report.html", title="A test").as_uri()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """Fifteen methods, most of them with long names."""
    folder = tmp_path_factory.mktemp("crowded")
    results = write_results(folder / "results", data=("cranfield",), sizes=[10, 40], n_queries=20, n_splits=2, more=10)
    return write_report(results, folder / "report.html").as_uri()


@pytest.fixture
def opened(browser, report):
    """A function that opens the report; complaints of the page fail the test."""
    complaints, contexts = [], []

    def open_page(width=1400, address=report, **options):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
        )
        page.goto(address)
        page.wait_for_selector("figure[data-plot=time] svg")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def test_sorting(opened):
    page = opened()
    table = "#means table >> nth=0"
    values = "cells => cells.map((cell) => Number(cell.dataset.value))"
    before = page.locator(table).locator("tbody td:nth-child(2)").evaluate_all(values)
    assert before not in (sorted(before), sorted(before, reverse=True))
    heading = page.locator(table).locator("thead th").nth(1)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert page.locator(table).locator("tbody td:nth-child(2)").evaluate_all(values) == sorted(before, reverse=True)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert page.locator(table).locator("tbody td:nth-child(2)").evaluate_all(values) == sorted(before)
    page.locator(table).locator("thead button").nth(0).click()  # by name
    names = page.locator(table).locator("tbody th").all_inner_texts()
    assert names == sorted(names)
    assert heading.get_attribute("aria-sort") is None


def test_pointing_and_the_keyboard_show_the_query(opened):
    page = opened()
    canvas = page.locator("figure[data-plot=queries] .canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    tip = page.locator("#tip")
    assert tip.locator("strong").inner_text() == TEXT
    assert "bm25" in tip.inner_text()
    assert page.locator("figure[data-plot=queries] .pointed").get_attribute("d")
    page.mouse.move(1, 1)
    assert tip.is_hidden()
    page.locator("[data-choose=method]").focus()
    page.keyboard.press("Tab")  # from the choice above the plot into the plot
    assert tip.locator("strong").inner_text() == TEXT
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() != first
    page.keyboard.press("End")
    assert "−" in tip.inner_text()  # the largest loss
    page.keyboard.press("Escape")
    assert tip.is_hidden()


@pytest.fixture(params=["some", "many"])
def address(request, report, crowded):
    """The report, and the one with many methods."""
    return report if request.param == "some" else crowded


def show_all_lines(page):
    """All methods in plots of lines, which is what crowds them."""
    for select in page.locator("[data-choose=line]").all():
        select.select_option("")


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_overflows(opened, address, width):
    page = opened(width, address)
    show_all_lines(page)
    page.eval_on_selector_all("details", "all => all.forEach((details) => (details.open = true))")
    page.locator("figure[data-plot=time] .numbers table").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((e) => !e.closest(".wide, .canvas, .unseen") && e.getClientRects().length)
            .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []
    cut = page.evaluate(
        """() => [...document.querySelectorAll("svg.plot")].flatMap((svg) => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter((text) => {
                const own = text.getBoundingClientRect();
                const beside = own.left < box.left - 1 || own.right > box.right + 1;
                return beside || own.top < box.top - 1 || own.bottom > box.bottom + 1;
            }).map((text) => text.textContent);
        })"""
    )
    assert cut == []


@pytest.mark.parametrize("width", [400, 1400])
def test_no_label_lies_on_another(opened, address, width):
    page = opened(width, address)
    show_all_lines(page)
    pairs = page.evaluate(
        """() => [...document.querySelectorAll("svg.plot")].flatMap((svg) => {
            const all = [...svg.querySelectorAll("text")], found = [];
            const texts = all.map((t) => [t.textContent, t.getBoundingClientRect()]);
            texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
                const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
                const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
                if (wide > 1 && high > 3) found.push(a + " / " + b);
            }));
            return found;
        })"""
    )
    assert pairs == []


def test_many_methods_can_be_told_apart(opened, crowded):
    page = opened(address=crowded)
    page.select_option("figure[data-plot=curves] [data-choose=line]", "")
    for name in ("curves", "time"):
        names = page.locator(f"figure[data-plot={name}] svg > g:first-of-type text").all_text_contents()
        assert len(names) == len(METHODS) + 10
        assert not [text for text in names if "…" in text]
    looks = page.locator("figure[data-plot=curves] svg > g:first-of-type .marker").evaluate_all(
        "all => all.map((e) => e.getAttribute('class') + (e.getAttribute('d') || 'circle'))"
    )
    dashes = page.locator("figure[data-plot=curves] svg > g:first-of-type .series").evaluate_all(
        "all => all.map((e) => e.getAttribute('class') + e.getAttribute('stroke-dasharray'))"
    )
    assert len(set(looks)) == len(set(dashes)) == len(METHODS) + 10


def test_the_other_lines_step_back_while_one_is_pointed_at(opened, crowded):
    page = opened(address=crowded)
    page.select_option("figure[data-plot=curves] [data-choose=line]", "")
    canvas = page.locator("figure[data-plot=curves] .canvas")
    canvas.scroll_into_view_if_needed()
    spot = canvas.locator("g:not(:first-of-type) .marker >> nth=0").bounding_box()
    page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    assert canvas.locator("g.back").count() == len(METHODS) + 9
    page.mouse.move(1, 1)
    assert canvas.locator("g.back").count() == 0


def test_captions_name_what_was_chosen(opened):
    page = opened()
    page.select_option("#choose-data", label="python-docs")
    page.select_option("#choose-measure", label=MEASURES[2])
    for name in PLOTS:
        caption = page.locator(f"figure[data-plot={name}] figcaption").inner_text()
        assert "python-docs" in caption
        assert (", RR" in caption) == (name in ("differences", "queries", "curves", "time"))


def test_text_alternatives(opened):
    page = opened()
    assert page.locator("figure[data-plot]").count() == len(PLOTS)
    for name in PLOTS:
        figure = page.locator(f"figure[data-plot={name}]")
        picture = figure.locator("svg")
        assert picture.get_attribute("role") == "img"
        for key in picture.get_attribute("aria-labelledby").split():
            assert len(page.locator(f"#{key}").text_content()) > 10
        table = figure.locator("details.numbers")
        if name == "differences":  # its table always shows
            assert page.locator("#differences .chosen:visible table").count() == 1
            continue
        table.locator("summary").click()
        table.locator("tbody tr").nth(1).wait_for()
    unnamed = "all => all.filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"
    assert page.eval_on_selector_all("button, a, summary", unnamed) == 0
    assert page.eval_on_selector_all("select", "all => all.filter((e) => !e.labels.length).length") == 0


def test_choosing_data_measure_and_method(opened):
    page = opened()
    title = page.locator("figure[data-plot=queries] svg title")
    assert title.text_content() == "Difference in AP on every query of cranfield"
    page.select_option("#choose-data", label="python-docs")
    page.select_option("#choose-measure", label=MEASURES[1])
    page.select_option("[data-choose=method]", label="lambdamart")
    assert title.text_content() == "Difference in nDCG@10 on every query of python-docs"
    assert "lambdamart against bm25" in page.locator("figure[data-plot=queries] svg desc").text_content()
    assert page.locator("#differences .chosen:visible caption").all_inner_texts() == [
        "python-docs, nDCG@10: compared with bm25"
    ]
    assert page.locator("[data-table=hardest] caption").inner_text().startswith("python-docs")


def luminance(color):
    numbers = [int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [(c / 255 / 12.92) if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page, selector, name):
    paper, ink = page.evaluate(
        "([s, n]) => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector(s))[n]]",
        [selector, name],
    )
    light, dark = sorted((luminance(paper), luminance(ink)), reverse=True)
    return luminance(paper), (light + 0.05) / (dark + 0.05)


def test_light_and_dark(opened):
    for scheme in ("light", "dark"):
        page = opened(color_scheme=scheme)
        for selector, name, least in ((".lead", "color", 7), (".note", "color", 4.5), ("svg .soft", "fill", 4.5)):
            paper, ratio = contrast(page, selector, name)
            assert (paper < 0.5) == (scheme == "dark")
            assert ratio >= least, (scheme, selector)
        for at in range(5):
            assert contrast(page, f"svg .marker.s{at}", "fill")[1] >= 3, (scheme, at)
    assert page.locator("#theme").inner_text() == "Theme: auto"
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "Theme: light"
    assert contrast(page, ".lead", "color")[0] > 0.5
    page.click("#theme")
    assert contrast(page, ".lead", "color")[0] < 0.5


def saved(page, name, kind, folder):
    with page.expect_download() as download:
        page.locator(f"figure[data-plot={name}] [data-save={kind}]").click()
    assert download.value.suggested_filename.startswith(f"{name}-cranfield-AP")
    download.value.save_as(folder / f"plot.{kind}")
    return folder / f"plot.{kind}"


def test_every_plot_can_be_saved_as_svg(opened, tmp_path):
    page = opened(accept_downloads=True)
    for name in PLOTS:
        text = saved(page, name, "svg", tmp_path).read_text()
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "class=" not in text.partition(">")[2]


def test_every_plot_can_be_saved_as_png(opened, tmp_path):
    page = opened(accept_downloads=True)
    for name in PLOTS:
        header = saved(page, name, "png", tmp_path).read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        drawn = page.locator(f"figure[data-plot={name}] svg")
        sizes = [2 * (float(drawn.get_attribute(side)) + 32) for side in ("width", "height")]  # a margin of 16 around
        assert list(struct.unpack(">II", header[16:24])) == pytest.approx(sizes, abs=1)


def test_paper_is_white_and_narrow(opened):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print")
    assert contrast(page, ".lead", "color")[0] == 1.0
    assert page.locator("nav").is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for height in page.locator("svg.plot").evaluate_all("all => all.map((e) => e.viewBox.baseVal.height)"):
        assert height < 960  # of a page that is 680 wide
    assert page.locator("thead button").count() == 0  # headings with buttons are not repeated on every page
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("thead button").count() == page.locator("thead th").count() > 0
    assert page.pdf().startswith(b"%PDF")


def test_tables_and_sentences_need_no_script(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("#means table").count() == 2
    assert "is significantly better than the baseline" in page.locator("#summary").inner_text()
    assert page.locator("#differences table").count() == 2 * len(MEASURES)
    assert "The plots need JavaScript" in page.locator("main").inner_text()
    context.close()
