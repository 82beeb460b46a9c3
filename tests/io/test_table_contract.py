"""One rule for tables: the same table in every container and under every accepted name gives the same data."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rankwright import InputError, evaluate_run, from_frame, load_folder, read_data, read_qrels, read_queries, read_run
from rankwright.cli.main import main
from rankwright.data.categories import NO_CATEGORY
from rankwright.data.trec_table import TrecTable
from rankwright.io import csv
from rankwright.io.detect import detect
from rankwright.io.partitions import read_manifest
from rankwright.io.roles import CLICKS, ROLES, parse_columns
from rankwright.io.trec import trec_table

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

QUERIES = ["a", "a", "b", "b", "a", "b"]
DOCUMENTS = ["d1", "d2", "d1", "d3", "d4", "d5"]
LABELS = [2, 0, 1, 0, 1, 2]
BM25 = [7.5, None, 0.25, 3.0, -1.5, 2.0]
COLOUR = ["red", "green", "", None, "red", "NA"]
TITLES = ["a red thing", "so it is", "t", "u", "v", "w"]


def table(qid="query_id", docid="doc_id", label="label", **more):
    return {qid: QUERIES, docid: DOCUMENTS, label: LABELS, **more}


FEATURES = {"bm25": BM25, "colour": COLOUR, "title": TITLES}
TEXT = ("csv", "tsv", "semicolons", "gzip", "utf-16", "zip", "xlsx")
JSON = ("jsonl", "json")
FRAMES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.table}


def cell(value):
    return "" if value is None else f'"{value}"' if isinstance(value, str) and " " in value else str(value)


def put(folder, container, columns):
    """A table as a file."""
    path = folder / f"table-{container}"
    rows = list(zip(*columns.values(), strict=True))
    if container == "parquet":
        parquet.write_table(pyarrow.table(columns), path)
    elif container in JSON:
        objects = [dict(zip(columns, row, strict=True)) for row in rows]
        lines = "".join(json.dumps(one) + "\n" for one in objects)
        path.write_text(lines if container == "jsonl" else json.dumps(objects))
    else:
        mark = {"tsv": "\t", "semicolons": ";"}.get(container, ",")
        text = "".join(mark.join(map(cell, row)) + "\n" for row in [list(columns), *rows])
        path.write_bytes(packed(container, text, [list(columns), *rows]))
    return path


def packed(container, text, rows):
    """The bytes of a table in text."""
    if container in ("gzip", "utf-16"):
        return gzip.compress(text.encode()) if container == "gzip" else text.encode("utf-16")
    if container not in ("zip", "xlsx"):
        return text.encode()
    made = io.BytesIO()
    if container == "zip":
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("table.csv", text)
    else:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(made)
    return made.getvalue()


def read_features(folder, container, values, **options):
    if container in FRAMES:
        return from_frame(FRAMES[container](values), **options)
    return read_data(put(folder, container, values), dtype="float64", **options)


def facts(data):
    """What a data set holds, whatever the types of its ids."""
    return (
        [str(query) for query in data.query_ids],
        data.indptr.tolist(),
        None if data.doc_ids is None else [str(document) for document in data.doc_ids],
        data.labels.tolist(),
        data.feature_names,
        {column: set(values) for column, values in data.categories.items()},
        np.where(np.isnan(data.X), -99, data.X).tolist(),
    )


def judged(found):
    rows = zip(np.repeat(found.query_ids, np.diff(found.indptr)).tolist(), found.documents, found.values, strict=True)
    return [(query, document.decode(), float(value)) for query, document, value in rows]


def read_table(folder, container, columns, what):
    if container in FRAMES:
        return trec_table(FRAMES[container](columns), what)
    path = put(folder, container, columns)
    return read_qrels(path) if what == "qrels" else read_run(path)


CONTAINERS = [*TEXT, *JSON, "parquet", *FRAMES]
NAMES = [
    *(("qid", name) for name in (*ROLES["qid"], *ROLES["query"])),
    *(("docid", name) for name in ROLES["docid"]),
    *(("label", name) for name in ROLES["label"]),
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_features_are_the_same_in_every_container(tmp_path, container):
    data = read_features(tmp_path, container, table(**FEATURES))
    assert facts(data) == facts(read_features(tmp_path, "csv", table("qid", "docid", **FEATURES)))
    assert data.feature_names == ("bm25", "colour")  # a title is for people to read
    assert np.isnan(data.X[:, 0]).tolist() == [False, True, False, False, False, False]
    assert data.categories[1] == ("red", "green")


MORE_TITLES = {
    "numbers": [7.5, None, 0.25, 3.0, -1.5, 2.0],
    "truths": [True, False, True, True, False, False],
    "texts": TITLES,
    "numbers first": ["1984", "2001", "7", None, "42", "Ulysses"],
    "a text first": ["Ulysses", "1984", "2001", "", "7", "42"],
    "nothing": [None] * 6,
}


@pytest.mark.parametrize("container", [*CONTAINERS, "compiled"])
@pytest.mark.parametrize("holds", MORE_TITLES)
def test_numbers_under_a_name_for_texts_are_a_feature_in_every_container(tmp_path, monkeypatch, container, holds):
    if container == "compiled":
        monkeypatch.setattr(csv, "_LARGE_IF_LOADED", 0)
        monkeypatch.setattr(csv, "_LARGE", 0)
    is_feature = holds in ("numbers", "truths")
    for name in ("title", "Body", "comment", "judge"):
        columns = table(**{"bm25": BM25, name: MORE_TITLES[holds], "price": LABELS})
        data = read_features(tmp_path, "csv" if container == "compiled" else container, columns)
        assert data.feature_names == (("bm25", name, "price") if is_feature else ("bm25", "price"))
        without = {other: values for other, values in columns.items() if other != name}
        expected = table(bm25=BM25, x=MORE_TITLES[holds], price=LABELS) if is_feature else without
        assert facts(data)[:4] == facts(read_features(tmp_path, "parquet", expected))[:4]
        assert facts(data)[5:] == facts(read_features(tmp_path, "parquet", expected))[5:]


@pytest.mark.parametrize("container", ["csv", "gzip", "parquet"])
def test_what_a_column_called_title_holds_is_said_and_decides_for_partitions_too(tmp_path, capsys, container):
    for values, layout in ((BM25, "2 features"), (TITLES, "1 feature; skipped 'title'")):
        path = put(tmp_path, container, table(price=LABELS, title=values))
        assert main(["convert", str(path), "-o", str(tmp_path / "x.partitions"), "--by-query", "2"]) == 0
        assert main(["convert", str(path), "-o", str(tmp_path / "x.rank")]) == 0
        assert capsys.readouterr().err.count(f"labels 'label', {layout}\n") == 2
        names = load_folder(tmp_path / "x.rank").feature_names
        assert names == (("price", "title") if values is BM25 else ("price",))
        assert tuple(read_manifest(tmp_path / "x.partitions").names) == names


@pytest.mark.parametrize("container", ["csv", "pandas", "parquet"])
def test_a_column_of_numbers_for_people_to_read_can_be_skipped(tmp_path, container):
    columns = table(bm25=BM25, title=LABELS)
    assert read_features(tmp_path, container, columns, columns={"skip": "title"}).feature_names == ("bm25",)
    assert read_features(tmp_path, container, columns, columns={"feature": "title"}).feature_names == ("title",)
    assert read_features(tmp_path, container, columns, columns={"categorical": "title"}).categories.keys() == {1}


@pytest.mark.parametrize("container", ["csv", "pandas", "parquet"])
def test_features_are_the_same_under_every_name(tmp_path, container):
    expected = facts(read_features(tmp_path, "csv", table(**FEATURES)))
    for role, name in NAMES:
        for written in (name, name.upper().replace("_", " ")):
            columns = table(**{role: written}, **FEATURES)
            assert facts(read_features(tmp_path, container, columns)) == expected, written


@pytest.mark.parametrize("container", [*TEXT, *JSON, "parquet", *FRAMES])
def test_judgements_are_the_same_in_every_container_and_under_every_name(tmp_path, container):
    expected = judged(read_qrels(put(tmp_path, "csv", table())))
    assert len(expected) == len(QUERIES)
    for role, name in NAMES:
        found = read_table(tmp_path, container, table(**{role: name}, title=TITLES), "qrels")
        assert judged(found) == expected, name
        if container not in FRAMES:
            assert detect(put(tmp_path, container, table(**{role: name}, title=TITLES))) == "qrels", name


@pytest.mark.parametrize("container", [*TEXT, *JSON, "parquet", *FRAMES])
def test_a_run_is_the_same_in_every_container(tmp_path, container):
    columns = {"item_id": DOCUMENTS, "qid": QUERIES, "score": [0.5, 1.0, 2, 3, -4, 5], "rank": [1, 2, 3, 4, 5, 6]}
    expected = judged(TrecTable.from_columns(QUERIES, DOCUMENTS, columns["score"]))
    assert judged(read_table(tmp_path, container, columns, "run")) == expected
    if container not in FRAMES and container not in JSON:
        assert detect(put(tmp_path, container, columns)) == "run"


@pytest.mark.parametrize("container", CONTAINERS)
def test_queries_named_by_text_and_rows_without_a_rating(tmp_path, container):
    columns = {"query": ["red dress", "red dress", "shoes"], "item_id": ["d1", "d2", "d1"], "grade": [3.0, None, 1.0]}
    with pytest.warns(UserWarning, match="skipped 1 row without a document or a rating"):
        found = read_table(tmp_path, container, columns, "qrels")
    assert judged(found) == [("red_dress", "d1", 3.0), ("shoes", "d1", 1.0)]


@pytest.mark.parametrize("container", CONTAINERS)
def test_columns_named_by_the_user(tmp_path, container):
    columns = {"search": QUERIES, "thing": DOCUMENTS, "stars": LABELS, "a": BM25, "b": LABELS, "c": LABELS}
    named = {"qid": "search", "docid": "thing", "label": "stars", "skip": "b", "categorical": "c"}
    data = read_features(tmp_path, container, columns, columns=named)
    assert data.feature_names == ("a", "c")
    assert data.categories == {1: ("2", "0", "1")}
    assert facts(data) == facts(read_features(tmp_path, "csv", columns, columns=named))
    only = read_features(tmp_path, container, columns, columns={**named, "feature": "b"} | {"skip": "a"})
    assert only.feature_names == ("b", "c")
    with pytest.raises(InputError, match=r"no column 'grades', named for label; its columns: 'search'"):
        read_features(tmp_path, container, columns, columns={**named, "label": "grades"})


@pytest.mark.parametrize("container", ["parquet", *FRAMES])
def test_numbers_taken_for_categories_may_be_missing(tmp_path, container):
    columns = table(a=LABELS, size=[42.0, None, 1.5, 42.0, None, 7.0])
    data = read_features(tmp_path, container, columns, columns={"categorical": "size"})
    text = table(a=LABELS, size=["42", None, "1.5", "42", None, "7"])
    assert facts(data) == facts(read_features(tmp_path, "csv", text, columns={"categorical": "size"}))
    assert (data.X[:, 1] == NO_CATEGORY).sum() == 2
    assert set(data.categories[1]) == {"42", "1.5", "7"}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("missing", ["query_id", "label", "doc_id"])
def test_what_must_be_there_is_an_error_with_its_place(tmp_path, container, missing):
    columns = table(**FEATURES)
    columns[missing] = [*columns[missing][:3], None, *columns[missing][4:]]
    with pytest.raises(InputError) as caught:
        read_features(tmp_path, container, columns)
    place = {"parquet": "row 3 (from 0)", "jsonl": "table-jsonl:4: ", "json": "table-json:4: "}
    place |= dict.fromkeys(FRAMES, "row 3 (from 0)")
    assert missing in str(caught.value)
    assert place.get(container, f"table-{container}:5: ") in str(caught.value)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_table_without_its_columns_lists_every_accepted_name(tmp_path, container):
    for role in ("qid", "label"):
        with pytest.raises(InputError) as caught:
            read_features(tmp_path, container, table(**{role: "other"}, **FEATURES))
        names = (*ROLES["qid"], *ROLES["query"]) if role == "qid" else ROLES["label"]
        assert f"no column for {role} ({', '.join(names)}); --columns {role}=NAME" in str(caught.value)


def test_judgements_and_features_are_told_apart_alike(tmp_path):
    for container in (*TEXT, "parquet"):
        for document in ROLES["docid"]:
            assert detect(put(tmp_path, container, table(docid=document))) == "qrels"
        kind = "parquet" if container == "parquet" else "csv"
        assert detect(put(tmp_path, container, table(docid="item_id", bm25=BM25, price=BM25))) == kind
        assert detect(put(tmp_path, container, table(docid="item_id", title=BM25))) == kind
        assert detect(put(tmp_path, container, table(docid="item_id", title=TITLES))) == "qrels"
        assert detect(put(tmp_path, container, table(docid="item_id", judge=LABELS))) == "qrels"


def test_columns_of_types_that_say_what_they_hold(tmp_path):
    """Declared categories called title or NA stay what their types make of them."""
    land = pandas.Categorical(["NA", "de"] * 3)
    frame = pandas.DataFrame(table(title=land, land=land))
    frame.to_parquet(tmp_path / "a.parquet")
    for data in (from_frame(frame), read_data(tmp_path / "a.parquet")):
        assert data.feature_names == ("title", "land")
        assert set(data.categories[0]) == set(data.categories[1]) == {"NA", "de"}


def test_roles_of_options():
    assert parse_columns("document=item,clicked=tapped", CLICKS) == {"docid": "item", "clicked": "tapped"}
    with pytest.raises(InputError, match="ROLE=NAME, separated by commas, with the roles query, docid, position"):
        parse_columns("label=stars", CLICKS)
    with pytest.raises(InputError, match="with the roles id, title, text, qid"):
        parse_columns("clicked=tapped")


def test_the_documentation_lists_every_name():
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    for role in ("qid", "query", "label", "docid", "score"):
        assert ", ".join(f"`{name}`" for name in ROLES[role]) in text


COMMANDS = {
    "info": lambda data, qrels, run, out: ["info", data, "--json"],
    "convert": lambda data, qrels, run, out: ["convert", data, "-o", out / "x.qrels"],
    "evaluate": lambda data, qrels, run, out: ["evaluate", qrels, run, "-m", "AP", "--json"],
    "compare": lambda data, qrels, run, out: ["compare", qrels, run, run.with_name("other"), "-m", "AP", "--json"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(tmp_path, capsys, command):
    """Commands say the same about a table in every container."""
    said = {}
    numbers = {"bm25": BM25, "price": LABELS}
    for container in ("csv", "gzip", "parquet"):
        folder = tmp_path / container
        folder.mkdir()
        data = put(folder, container, table(docid="item_id", **numbers)).rename(folder / "features")
        qrels = put(folder, container, table(docid="product_id")).rename(folder / "qrels")
        run = put(folder, container, table(label="score", docid="item_id")).rename(folder / "run")
        other = {"topic": QUERIES, "url": DOCUMENTS, "scores": [1, 2, 3, 4, 5, 6]}
        put(folder, container, other).rename(folder / "other")
        assert main([str(one) for one in COMMANDS[command](data, qrels, run, folder)]) == 0
        text = capsys.readouterr().out.replace(str(folder), "")
        if (folder / "x.qrels").exists():
            text += (folder / "x.qrels").read_text()
        said[container] = text.replace('"format": "parquet"', '"format": "csv"')
    assert said["csv"] == said["gzip"] == said["parquet"]


def test_features_of_judgements_in_any_container(tmp_path, capsys):
    documents = {"product_id": sorted(set(DOCUMENTS)), "text": ["a b", "b c", "c a", "a", "b b"]}
    index = str(tmp_path / "docs.index")
    assert main(["index", str(put(tmp_path, "csv", documents)), "-o", index, "--format", "csv"]) == 0
    queries = put(tmp_path, "tsv", {"qid": ["a", "b"], "query": ["a", "b"]})
    written = set()
    for container in ("csv", "gzip", "parquet", "jsonl"):
        qrels = put(tmp_path, container, table(docid="item_id", label="stars"))
        out = tmp_path / f"{container}.txt"
        options = ["--qrels", str(qrels), "-o", str(out), "--columns", "label=stars"]
        assert main(["features", index, str(queries), *options]) == 0
        written.add(out.read_text())
    capsys.readouterr()
    assert len(written) == 1


def test_a_method_that_needs_every_value_says_so(tmp_path, capsys):
    said = set()
    for container in ("csv", "parquet"):
        path = put(tmp_path, container, table(bm25=BM25, price=LABELS))
        assert main(["train", str(path), "--method", "svm-map", "-o", str(tmp_path / "m.rkw")]) == 2
        said.add(capsys.readouterr().err.splitlines()[-1].replace(str(path), "FILE"))
    (line,) = said
    assert "missing" in line


def test_a_model_ranks_the_table_in_any_container(tmp_path, capsys):
    numbers = {"bm25": [1.0, 2, 3, 4, 5, 6], "price": LABELS}
    paths = [put(tmp_path, container, table(docid="item_id", **numbers)) for container in ("csv", "gzip", "parquet")]
    runs = set()
    for trained in paths:
        model = str(tmp_path / f"{trained.name}.rkw")
        assert main(["train", str(trained), "--method", "svm-map", "-o", model]) == 0
        for path in paths:
            assert main(["rank", model, str(path), "-o", str(tmp_path / "out.run")]) == 0
            runs.add((tmp_path / "out.run").read_text())
    capsys.readouterr()
    assert len(runs) == 1


def test_the_five_old_disagreements_are_gone(tmp_path):
    # `query_id,doc_id,label` works as CSV, as Parquet and in from_frame.
    for container in CONTAINERS:
        assert read_features(tmp_path, container, table(bm25=BM25)).n_docs == 6
    # `--columns` works for Parquet.
    columns = {"q": QUERIES, "stars": LABELS, "x": BM25}
    path = put(tmp_path, "parquet", columns)
    assert main(["convert", str(path), "-o", str(tmp_path / "x.rank"), "--columns", "qid=q,label=stars"]) == 0
    # An empty cell is missing everywhere.
    for container in CONTAINERS:
        assert np.isnan(read_features(tmp_path, container, table(x=BM25, y=LABELS)).X[1, 0])
    # `item_id` and `product_id` are documents: judgements stay judgements, queries and evaluation agree.
    for name in ("item_id", "product_id"):
        path = put(tmp_path, "csv", table(qid="query", docid=name))
        assert detect(path) == "qrels"
        run = FRAMES["pandas"]({"query": QUERIES, name: DOCUMENTS, "score": LABELS})
        assert evaluate_run(path, run, ["AP"]).means["AP"] == 1.0
    # The message names every name that is accepted.
    with pytest.raises(InputError, match=r"docid \(docid, doc_id, .*product_id, item_id, .*, url\)"):
        read_qrels(put(tmp_path, "csv", {"query": QUERIES, "thing": DOCUMENTS, "label": LABELS}))
    assert read_queries(put(tmp_path, "csv", {"query": ["a", "b"]})).ids == ("a", "b")
