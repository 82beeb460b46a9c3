"""New files: loaded aside and put in place in one step; broken ones are reported, and the old ones stay."""

import asyncio
import os
import shutil

import pytest
from tests.serving.served import NAMES, Client, linear, refused, trees

from rankwright import LearnedSearch, LinearModel, SumModel
from rankwright.errors import InputError
from rankwright.serving.service import Service
from rankwright.text.index import Index, build_index

ROW = {"features": {"rows": [[1.0, 0.0, 0.0]]}}


@pytest.fixture
def client(folder):
    found = Client(folder)
    yield found
    found.close()


def score(client):
    return client.rank(**ROW, ranker="linear")["scores"]


def test_a_new_file_takes_the_place_of_the_old(client, folder):
    assert score(client) == [1.0]
    before = client.get("/version").json()["rankers"][0]["sha256"]
    client.service.reload()
    assert client.log[-1]["path"] == "/version"  # nothing was loaded
    linear(folder / "linear.rkw", [5.0, 0.0, 0.0])
    assert score(client) == [1.0]
    client.service.reload()
    assert score(client) == [5.0]
    assert client.get("/version").json()["rankers"][0]["sha256"] != before
    assert [one["event"] for one in client.log if "event" in one] == ["loaded"]
    trees(folder / "linear.rkw")  # a model of another kind
    client.service.reload()
    assert client.get("/version").json()["rankers"][0]["model"] == "trees"
    assert [one["name"] for one in client.get("/version").json()["rankers"]] == ["linear", "trees", "bm25"]


@pytest.mark.parametrize("how", ["empty", "text", "cut", "gone", "folder", "other features"])
def test_a_broken_file_changes_nothing(client, folder, how):
    path = folder / "linear.rkw"
    whole = path.read_bytes()
    if how in ("gone", "folder"):
        path.unlink()
        if how == "folder":
            path.mkdir()
    elif how == "other features":
        linear(path, [1.0, 2.0], ("clicks", "price"))
    else:
        path.write_bytes({"empty": b"", "text": b"no model\n", "cut": whole[: len(whole) // 2]}[how])
    for _ in range(3):
        client.service.reload()
    assert score(client) == [1.0]
    assert len(client.search("wing")["results"]) == 10
    told = [one for one in client.log if one.get("event") == "not loaded"]
    assert len(told) == 1  # one line, not one each time
    health = client.get("/health").json()
    assert health["status"] == "stale"
    assert list(health["problems"]) == ["linear"]
    assert str(folder) not in health["problems"]["linear"]
    if how == "folder":
        path.rmdir()
    linear(path, [7.0, 0.0, 0.0])
    client.service.reload()
    assert score(client) == [7.0]
    assert client.get("/health").json() == {"status": "ok", "problems": {}}


def test_requests_in_flight_finish_with_the_old_model(client, folder, monkeypatch):
    from rankwright.serving import app

    original, order = app.rank, []

    def rank(state, request):
        order.append("began")
        if len(order) == 1:
            linear(folder / "linear.rkw", [9.0, 0.0, 0.0])
            client.service.reload()
            order.append("reloaded")
        return original(state, request)

    monkeypatch.setattr(app, "rank", rank)
    assert score(client) == [1.0]
    assert order == ["began", "reloaded"]
    assert score(client) == [9.0]


def test_reloading_under_load_drops_nothing(client, folder):
    allowed = {1.0, *(float(at) for at in range(2, 8))}

    async def load(http):
        stopped = asyncio.Event()
        seen = []

        async def ask():
            while not stopped.is_set():
                response = await http.post("/rank", json=ROW | {"ranker": "linear"})
                seen.append((response.status_code, response.json().get("scores")))
                response = await http.get("/search", params={"q": "lift of wings", "ranker": "linear"})
                assert len(response.json()["results"]) == 10
                seen.append((response.status_code, None))

        async def renew():
            for weight in range(2, 8):
                linear(folder / "linear.rkw", [float(weight), 0.0, 0.1])
                await asyncio.to_thread(client.service.reload)
            stopped.set()

        await asyncio.gather(*(ask() for _ in range(6)), renew())
        return seen

    seen = client.run(load)
    assert {status for status, _ in seen} == {200}
    values = {scores[0] for _, scores in seen if scores}
    assert values <= allowed
    assert len(values) > 1
    assert score(client) == [7.0]


def test_the_thread_that_looks(client, folder):
    client.service.watch(0.02)
    linear(folder / "linear.rkw", [3.0, 0.0, 0.0])
    for _ in range(500):
        if score(client) == [3.0]:
            break
    assert score(client) == [3.0]


def test_a_signal_loads_everything_again(client):
    client.service.watch(None)
    client.service.look_now()
    for _ in range(500):
        if any(one.get("event") == "loaded" for one in client.log):
            break
        client.get("/health")
    assert any(one.get("event") == "loaded" for one in client.log)


def test_a_new_index(client, folder):
    assert client.search("novelty")["results"] == []
    Index.open(folder / "docs.index").add([{"id": "new", "title": "novelty", "body": "wing"}])
    client.service.reload()
    assert [one["id"] for one in client.search("novelty")["results"]] == ["new"]
    assert [one["id"] for one in client.search("novelty", ranker="bm25")["results"]] == ["new"]
    shutil.rmtree(folder / "docs.index")
    client.service.reload()
    assert client.get("/health").json()["status"] == "stale"
    assert [one["id"] for one in client.search("novelty")["results"]] == ["new"]  # what is open stays open


def test_new_numbers_are_for_what_is_opened_after_them(client, folder):
    path = folder / "docs.index"
    old = Index.open(path).set_numbers({"price": {"d01": 1.0, "d02": 9.0}})
    model = LinearModel([-1.0], ["price(missing=99)"])
    engine = LearnedSearch(old, SumModel((model, LinearModel([1e-9], ["bm25[plain]"])), [1.0, 1.0]))
    client.service.reload()
    before = engine.search("wing", 3)
    Index.open(path).set_numbers({"price": {"d01": 5.0, "d02": 0.0}})
    assert old.numbers["price"][old.find("d01")] == 1.0
    assert engine.search("wing", 3).scores.tolist() == before.scores.tolist()
    again = LearnedSearch(Index.open(path), engine.model)
    assert again.search("wing", 3).scores.tolist() != before.scores.tolist()
    assert client.service.state.index.numbers["price"][old.find("d01")] == 1.0
    client.service.reload()
    assert client.service.state.index.numbers["price"][old.find("d01")] == 5.0


def test_a_new_index_with_a_broken_model(client, folder):
    whole = (folder / "linear.rkw").read_bytes()
    (folder / "linear.rkw").write_bytes(b"broken")
    Index.open(folder / "docs.index").add([{"id": "new", "title": "novelty", "body": "wing"}])
    client.service.reload(force=True)
    assert list(client.get("/health").json()["problems"]) == ["linear"]
    assert [one["id"] for one in client.search("novelty", ranker="linear")["results"]] == ["new"]  # the model as it was
    (folder / "linear.rkw").write_bytes(whole)
    client.service.reload()
    assert client.get("/health").json()["status"] == "ok"


def test_an_index_that_a_model_cannot_use(client, folder):
    build_index([{"id": "x", "body": "wing"}], folder / "docs.index")
    client.service.reload()
    assert "title" in client.get("/health").json()["problems"]["the index"]
    assert client.get("/version").json()["index"]["documents"] == 61
    assert len(client.search("wing")["results"]) == 10
    linear(folder / "linear.rkw", [1.0], NAMES[:1])
    linear(folder / "trees.rkw", [1.0], NAMES[:1])
    os.utime(folder / "docs.index" / "index.json")
    client.service.reload()
    assert client.get("/health").json() == {"status": "ok", "problems": {}}
    assert [one["id"] for one in client.search("wing")["results"]] == ["x"]


def test_numbers_of_documents(folder):
    index = Index.open(folder / "docs.index").set_numbers({"price": {"d01": 3.5, "d02": 7.0}})
    linear(folder / "linear.rkw", [1.0, 100.0], (NAMES[0], "price(missing=0)"))
    client = Client(folder, models=("linear",))
    found = client.search("wing lift heat plate flow", k=60, fields="price")["results"]
    assert {one["id"]: one["fields"]["price"] for one in found}["d01"] == 3.5
    assert None in [one["fields"]["price"] for one in found]
    assert [one["id"] for one in found[:2]] == ["d02", "d01"]
    told = client.get("/explain", q="wing lift heat plate flow", doc="d02", against="d01").json()
    assert told["contributions"][0]["feature"] == "price(missing=0)"
    assert client.get("/version").json()["index"]["numbers"] == ["price"]
    index.set_numbers({"price": {"d01": 9.0}})
    client.service.reload()
    assert [one["id"] for one in client.search("wing lift heat plate flow")["results"][:2]] == ["d01", "d02"]
    client.close()


def test_what_cannot_be_served(folder):
    with pytest.raises(InputError, match="nothing to serve"):
        Service()
    with pytest.raises(InputError, match="need an index"):
        Service(models=[folder / "linear.rkw"], functions=["bm25"])
    with pytest.raises(InputError, match="two models have the name 'linear'"):
        Service(models=[folder / "linear.rkw", folder / "docs.index" / "linear.txt"])
    with pytest.raises(InputError, match="two rankers have the name 'bm25'"):
        Service(folder / "docs.index", functions=["bm25", "BM25"])
    linear(folder / "linear.rkw", [1.0, 1.0], (NAMES[0], "clicks"))
    with pytest.raises(InputError, match=r"linear\.rkw: .*index lacks 1 of the model's 2 features"):
        Service(folder / "docs.index", [folder / "linear.rkw"])


def test_missing_as_zero(folder):
    linear(folder / "linear.rkw", [1.0, 1.0], (NAMES[0], "clicks"))
    service = Service(folder / "docs.index", [folder / "linear.rkw"], missing_as_zero=True)
    ranker = service.state.rankers["linear"]
    docs, scores = ranker.search("wing", 5)
    assert ranker.score_documents("wing", docs).tolist() == scores.tolist()
    assert [term.feature for term in ranker.explain("wing", docs[0], docs[1]).terms] == [NAMES[0], "clicks"]


def test_refusals_after_reloading(client, folder):
    linear(folder / "linear.rkw", [1.0, 1.0], NAMES[:2])
    client.service.reload()
    refused(client.post(ROW), 400, "3 values", "2 features")
