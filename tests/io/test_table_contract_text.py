"""One rule for tables: documents, queries, numbers and click logs are the same in every container, by every name."""

import contextlib
import json
import math
import warnings

import numpy as np
import pytest
from test_table_contract import packed

from rankwright import InputError, build_index, read_clicks, read_queries
from rankwright.cli.main import main
from rankwright.io.roles import DOCUMENT, QUERY_ID, QUERY_TEXT, ROLES
from rankwright.text.documents import read_documents
from rankwright.text.numbers import as_number, read_number_table

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXT = ("csv", "tabs", "semicolons", "gzip", "utf-16", "zip", "xlsx")
CONTAINERS = (*TEXT, "jsonl", "json", "parquet")
FRAMES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.table}
IDS = ["d1", "d2", "NA"]
TITLES = ["A wing", "null", ""]
TEXTS = ["in a slipstream", "heat, lift", "é"]


def cell(value, mark):
    text = "" if value is None else str(value)
    return f'"{text}"' if mark in text or (" " in text and mark != "\t") else text


def put(folder, container, columns):
    """Write a table as a file whose name does not tell what it is."""
    path = folder / f"table-{container}"
    rows = list(zip(*columns.values(), strict=True))
    if container == "parquet":
        parquet.write_table(pyarrow.table(columns), path)
    elif container in ("jsonl", "json"):
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        path.write_text(
            "".join(json.dumps(one) + "\n" for one in objects) if container == "jsonl" else json.dumps(objects)
        )
    else:
        mark = {"tabs": "\t", "semicolons": ";"}.get(container, ",")
        text = "".join(mark.join(cell(value, mark) for value in row) + "\n" for row in [list(columns), *rows])
        path.write_bytes(packed(container, text, [list(columns), *rows]))
    return path


def ways(name):
    """A name as people write it."""
    return name, name.upper().replace("_", " "), name.title().replace("_", "-")


def documents(key="id"):
    return {"title": TITLES, key: IDS, "text": TEXTS}


EXPECTED = {key: {"title": title, "text": text} for key, title, text in zip(IDS, TITLES, TEXTS, strict=True)}
FORMAT = dict.fromkeys(TEXT, "csv")


@pytest.mark.parametrize("container", CONTAINERS)
def test_documents(tmp_path, container):
    for name in ROLES["id"]:
        for written in ways(name):
            path = put(tmp_path, container, documents(written))
            kind = FORMAT.get(container, container)
            assert dict(read_documents(path, format=kind)) == EXPECTED, written
            if container != "tabs":
                assert dict(read_documents(path)) == EXPECTED, written
    path = put(tmp_path, container, documents("sku"))
    assert dict(read_documents(path, format=FORMAT.get(container, container), columns={"id": "sku"})) == EXPECTED


@pytest.mark.parametrize("container", ["python", *FRAMES])
def test_documents_in_memory(tmp_path, container):
    expected = build_index(list(EXPECTED.items()), tmp_path / "expected").ids.data.tobytes()
    for name in (*ROLES["id"], "Item ID"):
        columns = documents(name)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        index = build_index(rows if container == "python" else FRAMES[container](columns), tmp_path / "index")
        assert index.ids.data.tobytes() == expected
        assert [index.text(doc, "text") for doc in range(3)] == TEXTS
        assert [index.text(doc, "title") for doc in range(3)] == TITLES


@pytest.mark.parametrize("container", CONTAINERS)
def test_documents_without_an_id_name_all_that_are_accepted(tmp_path, container):
    path = put(tmp_path, container, documents("sku"))
    with pytest.raises(InputError) as caught:
        list(read_documents(path, format=FORMAT.get(container, container)))
    assert ", ".join(ROLES["id"]) in str(caught.value)
    assert "'title', 'sku', 'text'" in str(caught.value)


def test_numbers_among_documents(tmp_path):
    """Numbers that are asked for are the same, however a container writes them."""
    found = {}
    for container in (*CONTAINERS, *FRAMES):
        columns = {"product_id": ["a", "b", "c"], "text": ["x", "y", "z"], "price": [1.5, None, 3.0]}
        source = FRAMES[container](columns) if container in FRAMES else put(tmp_path, container, columns)
        kind = None if container in FRAMES else FORMAT.get(container, container)
        index = build_index(source, tmp_path / "index", numbers=["price"], format=kind)
        found[container] = index.numbers["price"].tolist()
    assert all(repr(values) == repr([1.5, math.nan, 3.0]) for values in found.values()), found


QUERIES = {"q1": "red dress", "2": "shoes", "NA": "null"}
QUERY_IDS, QUERY_TEXTS = (*QUERY_ID, "id", "_id"), (*QUERY_TEXT, "text", "title")


@pytest.mark.parametrize("container", CONTAINERS)
def test_queries(tmp_path, container):
    def columns(key, text, **more):
        return {key: list(QUERIES), text: list(QUERIES.values()), **more}

    for key in QUERY_IDS:
        for written in ways(key):
            assert dict(read_queries(put(tmp_path, container, columns(written, "query")))) == QUERIES, written
    for text in QUERY_TEXTS:
        for written in ways(text):
            assert dict(read_queries(put(tmp_path, container, columns("qid", written)))) == QUERIES, written
    path = put(tmp_path, container, columns("nr", "words"))
    assert dict(read_queries(path, columns={"qid": "nr", "query": "words"})) == QUERIES
    if container not in TEXT:  # which is `id TAB text`, or none of it
        with pytest.raises(InputError) as caught:
            read_queries(path)
        assert ", ".join(QUERY_TEXTS) in str(caught.value)
    number = {"qid": [1, 2], "query": ["a", "b"]}
    assert dict(read_queries(put(tmp_path, container, number))) == {"1": "a", "2": "b"}


@pytest.mark.parametrize("container", CONTAINERS)
def test_queries_of_judgements(tmp_path, container):
    for name in DOCUMENT:
        if name not in ("id", "_id", "url"):
            columns = {"query": ["a b", "a b", "c"], name: ["d1", "d2", "d1"], "label": [1, 0, 2]}
            assert dict(read_queries(put(tmp_path, container, columns))) == {"a_b": "a b", "c": "c"}, name


NUMBERS = {"price": [1.0, None, 3.5], "clicks": [4, 5, 6]}


@pytest.mark.parametrize("container", CONTAINERS)
def test_tables_of_numbers(tmp_path, container):
    expected = [
        ("a", {"price": 1.0, "clicks": 4.0}),
        ("b", {"price": math.nan, "clicks": 5.0}),
        ("c", {"price": 3.5, "clicks": 6.0}),
    ]
    for name in ROLES["id"]:
        for written in ways(name):
            path = put(tmp_path, container, {**NUMBERS, written: ["a", "b", "c"]})
            found = [
                (doc_id, {name: as_number(value) for name, value in values.items()})
                for doc_id, values, _ in read_number_table(path)
            ]
            assert repr(found) == repr(expected), written


@pytest.mark.parametrize("missing", ["", " NA ", "n/a", "nan", "NULL", "None", None])
def test_missing_numbers_are_the_same_everywhere(tmp_path, missing):
    index = build_index([("a", "x"), ("b", "y")], tmp_path / "index")
    written = {"id": ["a", "b"], "price": ["2", missing]}
    given = {container: put(tmp_path, container, written) for container in CONTAINERS}
    given |= {"pandas": pandas.DataFrame(written), "mapping": {"price": dict(zip("ab", written["price"], strict=True))}}
    for container, numbers in given.items():
        index = index.set_numbers({"price": [9, 9]}).set_numbers(numbers)
        assert repr(index.numbers["price"].tolist()) == repr([2.0, math.nan]), container


def log(**names):
    roles = {"query": ["q", "q", "r"], "docid": ["d1", "d2", "d1"], "position": [1, 2, 1], "clicked": [0, 1, 1]}
    roles |= {"session": ["s", "s", "t"]}
    return {names.get(role, role): values for role, values in roles.items()}


def rows_of(found):
    pairs = zip(found.pair_query[found.pair], found.pair_doc[found.pair], strict=True)
    ids = [(found.query_ids[query], found.doc_ids[document]) for query, document in pairs]
    columns = (found.position.tolist(), found.clicks.tolist(), found.shown.tolist(), found.session.tolist())
    return list(zip(ids, *columns, strict=True))


@pytest.mark.parametrize("container", CONTAINERS)
def test_click_logs(tmp_path, container):
    expected = rows_of(read_clicks(put(tmp_path, "csv", log())))
    assert len(expected) == 3
    accepted = {role: ROLES[role] for role in ("docid", "position", "clicked", "session")}
    accepted |= {"query": (*QUERY_TEXT, *QUERY_ID)}
    for role, names in accepted.items():
        for name in names:
            for written in ways(name):
                more = {"impressions": [1, 1, 1]} if name == "clicks" else {}
                path = put(tmp_path, container, log(**{role: written}) | more)
                assert rows_of(read_clicks(path)) == expected, written
    path = put(tmp_path, container, log(query="term", docid="sku"))
    for role in ("docid", "document"):
        assert rows_of(read_clicks(path, columns={"query": "term", role: "sku"})) == expected
    with pytest.raises(InputError) as caught:
        read_clicks(path)
    assert ", ".join((*QUERY_TEXT, *QUERY_ID)) in str(caught.value)
    assert ", ".join(ROLES["docid"]) in str(caught.value)


def test_the_number_of_an_event_is_no_document(tmp_path):
    for container in CONTAINERS:
        path = put(tmp_path, container, log(docid="url") | {"id": ["1", "2", "3"]})
        assert sorted(set(read_clicks(path).doc_ids)) == ["d1", "d2"]


def said(capsys, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main([str(argument) for argument in arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["item_id", "product_id", "Doc ID"])
def test_commands(tmp_path, capsys, name):
    """`index`, `search`, `features` and `clicks` do the same with a table in every container."""
    found = {}
    for container in ("csv", "gzip", "jsonl", "json", "parquet"):
        folder = tmp_path / container
        folder.mkdir()
        numbers = {"price": ["1.5", "2", "3"]}
        docs = put(folder, container, {name: ["a", "b", "c"], "text": ["red dress", "red shoes", "hat"], **numbers})
        index = folder / "docs.index"
        said(capsys, "index", docs.rename(folder / "docs"), "-o", index, "--number", "price")
        queries = put(folder, container, {"query_id": ["1", "2"], "user query": ["red", "hat"]})
        said(capsys, "search", index, queries.rename(folder / "queries"), "-o", folder / "out.run", "--tag", "t")
        qrels = put(folder, container, {"query_id": ["1", "2"], name: ["a", "c"], "label": [1, 2]})
        options = ["--qrels", qrels, "--feature", "bm25[porter]", "--feature", "price", "-o", folder / "out.txt"]
        said(capsys, "features", index, folder / "queries", *options)
        clicks = put(folder, container, log(docid=name))
        said(capsys, "clicks", clicks, "-o", folder / "qrels.txt", "--min-impressions", "1", "--model", "coec")
        found[container] = [(folder / file).read_text() for file in ("out.run", "out.txt", "qrels.txt")]
    assert all(files == found["csv"] for files in found.values())


def test_an_index_is_the_same_whatever_it_was_read_from(tmp_path):
    columns = {"item_id": IDS, "text": TEXTS}
    found = set()
    for container in (*CONTAINERS, *FRAMES):
        source = FRAMES[container](columns) if container in FRAMES else put(tmp_path, container, columns)
        kind = None if container in FRAMES else FORMAT.get(container, container)
        index = build_index(source, tmp_path / "index", format=kind)
        with contextlib.suppress(AttributeError):
            index.verify()
        view = index.view("porter")
        found.add((index.ids.data.tobytes(), *(np.asarray(array).tobytes() for array in view.arrays)))
    assert len(found) == 1
