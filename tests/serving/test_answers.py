"""What the service answers: compared with the package itself, used directly."""

import numpy as np
import pytest
from tests.serving.served import NAMES, Client, linear, refused

import rankwright
from rankwright import load_model
from rankwright.data.order import rank_order
from rankwright.text.index import Index
from rankwright.text.learned import LearnedSearch
from rankwright.text.search import Scorer, search

QUERY = "lift of a thin wing"


def test_search_gives_what_the_package_finds(client, made):
    index = Index.open(made / "docs.index")
    for name in ("linear", "trees"):
        docs, scores = LearnedSearch(index, load_model(made / f"{name}.rkw")).search(QUERY, 7)
        found = client.search(QUERY, k=7, ranker=name)
        assert [one["id"] for one in found["results"]] == [index.doc_id(doc) for doc in docs]
        assert [one["score"] for one in found["results"]] == scores.tolist()
        assert [one["rank"] for one in found["results"]] == list(range(1, 8))
    found = client.search(QUERY, k=5, ranker="bm25")["results"]
    assert [(one["id"], one["score"]) for one in found] == search(index, QUERY, k=5)
    assert client.search(QUERY)["ranker"] == "linear"
    assert len(client.search(QUERY)["results"]) == 10


def test_snippets_and_fields(client, made):
    index = Index.open(made / "docs.index")
    found = client.search("wing", k=60)
    for one in found["results"]:
        doc = index.find(one["id"])
        assert one["fields"] == {name: index.text(doc, name) for name in ("title", "body")}
        assert one["title"] == " ".join(index.text(doc, "title").split())
        marked = [one["snippet"][start:stop] for start, stop in one["marks"]]
        assert all(word == "wing" for word in marked)
    assert any(one["marks"] for one in found["results"])
    assert client.search("wing", fields="title")["results"][0]["fields"].keys() == {"title"}
    assert client.search("wing", fields="")["results"][0]["fields"] == {}
    refused(client.get("/search", q="wing", fields="price"), 400, "'price'", "title, body")


def test_words_that_do_not_count(client):
    found = client.search("the zeppelin of wing")
    assert (found["unknown"], found["dropped"]) == (["zeppelin"], ["the", "of"])
    assert client.search("zeppelin")["results"] == []


@pytest.mark.parametrize("text", ["naïve 翼", "🙂 wing", "ınformatıon", "a" * 999, "\u202ewing\u0000", "<b>"])
def test_unicode_queries(client, text):
    assert client.search(text)["query"] == text


def test_a_document_with_an_odd_id(client):
    odd = "ünïcode/№1&<x>"
    found = client.search("naïve", ranker="bm25")["results"]
    assert [one["id"] for one in found] == [odd]
    assert found[0]["fields"]["title"] == "<script>alert(1)</script> wing"
    assert client.get("/explain", q="naïve", doc=odd, ranker="bm25").json()["a"]["rank"] == 1
    assert client.rank(query="naïve", documents=[odd, "d01"], ranker="bm25")["ids"][0] == odd


def test_rank_features_in_all_forms(client, made):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 3))
    X[4] = X[2]  # a tie
    ids = ["b", "a", "c", "é", "z", "q"]
    expected = load_model(made / "linear.rkw").predict(X)
    order = rank_order(expected, np.array([0, 6]), np.array(ids)).tolist()
    dicts = [dict(zip(NAMES, row, strict=True)) | {"other": 1.0} for row in X.tolist()]
    by_name = {"names": [NAMES[2], "other", NAMES[0], NAMES[1]], "rows": [[r[2], 9, r[0], r[1]] for r in X.tolist()]}
    for features in (dicts, by_name, {"rows": X.tolist()}):
        found = client.rank(features=features, ids=ids)
        assert found["scores"] == expected.tolist()
        assert found["order"] == order
        assert found["ids"] == [ids[at] for at in order]
    assert order.index(4) < order.index(2)  # z before c: descending as strings
    without = client.rank(features={"rows": X.tolist()})
    assert "ids" not in without
    assert without["order"].index(2) < without["order"].index(4)  # input order


def test_missing_values(client, made):
    rows = [[1.0, None, 2.0], [0.5, 0.1, None]]
    table = np.array([[np.nan if one is None else one for one in row] for row in rows])
    expected = load_model(made / "trees.rkw").predict(table)
    assert client.rank(features={"rows": rows}, ranker="trees")["scores"] == expected.tolist()
    dicts = [{NAMES[0]: 1.0, NAMES[2]: 2.0}, {NAMES[0]: 0.5, NAMES[1]: 0.1}]  # left out is missing
    assert client.rank(features=dicts, ranker="trees")["scores"] == expected.tolist()
    refused(client.post({"features": {"rows": rows}, "ranker": "linear"}), 400, "row 0 (from 0) has no", NAMES[1])


def test_features_that_no_document_has(client):
    body = {"features": [{NAMES[0]: 1.0}, {NAMES[0]: 2.0}]}
    refused(client.post(body), 400, "2 of the model's 3 features", NAMES[1], "missing_as_zero")
    assert client.rank(**body, missing_as_zero=True)["scores"] == [1.0, 2.0]
    refused(client.post({"features": {"rows": [[1.0, 2.0, 3.0, 4.0]]}}), 400, "4 values", "3 features")


def test_rank_documents_of_the_index(client, made):
    index = Index.open(made / "docs.index")
    results = client.search(QUERY, k=100)["results"]
    some = [results[at]["id"] for at in (5, 0, 9)]
    found = client.rank(query=QUERY, documents=some)
    assert found["scores"] == [results[at]["score"] for at in (5, 0, 9)]
    assert found["order"] == [1, 0, 2]
    numbers = [index.find(one) for one in some]
    expected = Scorer(index.view("porter+stop"), "bm25").scores(QUERY, numbers).tolist()
    assert client.rank(query=QUERY, documents=some, ranker="bm25")["scores"] == expected
    refused(client.post({"query": QUERY, "documents": ["nothing"]}), 404, "'nothing'")


@pytest.mark.parametrize("name", ["linear", "trees", "bm25", "dirichlet"])
def test_contributions_sum_to_the_difference(made, name):
    client = Client(made, functions=("bm25", "dirichlet"))
    results = client.search(QUERY, ranker=name, k=40)["results"]
    a, b = results[3], results[39]
    assert a["score"] > b["score"]
    found = client.get("/explain", q=QUERY, doc=b["id"], against=a["id"], ranker=name).json()
    assert (found["a"]["rank"], found["b"]["rank"]) == (40, 4)
    assert found["difference"] == b["score"] - a["score"]
    assert sum(one["contribution"] for one in found["contributions"]) == pytest.approx(found["difference"], abs=1e-5)
    assert "A is below B" in found["reason"]
    alone = client.get("/explain", q=QUERY, doc=a["id"], ranker=name).json()
    assert alone["b"] is None
    assert sum(one["contribution"] for one in alone["contributions"]) == pytest.approx(alone["difference"], abs=1e-5)
    client.close()


def test_explaining_agrees_with_the_model(client, made):
    results = client.search(QUERY, k=3)["results"]
    found = client.get("/explain", q=QUERY, doc=results[0]["id"], against=results[2]["id"]).json()
    for one in found["contributions"]:
        assert one["contribution"] == pytest.approx(one["weight"] * (one["a"] - one["b"]))
    assert {one["feature"]: one["words"] for one in found["contributions"]} == {
        NAMES[0]: "BM25 (stemmed, no stop words)",
        NAMES[1]: "BM25 in title (stemmed)",
        NAMES[2]: "counts of the query's words (words as written)",
    }


def test_equal_scores_are_said_to_be_equal(folder):
    linear(folder / "linear.rkw", [0.0, 0.0, 0.0])
    client = Client(folder, models=("linear",))
    first, second = (one["id"] for one in client.search("wing", k=2)["results"])
    told = client.get("/explain", q="wing", doc=first, against=second).json()
    assert told["reason"] == "A and B have the same score; the order of the index decides."
    told = client.get("/explain", q="wing", doc=first).json()
    assert told["reason"] == "A has the same score as the mean of the documents found."
    client.close()


def test_documents_without_a_rank(client):
    first = client.search("drag", ranker="bm25")["results"][0]["id"]
    outside = next(f"d{at:02d}" for at in range(60) if not in_search(client, "drag", f"d{at:02d}"))
    refused(client.get("/explain", q="drag", doc=first, against=outside, ranker="bm25"), 404, "against is not among")
    refused(client.get("/explain", q="drag", doc="nothing"), 404, "'nothing'")
    refused(client.get("/explain", q="drag", doc=first, against=first), 400, "same document")


def in_search(client, query, wanted):
    return wanted in [one["id"] for one in client.search(query, ranker="bm25", k=100)["results"]]


def test_without_an_index(made):
    client = Client(made, index=False)
    assert client.rank(features={"rows": [[1, 2, 3], [3, 2, 1]]}, ids=["a", "b"])["ids"] == ["b", "a"]
    refused(client.get("/search", q="wing"), 404, "no index")
    refused(client.get("/explain", q="wing", doc="d01"), 404, "no index")
    refused(client.post({"query": "wing", "documents": ["d01"]}), 404, "no index")
    assert client.get("/version").json()["index"] is None
    client.close()


def test_functions_alone(made):
    client = Client(made, models=())
    refused(client.post({"features": {"rows": [[1]]}}), 400, "no model here")
    refused(client.post({"features": {"rows": [[1]]}, "ranker": "bm25"}), 400, "takes no features")
    assert client.search("wing")["ranker"] == "bm25"
    client.close()


def test_version_and_health(client, made):
    import hashlib

    found = client.get("/version").json()
    assert found["version"] == rankwright.__version__
    assert [one["name"] for one in found["rankers"]] == ["linear", "trees", "bm25"]
    first = found["rankers"][0]
    assert first["sha256"] == hashlib.sha256((made / "linear.rkw").read_bytes()).hexdigest()
    assert (first["kind"], first["model"], first["method"], first["file"]) == (
        "model",
        "linear",
        "svm-map",
        "linear.rkw",
    )
    assert found["index"]["documents"] == 61
    assert str(made) not in str(found)
    assert client.get("/health").json() == {"status": "ok", "problems": {}}
