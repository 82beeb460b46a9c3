"""The LETOR parser: numbers as Python reads them, files as a naive parser reads them, any bytes without harm."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letor_files import dense, naive, put

from rankwright.errors import InputError
from rankwright.io import letor
from rankwright.io.letor import read_letor, read_letor_labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letor")


def read_numbers(folder, texts):
    lines = "".join(f"1 qid:1 1:{text}\n" for text in texts)
    return read_letor(put(folder, lines), dtype=np.float64, sparse=False).X[:, 0]


def test_numbers_are_rounded_as_python_rounds_them(folder):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    texts = [repr(x) for x in bits[np.isfinite(bits)].tolist()]
    texts += [repr(x) for x in rng.normal(size=100_000).tolist()]
    digits = rng.integers(0, 10**18, 150_000) // 10 ** rng.integers(0, 18, 150_000)
    places, powers = rng.integers(0, 25, 150_000).tolist(), rng.integers(-330, 290, 150_000).tolist()
    for number, place, power in zip(digits.tolist(), places, powers, strict=True):
        padded = str(number).zfill(place + 1)
        plain = f"{padded[: len(padded) - place]}.{padded[len(padded) - place :]}"
        texts.append(plain if power % 2 else f"{plain}e{power}")
    assert np.array_equal(read_numbers(folder, texts), [float(text) for text in texts])


def test_numbers_between_two_floats(folder):
    texts = ["9007199254740993", "9007199254740993.0000000001", "9007199254740992.9999999999", "1e23", "8.5e22"]
    texts += [
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "5e-324",
        "2e-324",
        "1e-400",
        "1.7976931348623157e308",
    ]
    texts += ["0" * 50 + "1" + "0" * 20 + "e-20", "0." + "0" * 30 + "123456789012345678", "1" * 400 + "e-390"]
    texts += [
        "0e999999999999",
        "-0",
        "0.0000000000000000000000000",
        "123456789012345678901234567890",
        "1e0000000000000000002",
    ]
    assert np.array_equal(read_numbers(folder, texts), [float(text) for text in texts])


blanks = st.sampled_from([" ", "  ", "\t", " \t "])
long_numbers = st.builds(
    "{}{}.{}e{}".format, st.sampled_from(["", "+", "-"]), st.integers(0), st.integers(0), st.integers(-30, 30)
)
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(10**6), 10**6).map(str), long_numbers
)
ids = st.text("ABcd01_.:-", min_size=1, max_size=8)
comments = st.one_of(
    st.just(""), ids.map("# {}".format), ids.map("#docid = {} inc = 1".format), st.just("# some words = 3")
)


@st.composite
def lines(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", "  ", "# comment only", "\t#"]))
    columns = sorted(draw(st.sets(st.integers(1, 60), max_size=8)))
    parts = [draw(st.sampled_from(["0", "1", "2.5", "1e1", "0.125"])), "qid:" + draw(st.sampled_from("abc") | ids)]
    parts += [f"{column}:{draw(numbers)}" for column in columns]
    text = "".join(itertools.chain.from_iterable((part, draw(blanks)) for part in parts))
    return text + draw(comments) + draw(st.sampled_from(["", "\r"]))


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(lines(), max_size=10),
    size=st.integers(1, 300),
    end=st.booleans(),
    asked=st.sampled_from([None, True, False]),
)
def test_any_file_reads_as_the_naive_parser_reads_it(folder, lines, size, end, asked):
    text = "\n".join([*lines, "1 qid:a 1:1"]) + "\n" * end
    path = put(folder, text)
    X, labels, qid, doc_ids = naive(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_CHUNK_BYTES", size)
        data = read_letor(path, dtype=np.float64, sparse=asked)
        light = read_letor_labels(path)
    order = np.arange(len(labels)) if data.rows is None else data.rows
    assert np.array_equal(dense(data), X[order])
    assert np.array_equal(data.labels, np.array(labels)[order])
    assert data.qid.tolist() == np.array(qid)[order].tolist()
    assert light[0].tolist() == labels
    assert light[1].tolist() == qid
    if any(doc_ids):
        assert data.doc_ids.tolist() == np.array(doc_ids)[order].tolist()
        assert light[2].tolist() == doc_ids
    else:
        assert data.doc_ids is None
        assert light[2] is None


SEED = b"2 qid:1 1:0.5 3:1e-3 7:NULL # docid = a\n0 qid:q2 2:12345678901234567890.5\r\n\n#\n1 qid:1 1:-1 900:2"


@settings(max_examples=400, deadline=None)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(SEED)),
            st.integers(0, 3),
            st.binary(max_size=3)
            | st.sampled_from([b"\n", b":", b"#", b" ", b"qid:", b"n", b"nul", b"e", b".", b"-", b"9" * 20, b"1:"]),
        ),
        max_size=6,
    ),
    size=st.sampled_from([7, 1 << 20]),
)
def test_damaged_files_give_data_or_an_input_error(folder, edits, size):
    text = SEED
    for at, cut, new in edits:
        text = text[:at] + new + text[at + cut :]
    path = put(folder, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_CHUNK_BYTES", size)
        for read in (read_letor, read_letor_labels):
            with contextlib.suppress(InputError):
                read(path)


@settings(max_examples=300, deadline=None)
@given(text=st.binary(max_size=60) | st.text("01 :#qidnule.-+\t\r\n9", max_size=60).map(str.encode))
def test_any_bytes_give_data_or_an_input_error(folder, text):
    path = put(folder, text)
    try:
        data = read_letor(path, group=None)
    except InputError:
        return
    labels, qid, _ = read_letor_labels(path)
    assert data.to_caller_order(data.labels).tolist() == labels.tolist()
    assert data.to_caller_order(data.qid).tolist() == qid.tolist()
