"""LETOR / SVMlight files: what is read, what is refused and in which words, and that what is written reads back."""

import contextlib
import gzip
import itertools
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwright.data import letor
from rankwright.data.dataset import RankingData
from rankwright.data.letor import read_letor, read_letor_labels, write_letor
from rankwright.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letor")


def put(folder, text, name="data.txt"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def dense(data):
    return data.X.toarray() if data.is_sparse else data.X


def fault(path, **options):
    with pytest.raises(InputError) as caught:
        read_letor(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
    return caught.value


def same(a, b):
    assert np.array_equal(dense(a), dense(b))
    assert a.X.dtype == b.X.dtype
    assert np.array_equal(a.labels, b.labels)
    assert a.qid.astype(str).tolist() == b.qid.astype(str).tolist()
    assert (a.doc_ids is None) == (b.doc_ids is None)
    assert a.doc_ids is None or a.doc_ids.tolist() == b.doc_ids.tolist()


# What is read


def test_a_plain_file(folder):
    data = read_letor(put(folder, "2 qid:7 1:0.5 3:-1e2\n0 qid:7 2:+.25\n1.5 qid:x9 1:3. 2:1E-1 3:0\n"))
    assert data.X.dtype == np.float32
    assert data.X.tolist() == [[0.5, 0, -100], [0, 0.25, 0], [3, np.float32(0.1), 0]]
    assert data.labels.tolist() == [2, 0, 1.5]
    assert data.query_ids.tolist() == ["7", "x9"]
    assert data.query_ids.dtype.kind == "U"
    assert data.sizes.tolist() == [2, 1]
    assert data.doc_ids is None


@pytest.mark.parametrize(
    "text",
    [
        "1 qid:1 1:2 2:3\r\n0 qid:2 1:4\r\n",
        "1 qid:1 1:2 2:3\n0 qid:2 1:4",
        "\t1\tqid:1\t\t1:2\t2:3 \t\n  0  qid:2  1:4  \n",
        "\n# all about it\n1 qid:1 1:2 2:3\n   \n \t# qid:9 1:1\n0 qid:2 1:4\n\n\r\n",
        "\ufeff1 qid:1 1:2 2:3\n0 qid:2 1:4\n",
        "+1 qid:1 01:2 002:3 #\n-0 qid:2 1:4#  \n",
        "1e0 qid:1 1:2 2:3\n0 qid:2 1:4 2:NULL\n",
        "1 qid:1 1:2 2:3\n0 qid:2 1:4 2:null#\n",
    ],
)
def test_forms_of_the_same_two_lines(folder, text):
    path = put(folder, text)
    data = read_letor(path)
    assert dense(data).tolist() == [[2, 3], [4, 0]]
    assert data.labels.tolist() == [1, 0]
    assert data.query_ids.tolist() == ["1", "2"]
    assert data.doc_ids is None
    labels, qid, doc_ids = read_letor_labels(path)
    assert (labels.tolist(), qid.tolist(), doc_ids) == ([1, 0], ["1", "2"], None)


@pytest.mark.parametrize(
    ("comment", "doc_id"),
    [
        ("#docid = GX000-00-0000000 inc = 1 prob = 0.0246906", "GX000-00-0000000"),
        ("# docid = clueweb09-en0006-78-20618 ", "clueweb09-en0006-78-20618"),
        ("#docid=40626", "40626"),
        ("# DocID =x", "x"),
        ("# rank 3 docid = doc:7/ä", "doc:7/ä"),
        ("#docid = X#more", "X"),
        ("# GX000-00-0000000", "GX000-00-0000000"),
        ("#word\r", "word"),
        ("# two words", ""),
        ("# inc = 1", ""),
        ("#docid =", ""),
        ("#docid=", ""),
        ("# mydocid = 4", ""),
        ("##", ""),
        ("#", ""),
        ("", ""),
    ],
)
def test_document_id_of_a_comment(folder, comment, doc_id):
    path = put(folder, f"1 qid:1 1:2 {comment}\n0 qid:1 1:3 # docid = other\n")
    assert read_letor(path).doc_ids.tolist() == [doc_id, "other"]
    assert read_letor_labels(path)[2].tolist() == [doc_id, "other"]
    alone = read_letor(put(folder, f"1 qid:1 1:2 {comment}\n"))
    assert alone.doc_ids is None if doc_id == "" else alone.doc_ids.tolist() == [doc_id]


def test_interleaved_queries_are_gathered_and_labels_stay_in_file_order(folder):
    path = put(folder, "0 qid:b 1:1 #p\n1 qid:a 1:2 #q\n2 qid:b 1:3 #r\n3 qid:a 1:4 #s\n")
    data = read_letor(path)
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.labels.tolist() == [0, 2, 1, 3]
    assert data.X[:, 0].tolist() == [1, 3, 2, 4]
    assert data.doc_ids.tolist() == ["p", "r", "q", "s"]
    labels, qid, doc_ids = read_letor_labels(path)
    assert labels.tolist() == [0, 1, 2, 3]
    assert qid.tolist() == ["b", "a", "b", "a"]
    assert doc_ids.tolist() == ["p", "q", "r", "s"]


def test_integer_query_ids_stay_text(folder):
    assert read_letor(put(folder, "0 qid:1 1:1\n0 qid:01 1:1\n")).query_ids.tolist() == ["1", "01"]


def test_gzip_is_told_by_its_bytes(folder):
    text = b"1 qid:1 1:2 # d\n"
    assert read_letor(put(folder, gzip.compress(text), "packed.gz")).X.tolist() == [[2]]
    assert read_letor(put(folder, gzip.compress(text), "packed.txt")).X.tolist() == [[2]]


def test_null_takes_the_value_asked_for(folder):
    path = put(folder, "1 qid:1 1:NULL 2:1 3:Null\n")
    assert read_letor(path).X.tolist() == [[0, 1, 0]]
    assert read_letor(path, null=-1).X.tolist() == [[-1, 1, -1]]
    with pytest.raises(InputError, match="null is nan"):
        read_letor(path, null=math.nan)


def test_negative_labels(folder):
    path = put(folder, "1 qid:1 1:1\n-1 qid:1 1:2\n")
    assert read_letor(path, negative="zero").labels.tolist() == [1, 0]
    assert read_letor_labels(path, negative="zero")[0].tolist() == [1, 0]
    error = fault(path)
    assert error.line == 2
    assert "label -1 is negative" in str(error)
    assert 'negative="zero"' in str(error)
    with pytest.raises(InputError, match="2: label -1 is negative"):
        read_letor_labels(path)
    with pytest.raises(InputError, match="expected"):
        read_letor(path, negative="clip")


def test_number_of_features(folder):
    path = put(folder, "1 qid:1 1:1 4:2\n")
    assert read_letor(path).n_features == 4
    assert read_letor(path, n_features=6).X.tolist() == [[1, 0, 0, 2, 0, 0]]
    error = fault(path, n_features=3)
    assert error.message == "feature id '4'; expected at most 3, the n_features given"
    assert read_letor(put(folder, "1 qid:1\n0 qid:1 # d\n")).X.shape == (2, 0)
    with pytest.raises(InputError, match="n_features is -1"):
        read_letor(path, n_features=-1)


def test_dtype(folder):
    path = put(folder, "1 qid:1 1:0.1\n")
    assert read_letor(path, dtype="float64").X[0, 0] == 0.1
    with pytest.raises(InputError, match="expected float32 or float64"):
        read_letor(path, dtype=np.int32)


# Dense and sparse


def test_the_smaller_form_is_chosen_over_the_whole_file(folder, monkeypatch):
    monkeypatch.setattr(letor, "_CHUNK_BYTES", 1 << 12)
    full = "".join(f"1 qid:{i} " + " ".join(f"{j}:{j % 3}" for j in range(1, 41)) + "\n" for i in range(1000))
    thin = "".join(f"1 qid:{i} {1 + i % 39}:1 40:2\n" for i in range(1000))
    wide = "".join(f"1 qid:{i} {1 + i}:3\n" for i in range(1000))
    texts = {"full": full, "thin": thin, "wide": wide, "full thin": full + thin * 3, "thin full": thin + full * 2}
    texts |= {"full wide": full + wide, "thin full thin": thin + full * 3 + thin * 8}
    for name, text in texts.items():
        path = put(folder, text)
        data = read_letor(path)
        expected = naive(text)[0]
        assert data.is_sparse == (name not in ("full", "thin full")), name
        for option in (None, True, False):
            other = read_letor(path, sparse=option)
            assert option is None or other.is_sparse == option
            gathered = expected if other.rows is None else expected[other.rows]
            assert np.array_equal(dense(other), gathered), name


def test_sparse_is_canonical_and_holds_no_zeros(folder):
    data = read_letor(put(folder, "1 qid:1 1:0 2:5 9:0\n0 qid:1\n0 qid:1 3:-0 4:1\n"), sparse=True)
    assert data.X.has_canonical_format
    assert data.X.shape == (3, 9)
    assert data.X.indices.tolist() == [1, 3]
    assert data.X.indptr.tolist() == [0, 1, 1, 2]


def test_small_files_are_dense_and_very_wide_ones_are_not(folder):
    assert not read_letor(put(folder, "1 qid:1 100:1\n0 qid:1 3:1\n")).is_sparse
    data = read_letor(put(folder, "1 qid:1 1:1 2147483647:2\n0 qid:1 2147483646:1\n"))
    assert data.is_sparse
    assert data.X.shape == (2, 2**31 - 1)
    assert data.X.indices.tolist() == [0, 2**31 - 2, 2**31 - 3]


def test_memory_stays_near_the_result(folder, monkeypatch):
    monkeypatch.setattr(letor, "_CHUNK_BYTES", 1 << 14)
    line = " ".join(f"{j}:0.5" for j in range(1, 101))
    path = put(folder, "".join(f"1 qid:{i // 50} {line}\n" for i in range(10_000)))
    read_letor(path)
    tracemalloc.start()
    data = read_letor(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.75 * data.X.nbytes


# Group sizes


def test_group_sizes_from_an_array_a_file_and_the_file_beside(folder):
    text = "1 1:1\n0 1:2\n2 1:3\n"
    path = put(folder, text, "rank.train")
    sizes = put(folder, "2\n1\n", "sizes")
    for group in ([2, 1], np.array([2, 0, 1]), sizes, str(sizes)):
        data = read_letor(path, group=group)
        assert data.sizes.tolist() == [2, 1]
        assert data.query_ids.tolist() == ["1", "2"]
        assert read_letor_labels(path, group=group)[1].tolist() == ["1", "1", "2"]
    error = fault(path)
    assert error.line == 1
    assert "no qid, and no group sizes" in str(error)
    assert "rank.train.query" in str(error)
    put(folder, "1\n2\n", "rank.train.query")
    assert read_letor(path).sizes.tolist() == [1, 2]
    assert read_letor(put(folder, gzip.compress(text.encode()), "rank.train.gz")).sizes.tolist() == [1, 2]
    assert read_letor_labels(path)[1].tolist() == ["1", "2", "2"]


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([2, 2], "group sizes add up to 4 but .* has 3 documents"),
        ([1.5, 1.5], "whole number"),
        ([-1, 4], "whole number"),
        ([math.inf], "add up to inf"),
        (["a"], "whole number"),
        ([[3]], "whole number"),
        ("1\n1\n", "sizes: group sizes add up to 2 but .* has 3 documents"),
        ("1\n\n1.5\n", "sizes:3: group size 1.5; expected a whole number"),
        ("1\n-2\n", "sizes:2: group size -2; expected a whole number"),
        ("1\nx\n", "sizes:2: size is 'x'; expected a finite number"),
        ("1 2\n", "sizes:1: 2 fields; expected 1"),
        ("", "sizes: is empty"),
    ],
)
def test_group_sizes_that_do_not_fit(folder, group, message):
    path = put(folder, "1 1:1\n0 1:2\n2 1:3\n", "nogroups.txt")
    if isinstance(group, str):
        group = put(folder, group, "sizes")
    with pytest.raises(InputError, match=message):
        read_letor(path, group=group)


def test_group_sizes_beside_qids_are_refused(folder):
    assert "group was given too" in str(fault(put(folder, "1 qid:1 1:1\n"), group=[1]))


# What is refused


GOOD = "1 qid:1 1:2\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x qid:1 1:2", "label 'x' is not a finite number; expected label qid:Q id:value ..."),
        ("qid:1 1:2", "label 'qid:1' is not a finite number; expected label qid:Q id:value ..."),
        ("nan qid:1 1:2", "label 'nan' is not a finite number; expected label qid:Q id:value ..."),
        ("1e999 qid:1 1:2", "label '1e999' is not a finite number; expected label qid:Q id:value ..."),
        ("1_0 qid:1 1:2", "label '1_0' is not a finite number; expected label qid:Q id:value ..."),
        ("0x1 qid:1 1:2", "label '0x1' is not a finite number; expected label qid:Q id:value ..."),
        ("1 qid: 1:2", "qid: without a query id; expected qid:Q"),
        ("1 1:2", "has no qid, unlike the lines before; expected qid:Q in all lines or in none"),
        ("-3 qid:1 1:2", 'label -3 is negative; expected a number of at least 0 (negative="zero" reads it as 0)'),
        ("1 qid:1 3:", "feature 3 has no value; expected id:value"),
        ("1 qid:1 3: 5", "feature 3 has no value; expected id:value"),
        ("1 qid:1 3:#5", "feature 3 has no value; expected id:value"),
        ("1 qid:1 3", "'3' is not a feature; expected id:value"),
        ("1 qid:1 3:abc", "feature 3 has the value 'abc'; expected a finite number"),
        ("1 qid:1 3:1.5x", "feature 3 has the value '1.5x'; expected a finite number"),
        ("1 qid:1 3:1:2", "feature 3 has the value '1:2'; expected a finite number"),
        ("1 qid:1 3:.", "feature 3 has the value '.'; expected a finite number"),
        ("1 qid:1 3:1e", "feature 3 has the value '1e'; expected a finite number"),
        ("1 qid:1 3:--1", "feature 3 has the value '--1'; expected a finite number"),
        ("1 qid:1 3:nan", "feature 3 has the value 'nan'; expected a finite number"),
        ("1 qid:1 3:-inf", "feature 3 has the value '-inf'; expected a finite number"),
        ("1 qid:1 3:NULLS", "feature 3 has the value 'NULLS'; expected a finite number"),
        ("1 qid:1 3:nul", "feature 3 has the value 'nul'; expected a finite number"),
        ("1 qid:1 3:1e39", "feature 3 has the value '1e39'; expected a number that fits float32"),
        ("1 qid:1 3:1e999", "feature 3 has the value '1e999'; expected a number that fits float32"),
        ("1 qid:1 0:1", "feature id 0; ids start at 1"),
        ("1 qid:1 a:1", "feature id 'a'; expected a positive integer"),
        ("1 qid:1 -1:1", "feature id '-1'; expected a positive integer"),
        ("1 qid:1 1.5:1", "feature id '1.5'; expected a positive integer"),
        ("1 qid:1 :1", "feature id ''; expected a positive integer"),
        ("1 qid:1 2147483648:1", "feature id '2147483648'; expected at most 2147483647"),
        ("1 qid:1 18446744073709551617:1", "feature id '18446744073709551617'; expected at most 2147483647"),
        ("1 qid:1 2:1 1:1", "feature id 1 after 2; expected each id once, in increasing order"),
        ("1 qid:1 2:1 2:1", "feature id 2 after 2; expected each id once, in increasing order"),
        ("1 qid:1 1:1 qid:2", "'qid:2' stands among the features; expected it right after the label"),
        ("1 qid:1 3:" + "z" * 99, "feature 3 has the value '" + "z" * 40 + "...'; expected a finite number"),
    ],
)
def test_faults_name_the_line_and_what_was_expected(folder, monkeypatch, line, message):
    for before in (1, 4):
        text = GOOD * before + "\n# comment\n" + line + "\n" + GOOD + "y\n"
        for size in (8, 1 << 20):
            monkeypatch.setattr(letor, "_CHUNK_BYTES", size)
            error = fault(put(folder, text))
            assert (error.message, error.line) == (message, before + 3)
    path = put(folder, GOOD + line + "\n")
    if message.startswith(("label", "qid:", "has no qid")):
        with pytest.raises(InputError) as caught:
            read_letor_labels(path)
        assert (caught.value.message, caught.value.line) == (message, 2)
    else:
        assert len(read_letor_labels(path)[0]) == 2


def test_a_qid_after_lines_without(folder):
    error = fault(put(folder, "1 1:2\n1 qid:1 1:2\n-1 qid:1 1:2\n"))
    assert (error.message[:39], error.line) == ("has a qid, unlike the lines before; exp", 2)


def test_the_first_fault_of_a_chunk_is_told(folder):
    assert fault(put(folder, GOOD + "-1 qid:1 1:1\n1 1:1\n" + "z\n")).line == 2
    assert fault(put(folder, GOOD + "1 1:1\n-1 qid:1 1:1\n" + "z\n")).line == 2
    assert fault(put(folder, GOOD + "1 qid:1 1:1e999\n-1 qid:1 1:1\n")).line == 2


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", " "])
def test_files_without_documents(folder, text):
    path = put(folder, text)
    assert "has no documents; expected lines of: label qid:Q" in str(fault(path))
    with pytest.raises(InputError, match="has no documents"):
        read_letor_labels(path)


def test_files_that_are_no_text(folder):
    error = fault(put(folder, GOOD.encode() + b"1 qid:1\0 1:2\n"))
    assert error.line == 2
    assert "is not a text file" in str(error)
    assert "is not a text file" in str(fault(put(folder, GOOD.encode("utf-16"))))
    assert "query id 'a\ufffd' is not text" in str(fault(put(folder, b"1 qid:a\xff 1:2\n")))
    error = fault(put(folder, GOOD.encode() + b"1 qid:1 1:2 # docid = \xff\n"))
    assert (error.line, error.message) == (2, "document id '\ufffd' is not text; expected UTF-8")
    assert read_letor(put(folder, b"1 qid:1 1:2 # free \xff text\n")).doc_ids is None
    assert "gzip" in str(fault(put(folder, gzip.compress(GOOD.encode() * 1000)[:-20], "cut.gz")))
    assert "cannot be read" in str(fault(folder / "missing.txt"))


# Numbers


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


# Against a parser that is easily seen to be right


def naive(text):
    rows = []
    for line in text.split("\n"):
        content, _, comment = line.partition("#")
        fields = content.split()
        if fields:
            features = {int(key) - 1: float(value) for key, value in (field.split(":") for field in fields[2:])}
            words = comment.replace("=", " = ").split()
            doc = words[2] if words[:2] == ["docid", "="] else words[0] if len(words) == 1 else ""
            rows.append((features, float(fields[0]), fields[1].removeprefix("qid:"), doc))
    X = np.zeros((len(rows), max(max(features, default=-1) for features, *_ in rows) + 1))
    for row, (features, *_) in enumerate(rows):
        for column, value in features.items():
            X[row, column] = value
    return X, [row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows]


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


# Writing


def random_data(dtype, make_sparse, with_ids, rng):
    X = rng.normal(size=(700, 9)) * 10.0 ** rng.integers(-12, 12, size=(700, 9))
    X[rng.random(X.shape) < 0.6] = 0
    X[::5] = np.round(X[::5])
    X[0, 0] = 16777217.0
    X = X.astype(dtype)
    qid = np.repeat([f"q{i}" for i in range(70)], 10)
    doc_ids = [f"doc-{i}" if i % 7 else "" for i in range(700)] if with_ids else None
    labels = rng.choice([0, 1, 2.5, 0.1], 700)
    return RankingData.from_arrays(sparse.csr_array(X) if make_sparse else X, labels, qid, doc_ids=doc_ids)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make_sparse", [False, True])
@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz"])
def test_what_is_written_reads_back(folder, dtype, make_sparse, name):
    data = random_data(dtype, make_sparse, name == "data.txt", np.random.default_rng(3))
    path = folder / name
    write_letor(data, path)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    same(read_letor(path, dtype=dtype, sparse=make_sparse), data)


def test_the_text_that_is_written(folder):
    X = np.array([[0.1, 0, 3], [1e-7, -2.5, 1e20], [16777216, 1 / 3, -0.0]], np.float32)
    doc_ids = ["a", "", "c"]
    path = folder / "out.txt"
    write_letor(RankingData.from_arrays(X, [0, 1, 0.5], qid=[3, 3, 4], doc_ids=doc_ids), path)
    assert path.read_text().split("\n") == [
        "0 qid:3 1:0.1 2:0 3:3 # docid = a",
        "1 qid:3 1:1e-07 2:-2.5 3:1e+20",
        "0.5 qid:4 1:16777216 2:0.33333334 3:0 # docid = c",
        "",
    ]
    write_letor(RankingData.from_arrays(sparse.csr_array(X[:2]), [0, 1], qid=["1.0", "b"]), path)
    assert path.read_text() == "0 qid:1.0 1:0.1 3:3\n1 qid:b 1:1e-07 2:-2.5 3:1e+20\n"


def test_empty_last_columns_of_sparse_data_are_kept(folder):
    X = sparse.csr_array(np.array([[0, 1.0, 0, 0], [1, 0, 0, 0]]))
    write_letor(RankingData.from_arrays(X, [0, 1], qid=[1, 1]), folder / "wide.txt")
    assert (folder / "wide.txt").read_text() == "0 qid:1 2:1 4:0\n1 qid:1 1:1\n"
    assert read_letor(folder / "wide.txt").n_features == 4


def test_float32_text_is_short_and_exact(folder):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32)
    X = np.concatenate([X[np.isfinite(X)], np.float32([3.4028235e38, 1e-45, 1.1754944e-38, 0.3, 1e16, 123456789])])[
        :, None
    ]
    data = RankingData.from_arrays(X, np.zeros(len(X)), qid=np.ones(len(X), int))
    write_letor(data, folder / "short.txt")
    assert np.array_equal(read_letor(folder / "short.txt", sparse=False).X, X)
    written = [line.split("1:")[-1] for line in (folder / "short.txt").read_text().splitlines()]
    longer = [text for text, x in zip(written, X[:, 0], strict=True) if significant(text) > significant(str(x))]
    assert [text for text in longer if float(text) != round(float(text))] == []


def significant(text):
    return len(text.lower().partition("e")[0].replace(".", "").strip("-0"))


@pytest.mark.parametrize("bad", ["a b", "a#b", "", "a\tb", "a\nb", "\ud800"])
def test_query_ids_that_the_format_cannot_hold(folder, bad):
    path = folder / "never.txt"
    with pytest.raises(InputError, match=r"query id .* cannot be written"):
        write_letor(RankingData.from_arrays([[1.0]], [0], qid=[bad]), path)
    if bad:
        with pytest.raises(InputError, match=r"document id .* cannot be written"):
            write_letor(RankingData.from_arrays([[1.0]], [0], qid=[1], doc_ids=[bad]), path)
    assert not path.exists()


def test_query_ids_that_would_become_one(folder):
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, "1"])
    with pytest.raises(InputError, match="differ in type only"):
        write_letor(data, folder / "never.txt")


# Weight


def test_labels_are_read_without_numba(folder):
    path = put(folder, GOOD)
    code = (
        "import sys; from rankwright.data.letor import read_letor_labels, read_letor, write_letor; "
        f"read_letor_labels({str(path)!r}); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_progress_is_told(folder):
    calls = []
    path = put(folder, GOOD * 10)
    read_letor(path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)
