"""Limits of time and number: what is stuck is given up, what is too much is turned away, and the service lives on."""

import asyncio
import threading

from tests.serving.served import Client, refused

from rankwright.serving import app
from rankwright.serving.requests import Limits


def blocked(monkeypatch):
    """Make searches for "stuck" wait until the event is set."""
    free, original = threading.Event(), app.search

    def search(state, request):
        if request.query == "stuck":
            assert free.wait(60)
        return original(state, request)

    monkeypatch.setattr(app, "search", search)
    return free


def test_a_stuck_request_is_given_up(made, monkeypatch):
    free = blocked(monkeypatch)
    client = Client(made, limits=Limits(seconds=0.2, threads=1, waiting=2))
    response = client.get("/search", q="stuck")
    refused(response, 503, "longer than 0.2 seconds")
    assert response.headers["retry-after"] == "1"
    assert client.get("/health").status_code == 200
    stuck = [thread for thread in threading.enumerate() if thread.name == "rankwright-serve"]
    assert stuck
    assert all(thread.daemon for thread in stuck)  # it does not keep the service from ending
    free.set()
    client.close()


def test_every_thread_is_stuck_and_comes_back(made, monkeypatch):
    free = blocked(monkeypatch)
    client = Client(made, limits=Limits(seconds=0.2, threads=1, waiting=1))
    for _ in range(2):  # the thread, and the one that takes its place
        refused(client.get("/search", q="stuck"), 503)
    refused(client.get("/search", q="wing"), 503, "no thread was free")
    assert client.get("/health").status_code == 200
    free.set()

    async def until_free(http):
        for _ in range(200):
            response = await http.get("/search", params={"q": "wing"})
            if response.status_code == 200:
                return True
            await asyncio.sleep(0.02)
        return False

    assert client.run(until_free)
    client.close()


def test_too_many_at_a_time_are_turned_away(made, monkeypatch):
    free = blocked(monkeypatch)
    client = Client(made, limits=Limits(seconds=30, threads=2, waiting=3))

    async def many(http):
        stuck = [asyncio.create_task(http.get("/search", params={"q": "stuck"})) for _ in range(5)]
        await asyncio.sleep(0)
        while waiting(client) < 3:
            await asyncio.sleep(0.01)
        turned_away = await http.get("/search", params={"q": "wing"})
        alive = await http.get("/health")
        free.set()
        return turned_away, alive, await asyncio.gather(*stuck)

    turned_away, alive, rest = client.run(many)
    refused(turned_away, 503, "too many requests")
    assert turned_away.headers["retry-after"] == "1"
    assert alive.status_code == 200
    assert [one.status_code for one in rest] == [200] * 5  # what waited was answered
    client.close()


def waiting(client):
    """The number of requests that wait for a thread."""
    inside = [cell.cell_contents for cell in client.app.routes[3].endpoint.__closure__]
    return next(one for one in inside if hasattr(one, "work")).work._waiting


def test_a_body_that_does_not_arrive(made):
    client = Client(made, limits=Limits(seconds=0.1))

    async def slow(http):
        async def pieces():
            yield b"{"
            await asyncio.sleep(60)

        return await http.post("/rank", content=pieces(), headers={"content-type": "application/json"})

    refused(client.run(slow), 408, "0.1 seconds")
    client.close()


def test_bodies_that_arrive_together_are_few(made):
    client = Client(made, limits=Limits(threads=1, waiting=1, seconds=30))

    async def slow(http):
        rest = asyncio.Event()

        async def pieces():
            yield b'{"features": {"rows": '
            await rest.wait()
            yield b"[[1, 2, 3]]}}"

        kind = {"content-type": "application/json"}
        first = [asyncio.create_task(http.post("/rank", content=pieces(), headers=kind)) for _ in range(2)]
        await asyncio.sleep(0.05)
        third = await http.post("/rank", content=b"{}", headers=kind)
        rest.set()
        return third, await asyncio.gather(*first)

    third, first = client.run(slow)
    refused(third, 503, "too many requests")
    assert [one.status_code for one in first] == [200, 200]
    client.close()


def test_threads_give_the_same_answers(made):
    client = Client(made, limits=Limits(threads=8, waiting=500, seconds=60))
    queries = [
        f"{a} {b}" for a in ("wing", "lift", "heat", "flow", "drag") for b in ("thin", "plate", "wings", "shock")
    ]
    names = ("linear", "trees", "bm25")
    alone = {(q, name): client.search(q, ranker=name) for q in queries for name in names}
    fresh = Client(made, limits=Limits(threads=8, waiting=500, seconds=60))  # nothing computed yet

    async def all_at_once(http):
        asked = [(q, name) for q in queries for name in names] * 3
        found = await asyncio.gather(*(http.get("/search", params={"q": q, "ranker": name}) for q, name in asked))
        return asked, found

    asked, found = fresh.run(all_at_once)
    for key, response in zip(asked, found, strict=True):
        assert response.json() == alone[key]
    client.close()
    fresh.close()
