"""What is clicked in a report: a query opens its rankings, curves of one method alone, two folders compared."""

import pytest
from results_folder import METHODS, write_results

from in_browser import needs_browser
from rankwright.reports import write_comparison, write_report

pytestmark = needs_browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report, one with many methods, and a comparison."""
    folder = tmp_path_factory.mktemp("clicked")
    first = write_results(folder / "old", data=("cranfield", "docs"), n_queries=24, n_splits=2, empty=(3, 5))
    second = write_results(folder / "new", data=("cranfield",), n_queries=24, n_splits=2, seed=1)
    many = write_results(folder / "many", data=("cranfield",), sizes=[10, 40], n_queries=12, n_splits=2, more=10)
    return {
        "report": write_report(first, folder / "report.html").as_uri(),
        "many": write_report(many, folder / "many.html").as_uri(),
        "comparison": write_comparison(first, second, folder / "comparison.html").as_uri(),
    }


@pytest.fixture
def opened(browser, pages):
    """A function that opens a page; complaints of the page fail the test."""
    complaints, contexts = [], []

    def open_page(name, width=1400, **options):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(pages[name])
        page.wait_for_selector("figure[data-plot=queries] svg")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def lists(page):
    """The documents of both sides."""
    return [side.locator(".document").all_inner_texts() for side in page.locator(".pair > div").all()]


def test_a_click_on_a_bar_opens_the_query(opened):
    page = opened("report")
    canvas = page.locator("figure[data-plot=queries] .canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    spot = (box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.move(*spot)
    told = page.locator("#tip div").first.inner_text().split(",")[0]  # the id of the query pointed at
    page.mouse.click(*spot)
    assert told in page.locator(".asked").inner_text()
    assert page.evaluate("document.activeElement.id") == "rankings"
    assert page.locator(".pair .system strong").all_inner_texts() == ["bm25", "svm-map"]
    assert page.locator("#tip").is_hidden()


def test_the_keyboard_opens_one_too(opened):
    page = opened("report")
    page.locator("figure[data-plot=queries] .canvas").focus()
    page.keyboard.press("End")
    told = page.locator("#tip div").first.inner_text().split(",")[0]
    page.keyboard.press("Enter")
    assert page.locator(".asked").inner_text().endswith(f" {told}")


def test_moves_and_grades_are_those_of_the_lists(opened):
    page = opened("report")
    left, right = lists(page)
    assert len(left) == len(right) == 10
    moves = page.locator(".pair > div:nth-child(2) .move > [aria-hidden]").all_inner_texts()
    expected = []
    for at, document in enumerate(right):
        gain = left.index(document) - at if document in left else None
        if gain != 0:
            expected.append("new" if gain is None else f"▲ {gain}" if gain > 0 else f"▼ {-gain}")
    assert moves == expected
    gone = page.locator(".pair > div:nth-child(1) li:has(.move.worse) .document").all_inner_texts()
    assert gone == [document for document in left if document not in right]
    good = page.locator(".pair li:has(.grade.good) .document").all_inner_texts()
    assert good == [document for document in left + right if document in ("d3", "d4", "d5")]
    assert set(page.locator(".pair li:has(.grade.unknown) .document").all_inner_texts()) <= {"d0"}


def test_query_and_methods_can_be_chosen(opened):
    page = opened("report")
    page.select_option("[data-choose=query]", "1")
    page.select_option("[data-choose=left]", label="lambdamart")
    page.select_option("[data-choose=right]", label="svm-mrr")
    names = page.evaluate("JSON.parse(document.getElementById('data').textContent).data[0].queries[1]")
    assert names[0] in page.locator(".asked").inner_text()
    assert page.locator(".pair .system strong").all_inner_texts() == ["lambdamart", "svm-mrr"]
    page.select_option("#choose-data", label="docs")
    assert page.locator(".pair .system strong").all_inner_texts()[0] == "bm25"
    page.select_option("[data-choose=method]", label="svm-ndcg")
    assert page.locator(".pair .system strong").all_inner_texts() == ["bm25", "svm-ndcg"]


def test_hardest_queries_have_relevant_documents_and_open(opened):
    page = opened("report")
    table = page.locator("[data-table=hardest]")
    names = table.locator("tbody th").all_inner_texts()
    assert len(names) == 12
    assert not {"q3", "q5"} & set(names)
    assert "Left out: 2 queries without a relevant document." in table.inner_text()
    table.locator("button.open").nth(2).click()
    assert page.locator(".asked").inner_text().endswith(f" {names[2]}")


@pytest.mark.parametrize("plot", ["paths", "health", "curves"])
def test_one_method_at_a_time(opened, plot):
    page = opened("many")
    figure = page.locator(f"figure[data-plot={plot}]")
    chosen = figure.locator("[data-choose=line]")
    legend = figure.locator("svg > g:first-of-type text")
    assert legend.all_text_contents() == [chosen.input_value()]
    assert figure.locator("svg .faint").count() > 0
    chosen.select_option(label="svm-mrr")
    assert legend.all_text_contents() == ["svm-mrr"]
    chosen.select_option("")
    assert figure.locator("svg .faint").count() == 0
    assert len(legend.all_text_contents()) > 10


def test_few_methods_are_all_shown(opened):
    page = opened("report")
    figure = page.locator("figure[data-plot=health]")
    assert figure.locator("[data-choose=line]").input_value() == ""
    assert figure.locator("svg > g:first-of-type text").all_text_contents() == ["svm-map", "svm-mrr"]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["report", "comparison"])
def test_nothing_is_wider_than_the_window(opened, name, width):
    page = opened(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll("[data-rankings] *")].filter((e) => !e.closest(".unseen"))
            .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []
    left, right = (side.bounding_box() for side in page.locator(".pair > div").all())
    assert left["x"] + left["width"] <= right["x"]
    assert left["y"] == right["y"]  # side by side


def test_two_folders(opened):
    page = opened("comparison")
    caption = page.locator("#differences .chosen:visible caption")
    assert caption.inner_text() == "cranfield, AP: new compared with old"
    page.select_option("#choose-measure", label="RR")
    assert caption.inner_text() == "cranfield, RR: new compared with old"
    page.select_option("[data-choose=method]", label="lambdamart")
    assert page.locator(".pair .system strong").all_inner_texts() == ["lambdamart, old", "lambdamart, new"]
    assert "new against old on 24 queries" in page.locator("figure[data-plot=queries] svg desc").text_content()
    assert page.locator("[data-choose=method] option").count() == len(METHODS)
