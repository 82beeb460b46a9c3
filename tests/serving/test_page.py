"""The search page in a real browser: lists, moves, reasons, keyboard, address, states."""

from playwright.sync_api import expect
from tests.serving.browsing import running

from in_browser import ANSWERS, BUSY, NO_ANSWER, needs_browser
from rankwright.serving.requests import Limits
from rankwright.serving.service import Service
from rankwright.text.index import Index

pytestmark = needs_browser
QUERY = "lift of a thin wing"


def listed(page, side):
    return page.locator(f"section[data-side={side}] li").evaluate_all("all => all.map((e) => e.dataset.id)")


def get(page, address, path, **params):
    return page.request.get(address + path, params=params).json()


def test_two_lists_and_their_moves(opened, address):
    page = opened("?q=lift+of+a+thin+wing&left=linear&right=dirichlet")
    page.wait_for_selector("#lists li")
    left, right = (
        [one["id"] for one in get(page, address, "search", q=QUERY, ranker=name)["results"]]
        for name in ("linear", "dirichlet")
    )
    assert (listed(page, "left"), listed(page, "right")) == (left, right)
    assert left != right
    for side, own, other in (("left", left, right), ("right", right, left)):
        texts = page.locator(f"section[data-side={side}] .moved b").all_inner_texts()
        for at, (name, text) in enumerate(zip(own, texts, strict=True)):
            if name not in other:
                assert text == ("out" if side == "left" else "new")
                continue
            rise = at - other.index(name) if side == "left" else other.index(name) - at
            assert text == ("=" if not rise else f"{'▲' if rise > 0 else '▼'} {abs(rise)}")
    shared = set(left) & set(right)
    assert page.locator("#moves path").count() == len(shared)
    expect(page.locator("#status")).to_contain_text(f"{len(shared)} of 10 documents are in both lists")
    tops = [
        page.locator(f"section[data-side={side}] li").evaluate_all(
            "all => all.map((e) => e.getBoundingClientRect().top)"
        )
        for side in ("left", "right")
    ]
    assert tops[0] == tops[1]  # rows are aligned


def test_the_same_document_is_highlighted_in_both(opened):
    page = opened("?q=lift+of+a+thin+wing&left=linear&right=bm25")
    ids = listed(page, "left")
    both = next(name for name in ids if name in listed(page, "right"))
    page.locator(f"section[data-side=left] li[data-id='{both}']").hover()
    marked = page.locator("li.same").evaluate_all("all => all.map((e) => [e.dataset.side, e.dataset.id])")
    assert marked == [["left", both], ["right", both]]
    assert page.locator("#moves path.same").count() == 1
    page.mouse.move(1, 1)
    assert page.locator("li.same").count() == 0


def test_why_a_is_above_b(opened, address):
    page = opened("?q=lift+of+a+thin+wing&left=linear&right=bm25")
    ids = listed(page, "left")
    page.locator("section[data-side=left] li").nth(1).click()
    assert "Choose another result" in page.locator("#why-title").inner_text()
    page.locator("section[data-side=left] li").nth(6).click()
    page.wait_for_selector(".bars")
    told = get(page, address, "explain", q=QUERY, doc=ids[1], against=ids[6], ranker="linear")
    first = page.locator("#reasons section").nth(0)
    assert first.locator("p").inner_text() == told["reason"]
    assert "BM25" in first.inner_text()
    assert "A is #2, B is #7" in first.locator("h3").inner_text()
    shown = first.locator(".words:not(.total)").count()
    assert shown == sum(1 for one in told["contributions"] if one["contribution"])
    against = first.locator(".bar i.against").count()
    assert against == sum(1 for one in told["contributions"] if one["contribution"] < 0)
    assert page.locator("#reasons section").count() == 2
    title = page.locator("#why-title").inner_text()
    page.click("#swap")
    expect(page.locator("#why-title")).not_to_have_text(title)
    assert page.locator("#why-title").inner_text() != title
    page.click("#close")
    assert page.locator("#why").is_hidden()
    page.locator("section[data-side=right] li").nth(0).click()
    page.click("#alone")
    page.wait_for_selector(".bars")
    assert "apart from" in page.locator("#why-title").inner_text()


def test_by_keyboard_alone(opened):
    page = opened()
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#lists li")
    focused = """() => {
        const item = document.activeElement;
        return [item.dataset.side, [...item.parentElement.children].indexOf(item)];
    }"""
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == ["left", 0]
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert page.evaluate(focused) == ["left", 1]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == ["right", 1]
    page.keyboard.press("End")
    assert page.evaluate(focused) == ["right", 9]
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(focused) == ["left", 0]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    page.wait_for_selector(".bars")
    selected = page.locator("section[data-side=left] li").evaluate_all("all => all.map((e) => e.ariaSelected)")
    assert selected == ["true", "false", "true", *["false"] * 7]
    page.keyboard.press("Escape")
    assert page.locator("#why").is_hidden()
    assert page.evaluate(focused) == ["left", 2]
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("heat/drag")  # what was there was selected, and a slash within the query is a slash
    assert page.input_value("#q") == "heat/drag"


def test_tab_order(opened):
    page = opened("?q=wing")
    page.wait_for_selector("#lists li")
    page.focus("#q")
    seen = []
    for _ in range(7):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.dataset.side || document.activeElement.type"
            )
        )
    assert seen == ["submit", "left", "exchange", "right", "left", "right", "more"]


def test_the_address_holds_the_state(opened):
    page = opened()
    page.fill("#q", QUERY)
    page.click("text=Search")
    page.wait_for_selector("#lists li")
    page.select_option("#left", "trees")
    expect(page.locator("section[data-side=left] h2")).to_have_text("trees")
    page.select_option("#right", "dirichlet")
    expect(page.locator("section[data-side=right] h2")).to_have_text("dirichlet")
    page.locator("section[data-side=left] li").nth(0).click()
    page.locator("section[data-side=left] li").nth(3).click()
    page.wait_for_selector(".bars")
    before = page.locator("#reasons").inner_text(), listed(page, "left"), listed(page, "right")
    page.reload()
    page.wait_for_selector(".bars")
    assert (page.input_value("#q"), page.input_value("#left"), page.input_value("#right")) == (
        QUERY,
        "trees",
        "dirichlet",
    )
    assert (page.locator("#reasons").inner_text(), listed(page, "left"), listed(page, "right")) == before
    page.go_back()
    expect(page.locator("section[data-side=right] h2")).to_have_text("bm25")
    assert page.input_value("#right") == "bm25"
    page.click("#exchange")
    expect(page.locator("section[data-side=left] h2")).to_have_text("bm25")
    page.select_option("#right", "")
    page.wait_for_selector("#lists.one")
    assert page.locator("section[data-side=right]").is_hidden()
    page.goto(page.url.partition("?")[0] + "?q=wing&left=nothing&right=nothing&k=-3")
    page.wait_for_selector("#lists li")
    assert (page.input_value("#left"), page.input_value("#right")) == ("linear", "bm25")


def test_more_results(opened):
    page = opened("?q=wing")
    page.wait_for_selector("#lists li")
    page.click("#more")
    expect(page.locator("section[data-side=left] li")).to_have_count(20)
    assert "k=20" in page.url


def test_the_page_keeps_to_the_limits(opened, made):
    with running(Service(made / "docs.index", functions=["bm25", "jm"]), Limits(k=4, query=12)) as at:
        page = opened("?q=wing&k=999", at=at)
        expect(page.locator("section[data-side=left] li")).to_have_count(4)
        assert page.locator("#more").is_hidden()
        page.fill("#q", "")
        page.type("#q", "wing lift heat plate")
        assert page.input_value("#q") == "wing lift he"


def test_html_in_documents_and_queries_is_text(opened):
    page = opened("?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E+na%C3%AFve&left=bm25&right=linear")
    page.wait_for_selector("#lists li")
    card = page.locator("section[data-side=left] li", has_text="ünïcode")
    assert "<script>alert(1)</script> wing" in card.inner_text()
    assert "<img src=x>" in card.inner_text()
    assert page.locator("#lists script, #lists img").count() == 0
    card.click()
    assert "ünïcode/№1&<x>" in page.locator("#why-title").inner_text()
    assert page.evaluate("[...document.scripts].length") == 1


def test_nothing_found(opened):
    page = opened("?q=zeppelin")
    expect(page.locator("#status")).to_have_text("Nothing found. No document contains zeppelin.")
    assert page.locator("#lists").is_hidden()
    page.fill("#q", "the of")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("too common")
    page.fill("#q", " ")
    page.keyboard.press("Enter")
    page.wait_for_selector("#start:not([hidden])")


def test_errors_can_be_tried_again(opened):
    page = opened()
    page.evaluate(NO_ANSWER)
    page.fill("#q", "wing")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status.error")
    assert page.locator("#status").inner_text().startswith("The service does not answer.")
    page.evaluate(BUSY)
    page.click("#status button")
    expect(page.locator("#status")).to_contain_text("Too many requests")
    page.evaluate(ANSWERS)
    page.click("#status button")
    page.wait_for_selector("#lists li")
    assert page.locator("#status.error").count() == 0


def test_a_document_that_one_ranker_does_not_find(opened):
    page = opened("?q=na%C3%AFve+plates&left=bm25&right=none&a=d00&b=nothing", allowed=["Failed to load resource"])
    page.wait_for_selector("#reasons section")
    assert "has no document 'nothing'" in page.locator("#reasons").inner_text()


def test_numbers_of_documents(opened, folder):
    Index.open(folder / "docs.index").set_numbers({"price": {"d01": 1234.5, "d02": -0.25}, "clicks": {"d01": 7}})
    with running(Service(folder / "docs.index", functions=["bm25"])) as at:
        page = opened("?q=wing+lift+heat+plate+flow&k=60", at=at)
        expect(page.locator("li[data-id=d01] .numbers")).to_have_text("price 1235 · clicks 7")
        expect(page.locator("li[data-id=d02] .numbers")).to_have_text("price −0.25")
        assert page.locator(".numbers").count() == 2
        assert page.locator("#lists.one").count() == 1  # a single ranker has nothing beside it


def test_without_an_index(opened, made):
    with running(Service(models=[made / "linear.rkw"])) as at:
        page = opened(at=at)
        assert "POST /rank, with: linear" in page.locator("#status").inner_text()
        assert page.locator("#ask").is_hidden()
