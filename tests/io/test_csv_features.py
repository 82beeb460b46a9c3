"""Feature data from tables in text: roles of columns, types, missing values, errors; the same data as from pandas."""

import gzip

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright import InputError, from_frame, read_data
from rankwright.errors import InputWarning
from rankwright.io.csv import read_csv
from rankwright.io.detect import detect
from rankwright.io.roles import feature_layout, parse_columns

GOOD = "query_id,Doc ID,grade,bm25,price\nq1,d1,2,7.5,10\nq2,d1,0,3,-1e3\nq1,d2,1,.5,0\n"


def put(folder, content, name="a.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_table(tmp_path):
    path = put(tmp_path, GOOD)
    data = read_data(path)
    assert detect(path) == "csv"
    assert (data.feature_names, data.X.dtype) == (("bm25", "price"), np.float32)
    assert data.query_ids.tolist() == ["q1", "q2"]
    assert data.doc_ids.tolist() == ["d1", "d2", "d1"]
    assert data.labels.tolist() == [2, 1, 0]
    assert data.X.tolist() == [[7.5, 10], [0.5, 0], [3, -1000]]
    assert read_data(path, dtype="float64").X.dtype == np.float64


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", "\t"),
        lambda text: text.replace("d1", '"d1"'),
        lambda text: text + "\n\n",
        lambda text: text.rstrip(),
        lambda text: gzip.compress(text.encode()),
        lambda text: text.replace("query_id", "QID").replace("grade", "Rating"),
        lambda text: text.replace("-1e3", " -1e3 "),
    ],
)
def test_other_ways_to_write_it(tmp_path, change):
    same, other = read_data(put(tmp_path, GOOD)), read_data(put(tmp_path, change(GOOD), "b"))
    assert np.array_equal(same.X, other.X)
    assert (same.qid.tolist(), same.doc_ids.tolist()) == (other.qid.tolist(), other.doc_ids.tolist())


def test_the_same_as_from_a_frame(tmp_path):
    text = "qid,docid,label,a,colour\n" + "".join(
        f"q{n % 7},d{n},{n % 3},{n / 8},{('red', 'green', '')[n % 3]}\n" for n in range(90)
    )
    path = put(tmp_path, text)
    ours, theirs = read_data(path), from_frame(pandas.read_csv(path))
    assert np.array_equal(ours.X, theirs.X)
    assert {k: set(v) for k, v in ours.categories.items()} == {k: set(v) for k, v in theirs.categories.items()}
    assert ours.qid.tolist() == theirs.qid.tolist()
    with pytest.raises(InputError, match="float32 cannot hold the categories of 'colour'"):
        read_data(path, dtype="float32")


def test_missing_cells(tmp_path):
    data = read_data(put(tmp_path, "qid,label,a,b\n1,1,,x\n1,0,NA,\n2,1,3,n/a\n2,0,NaN,y\n"))
    assert np.isnan(data.X[:, 0]).tolist() == [True, True, False, True]
    assert data.categories[1] == ("x", "y")


def test_truth_values(tmp_path):
    assert read_data(put(tmp_path, "qid,label,new\n1,1,True\n1,0,false\n")).X.tolist() == [[1], [0]]


def test_skipped_and_named_columns(tmp_path):
    path = put(tmp_path, ",search,stars,title,size,x\n0,a b,3,Some title,M,1\n1,a b,0,Other,42,2\n")
    columns = parse_columns("qid=search,label=stars,categorical=size")
    data = read_data(path, columns=columns)
    assert data.feature_names == ("size", "x")
    assert data.categories[0] == ("M", "42")
    assert data.query_ids.tolist() == ["a b"]
    layout = feature_layout(["", "search", "stars", "title", "size", "x"], columns)
    assert str(layout) == "queries 'search', labels 'stars', 2 features; skipped '', 'title'"
    assert read_data(path, columns=parse_columns("qid=search,label=stars,skip=size")).feature_names == ("x",)


HEAD = "qid,label,x\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "a.csv: has no rows after its header"),
        (HEAD + "1,1\n", "a.csv:2: 2 cells; expected 3, as in the header"),
        (HEAD + "1,1,2,3\n", "a.csv:2: 4 cells; expected 3"),
        (HEAD + "1,,2\n", "a.csv:2: label is missing; expected a label in every row"),
        (HEAD + "1,1,2\n\n1,-1,2\n", "a.csv:4: label is negative; expected a number of at least 0"),
        (HEAD + "1,good,2\n", "label has words ('good'); expected labels that are numbers, such as 0 to 4, or name"),
        (HEAD + ",1,2\n", "a.csv:2: the column 'qid' is empty"),
        (HEAD + "1,1,2\n1,0,cheap\n", "a.csv:3: x is 'cheap', and '2' on line 2; expected only numbers"),
        (HEAD + "1,1,cheap\n1,0,2\n", "a.csv:3: x is '2', and 'cheap'; expected only numbers"),
        ('qid,label,x\n1,1,"1,5"\n', "a.csv:2: x is '1,5'; expected a plain number with a decimal point"),
        ("qid;label;x\n1;1;1.000,5\n", "a.csv:2: x is '1.000,5'; expected a plain number"),
        ("qid;label;x;y\n1;1;1,5;2\n1;1;2;0.5\n", "a.csv:2: x is '1,5', and y is '0.5' on line 3; expected one"),
        (HEAD + '1,1,"1,234.5"\n', "a.csv:2: x is '1,234.5'; expected a plain number"),
        (HEAD + "1,1,12%\n", "x is '12%'; expected a plain number"),
        (HEAD + "1,1,$3\n", "x is '$3'; expected a plain number"),
        (HEAD + "1,1,1_000\n1,0,2\n", "x is '2', and '1_000'"),
        (HEAD + "1,1,inf\n", "a.csv:2: x is 'inf'; expected a finite number"),
        (HEAD + "1,1,1\n1,1,1e300\n", "a.csv:3: x is 1e+300; expected a number that fits float32"),
        ("qid,label,x,x\n1,1,1,1\n", "a.csv:1: 2 columns are called 'x'"),
        ("qid,label\n1,1\n", "has the columns 'qid', 'label'; expected a header with columns for queries"),
        ("a,b,c\n1,2,3\n", "a.csv:1: has the columns 'a', 'b', 'c'; expected a header"),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        read_data(put(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_negative_labels_as_zero(tmp_path):
    assert read_data(put(tmp_path, HEAD + "1,-1,2\n1,1,3\n"), negative="zero").labels.tolist() == [0, 1]


def test_columns_that_are_not_there(tmp_path):
    path = put(tmp_path, GOOD)
    with pytest.raises(InputError, match=r"a.csv:1: no column 'stars', named for label; its columns: 'query_id'"):
        read_data(path, columns={"label": "stars"})
    with pytest.raises(InputError, match=r"a.csv:1: no column 'stars'"):
        read_csv(path, columns={"label": "stars"})
    with pytest.raises(InputError, match="has no columns to name"):
        read_data(put(tmp_path, "1 qid:1 1:2\n", "b.txt"), columns={"label": "x"})


@pytest.mark.parametrize("text", ["label", "label=", "colour=x", "label=a,label=b", ""])
def test_bad_columns_options(text):
    with pytest.raises(InputError, match="--columns"):
        parse_columns(text)


def test_a_different_text_in_every_row_is_told(tmp_path):
    path = put(tmp_path, "qid,label,sku\n" + "".join(f"1,{n % 2},s{n}\n" for n in range(60)))
    with pytest.warns(InputWarning, match="the column 'sku' has another text in every row"):
        read_data(path)


def test_batches_do_not_matter(tmp_path, monkeypatch):
    path = put(tmp_path, "qid,label,x,c\n" + "".join(f"{n // 3},{n % 3},{n},t{n % 4}\n" for n in range(50)))
    whole = read_data(path)
    monkeypatch.setattr("rankwright.io.csv._BATCH_ROWS", 7)
    parts = read_data(path)
    assert np.array_equal(whole.X, parts.X)
    assert whole.categories == parts.categories
    (tmp_path / "b.csv").write_text(path.read_text() + "9,-1,2,t1\n")
    with pytest.raises(InputError, match=r"b.csv:52: label is negative"):
        read_data(tmp_path / "b.csv")


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4), numbers, numbers), min_size=1, max_size=20))
def test_a_round_trip(tmp_path_factory, rows):
    frame = pandas.DataFrame(rows, columns=["qid", "label", "x y", "z,w"])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    frame.to_csv(path, index=False)
    data = read_csv(path, dtype="float64")
    order = np.arange(len(rows)) if data.rows is None else data.rows
    assert data.feature_names == ("x y", "z,w")
    assert np.array_equal(data.X, frame[["x y", "z,w"]].to_numpy(np.float64)[order])
    assert data.qid.tolist() == frame["qid"].to_numpy()[order].tolist()


def test_a_byte_order_mark_before_other_text(tmp_path):
    mark = b"\xef\xbb\xbf"
    assert read_data(put(tmp_path, mark + b"1 qid:1 1:2\n0 qid:1 1:3\n", "l.txt")).n_docs == 2
    assert detect(put(tmp_path, mark + b"1 0 d 1\n", "q.txt")) == "qrels"
