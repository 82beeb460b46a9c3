"""How numbers of documents are written, and tables of them."""

import datetime
import gzip
import json
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.errors import InputError
from rankwright.text.contents import checked_number_names
from rankwright.text.numbers import LARGEST, as_number, read_number_table

FLOATS = st.floats(allow_nan=False, min_value=-LARGEST, max_value=LARGEST)
EPOCH = datetime.date(1970, 1, 1)


@given(FLOATS, st.sampled_from(["{!r}", " {!r}\t", "{:+.17e}", "{:.17E}"]))
def test_numbers_are_read_back_exactly(number, form):
    assert as_number(form.format(number)) == number
    assert as_number(number) == number
    assert as_number(json.loads(json.dumps(number))) == number


@given(st.integers(-(10**30), 10**30))
def test_integers_are_read_as_floats(number):
    assert as_number(str(number)) == as_number(number) == float(number)


@given(st.dates())
def test_dates_are_days_since_1970(day):
    expected = (day - EPOCH).days
    assert as_number(day.isoformat()) == as_number(day) == expected
    assert as_number(f"{day.isoformat()}T12:00:00Z") == expected + 0.5
    assert np.float32(expected) == expected  # no day is lost in single precision


@given(st.datetimes(timezones=st.just(datetime.UTC) | st.just(datetime.timezone(datetime.timedelta(hours=5)))))
def test_times_are_parts_of_days(moment):
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    expected = (moment - start).total_seconds() / 86400
    assert as_number(moment.isoformat()) == pytest.approx(expected, abs=1e-9)
    assert as_number(moment.isoformat().replace("T", " ")) == as_number(moment)


@settings(max_examples=300)
@given(st.text(max_size=12) | st.text("0123456789+-.eE_naif ", max_size=8))
def test_other_text_is_refused_in_one_line(text):
    try:
        number = as_number(text)
    except InputError as error:
        message = error.message
    else:
        message = None
    if message is not None:
        assert message.startswith("is ")
        assert "\n" not in message
    elif math.isnan(number):
        assert text.strip().lower() in ("", "nan", "na", "n/a", "null", "none")
    else:
        assert number == float(text)


@pytest.mark.parametrize("value", [None, "", "  ", "nan", "NaN", "NA", "null", math.nan, np.float32("nan")])
def test_missing_numbers(value):
    assert math.isnan(as_number(value))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1),
        (False, 0),
        (np.int8(3), 3),
        (np.bool_(True), 1),
        ("-0", 0),
        (".5", 0.5),
        (Decimal("0.5"), 0.5),
        ("5.", 5),
        ("1e-3", 0.001),
    ],
)
def test_other_forms(value, number):
    assert as_number(value) == number


@pytest.mark.parametrize(
    "value",
    ["cheap", "1,000", "1_000", "$5", "5 %", "0x10", "inf", "-Infinity", "١٢", "2024-13-01", "2024-05", "2024-02-30",
     "2024-05-31Tx", [1], {"a": 1}, b"1", 1j],
)  # fmt: skip
def test_what_is_not_a_number(value):
    with pytest.raises(InputError, match=r"^is .*; expected a number, or a date such as 2024-05-31$"):
        as_number(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e39, "-1e39", "1e999", 10**400, np.float64(1e300)])
def test_what_single_precision_cannot_hold(value):
    with pytest.raises(InputError, match=r"which is not finite in single precision"):
        as_number(value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a,b"], "bad number name 'a,b'"),
        (["bm25[plain]"], "bad number name"),
        (["price(x)"], "bad number name"),
        (["a\tb"], "bad number name"),
        ([" a"], "bad number name"),
        ([5], "bad number name 5"),
        ([""], "cannot be called ''"),
        (["docno"], "cannot be called 'docno'"),
        (["a", "a"], "duplicate number 'a'"),
        (["a", "title"], "'title' is both a text field and a number"),
    ],
)
def test_names_of_numbers(names, message):
    assert checked_number_names(["unit price", "doc:year", "größe"], ["title"]) == ["unit price", "doc:year", "größe"]
    with pytest.raises(InputError, match=message):
        checked_number_names(names, ["title"])


EXPECTED = [("a", {"price": 1.0, "clicks": 2.0}), ("b", {"price": math.nan, "clicks": 3.5})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "id,price,clicks\na,1,2\nb,,3.5\n"),
        ("t.csv", "price,docno,clicks\r\n1,a,2\r\n\r\n,b,3.5\r\n"),
        ("t.csv", '\ufeff"id","price","clicks"\n"a","1",2\nb,"",3.5'),
        ("t.csv", "document;price;clicks\na;1;2\nb;;3.5\n"),
        ("t.tsv", "ID\tprice\tclicks\na\t1\t2\nb\tNA\t3.5\n"),
        ("t", "id\tprice\tclicks\na\t1\t2\nb\t\t3.5\n"),
        ("t.jsonl", '{"id": "a", "price": 1, "clicks": "2"}\n{"id": "b", "price": null, "clicks": 3.5}\n'),
        ("t", '\n {"price": 1, "clicks": "2", "_id": "a"}\n{"docno": "b", "price": "", "clicks": 3.5}\n'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_tables(tmp_path, name, text, packed):
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    rows = [
        (doc_id, {key: as_number(value) for key, value in row.items()}) for doc_id, row, _ in read_number_table(path)
    ]
    assert repr(rows) == repr([(doc_id, {key: row[key] for key in rows[0][1]}) for doc_id, row in EXPECTED])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "expected a header line"),
        ("id\na\n", 1, "expected a header line"),
        ("a,1,2\nb,3,4\n", 1, "expected a header line"),
        ("id,price,price\na,1,2\n", 1, "2 columns are called 'price'"),
        ("id,,price\na,1,2\n", 1, "expected a header line"),
        ("id,price\n", None, "has no rows"),
        ("id,price\na,1\n\na,2\n", 4, r"duplicate document 'a' \(first on line 2\)"),
        ("id,price\na\n", 2, "1 cell; expected 2"),
        ('id,price\na,"1"x\n', 2, "'x' after a quotation mark"),
        ('{"id": "a"}\n{"price": 1}\n', 2, "document without an id"),
        ('{"id": "a"}\n{"id": "a"', 2, "invalid JSON"),
        ('{"id": "a"}\n[1]\n', 2, "not an object"),
        ("id,price\na,\udcff\n", 2, "not valid UTF-8"),
    ],
)
def test_bad_tables(tmp_path, text, line, message):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message) as caught:
        list(read_number_table(path))
    assert (caught.value.path, caught.value.line) == (path, line)
