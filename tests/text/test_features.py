"""Feature data of queries: candidates, labels, what is left out, and tables of documents."""

import gzip
import json

import numpy as np
import pytest
from toy_documents import WORDS, make_documents

from rankwright import (
    Columns,
    InputError,
    RankingData,
    TrecTable,
    build_index,
    feature_set,
    make_features,
    read_document_table,
    read_queries,
)
from rankwright.text import features as features_module
from rankwright.text.features import DocumentTable

QUERIES = {"q1": "running wings", "q2": "the of", "q3": "nowhere", "q4": "café x1", "ü5": "漢字 winged"}
NAMES = ["bm25[porter+stop]", "dirichlet[plain,title]", "log-tf[porter]"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return build_index(make_documents(80), tmp_path_factory.mktemp("features") / "docs.index")


def rows_of(data):
    """By query: documents, labels and features."""
    bounds = zip(data.indptr[:-1].tolist(), data.indptr[1:].tolist(), strict=True)
    return {
        query: (data.doc_ids[start:stop].tolist(), data.labels[start:stop].tolist(), data.X[start:stop])
        for query, (start, stop) in zip(data.query_ids.tolist(), bounds, strict=True)
    }


def test_the_union_of_the_first(index):
    made = make_features(index, QUERIES, features=NAMES, depth=3)
    assert isinstance(made.data, RankingData)
    assert made.data.feature_names == tuple(NAMES)
    assert made.data.X.dtype == np.float32
    assert made.without_candidates == ["q3"]
    assert (made.without_judgements, made.unknown_documents, made.missed_documents) == ([], 0, 0)
    columns, found = Columns(index, NAMES), rows_of(made.data)
    assert list(found) == ["q1", "q2", "q4", "ü5"]
    for query, (documents, labels, X) in found.items():
        docs = columns.candidates(QUERIES[query], 3)
        assert documents == [index.doc_id(doc) for doc in docs.tolist()]
        assert labels == [0.0] * len(docs)
        assert X.tobytes() == columns.values(QUERIES[query], docs).tobytes()


def test_the_base_functions_unless_features_are_named(index):
    assert make_features(index, QUERIES).data.feature_names == tuple(feature_set("base"))
    assert make_features(index, QUERIES, features=Columns(index, NAMES)).data.feature_names == tuple(NAMES)


def test_labels(index):
    given = {
        "q1": {"d1": 2, "d7": -1, "d8": 0.5, "d9": 0, "gone": 3, "d79": 1, "d78": 4},
        "q3": {"d1": 1, "d2": 0},
        "q4": {"elsewhere": 1},
        "other": {"d1": 3, "nothing": 1},
    }
    made = make_features(index, QUERIES, features=NAMES, qrels=TrecTable.from_dict(given), depth=1000)
    assert made.without_judgements == ["q2", "ü5"]
    assert made.without_candidates == ["q3"]
    found = rows_of(made.data)
    assert list(found) == ["q1", "q4"]
    for query, (documents, labels, _) in found.items():
        assert labels == [max(0, given[query].get(document, 0)) for document in documents]
    assert sum(found["q1"][1]) > 0
    assert made.unknown_documents == 2  # gone and elsewhere; queries that were not asked do not count
    relevant = {("q1", doc) for doc in ("d1", "d8", "d79", "d78")} | {("q3", "d1")}
    among = {(query, doc) for query, (documents, _, _) in found.items() for doc in documents}
    assert made.missed_documents == len(relevant - among) > 0


def test_judged_documents(index):
    given = {"q1": {"d9": 2, "d3": 0, "gone": 1, "d70": -2}, "q3": {"d5": 1}, "q4": {"lost": 1}}
    made = make_features(index, QUERIES, features=NAMES, qrels=TrecTable.from_dict(given), candidates="judged")
    found = rows_of(made.data)
    assert {query: list(zip(*rows[:2], strict=True)) for query, rows in found.items()} == {
        "q1": [("d3", 0.0), ("d9", 2.0), ("d70", 0.0)],
        "q3": [("d5", 1.0)],
    }
    columns = Columns(index, NAMES)
    assert found["q1"][2].tobytes() == columns.values(QUERIES["q1"], [3, 9, 70]).tobytes()
    assert (made.without_candidates, made.without_judgements) == (["q4"], ["q2", "ü5"])
    assert (made.unknown_documents, made.missed_documents) == (2, 0)


def test_documents_of_a_run(index):
    run = TrecTable.from_dict({"q1": {"d9": 2, "d3": 9, "gone": 1}, "q2": {"d4": 1}, "q9": {"d1": 1}})
    made = make_features(index, QUERIES, features=["log-tf[plain]"], candidates=run)
    found = rows_of(made.data)
    assert {query: rows[0] for query, rows in found.items()} == {"q1": ["d3", "d9"], "q2": ["d4"]}
    assert made.without_candidates == ["q3", "q4", "ü5"]
    assert made.unknown_documents == 1
    qrels = TrecTable.from_dict({"q1": {"d9": 1, "gone": 1, "away": 1, "d5": 1}})
    made = make_features(index, QUERIES, features=NAMES, candidates=run, qrels=qrels)
    assert rows_of(made.data)["q1"][1] == [0.0, 1.0]
    assert (made.unknown_documents, made.missed_documents) == (2, 1)  # gone counts once


def test_ids_that_are_not_utf8_are_unknown(index):
    run = TrecTable(np.array(["q1"]), np.array([0, 2]), np.array([b"d1", b"\xff"]), np.ones(2))
    made = make_features(index, QUERIES, features=NAMES, candidates=run)
    assert made.data.doc_ids.tolist() == ["d1"]
    assert made.unknown_documents == 1


def test_ids_of_any_script(tmp_path):
    documents = [("é1", "wing"), ("漢字", "wing lift"), ("d", "heat")]
    index = build_index(documents, tmp_path / "ids.index")
    qrels = TrecTable.from_dict({"1": {"漢字": 1}})
    made = make_features(index, {"1": "wing"}, qrels=qrels)
    assert made.data.doc_ids.tolist() == ["é1", "漢字"]
    assert made.data.labels.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_and_blocks_change_nothing(index, threads, monkeypatch):
    rng = np.random.default_rng(0)
    queries = {f"q{i}": " ".join(rng.choice([*WORDS, "none"], rng.integers(0, 3))) for i in range(60)}
    qrels = TrecTable.from_dict({f"q{i}": {f"d{i}": 1, f"d{2 * i}": 2} for i in range(0, 60, 2)})
    names = [*feature_set("base", index.fields), *feature_set("sigir06")]
    one = make_features(index, queries, features=names, qrels=qrels, depth=5)
    monkeypatch.setattr(features_module, "_BLOCK", 7)
    calls = []
    other = make_features(
        index, queries, features=names, qrels=qrels, depth=5, n_jobs=threads, progress=lambda *at: calls.append(at)
    )
    for part in ("X", "labels", "indptr", "query_ids", "doc_ids"):
        assert getattr(one.data, part).tobytes() == getattr(other.data, part).tobytes()
    assert one.without_candidates == other.without_candidates != []
    assert one.without_judgements == other.without_judgements == [f"q{i}" for i in range(1, 60, 2)]
    assert calls == [(done, 30) for done in (7, 14, 21, 28, 30)]


def test_queries_from_a_file(index, tmp_path):
    (tmp_path / "q.tsv").write_text("".join(f"{query}\t{text}\n" for query, text in QUERIES.items()))
    one = make_features(index, read_queries(tmp_path / "q.tsv"), features=NAMES)
    assert one.data.X.tobytes() == make_features(index, QUERIES, features=NAMES).data.X.tobytes()
    numbered = make_features(index, {7: "wings"}, features=NAMES, qrels=TrecTable.from_dict({7: {"d1": 1}}))
    assert numbered.data.query_ids.tolist() == ["7"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": []}, "no features; expected at least one"),
        ({"features": "bm25[plain]"}, "the features are a single string"),
        ({"candidates": "judged"}, 'candidates is "judged", but there are no judgements'),
        ({"candidates": "all"}, 'candidates are \'all\'; expected "union", "judged" or a run'),
        ({"features": ["log-tf[plain]"]}, "no feature is a retrieval function; expected one, or candidates from"),
        ({"depth": 0}, "depth is 0; expected a positive integer"),
        ({"depth": True}, "depth is True; expected a positive integer"),
        ({"n_jobs": 0}, "n_jobs is 0; expected a number of threads"),
        ({"n_jobs": 1.5}, "n_jobs is 1.5; expected a number of threads"),
        ({"queries": {}}, "no queries; expected at least one"),
        ({"queries": {"1": "nowhere"}}, "no query has candidates; expected queries with words that occur in the index"),
        ({"qrels": {"1": {"d1": 1}}}, "none of the 5 queries (the first is 'q1') has judgements; expected the same"),
        ({"table": DocumentTable(("a",), np.zeros((3, 1)))}, "the table has shape (3, 1); expected (80, 1)"),
        ({"table": DocumentTable(("a",), np.full((80, 1), 1e39))}, "the table contains a number that is not finite"),
        ({"table": DocumentTable(("a",), np.full((80, 1), np.nan))}, "the table contains a number that is not finite"),
    ],
)
def test_bad_input(index, options, message):
    given = {"queries": QUERIES, **options}
    if "qrels" in given:
        given["qrels"] = TrecTable.from_dict(given["qrels"])
    with pytest.raises(InputError) as error:
        make_features(index, given.pop("queries"), **given)
    assert message in str(error.value)


def test_bad_input_of_two_sources(index, tmp_path):
    nowhere = TrecTable.from_dict({"q1": {"gone": 1}})
    with pytest.raises(InputError, match="none of the candidates is in the index; expected the same document ids"):
        make_features(index, QUERIES, candidates=nowhere)
    for candidates in ("judged", "union"):  # labels would all be 0
        with pytest.raises(InputError, match=r"none of the 1 judged documents \(such as 'gone'\) is in the index"):
            make_features(index, QUERIES, candidates=candidates, qrels=nowhere)
    other = build_index([("d1", "wing")], tmp_path / "other.index")
    with pytest.raises(InputError, match="the columns belong to another index"):
        make_features(index, QUERIES, features=Columns(other, NAMES[:1]))


# Tables of documents


def written(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_table_of_documents(index, tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(80, 2)).astype(np.float32)
    rows = [f"d{i}\t{numbers[i, 0]!s}\t{numbers[i, 1]!s}" for i in rng.permutation(80).tolist()]
    path = written(tmp_path / "table.tsv", ["id\tpage rank\tyear", *rows[:40], "", "stranger\t1\t2", *rows[40:]])
    table = read_document_table(path, index)
    assert table.names == ("doc:page rank", "doc:year")
    assert (table.values.astype(np.float32) == numbers).all()
    with gzip.open(tmp_path / "table.gz", "wb") as packed:
        packed.write(path.read_bytes().replace(b"\n", b"\r\n"))
    assert (read_document_table(tmp_path / "table.gz", index).values == table.values).all()
    made = make_features(index, QUERIES, features=NAMES, table=table, depth=4)
    assert made.data.feature_names == (*NAMES, "doc:page rank", "doc:year")
    place = [index.find(doc_id) for doc_id in made.data.doc_ids.tolist()]
    assert (made.data.X[:, 3:] == numbers[place]).all()
    assert made.data.X[:, :3].tobytes() == make_features(index, QUERIES, features=NAMES, depth=4).data.X.tobytes()
    qrels = TrecTable.from_dict({"q1": {"d5": 1}})
    alone = make_features(index, QUERIES, features=[], table=table, qrels=qrels, candidates="judged")
    assert alone.data.X.tolist() == [numbers[5].tolist()]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "table.tsv: is empty; expected a header line"),
        (["id"], "table.tsv:1: expected a header line: id, then a unique name for each column"),
        (["d0\t0.5"], "table.tsv:1: expected a header line"),
        (["id\ta\ta"], "table.tsv:1: 2 columns are called 'a'; expected unique names"),
        (["id\ta\t"], "table.tsv:1: expected a header line"),
        (["id\ta", "d0\t1\t2"], "table.tsv:2: 3 cells; expected 2, as in the header"),
        (["id\ta", "d0"], "table.tsv:2: 1 cell; expected 2, as in the header"),
        (["id\ta", "", "d0\tmany"], "table.tsv:3: the number 'a' of document 'd0' is 'many'; expected a number"),
        (["id\ta", "d0\t"], "table.tsv: lacks numbers of 80 of 80 documents, such as 'd0'; expected a full row"),
        (["id\ta", "d0\tnan"], "table.tsv: lacks numbers of 80 of 80 documents"),
        (["id\ta", "d0\t-1e39"], "is '-1e39', which is not finite in single precision; expected a finite number"),
        (["id\ta", "d0\t1", "d1\t1", "d0\t2"], "table.tsv:4: duplicate document 'd0' (first on line 2)"),
        (["id\ta", "d0\t1", "d2\t1"], "table.tsv: lacks numbers of 78 of 80 documents, such as 'd1'; expected"),
    ],
)
def test_bad_tables(index, tmp_path, lines, message):
    with pytest.raises(InputError) as error:
        read_document_table(written(tmp_path / "table.tsv", lines), index)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl"])
def test_a_table_in_another_container(index, tmp_path, name):
    rows = [(f"d{doc}", doc / 4) for doc in range(80)]
    lines = ["docno,a", *(f"{doc},{number}" for doc, number in rows)]
    if name == "table.jsonl":
        lines = [json.dumps({"doc_id": doc, "a": number}) for doc, number in rows]
    table = read_document_table(written(tmp_path / name, lines), index)
    assert (table.names, table.values[:, 0].tolist()) == (("doc:a",), [number for _, number in rows])


def test_a_table_that_cannot_be_read(index, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_document_table(tmp_path / "none.tsv", index)
    (tmp_path / "latin.tsv").write_bytes(b"id\tyear\n\xe9\t3\n")
    with pytest.raises(InputError, match=r"latin.tsv:2: byte 0xe9 is not valid UTF-8"):
        read_document_table(tmp_path / "latin.tsv", index)
