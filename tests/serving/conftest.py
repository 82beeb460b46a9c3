"""An index and models, made once; a client for each test; the page in a browser."""

import re
import shutil

import pytest
from tests.serving.browsing import running
from tests.serving.served import Client, linear, make_files

from rankwright.serving.service import Service


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("served"))


@pytest.fixture
def folder(made, tmp_path):
    """A copy to change."""
    shutil.copytree(made, tmp_path / "files")
    return tmp_path / "files"


@pytest.fixture(scope="module")
def client(made):
    found = Client(made)
    yield found
    found.close()


@pytest.fixture(scope="module")
def address(made, tmp_path_factory):
    """A service with two models, two functions and a third model with a long name."""
    long = tmp_path_factory.mktemp("long") / f"{'a-model-with-a-very-long-name-' * 3}.rkw"
    linear(long, [-1.0, 0.5, 0.1])
    models = [made / "linear.rkw", made / "trees.rkw", long]
    with running(Service(made / "docs.index", models, ["bm25", "dirichlet"])) as found:
        yield found


@pytest.fixture
def opened(browser, address):
    """A function that opens the page; complaints of the page fail the test, unless they are expected."""
    complaints, contexts, expected = [], [], []

    def complain(text):
        if not any(re.search(pattern, text) for pattern in expected):
            complaints.append(text)

    def open_page(query="", width=1400, at=address, allowed=(), **options):
        expected.extend(allowed)
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complain(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("dialog", lambda dialog: complain(f"dialog: {dialog.message}"))
        page.on("request", lambda request: None if request.url.startswith((at, "data:")) else complain(request.url))
        page.goto(at + query)
        page.wait_for_selector("#facts:not(:empty)")
        if "q=" in query:
            page.wait_for_selector("#lists[aria-busy=false]", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
