"""An index and queries, made once; a session of a judge over it, and its page in a browser."""

import json
import re
import threading
from contextlib import contextmanager

import pytest
from tests.judging.at_work import TOKEN, make_session
from tests.serving.served import make_files

from rankwright.judging.app import make_judging_app
from rankwright.serving.http import bind, serve

QUERIES = [
    {"id": "q1", "text": "lift of a thin wing", "description": "How a <b>thin</b> wing lifts; theory counts, too."},
    {"id": "q2", "text": "heat on a plate"},
    {"id": "q3", "text": "naïve wing 翼"},
]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = make_files(tmp_path_factory.mktemp("judged"))
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUERIES), encoding="utf-8")
    return folder


@contextmanager
def running(session, shown):
    """Serve a session in a thread; the value is the address with the token."""
    at, ready, stop = [], threading.Event(), threading.Event()

    def say(address):
        at.append(address)
        ready.set()

    app = make_judging_app(session, shown, TOKEN)
    with bind("127.0.0.1", 0) as bound:
        settings = {"ready": say, "seconds": 5.0, "stop": stop}
        thread = threading.Thread(target=serve, args=(app, None, bound, lambda event: None), kwargs=settings)
        thread.start()
        assert ready.wait(60)
        yield f"{at[0]}{TOKEN}/"
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def opened(browser, made, tmp_path):
    """A function that opens the page of a new session; complaints of the page fail the test."""
    complaints, contexts, servers, expected = [], [], [], []

    def complain(text):
        if not any(re.search(pattern, text) for pattern in expected):
            complaints.append(text)

    def open_page(width=1400, allowed=(), session=None, browsing=None, **settings):
        expected.extend(allowed)
        found, shown = make_session(made, tmp_path / "judgements", **settings) if session is None else session
        server = running(found, shown)
        address = server.__enter__()
        servers.append((server, found))
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **(browsing or {})))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complain(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("request", lambda one: None if one.url.startswith((address, "data:")) else complain(one.url))
        page.goto(address)
        page.wait_for_selector("#facts:not(:empty)")
        page.session, page.address = found, address
        return page

    yield open_page
    for context in contexts:
        context.close()
    for server, found in servers:
        server.__exit__(None, None, None)
        found.close()
    assert complaints == []
