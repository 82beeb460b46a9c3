"""The judging page over HTTP: the token, names of the machine, what is refused, what is never told."""

import asyncio
import json

import httpx
import pytest
from tests.judging.at_work import FUNCTIONS, TOKEN, make_session
from tests.serving.served import refused

from rankwright.judging import records
from rankwright.judging.app import make_judging_app


class Client:
    """Requests to the page of a new session, in this process."""

    def __init__(self, made, folder, **settings):
        self.session, shown = make_session(made, folder, **settings)
        self.log = []
        self.app = make_judging_app(self.session, shown, TOKEN, notify=self.log.append, hosts=["localhost"])

    def ask(self, path, method="GET", token=TOKEN, **options):
        async def within():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, f"/{token}/{path}", **options)

        return asyncio.run(within())

    def judge(self, **body):
        return self.ask("judge", "POST", json=body)


@pytest.fixture
def client(made, tmp_path):
    found = Client(made, tmp_path / "judgements")
    yield found
    found.session.close()


def about(state):
    return {"seen": state["seen"], "query": state["query"]["id"], "document": state["document"]["id"]}


@pytest.mark.parametrize("token", ["x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü", "%2e%2e"])
@pytest.mark.parametrize(("path", "method"), [("", "GET"), ("next", "GET"), ("document", "GET"), ("judge", "POST")])
def test_nothing_without_the_token(client, token, path, method):
    response = client.ask(path, method, token=token)
    assert response.status_code in (403, 404)
    assert list(response.json()) == ["error"]
    assert TOKEN not in response.text
    assert not client.session.judged.grades


def test_the_log_does_not_hold_the_token(client):
    client.ask("next")
    client.ask("nowhere")
    client.ask("next", token="wrong")
    assert [one["status"] for one in client.log] == [200, 404, 403]
    assert TOKEN not in json.dumps(client.log)
    assert "wrong" not in json.dumps(client.log)


def test_other_names_of_the_machine_are_refused(client):
    refused(client.ask("next", headers={"host": "evil.example"}), 421, "Host")


def test_the_page_talks_to_this_service_only(client):
    response = client.ask("")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert response.headers["referrer-policy"] == "no-referrer"  # the token stays here
    assert response.headers["cache-control"] == "no-store"


def test_nobody_is_told_who_found_a_document(client):
    state = client.ask("next").json()
    told = json.dumps(state) + client.ask("document", params={"query": "q1", "document": "d00"}).text
    for name in (*FUNCTIONS, "rank", "score"):
        assert name not in told
    assert state["decision"] is None


def test_query_need_snippet_and_whole_document(client):
    seen = {}
    for _ in range(30):
        state = client.ask("next").json()
        if state["document"] is None:
            break
        seen[state["query"]["id"]] = state
        client.judge(**about(state), action="grade", grade=0)
    assert state["progress"] == {"done": len(client.session.pairs), "of": len(client.session.pairs), "skipped": 0}
    assert seen["q1"]["query"]["need"] == "How a <b>thin</b> wing lifts; theory counts, too."
    assert seen["q2"]["query"]["need"] == ""
    found = seen["q1"]["document"]
    marked = {found["snippet"][start:stop] for start, stop in found["marks"]}
    assert marked
    assert marked <= {"lift", "thin", "wing"}
    whole = client.ask("document", params={"query": "q1", "document": found["id"]}).json()
    assert [one["name"] for one in whole["fields"]] == ["title", "body"]
    refused(client.ask("document", params={"query": "q1", "document": "none"}), 404)
    refused(client.ask("document", params={"query": "none", "document": found["id"]}), 404)


def test_bad_actions_are_refused_and_nothing_is_kept(client):
    good = about(client.ask("next").json())
    for bad, status, word in [
        ({"action": "praise"}, 400, "action"),
        ({"action": "grade"}, 400, "grade is None"),
        ({"action": "grade", "grade": 4}, 400, "grade is 4"),
        ({"action": "grade", "grade": "2"}, 400, "grade is '2'"),
        ({"action": "grade", "grade": True}, 400, "grade is True"),
        ({"action": "grade", "grade": 1, "document": "none"}, 400, "not in the pool"),
        ({"action": "grade", "grade": 1, "document": 7}, 400, "document is 7"),
        ({"action": "grade", "grade": 1, "who": "me"}, 400, "unknown name"),
        ({"action": "note", "note": "x" * 2001}, 413, "too long"),
        ({"action": "undo"}, 400, "nothing to undo"),
        ({"action": "grade", "grade": 1, "seen": 5}, 409, "not up to date"),
        ({"action": "grade", "grade": 1, "seen": None}, 400, "seen is None"),
    ]:
        refused(client.judge(**{**good, **bad}), status, word)
    refused(client.ask("judge", "POST", content=b"{", headers={"content-type": "application/json"}), 400, "JSON")
    refused(client.ask("judge", "POST", content=b"grade=1"), 415, "Content-Type")
    refused(client.ask("judge"), 405)
    assert client.session.state()["seen"] == 0


def test_a_second_page_cannot_judge_what_it_does_not_see(client):
    state = client.ask("next").json()
    client.judge(**about(state), action="grade", grade=2)
    refused(client.judge(**about(state), action="grade", grade=0), 409)
    assert list(client.session.judged.grades.values()) == [2]


def test_a_full_disk_is_told_and_nothing_is_kept(client, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    state = client.ask("next").json()
    with monkeypatch.context() as patch:
        patch.setattr(records.os, "fsync", full)
        refused(client.judge(**about(state), action="grade", grade=2), 507, "nothing was kept", "No space left")
    assert client.ask("next").json() == state
    assert client.judge(**about(state), action="grade", grade=2).status_code == 200


def test_qrels_that_cannot_be_written_are_told_and_the_judgement_is_kept(client):
    state = client.ask("next").json()
    (client.session.folder / "qrels.txt").unlink()
    (client.session.folder / "qrels.txt").mkdir()
    refused(client.judge(**about(state), action="grade", grade=2), 409, "is kept, but the qrels")
    assert client.ask("next").json()["seen"] == 1
    (client.session.folder / "qrels.txt").rmdir()
    state = client.ask("next").json()
    client.judge(**about(state), action="grade", grade=2)
    assert (client.session.folder / "qrels.txt").read_text().count("\n") == 2


def test_a_decision_ends_the_session_until_asked_to_go_on(made, tmp_path, monkeypatch):
    from rankwright.judging import session as module
    from rankwright.judging.stopping import Decision

    client = Client(made, tmp_path, compare=("bm25", "tfidf"))
    first = client.ask("next").json()
    assert first["decision"]["better"] is None
    assert "bm25" not in json.dumps(first)  # until it is decided
    monkeypatch.setattr(module.Sequential, "decision", lambda _: Decision("bm25", (41.0, 1.0), 40.0, 3))
    told = client.judge(**about(first), action="grade", grade=2).json()
    assert told["document"] is None
    assert (told["decision"]["better"], told["decision"]["other"]) == ("bm25", "tfidf")
    told = client.ask("go-on", "POST", json={}).json()
    assert told["document"] is not None
    client.session.close()
