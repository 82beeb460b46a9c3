"""Compiled code reads the same from a table as the reader of rows, or leaves it to that reader."""

import gzip
import random

import numba  # noqa: F401 - as in a process that has loaded it, where small files are read by compiled code, too
import numpy as np
import pytest

from rankwright import InputError
from rankwright.io import csv
from rankwright.io.csv import read_csv

NEVER = 1 << 60


@pytest.fixture
def both(tmp_path, monkeypatch):
    """What the two readers make of a text, and whether compiled code could read it."""
    path = tmp_path / "t.csv"
    quick = []
    inner = csv._read_quickly

    def seen(*arguments):
        quick.append(inner(*arguments))
        return quick[-1]

    monkeypatch.setattr(csv, "_read_quickly", seen)
    monkeypatch.setattr(csv, "_CHUNK_BYTES", 64)
    monkeypatch.setattr(csv, "HEADER_BYTES", 8)

    def read(text, **options):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        results = []
        for least in (0, NEVER):
            monkeypatch.setattr(csv, "_LARGE_IF_LOADED", least)
            try:
                results.append(read_csv(path, **options))
            except InputError as error:
                results.append(str(error))
        return *results, quick[-1] is not None

    return read


def same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    np.testing.assert_array_equal(one.X, other.X)
    assert one.X.dtype == other.X.dtype
    assert one.labels.tolist() == other.labels.tolist()
    assert one.qid.tolist() == other.qid.tolist()
    assert (one.doc_ids is None) == (other.doc_ids is None)
    assert one.doc_ids is None or one.doc_ids.tolist() == other.doc_ids.tolist()
    assert (one.feature_names, one.categories) == (other.feature_names, other.categories)


PLAIN = {
    "numbers": "qid,label,x,y\n" + "".join(f"q{n // 7},{n % 3},{n / 7},{-n}e-3\n" for n in range(200)),
    "missing": "qid,label,x\nq,1,\nq,0,NA\nq,2,nan\nq,0, \nq,0,None\nq,0,-.5e1\n",
    "texts": "qid,label,docid,c,x\n" + "".join(f"q,1,d{n},{'ab'[n % 2]}{n % 5},{n}\n" for n in range(60)),
    "late texts": "qid,label,c,x\n" + "q,1,,3\n" * 40 + "q,1,red,4\nq,0, red ,5\nq,0,blue,6\n" * 20,
    "quotes": 'qid;label;c;x\n"a; ""b""\r\nc";1;"x\ny";"3.5"\n"d" ;0;z" ;"" \n',
    "windows": "qid,label,x\r\n\r\nq,1,2\r\n,,\r\nq,0,3\r\n",
    "mark": "\ufeffqid,label,x\nq,1,2\n",
    "no end": "qid\tlabel\tx\nq\t1\t2\nr\t0\t3",
    "unicode": "qid,label,docid,x\nö,1,d\u00a0,2\nö,0,日本,3\n",
    "digits": "qid,label,x\nq,1,0.1234567890123456789\nq,0,1e-320\nq,1,true\nq,2,FALSE\nq,1,12345678901234567890123\n",
    "skipped": 'qid,label,title,x\nq,1,"long, ""text""\n\nof lines",2\nq,0,,3\n',
    "header of lines": '"qid",label,"a\nb"\nq,1,2\nq,1,3\n',
    "blanks": "qid,label,x\n q , 1 ,\t2\t\n q, 0,3 \n",
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_tables_are_read_by_compiled_code(both, name):
    fast, slow, was_quick = both(PLAIN[name])
    assert was_quick
    assert not isinstance(slow, str)
    same(fast, slow)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid,label,x\nq,1,2\nq,1\n", "t.csv:3: 2 cells; expected 3"),
        ("qid,label,x\nq,1,2,3\n", "t.csv:2: 4 cells; expected 3"),
        ("qid,label,x\nq,1,2\n   \n", "t.csv:3: 1 cell; expected 3"),
        ('qid,label,x\nq,1,"2\n', "t.csv:2: a quotation mark is never closed"),
        ('qid,label,x\nq,1,"2" a\n', "t.csv:2: ' a' after a quotation mark"),
        ("qid,label,x\nq,1,2\nq,,2\n", "t.csv:3: label is missing"),
        ("qid,label,x\nq,1,2\nq,-1,2\n", "t.csv:3: label is negative"),
        ("qid,label,x\nq,1,2\n,1,2\n", "t.csv:3: the column 'qid' is empty"),
        ("qid,label,x\nq,1,2\nq,1,red\n", "t.csv:3: x is 'red', and '2' on line 2"),
        ("qid,label,x\nq,1,red\nq,1,2\n", "t.csv:3: x is '2', and 'red'"),
        ("qid,label,x\nq,1,1e39\n", "t.csv:2: x is 1e+39; expected a number that fits float32"),
        ("qid,label,x\nq,1,inf\n", "t.csv:2: x is 'inf'; expected a finite number"),
        ("qid,label,x\nq,1,1_000\nq,0,1\n", "t.csv:3: x is '1', and '1_000'"),
        ("qid;label;x\nq;1;1,5\nq;0;2.5\n", "t.csv:2: x is '1,5', and x is '2.5' on line 3; expected one decimal mark"),
        (b"qid,label,x\nq,1,2\n\xff,1,2\n", "t.csv:3: byte 0xff is not valid UTF-8"),
        (b"qid,label,x\nq,1,2\nq\0,1,2\n", "t.csv:3: is not a text file"),
        ("qid,label,x\n" + "q" * 5000 + ",1,2\n", "t.csv:2: the column 'qid' has an id of 5,000 characters"),
        ("qid,label,x\n\n", "t.csv: has no rows after its header"),
    ],
)
def test_the_same_mistakes_with_the_same_lines(both, text, message):
    fast, slow, was_quick = both(text)
    assert message in slow
    assert fast == slow
    assert not was_quick


def test_a_mistake_after_many_chunks(both):
    fast, slow, _ = both("qid,label,x\n" + "q,1,2\n" * 500 + "q,1,x\n" + "q,1,2\n" * 500)
    assert fast == slow
    assert "t.csv:502: x is 'x'" in fast


CELLS = [
    "1",
    "2.5",
    "-3e2",
    "",
    " ",
    "NA",
    "true",
    "red",
    '"a, b"',
    '"x""y"',
    '"1"',
    '"p\nq"',
    "é",
    '5"',
    " 7 ",
    '""',
    "inf",
]


@pytest.mark.parametrize("seed", range(60))
def test_random_tables(both, seed):
    """Whatever stands in a table, both readers agree on the data or on the mistake."""
    rng = random.Random(seed)
    of_columns = [rng.sample(CELLS, rng.randint(1, 4)) for _ in range(3)]
    end = rng.choice(["\n", "\r\n"])
    rows = []
    for n in range(rng.randint(1, 40)):
        cells = [rng.choice(["q", "r ", '"s, t"']), rng.choice("0123"), *(rng.choice(column) for column in of_columns)]
        rows.append(",".join(cells[: rng.choice([3, 4, 6]) if n > 30 and rng.random() < 0.03 else 5]))
        if rng.random() < 0.1:
            rows.append(rng.choice(["", ",,,,", '"",,,,']))
    text = end.join(["qid,label,x,y,z", *rows]) + rng.choice(["", end])
    columns = rng.choice([None, None, {"categorical": "y"}, {"skip": "x"}])
    fast, slow, was_quick = both(text, columns=columns, dtype=rng.choice([None, np.float64]))
    same(fast, slow)
    assert was_quick or isinstance(slow, str)


def test_gzip(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(PLAIN["texts"].encode()))
    slow = read_csv(path)
    monkeypatch.setattr(csv, "_LARGE_IF_LOADED", 0)
    same(read_csv(path), slow)
