"""Documents and queries from the files that people have."""

import gzip
import json
import sys
import types
from collections import namedtuple

import pandas
import pytest

from rankwright import InputError, build_index, read_queries
from rankwright.text.documents import DocumentFiles, read_documents

DOCS = {"d1": {"title": "A", "text": 'one, "two"\nthree'}, "d2": {"title": "B", "text": "four"}}
ROWS = [{"id": key, **fields} for key, fields in DOCS.items()]
CSV = 'id,title,text\nd1,A,"one, ""two""\nthree"\nd2,B,four\n'
FORMS = {
    "a.csv": CSV,
    "mark.csv": "\ufeff" + CSV.replace("\n", "\r\n"),
    "unnamed": CSV,
    "semicolons.csv": 'ID;title;text\nd1;A;"one, ""two""\nthree"\nd2;B;four\n',
    "a.json": json.dumps(ROWS, indent=1),
    "b.json": "\n".join(map(json.dumps, ROWS)),
    "array": json.dumps(ROWS),
    "a.jsonl": "\n".join(json.dumps({"doc_id": row["id"], **DOCS[row["id"]]}) for row in ROWS),
}


def put(folder, content, name="a"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", FORMS)
def test_documents(tmp_path, name):
    assert dict(read_documents(put(tmp_path, FORMS[name], name))) == DOCS
    assert dict(read_documents(put(tmp_path, gzip.compress(FORMS[name].encode()), f"{name}.gz"))) == DOCS


def test_documents_of_parquet(tmp_path):
    pandas.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    assert dict(read_documents(tmp_path / "a.parquet")) == DOCS
    (tmp_path / "a.parquet").rename(tmp_path / "b")
    assert dict(read_documents(tmp_path / "b")) == DOCS


def test_documents_of_tabs_with_the_id_anywhere(tmp_path):
    path = put(tmp_path, 'title\tDoc-ID\nA "x"\td1\n', "a.tsv")
    assert dict(read_documents(path)) == {"d1": {"title": 'A "x"'}}


def test_beir(tmp_path):
    put(tmp_path, '{"_id": "d1", "title": "A", "text": "x"}\n', "corpus.jsonl")
    put(tmp_path, '{"_id": "q1", "text": "what"}\n', "queries.jsonl")
    assert dict(read_documents(tmp_path)) == {"d1": {"title": "A", "text": "x"}}
    assert dict(read_queries(tmp_path)) == {"q1": "what"}
    (tmp_path / "sub").mkdir()
    with pytest.raises(InputError, match=r"is a folder without queries.jsonl"):
        read_queries(tmp_path / "sub")


def test_ir_datasets(tmp_path, monkeypatch):
    document, query = namedtuple("document", "doc_id title text year"), namedtuple("query", "query_id text")
    topic = namedtuple("topic", "query_id title description narrative")
    made = {
        "toy": types.SimpleNamespace(
            has_docs=lambda: True,
            has_queries=lambda: True,
            docs_iter=lambda: iter([document("d1", "A", "x", None)]),
            queries_iter=lambda: iter([query("1", "what  is")]),
        ),
        "topics": types.SimpleNamespace(
            has_queries=lambda: True, queries_iter=lambda: iter([topic("1", "t", "d", "n")])
        ),
    }
    monkeypatch.setitem(sys.modules, "ir_datasets", types.SimpleNamespace(load=made.__getitem__))
    assert dict(read_documents("ir_datasets:toy")) == {"d1": {"title": "A", "text": "x"}}
    assert dict(read_queries("ir_datasets:toy")) == {"1": "what is"}
    assert dict(read_queries("ir_datasets:topics", part="title+narrative")) == {"1": "t n"}
    with pytest.raises(InputError, match="a query without description; it has query_id, text"):
        read_queries("ir_datasets:toy", part="description")


def test_named_columns(tmp_path):
    path = put(tmp_path, "sku,headline,blurb,junk\n7,A,x,y\n", "a.csv")
    columns = {"id": "sku", "title": "headline", "text": "blurb", "skip": "junk"}
    assert dict(read_documents(path, columns=columns)) == {"7": {"title": "A", "text": "x"}}
    lines = put(tmp_path, '{"sku": 7, "headline": "A", "blurb": "x", "junk": "y"}\n', "a.jsonl")
    assert dict(read_documents(lines, columns=columns)) == {"7": {"title": "A", "text": "x"}}
    with pytest.raises(InputError, match="has no columns; expected CSV, JSON or Parquet with --columns"):
        list(read_documents(put(tmp_path, "a\tb\n", "a.tsv"), columns=columns))


def test_html_in_a_field(tmp_path):
    path = put(tmp_path, 'id,text\n1,"<p>a<script>b</script>"\n', "a.csv")
    index = build_index(DocumentFiles([path], html=["text"]), tmp_path / "i")
    assert list(index.terms) == ["a"]
    with pytest.raises(InputError, match="no document has the field 'body'"):
        build_index(DocumentFiles([path], html=["body"]), tmp_path / "i")
    assert list(index.terms) == ["a"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "a.csv: contains no documents"),
        ("a.csv", "id,text\n", "a.csv: contains no documents"),
        ("a.csv", "sku,text\n1,x\n", "a.csv:1: has the columns 'sku', 'text'; expected one for id (id, _id"),
        ("a.csv", "id,text\n1,x,y\n", "a.csv:2: 3 cells; expected 2"),
        ("a.csv", "id,text\n,x\n", "a.csv:2: empty document id"),
        ("a.csv", "id,text\na b,x\n", "a.csv:2: the document id 'a b' contains whitespace"),
        ("a.csv", b"id,text\n1,\xe9\n", "a.csv:2: the byte 0xe9 is not valid UTF-8"),
        ("a.csv", 'id,text\n1,"x\n', "a.csv:2: a quotation mark is never closed"),
        ("a.json", "[1]", "a.json: item 1 of the array is 1; expected an object"),
        ("a.json", "[{]", "a.json:1: invalid JSON"),
        ("a.json", '[{"text": "x"}]', "a.json:1: document without an id"),
        ("a.jsonl", '{"name": "x"}\n', "its keys: 'name'"),
        ("a.txt", "hello\n", "unknown document format, its first line is 'hello'; expected CSV with a header"),
        ("a.parquet", b"PAR1xx", "not a complete parquet file"),
    ],
)
def test_documents_that_are_refused(tmp_path, name, content, message):
    with pytest.raises(InputError) as caught:
        list(read_documents(put(tmp_path, content, name)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_bytes_are_replaced_on_request(tmp_path):
    path = put(tmp_path, b"id,text\n1,\xe9\n", "a.csv")
    with pytest.warns(UserWarning, match="replaced bytes that are not UTF-8 in 1 document"):
        assert dict(read_documents(path, errors="replace")) == {"1": {"text": "\ufffd"}}


QUERIES = {"1": "red dress", "2": "what, now"}
QUERY_FORMS = {
    "a.csv": 'id,text\n1,red dress\n2,"what, now"\n',
    "b.csv": '\ufeffquery_id;category;Query Text\r\n1;x;red  dress\r\n2;y;"what, now"\r\n',
    "a.tsv": "1\tred dress\n2\twhat, now\n",
    "b.tsv": "id\ttext\n1\tred dress\n2\twhat, now\n",
    "c.tsv": "qid\tuser\tquery\n1\tu\tred dress\n2\tv\twhat, now\n",
    "a.json": json.dumps([{"qid": 1, "query": "red dress"}, {"qid": 2, "query": "what, now"}]),
    "a.jsonl": '{"_id": "1", "text": "red dress"}\n{"_id": "2", "text": "what, now"}\n',
}


@pytest.mark.parametrize("name", QUERY_FORMS)
def test_queries(tmp_path, name):
    assert dict(read_queries(put(tmp_path, QUERY_FORMS[name], name))) == QUERIES


def test_queries_of_parquet(tmp_path):
    pandas.DataFrame({"qid": [1, 2], "query": list(QUERIES.values())}).to_parquet(tmp_path / "a.parquet")
    assert dict(read_queries(tmp_path / "a.parquet")) == QUERIES


@pytest.mark.parametrize(
    "text",
    [
        "query\nred dress\nshoes\n",
        "query,docid,rating\nred dress,d1,3\nred dress,d2,0\nshoes,d1,1\n",
        '[{"text": "red dress"}, {"text": "shoes"}, {"text": "shoes"}]',
    ],
)
def test_queries_without_ids(tmp_path, text):
    assert dict(read_queries(put(tmp_path, text))) == {"red_dress": "red dress", "shoes": "shoes"}


def test_queries_of_judgements_with_ids(tmp_path):
    path = put(tmp_path, "qid,query,docid,rating\n1,red,d1,1\n1,red,d2,0\n2,blue,d1,1\n")
    assert dict(read_queries(path)) == {"1": "red", "2": "blue"}
    letor = put(tmp_path, "3 qid:7 # 7555 rambo\n0 qid:7 # 1370 rambo\n", "b")
    assert dict(read_queries(letor)) == {"7": "rambo"}
    with pytest.raises(InputError, match="LETOR lines whose comments do not name queries"):
        read_queries(put(tmp_path, "3 qid:7 1:2\n", "c"))


def test_a_first_line_of_text_is_not_a_header(tmp_path):
    assert dict(read_queries(put(tmp_path, "q1\tred, or blue, query\nq2\ttitle\n")))["q1"] == "red, or blue, query"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,text\n1,a\n1,b\n", "a:3: duplicate query '1' (first on line 2)"),
        ("id,price\n1,2\n", "no tab in 'id,price'; expected id, tab and text, or a header line"),
        ("id,text\n", "contains no queries"),
        ("id,text\n1\n", "a:2: the text of a query is None"),
        ('[{"name": "x"}]', "a:1: has the columns 'name'; expected one for the query"),
    ],
)
def test_queries_that_are_refused(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read_queries(put(tmp_path, text))
    assert message in str(caught.value)


def test_named_columns_of_queries(tmp_path):
    path = put(tmp_path, "nr,words\n1,red\n")
    assert dict(read_queries(path, columns={"qid": "nr", "query": "words"})) == {"1": "red"}
    with pytest.raises(InputError, match="no column 'word', named for query; its columns: 'nr', 'words'"):
        read_queries(path, columns={"query": "word"})
