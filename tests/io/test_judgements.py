"""Judgements in every form that people have them."""

import gzip
import json
import sys
import types
from collections import namedtuple

import pandas
import pytest

from rankwright import InputError, read_letor, read_qrels
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputWarning
from rankwright.io.detect import detect
from rankwright.io.letor import read_letor_labels, read_letor_queries
from rankwright.io.trec import match_queries

WANTED = {"red_dress": {"d1": 3.0, "d2": 0.0}, "shoes": {"d1": 1.0}}
FLAT = [("red dress", "d1", 3), ("red dress", "d2", 0), ("shoes", "d1", 1)]
LISTS = {
    "name": "mine",
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [
        {"query": "red dress", "ratings": [{"docId": "d1", "rating": "3.000"}, {"docId": "d2", "rating": "0.0"}]},
        {"query": "shoes", "ratings": [{"docId": "d1", "rating": 1}]},
    ],
}
DETAIL = (
    "Team Name,Case Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,Genre\n"
    'T,C,6789,red dress,d1,1,"A dress, red",3,x\nT,C,6789,red dress,d2,2,B,0,\nT,C,6789,shoes,d1,1,C,1,\n'
)
FORMS = {
    "basic.csv": "query,docid,rating\n" + "".join(f"{q},{d},{r}\n" for q, d, r in FLAT),
    "detail.csv": DETAIL,
    "tabs.tsv": "query\tdoc_id\tgrade\n" + "".join(f"{q}\t{d}\t{r}\n" for q, d, r in FLAT),
    "semicolons.csv": "\ufeffquery;docno;relevance\r\n" + "".join(f'"{q}";{d};{r}\r\n' for q, d, r in FLAT),
    "lists.json": json.dumps(LISTS, indent=2),
    "one-line.json": json.dumps(LISTS),
    "hit.json": json.dumps({"_source": LISTS}),
    "array.json": json.dumps(LISTS["judgmentRatings"]),
    "flat.json": json.dumps([{"query": q, "docid": d, "rating": r} for q, d, r in FLAT]),
    "lines.jsonl": "".join(json.dumps({"query": q, "docid": d, "rating": r}) + "\n" for q, d, r in FLAT),
    "nested.json": json.dumps({"red dress": {"d1": 3, "d2": 0}, "shoes": {"d1": 1}}),
}


def as_dict(table):
    found = {}
    for q, query in enumerate(table.query_ids.tolist()):
        rows = slice(table.indptr[q], table.indptr[q + 1])
        found[query] = dict(zip([d.decode() for d in table.doc_ids[rows]], table.values[rows].tolist(), strict=True))
    return found


def put(folder, content, name="a"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", FORMS)
def test_forms(tmp_path, name):
    path = put(tmp_path, FORMS[name], name)
    assert as_dict(read_qrels(path)) == WANTED
    assert detect(path) == "qrels"
    assert as_dict(read_qrels(put(tmp_path, gzip.compress(FORMS[name].encode()), "b.gz"))) == WANTED


def test_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    pandas.DataFrame(FLAT, columns=["query", "docid", "rating"]).to_parquet(path)
    assert as_dict(read_qrels(path)) == WANTED
    assert detect(path) == "qrels"


def test_quepids_text(tmp_path):
    path = put(tmp_path, "\n3 qid:7 # 7555 rambo movie\n\n0 qid:7 # 1370 rambo movie\n\n1 qid:8 # 7555 rocky\n")
    assert as_dict(read_qrels(path)) == {"7": {"7555": 3.0, "1370": 0.0}, "8": {"7555": 1.0}}
    assert read_letor_queries(path) == {"7": "rambo movie", "8": "rocky"}
    old = put(tmp_path, '3    qid:7 #    7555; "rambo"\n2    qid:7 #    7556; "rambo"\n')
    assert as_dict(read_qrels(old)) == {"7": {"7555": 3.0, "7556": 2.0}}
    assert read_letor_queries(old) == {"7": "rambo"}


@pytest.mark.parametrize(
    "comments",
    [
        ["7555 rambo", "7555 rambo"],  # the same document twice
        ["7555 rambo", "1370 rocky"],  # the text differs within a query
        ["7555 rambo", ""],
        ["7555 rambo", "x = 1"],
        ["good one"],  # alone, any two words have the form
    ],
)
def test_comments_that_are_something_else(tmp_path, comments):
    path = put(tmp_path, "".join(f"1 qid:1 1:2 # {comment}\n" for comment in comments))
    assert read_letor(path).doc_ids is None
    assert read_letor_labels(path)[2] is None
    assert read_letor_queries(path) is None


def test_features_with_such_comments(tmp_path):
    path = put(tmp_path, "3 qid:7 1:2 2:0.5 # 7555 rambo\n0 qid:7 1:1 # 1370 rambo\n")
    assert read_letor(path).doc_ids.tolist() == ["7555", "1370"]


def test_beir(tmp_path):
    (tmp_path / "qrels").mkdir()
    put(tmp_path / "qrels", "query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n", "test.tsv")
    assert as_dict(read_qrels(tmp_path)) == {"1": {"d1": 2.0, "d2": 0.0}}
    assert detect(tmp_path) == "qrels"
    put(tmp_path / "qrels", "query-id\tcorpus-id\tscore\n1\td1\t2\n", "dev.tsv")
    with pytest.raises(InputError, match=r"has several judgements \(dev.tsv, test.tsv\); expected one of them"):
        read_qrels(tmp_path)
    assert as_dict(read_qrels(tmp_path / "qrels" / "dev.tsv")) == {"1": {"d1": 2.0}}


def test_scores_of_a_run_are_not_judgements(tmp_path):
    with pytest.raises(InputError, match="has the columns 'query', 'docid', 'score'"):
        read_qrels(put(tmp_path, "query,docid,score\na,b,1.5\n"))


def test_ir_datasets(monkeypatch):
    row = namedtuple("row", "query_id doc_id relevance iteration")
    made = types.SimpleNamespace(has_qrels=lambda: True, qrels_iter=lambda: iter([row("1", "d", 2, "0")]))

    def load(name):
        return {"toy": made, "bare": types.SimpleNamespace(has_qrels=lambda: False)}[name]

    monkeypatch.setitem(sys.modules, "ir_datasets", types.SimpleNamespace(load=load))
    assert as_dict(read_qrels("ir_datasets:toy")) == {"1": {"d": 2.0}}
    with pytest.raises(InputError, match="ir_datasets:bare: has no qrels"):
        read_qrels("ir_datasets:bare")
    with pytest.raises(InputError, match="is not a collection of ir_datasets"):
        read_qrels("ir_datasets:none")
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(
        InputError, match=r"this needs ir_datasets; install it with: pip install 'rankwright\[ir-datasets\]'"
    ):
        read_qrels("ir_datasets:toy")


def test_rows_without_a_rating_are_told(tmp_path):
    path = put(tmp_path, "query,docid,rating\nred,d1,2\nblue\ngreen,d2,\n")
    with pytest.warns(InputWarning, match="skipped 2 rows without a document or a rating"):
        assert as_dict(read_qrels(path)) == {"red": {"d1": 2.0}}


def test_columns_by_name(tmp_path):
    path = put(tmp_path, "search;item;stars\nred dress;d1;3\n")
    columns = {"query": "search", "docid": "item", "label": "stars"}
    assert as_dict(read_qrels(path, columns=columns)) == {"red_dress": {"d1": 3.0}}
    with pytest.raises(InputError, match="no column 'nothing', named for label"):
        read_qrels(path, columns={"label": "nothing"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,docid,rating\n", "has no judgements"),
        ("query,docid,rating\nred\n", "has only 1 row without a document or a rating"),
        ("query,docid,rating\na,b,good\n", "a:2: the rating has words ('good'); expected labels that are numbers"),
        ('query,docid,rating\na,b,"1,5"\n', "a:2: the rating is '1,5'; expected a number with a decimal point"),
        ("query,docid,rating\na,b c,1\n", "a:2: the document id 'b c' contains whitespace"),
        ("query,docid,rating\n,b,1\n", "a:2: the query is empty"),
        ("query,docid,rating\na,b,1\na,b,2\n", "a:3: duplicate document 'b' in query 'a' (first on line 2)"),
        ("query,docid,rating\na,b,1,2\n", "a:2: 4 cells; expected 3"),
        ("query,price\na,3\n", "has the columns 'query', 'price'; expected columns for query, docid and rating"),
        ("{", "invalid JSON"),
        ("[]", "has no judgements"),
        ("[1, 2]", "expected a query and its ratings"),
        ('{"a": 1}', "has the columns 'a'"),
        ("3 qid:1 1:0.5\n", "has lines without document ids"),
        ("", "is empty; expected lines of: query iteration document label"),
        ("a b c\n", "3 fields; expected 4"),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read_qrels(put(tmp_path, text))
    assert message in str(caught.value)


def test_queries_matched_by_text():
    table = TrecTable.from_dict({"red_dress": {"d": 1}, "7": {"d": 2}, "unknown": {"d": 3}})
    matched, number = match_queries(table, [("1", "red  dress"), ("7", "shoes")])
    assert (matched.query_ids.tolist(), number) == (["1", "7", "unknown"], 1)
    assert match_queries(table, [("7", "shoes")]) == (table, 0)
    with pytest.raises(InputError, match="the query '7' is named by its id and by its text"):
        match_queries(table, [("7", "red dress")])
