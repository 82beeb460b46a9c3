"""Numbers of documents on the command line: from documents and tables to features, a model and search."""

import json
import math

import numpy as np
import pytest
from toy_documents import files_of
from toy_shop import DOCUMENTS, NUMBERS, same

from rankwright import Index, load_model, read_data
from rankwright.cli.main import main
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model
from rankwright.text.index import IndexChanged

nan = math.nan


@pytest.fixture
def shop(tmp_path, monkeypatch, capsys):
    """A folder with documents, queries, judgements and an index."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in DOCUMENTS))
    (tmp_path / "q.tsv").write_text("1\tlift of wings\n2\theat\n3\twing elevator\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n1 0 c 0\n3 0 d 1\n3 0 c 0\n2 0 b 1\n")
    assert main(["index", "docs.jsonl", "-o", "shop.index", "--number", "price, clicks", "--number", "day"]) == 0
    wrote, *notes = capsys.readouterr().err.splitlines()
    assert wrote.startswith("wrote shop.index: 4 documents, 20 tokens, 11 terms, numbers price, clicks, day, ")
    assert notes == [
        "note: 1 of 4 documents has no price",
        "note: 1 of 4 documents has no clicks",
        "note: 1 of 4 documents has no day",
    ]
    return tmp_path


def said(capsys, *command, code=0):
    """What a command says; one line if it fails."""
    assert main(list(command)) == code
    found = capsys.readouterr()
    assert code == 0 or len(found.err.splitlines()) == 1
    return found.out + found.err


def test_info_lists_the_numbers(shop, capsys):
    assert "numbers        price, clicks, day" in said(capsys, "info", "shop.index")
    assert json.loads(said(capsys, "info", "shop.index", "--json"))["numbers"] == ["price", "clicks", "day"]


def test_numbers_are_set_and_what_happened_is_said(shop, capsys):
    (shop / "t.csv").write_text("id,clicks,margin\na,5,1\nc,6,2\nx,1,1\n")
    assert said(capsys, "index", "--set-numbers", "t.csv", "-o", "shop.index").splitlines() == [
        "warning: 1 document is not in the index ('x')",
        "set in shop.index: clicks, margin (new)",
        "note: 2 of 4 documents have no margin",
    ]
    expected = {**NUMBERS, "clicks": [5, 3, 6, -1.5], "margin": [1, nan, 2, nan]}
    same(Index.open("shop.index").numbers, expected)
    (shop / "again.jsonl").write_text('{"id": "a", "clicks": 5}\n')
    assert said(capsys, "index", "--set-numbers", "again.jsonl", "-o", "shop.index").splitlines() == [
        "set in shop.index: nothing: all are as they were"
    ]
    same(Index.open("shop.index").numbers, expected)


def test_another_process_may_change_the_index_meanwhile(shop, capsys, monkeypatch):
    (shop / "t.csv").write_text("id,clicks\na,5\n")
    real, calls = Index.set_numbers, []

    def interrupted(index, numbers):
        calls.append(numbers)
        if len(calls) == 1:
            real(Index.open("shop.index"), {"price": {"a": 1}})
        return real(index, numbers)

    monkeypatch.setattr(Index, "set_numbers", interrupted)
    said(capsys, "index", "--set-numbers", "t.csv", "-o", "shop.index")
    assert len(calls) == 2
    same(Index.open("shop.index").numbers, {**NUMBERS, "price": [1, nan, 1e3, 0], "clicks": [5, 3, nan, -1.5]})
    assert issubclass(IndexChanged, ValueError)


def test_added_documents_bring_their_numbers(shop, capsys):
    (shop / "more.jsonl").write_text('{"id": "e", "text": "wing", "price": "3"}\n')
    said(capsys, "index", "more.jsonl", "-o", "shop.index", "--add")
    assert Index.open("shop.index").numbers["price"].tolist()[-1] == 3


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "docs.jsonl -o new.index --number title",
            "docs.jsonl:1: the number 'title' of document 'a' is 'Wings'; expected",
        ),
        ("docs.jsonl -o new.index --number a[b]", "bad number name 'a[b]'"),
        ("docs.jsonl -o shop.index --add --number price", "--add keeps the settings of the index"),
        ("-o shop.index", "Missing argument 'DOCS...'"),
        ("docs.jsonl -o shop.index --set-numbers t.csv", "--set-numbers changes an index; expected only -o INDEX"),
        ("-o shop.index --set-numbers t.csv --add", "--set-numbers changes an index; expected only -o INDEX"),
        ("-o shop.index --set-numbers no.csv", "no.csv: cannot be read"),
        ("-o no.index --set-numbers t.csv", "no.index: cannot be read"),
        (
            "-o shop.index --set-numbers t.csv",
            "t.csv:3: the number 'price' of document 'b' is 'cheap'; expected a number",
        ),
        ("-o shop.index --set-numbers shop.index", "shop.index: is a folder; expected a table of documents"),
        ("-o docs.jsonl --set-numbers t.csv", "docs.jsonl: not a Rankwright index"),
    ],
)
def test_mistakes_get_one_line_and_change_nothing(shop, capsys, command, message):
    (shop / "t.csv").write_text("id,price\na,1\nb,cheap\n")
    before = files_of(shop / "shop.index")
    assert message in said(capsys, "index", *command.split(), code=2)
    assert files_of(shop / "shop.index") == before
    assert not (shop / "new.index").exists()


def test_from_features_to_search(shop, capsys):
    sets = ["--set", "base", "--set", "numbers"]
    made = ["features", "shop.index", "q.tsv", "--qrels", "qrels.txt", *sets]
    said(capsys, *made, "-o", "f.rank")
    data = read_data("f.rank")
    assert data.feature_names[-3:] == ("price", "clicks", "day")
    index = Index.open("shop.index")
    for row, doc_id in zip(data.X, data.doc_ids.tolist(), strict=True):
        expected = [index.numbers[name][index.find(doc_id)] for name in ("price", "clicks", "day")]
        np.testing.assert_array_equal(row[-3:], np.float32(expected))
    wanted = "f.txt: the number 'price' is missing in 3 of 9 rows; expected a folder (.rank), .parquet or .csv"
    assert wanted in said(capsys, *made, "-o", "f.txt", code=2)
    assert not (shop / "f.txt").exists()
    for target in ("f.parquet", "f.csv"):
        said(capsys, *made, "-o", target)
        assert np.array_equal(read_data(target).X, data.X, equal_nan=True)
    trees = ["--method", "lambdamart", "--set", "n_trees=3", "--set", "min_rows=1"]
    said(capsys, "train", "f.rank", *trees, "-o", "trees.rkw")
    said(capsys, "rank", "trees.rkw", "f.rank", "-o", "rank.run")
    said(capsys, "search", "shop.index", "q.tsv", "--model", "trees.rkw", "-o", "search.run")
    ranked, found = ((shop / name).read_text().split("\n") for name in ("rank.run", "search.run"))
    assert [line.split()[:5] for line in ranked if line] == [line.split()[:5] for line in found if line]
    assert len({line.split()[4] for line in found if line}) > 1


def test_filled_numbers_go_to_text_and_to_linear_models(shop, capsys):
    features = ["--feature", "bm25[plain]", "--feature", "price(missing=0)", "--feature", "clicks(missing=-1)"]
    said(capsys, "features", "shop.index", "q.tsv", "--qrels", "qrels.txt", *features, "-o", "f.txt")
    data = read_data("f.txt")
    assert data.feature_names == ("bm25[plain]", "price(missing=0)", "clicks(missing=-1)")
    save_model(LinearModel([1.0, 0.01, 0.1], data.feature_names), "m.rkw", method="test", parameters={})
    said(capsys, "search", "shop.index", "q.tsv", "--model", "m.rkw", "-o", "search.run")
    scores = load_model("m.rkw").predict(data)
    queries = np.repeat(data.query_ids, data.sizes).tolist()
    expected = dict(zip(zip(queries, data.doc_ids.tolist(), strict=True), scores, strict=True))
    rows = [line.split() for line in (shop / "search.run").read_text().splitlines()]
    found = {(row[0], row[2]): float(row[4]) for row in rows}
    assert found == pytest.approx(expected)
    save_model(LinearModel([1.0, 1.0], ["bm25[plain]", "price"]), "m.rkw", method="test", parameters={})
    wanted = "m.rkw: 1 of 4 documents has no number 'price', which this model cannot score; expected a number for each"
    assert wanted in said(capsys, "search", "shop.index", "heat", "--model", "m.rkw", code=2)


def test_tables_are_given_to_features_and_search_alike(shop, capsys):
    (shop / "t.tsv").write_text("id\tyear\na\t1\nb\t2\nc\t300\nd\t4\n")
    save_model(LinearModel([0.0, 1.0], ["bm25[plain]", "doc:year"]), "m.rkw", method="test", parameters={})
    search = ["search", "shop.index", "lift of wing", "--json"]
    assert "the index lacks 1 of the model's 2 features" in said(capsys, *search, "--model", "m.rkw", code=2)
    found = json.loads(said(capsys, *search, "--model", "m.rkw", "--table", "t.tsv"))
    assert [one["id"] for one in found["results"]] == ["c", "d", "b", "a"]
    assert "--table holds features of a model" in said(capsys, *search, "--table", "t.tsv", code=2)


def test_an_index_without_numbers_has_no_such_set(shop, capsys):
    said(capsys, "index", "docs.jsonl", "-o", "plain.index", "--fields", "text")
    wanted = "plain.index: has no numbers; expected some"
    assert wanted in said(capsys, "features", "plain.index", "q.tsv", "--set", "numbers", "-o", "f.rank", code=2)
