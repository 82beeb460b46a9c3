"""What clients do wrong: always 4xx and one line of JSON, never 5xx, never a traceback."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serving.served import NAMES, Client, refused

from rankwright.serving.http import local_names
from rankwright.serving.requests import Limits


@pytest.mark.parametrize(
    ("params", "status", "words"),
    [
        ({}, 400, "no parameter q"),
        ({"q": " "}, 400, "expected the text of a query"),
        ({"q": "wing", "k": "0"}, 400, "from 1 to 1,000"),
        ({"q": "wing", "k": "1001"}, 400, "from 1 to 1,000"),
        ({"q": "wing", "k": "9" * 5000}, 400, "from 1 to 1,000"),
        ({"q": "wing", "k": "-1"}, 400, "from 1 to 1,000"),
        ({"q": "wing", "k": "²"}, 400, "from 1 to 1,000"),
        ({"q": "wing", "k": "ten"}, 400, "'ten'"),
        ({"q": "wing", "ranker": "nothing"}, 404, "expected one of linear, trees, bm25"),
        ({"q": "wing", "kk": "1"}, 400, "unknown parameter 'kk'"),
        ({"q": ["wing", "lift"]}, 400, "duplicate parameter q"),
        ({"q": "w" * 1001}, 413, "1,001 characters"),
    ],
)
def test_parameters_of_search(client, params, status, words):
    refused(client.get("/search", **params), status, words)


def test_bytes_that_are_not_utf8_in_the_address(client):
    assert client.get("/search?q=%ff%fe").json()["results"] == []
    assert client.get("/search?q=%25%").json()["results"] == []
    refused(client.get("/explain?q=wing"), 400, "no parameter doc")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "JSON list"),
        (b"null", "JSON null"),
        (b"{}", "expected features, or query"),
        (b'{"features": []}', "at least one document"),
        (b'{"features": 3}', "is 3; expected a list"),
        (b'{"features": [1]}', "document 0 (from 0)"),
        (b'{"features": {"rows": [[1, 2, 3], [1]]}}', "row 1 (from 0)"),
        (b'{"features": {"rows": [[1, 2, 3]], "nmaes": []}}', "'nmaes'"),
        (b'{"features": {"names": ["a", "a"], "rows": [[1, 2]]}}', "duplicate"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "ids": ["a", "b"]}', "2 entries"),
        (b'{"features": {"rows": [[1, 2, 3], [1, 2, 3]]}, "ids": ["a", "a"]}', "duplicate document 'a'"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "ids": [7]}', "list of strings"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "ids": ["\\ud800"]}', "surrogate"),
        (b'{"features": {"rows": [[1, 2, NaN]]}}', "NaN is not a number of JSON"),
        (b'{"features": {"rows": [[1, 2, Infinity]]}}', "Infinity is not a number of JSON"),
        (b'{"features": {"rows": [[1, 2, 1e999]]}}', "expected a finite number"),
        (b'{"features": {"rows": [[1, 2, ' + b"9" * 400 + b"]]}}", "expected a finite number"),
        (b'{"features": {"rows": [[1, 2, ' + b"9" * 5000 + b"]]}}", "not JSON"),
        (b'{"features": {"rows": [[1, 2, true]]}}', "expected a finite number"),
        (b'{"features": {"rows": [[1, 2, [3]]]}}', "expected a finite number"),
        (b'{"features": {"rows": [[1, 2, "three"]]}}', "numbers, not text"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "features": 1}', "duplicate name 'features'"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "query": "x"}', "cannot be combined"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "ranker": 1}', "expected a name"),
        (b'{"features": {"rows": [[1, 2, 3]]}, "missing_as_zero": 1}', "true or false"),
        (b'{"query": "wing"}', "query and documents"),
        (b'{"query": 1, "documents": ["d01"]}', "text of a query"),
        (b'{"query": "\\ud83d", "documents": ["d01"]}', "surrogate"),
        (b'{"query": "wing", "documents": "d01"}', "at least one document"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"features": ' + b"[" * 60 + b"]" * 60 + b"}", "nested too deeply"),
    ],
)
def test_bodies(client, body, words):
    refused(client.post(body), 400, words)


def test_huge_numbers_are_the_clients_fault(client):
    refused(client.post(b'{"features": {"rows": [[1.7e308, 1.7e308, 1e308]]}}'), 400, "must be finite")


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_content_types(client, kind):
    refused(client.post({"features": {"rows": [[1, 2, 3]]}}, kind), 415, "application/json")


def test_content_type_with_a_charset(client):
    assert client.post({"features": {"rows": [[1, 2, 3]]}}, "Application/JSON; charset=utf-8").status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/search/", "/../etc/passwd", "/page.js", "/%00"])
def test_unknown_paths(client, path):
    refused(client.get(path), 404, "expected /, /health")


def test_methods(client):
    refused(client.get("/rank"), 405, "/rank does not take 'GET'")
    response = client.post({}, path="/search")
    refused(response, 405, "'POST'")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_sizes(made):
    client = Client(made, limits=Limits(body=2000, documents=3, k=5, query=10))
    refused(client.post(b" " * 2001), 413, "2,000 bytes")
    refused(client.post({"features": {"rows": [[1, 2, 3]] * 4}}), 413, "4 documents", "at most 3")
    refused(client.post({"query": "wing", "documents": ["d01"] * 4}), 413, "4 documents")
    refused(client.post({"query": "wing" * 3, "documents": ["d01"]}), 413, "12 characters")
    refused(client.get("/search", q="wing", k="6"), 400, "1 to 5")

    async def in_pieces(http):
        async def pieces():
            for _ in range(50):
                yield b" " * 100

        return await http.post("/rank", content=pieces(), headers={"content-type": "application/json"})

    refused(client.run(in_pieces), 413, "2,000 bytes")
    client.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil", ""])
def test_other_names_of_this_machine_are_refused(made, host):
    client = Client(made, hosts=local_names("127.0.0.1"))
    for path in ("/", "/health", "/search?q=wing"):
        refused(client.get(path, headers={"host": host}), 421, "expected 127.0.0.1, [::1], localhost")
    client.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:8080", "[::1]:8080", "[::1]", "own.example"])
def test_names_of_this_machine(made, host):
    client = Client(made, hosts=local_names("localhost", ["own.example"]))
    assert client.get("/health", headers={"host": host}).status_code == 200
    client.close()


def test_every_answer_has_the_headers(client):
    for path in ("/", "/health", "/nothing", "/search", "/search?q=wing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


def test_the_inside_of_an_error_is_not_shown(client, monkeypatch):
    def fail(state, request):
        raise KeyError("a secret")

    monkeypatch.setattr("rankwright.serving.app.search", fail)
    assert refused(client.get("/search", q="wing"), 500) == "internal error"
    assert "a secret" in client.log[-1]["traceback"]


def test_one_line_of_log_per_request(client):
    before = len(client.log)
    client.search("wing", ranker="bm25", k=4)
    client.get("/search", q="")
    client.get("/nothing")
    good, bad, lost = client.log[before:]
    assert {key: good[key] for key in ("method", "path", "status", "ranker", "hits")} == {
        "method": "GET", "path": "/search", "status": 200, "ranker": "bm25", "hits": 4,
    }  # fmt: skip
    assert good["ms"] >= 0
    assert "wing" not in json.dumps(good)  # queries stay private
    assert (bad["status"], lost["status"]) == (400, 404)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*NAMES, "names", "rows"]), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = st.sampled_from(["features", "ids", "query", "documents", "ranker", "missing_as_zero", "other"])
BODIES = st.dictionaries(KEYS, VALUES, max_size=4).map(lambda body: json.dumps(body).encode()) | st.binary(max_size=40)
FUZZ = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(body=BODIES, cut=st.integers(0, 60))
def test_any_body(client, body, cut):
    for sent in (body, body[:cut]):
        response = client.post(sent)
        if response.status_code != 200:
            assert 400 <= response.status_code < 500, response.text
            refused(response, response.status_code)


@FUZZ
@given(
    path=st.sampled_from(["/search", "/explain"]),
    params=st.dictionaries(
        st.sampled_from(["q", "k", "ranker", "fields", "doc", "against"]), st.text(max_size=9), max_size=4
    ),
)
def test_any_parameters(client, path, params):
    params = {key: value.encode("utf-8", "replace").decode() for key, value in params.items()}
    response = client.get(path, **params)
    if response.status_code != 200:
        assert 400 <= response.status_code < 500, response.text
        refused(response, response.status_code)
