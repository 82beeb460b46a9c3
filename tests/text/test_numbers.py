"""Numbers of documents: kept in an index, set without indexing again, features by name for training and for search."""

import datetime
import math
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from toy_documents import files_of
from toy_shop import DOCUMENTS, NUMBERS, nan, same

from rankwright.errors import InputError, InputWarning
from rankwright.models.linear import LinearModel
from rankwright.text.contents import INDEX
from rankwright.text.index import Index, IndexChanged, build_index
from rankwright.text.learned import LearnedSearch


@pytest.fixture
def index(tmp_path):
    return build_index(DOCUMENTS, tmp_path / "shop.index", numbers=["price", "clicks", "day"])


def test_numbers_are_kept_and_not_indexed_as_text(index, tmp_path):
    same(index.numbers, NUMBERS)
    assert index.fields == ("title", "text")
    assert "12" not in index.terms
    assert "numbers price, clicks, day" in repr(index)
    same(Index.open(index.path).numbers, NUMBERS)
    with pytest.raises(ValueError, match="read-only"):
        index.numbers["price"][0] = 1
    with pytest.raises(TypeError):
        index.numbers["price"] = np.zeros(4)
    plain = [{key: value for key, value in one.items() if key in ("id", "title", "text")} for one in DOCUMENTS]
    without = files_of(build_index(plain, tmp_path / "plain.index").path)
    kept = files_of(index.path)
    assert {name for name in kept if kept[name] != without.get(name)} == {"numbers.npy", "index.json"}
    assert b'"version": 1' in without["index.json"]
    assert b'"version": 2' in kept["index.json"]


@pytest.mark.parametrize("suffix", ["jsonl", "tsv"])
def test_numbers_come_from_files(tmp_path, suffix):
    import json

    path = tmp_path / f"docs.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in DOCUMENTS))
    else:
        names = ("id", "title", "text", "price", "clicks", "day")
        rows = [
            names,
            *[[str(one.get(name) or (0 if one.get(name) == 0 else "")) for name in names] for one in DOCUMENTS],
        ]
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
    same(build_index(path, tmp_path / "i", numbers=["price", "clicks", "day"]).numbers, NUMBERS)
    same(build_index(path, tmp_path / "i", numbers=["day"], fields=["text"]).numbers, {"day": NUMBERS["day"]})


def test_keys_that_are_not_asked_for_are_still_ignored_with_a_warning(tmp_path):
    with pytest.warns(InputWarning, match="ignored keys that are not text: clicks$"):
        build_index([{"id": "a", "text": "x", "price": 1, "clicks": 2}], tmp_path / "i", numbers=["price"])


def test_adding_documents_is_indexing_them_all(index, tmp_path):
    more = [
        {"id": "e", "text": "a new wing", "price": "7", "day": None},
        {"id": "f", "text": "without any"},
    ]
    added = index.add(more)
    whole = build_index([*DOCUMENTS, *more], tmp_path / "whole.index", numbers=["price", "clicks", "day"])
    assert files_of(added.path) == files_of(whole.path)
    same(added.numbers, {"price": [*NUMBERS["price"], 7, nan], "clicks": [*NUMBERS["clicks"], nan, nan],
                         "day": [*NUMBERS["day"], nan, nan]})  # fmt: skip
    before = files_of(added.path)
    with pytest.raises(InputError, match="the number 'price' of document 'g' is 'cheap'; expected a number"):
        added.add([{"id": "g", "text": "x", "price": "cheap"}])
    assert files_of(added.path) == before


def test_numbers_that_were_set_are_kept_when_documents_are_added(tmp_path):
    index = build_index([("a", "x"), ("b", "y")], tmp_path / "i")
    index = index.set_numbers({"price": {"b": 2}}).add([{"id": "c", "text": "z", "price": 3}])
    same(index.numbers, {"price": [nan, 2, 3]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"numbers": ["title"]}, "the number 'title' of document 'a' is 'Wings'; expected a number, or a date"),
        ({"numbers": ["prize"]}, "no document has a number in prize; expected the names of numbers"),
        ({"numbers": ["price"], "fields": ["text", "price"]}, "'price' is both a text field and a number"),
        ({"numbers": ["id"]}, "a number cannot be called 'id'"),
    ],
)
@pytest.mark.filterwarnings("ignore:the documents. ignored keys")
def test_wrong_numbers_leave_nothing_behind(tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        build_index(DOCUMENTS, tmp_path / "i", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_only_one_of_several_lacks_is_a_warning(tmp_path):
    with pytest.warns(InputWarning, match="no document has a number in prize"):
        index = build_index([{"id": "a", "text": "x", "price": 1}], tmp_path / "i", numbers=["price", "prize"])
    same(index.numbers, {"price": [1], "prize": [nan]})


def test_old_indexes_are_still_opened(tmp_path):
    """An index of version 1 is what is written without numbers; it can get some."""
    index = build_index([("a", "x y"), ("b", "y")], tmp_path / "i")
    assert index._container.header["version"] == 1 < INDEX.version
    assert dict(index.numbers) == {}
    engine = LearnedSearch(index, LinearModel([1.0], ["bm25[plain]"]))
    changed = index.set_numbers({"price": [1, 2]})
    assert changed._container.header["version"] == 2
    assert engine.search("y").ids == LearnedSearch(changed, engine.model).search("y").ids


# Setting numbers


def given_forms(tmp_path):
    """The same numbers, in every form: clicks of a and c, a new number for c and d; two documents are unknown."""
    import pandas
    import polars
    import pyarrow

    (tmp_path / "t.csv").write_text("id,clicks,rank\na,5,\nc,6,1\nx,1,1\ny,2,2\nd,,2\n")
    (tmp_path / "t.jsonl").write_text(
        '{"id":"a","clicks":5,"rank":null}\n{"id":"c","clicks":"6","rank":true}\n{"id":"x","clicks":1}\n'
        '{"id":"y","rank":2}\n{"id":"d","clicks":null,"rank":2}\n'
    )
    columns = {"id": ["a", "c", "x", "y", "d"], "clicks": [5, 6, 1, 2, nan], "rank": [nan, 1, 1, 2, 2]}
    yield tmp_path / "t.csv"
    yield str(tmp_path / "t.jsonl")
    yield pandas.DataFrame(columns)
    yield pandas.DataFrame(columns).astype({"clicks": "Int64"})
    yield polars.DataFrame(columns, strict=False)
    yield pyarrow.table(columns)
    yield {"clicks": {"a": 5, "c": "6", "x": 1, "d": None}, "rank": {"c": True, "d": 2, "y": nan}}


def test_numbers_are_set_in_any_form(index, tmp_path):
    expected = {**NUMBERS, "clicks": [5, 3, 6, nan], "rank": [nan, nan, 1, 2]}
    before = files_of(index.path)
    for number, given in enumerate(given_forms(tmp_path)):
        path = tmp_path / f"copy{number}.index"
        build_index(DOCUMENTS, path, numbers=["price", "clicks", "day"])
        old = Index.open(path)
        with pytest.warns(InputWarning, match=r"2 documents are not in the index \(the first is 'x'\)"):
            new = old.set_numbers(given)
        same(new.numbers, expected)
        same(old.numbers, NUMBERS)  # what is open stays what it was
        new.verify()
        after = files_of(new.path)
        assert {name for name in after if after[name] != before[name]} == {"numbers.npy", "index.json"}


def test_one_number_per_document_in_the_order_of_the_index(index):
    days = np.array(["1970-01-02", "NaT", "1970-01-01T12", "1969-12-31"], "datetime64[h]")
    index = index.set_numbers({"price": [4, 3, nan, 1], "day": days, "text-like": ["1", "", "2.5", "1970-01-03"]})
    same(index.numbers, {"price": [4, 3, nan, 1], "clicks": NUMBERS["clicks"], "day": [1, nan, 0.5, -1],
                         "text-like": [1, nan, 2.5, 2]})  # fmt: skip


def test_data_frames_may_hold_dates(index):
    import pandas
    import polars
    import pyarrow

    days = [datetime.date(2024, 5, 31), None, datetime.date(1969, 12, 31)]
    columns = {"id": ["a", "b", "c"], "day": days}
    dated = pandas.DataFrame({**columns, "day": pandas.to_datetime(pandas.Series(days)).dt.tz_localize("UTC")})
    for frame in (dated, pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)):
        index = index.set_numbers({"day": [5, 5, 5, 5]}).set_numbers(frame)
        assert index.numbers["day"].tolist()[::2] == [19874, -1]
        np.testing.assert_array_equal(index.numbers["day"][1::2], [nan, 5])


def test_against_a_dictionary_kept_by_hand(index):
    """Many random updates; the index always says what a plain dictionary says."""
    rng = np.random.default_rng(0)
    kept = {(name, doc): value for name, row in NUMBERS.items() for doc, value in zip("abcd", row, strict=True)}
    for _ in range(30):
        update = {
            str(name): {
                str(doc): float(rng.choice([nan, rng.normal(), 0.0])) for doc in rng.permutation(list("abcd"))[:n]
            }
            for name, n in zip(rng.permutation(["price", "clicks", "x", "y"])[:2], rng.integers(1, 5, 2), strict=True)
        }
        index = index.set_numbers(update)
        kept |= {(name, doc): value for name, row in update.items() for doc, value in row.items()}
        names = dict.fromkeys(name for name, _ in kept)
        same(index.numbers, {name: [kept.get((name, doc), nan) for doc in "abcd"] for name in index.numbers})
        assert set(index.numbers) == set(names)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "the numbers are of the type NoneType; expected a path, a data frame"),
        ([1, 2, 3, 4], "the numbers are of the type list; expected a path"),
        ({}, "no numbers; expected at least one name"),
        ({"price": 5}, r"the numbers 'price' have the shape \(\); expected one for each of the 4 documents"),
        ({"price": [1, 2]}, r"the numbers 'price' have the shape \(2,\)"),
        ({"price": [1, [2], 3, 4]}, "the numbers 'price' are not a list"),
        ({"price": ["cheap", 2, 3, 4]}, "a number 'price' is 'cheap'; expected a number"),
        ({"price": [1, 2, 3, math.inf]}, "the numbers 'price' contain inf, which is not finite"),
        ({"price": {"a": "cheap"}}, "the number 'price' of document 'a' is 'cheap'"),
        ({"price": {"x": 1}}, "none of the documents, such as 'x', is in the index"),
        ({"title": {"a": 1}}, "'title' is both a text field and a number"),
        ({"a[b]": {"a": 1}}, "bad number name"),
    ],
)
def test_numbers_that_cannot_be_set(index, given, message):
    before = files_of(index.path)
    with pytest.raises(InputError, match=message) as caught:
        index.set_numbers(given)
    assert "\n" not in str(caught.value)
    assert files_of(index.path) == before


def test_data_frames_that_cannot_be_used(index):
    import pandas

    with pytest.raises(InputError, match="the data frame has no column id"):
        index.set_numbers(pandas.DataFrame({"sku": ["a"], "price": [1]}))
    with pytest.raises(InputError, match=r"the column 'id' has no value in row 1 \(from 0\)"):
        index.set_numbers(pandas.DataFrame({"id": ["a", None], "price": [1, 2]}))
    with pytest.raises(InputError, match="duplicate document 'a' in the data frame"):
        index.set_numbers(pandas.DataFrame({"id": ["a", "a"], "price": [1, 2]}))
    with pytest.raises(InputError, match="a number 'price' is 'cheap'"):
        index.set_numbers(pandas.DataFrame({"id": ["a"], "price": ["cheap"]}))


def test_whoever_has_an_older_state_must_open_it_again(index):
    index.set_numbers({"price": {"a": 1}})
    with pytest.raises(IndexChanged, match="has changed since it was opened"):
        index.set_numbers({"price": {"a": 2}})
    same(Index.open(index.path).numbers, {**NUMBERS, "price": [1, nan, 1e3, 0]})


def test_without_hard_links_files_are_copied(index, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    new = index.set_numbers({"price": {"a": 1}})
    new.verify()
    same(new.numbers, {**NUMBERS, "price": [1, nan, 1e3, 0]})


def test_damaged_numbers_are_found(index):
    file = index.path / "numbers.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"damaged index: the checksum of numbers\.npy"):
        Index.open(index.path)


KILL = """
import os, signal, sys
import rankwright.io.container as writing
import rankwright.io.files as temporary
from rankwright import Index

path, where, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = 0

def dying(function):
    def run(*arguments, **settings):
        global seen
        seen += 1
        if seen > count:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **settings)
    return run

owner = {"link": os, "save": writing.FolderWriter, "finish": writing.FolderWriter, "_exchange": temporary,
         "_remove": temporary}[where]
setattr(owner, where, dying(getattr(owner, where)))
index = Index.open(path)
index.set_numbers({"price": [2] * index.n_docs, "clicks": [2] * index.n_docs})
"""


@pytest.mark.parametrize(
    ("where", "count", "done"),
    [("link", 0, False), ("link", 7, False), ("save", 0, False), ("finish", 0, False), ("_exchange", 0, False),
     ("_remove", 0, True)],
)  # fmt: skip
def test_a_killed_run_leaves_the_old_index_or_the_new_one(tmp_path, where, count, done):
    path = tmp_path / "i"
    build_index([(f"d{n}", "word " * n) for n in range(1, 50)], path).set_numbers(
        {"price": [1] * 49, "clicks": [1] * 49}
    )
    run = subprocess.run([sys.executable, "-c", KILL, str(path), where, str(count)], capture_output=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    index = Index.open(path)
    index.verify()
    expected = [2 if done else 1] * 49
    same(index.numbers, {"price": expected, "clicks": expected})
    index = index.set_numbers({"price": [3] * 49})  # what was left lying around is in nobody's way
    index.verify()
    same(index.numbers, {"price": [3] * 49, "clicks": expected})
    assert os.listdir(tmp_path) == ["i"]


def test_readers_never_see_half_of_a_change(tmp_path):
    path, seen, done = tmp_path / "i", set(), threading.Event()
    build_index([(f"d{n}", f"word{n}") for n in range(200)], path).set_numbers({"x": [0] * 200, "y": [0] * 200})

    def read():
        while not done.is_set():
            numbers = Index.open(path).numbers
            seen.add((tuple(np.unique(numbers["x"])), tuple(np.unique(numbers["y"]))))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for value in range(1, 30):
        Index.open(path).set_numbers({"x": [value] * 200, "y": [value] * 200})
    done.set()
    for reader in readers:
        reader.join()
    assert seen
    assert all(x == y and len(x) == 1 for x, y in seen), seen
