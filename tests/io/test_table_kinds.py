"""Features or judgements: what a table is taken for."""

import pytest

from rankwright import read_data, read_qrels
from rankwright.errors import InputError
from rankwright.io.detect import detected, table_kind
from rankwright.io.roles import feature_layout
from rankwright.io.trec import judgement_layout

HEADER = "query_id,docid,grade"


def kind(tmp_path, text, columns=None):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with detected(path, columns) as found:
        return found.kind, found.doubt


@pytest.mark.parametrize(
    ("more", "cells"),
    [
        ("page", "http://x/1"),
        ("remark", "2"),  # one number among texts
        ("remark", '"so, it ""is"""'),
        ("position", "7"),
        ("Judge ID", "12"),
        ("remark,rank,page", "fine,3,http://x"),
        ("empty", ""),
        ("empty", "n/a"),
    ],
)
def test_texts_and_positions_beside_grades_are_judgements(tmp_path, more, cells):
    n = more.count(",")
    rows = [
        f"q{i},d{i},{i % 2}," + (cells if i == 3 else cells if more != "remark" else "not so bad") for i in range(9)
    ]
    found, _ = kind(tmp_path, "\n".join([f"{HEADER},{more}", *rows]))
    assert found == "qrels"
    table = read_qrels(tmp_path / "table.csv")
    assert table.n_docs == 9
    assert table.layout.startswith("queries 'query_id', documents 'docid', grades 'grade'; skipped ")
    assert table.layout.count("'") == 6 + 2 * (n + 1)


def test_numbers_are_features(tmp_path):
    assert kind(tmp_path, f"{HEADER},bm25,price\nq1,d1,2,0.5,3\nq1,d2,0,,4\n") == ("csv", "")


def test_a_stray_word_in_a_column_of_numbers_is_reported(tmp_path):
    text = "\n".join([f"{HEADER},bm25", "q1,d1,2,0.5", "q1,d2,2,0.5", "q1,d3,2,x"])
    assert kind(tmp_path, text)[0] == "csv"
    with pytest.raises(InputError, match=r"table.csv:4: bm25 is 'x', and '0.5' on line 2"):
        read_data(tmp_path / "table.csv")


@pytest.mark.parametrize("more", ["", "I am not so sure"])
def test_what_could_be_either_says_so(tmp_path, more):
    text = f"{HEADER},sure,why,page\nq1,d1,2,0.5,{more},a\n"
    found, doubt = kind(tmp_path, text)
    assert found == "csv"
    assert doubt == "taken for features, as 'sure' holds numbers; for judgements, use --columns skip=sure"
    assert kind(tmp_path, text, {"skip": "sure"})[0] == "qrels"


def test_what_is_judgements_can_be_features(tmp_path):
    text = f"{HEADER},rank,colour\nq1,d1,2,1,red\nq1,d2,0,2,blue\n"
    assert kind(tmp_path, text)[0] == "qrels"
    with pytest.raises(InputError, match="to take 'rank', 'colour' for features, use --columns feature=NAME or"):
        read_data(tmp_path / "table.csv")
    data = read_data(tmp_path / "table.csv", columns={"feature": "rank"})
    assert (data.feature_names, data.X.tolist()) == (("rank",), [[1.0], [2.0]])
    assert read_data(tmp_path / "table.csv", columns={"categorical": "colour"}).n_features == 2
    both = read_data(tmp_path / "table.csv", columns={"feature": "rank", "categorical": "colour"})
    assert both.feature_names == ("rank", "colour")


def test_named_features_are_the_only_ones():
    names = ["qid", "label", "a", "b", "title"]
    assert feature_layout(names, {"feature": "b\ntitle"}).features == ["b", "title"]
    assert feature_layout(names, {"feature": "b"}).skipped == ["a", "title"]
    assert feature_layout(names, {"feature": "a", "skip": "a"}) is None


def test_a_header_alone_says_that_rows_are_missing(tmp_path):
    assert kind(tmp_path, f"{HEADER},bm25\n")[0] == "csv"
    with pytest.raises(InputError, match="has no rows after its header"):
        read_data(tmp_path / "table.csv")


def test_parquet_by_type(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"query": ["a", "a"], "docid": ["d1", "d2"], "rating": [1, 0], "page": ["x", "y"]}
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table(columns), path)
    with detected(path) as found:
        assert found.kind == "qrels"
    assert read_qrels(path).layout.endswith("skipped 'page'")
    parquet.write_table(arrow.table(columns | {"stars": [2.5, 1.0]}), path)
    with detected(path) as found:
        assert found.kind == "parquet"
    parquet.write_table(arrow.table({"search": ["a"], "doc": ["d"], "stars": [2.5]}), path)
    named = {"query": "search", "label": "stars"}
    with detected(path, named) as found:
        assert found.kind == "qrels"
    assert read_qrels(path, columns=named).values.tolist() == [2.5]


def test_neither():
    assert table_kind(["a", "b"], ["a"]) is None
    assert judgement_layout(["query", "rating"]) is None
