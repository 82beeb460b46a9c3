"""LETOR / SVMlight files: what is read, what is refused and in which words."""

import gzip
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from letor_files import dense, fault, naive, put

from rankwright.errors import InputError
from rankwright.io import letor
from rankwright.io.letor import read_letor, read_letor_labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letor")


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
    data = read_letor(put(folder, "1 qid:1 1:0 2:5 9:1e-99\n0 qid:1\n0 qid:1 3:-0 4:1\n"), sparse=True)
    assert data.X.has_canonical_format
    assert data.X.shape == (3, 9)
    assert data.X.indices.tolist() == [1, 3]
    assert data.X.indptr.tolist() == [0, 1, 1, 2]


def test_small_files_are_dense_and_very_wide_ones_are_not(folder):
    assert not read_letor(put(folder, "1 qid:1 100:1\n0 qid:1 3:1\n")).is_sparse
    path = put(folder, "0 qid:1 3:1\n1 qid:1 1:1 2147483647:2\n0 qid:1 2147483646:1\n")
    data = read_letor(path, n_features=2**31 - 1)
    assert data.is_sparse
    assert data.X.shape == (3, 2**31 - 1)
    assert data.X.indices.tolist() == [2, 0, 2**31 - 2, 2**31 - 3]


def test_feature_ids_stay_in_proportion_to_the_file(folder):
    text = "0 qid:1 3:1\n1 qid:1 1:1 {}:2\n0 qid:1 2:1\n"
    most = (1 << 20) + 8 * len(text.format(1_048_000))
    assert read_letor(put(folder, text.format(most))).n_features == most
    with pytest.raises(InputError, match=r"data.txt:2: feature id \d+; expected at most [\d,]+ in \d+ bytes of text"):
        read_letor(put(folder, text.format(most + 1)))


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
REMEDY = '--negative-as-zero or negative="zero" reads it as 0'


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
        (
            "-3 qid:1 1:2",
            "label -3 is negative; expected a number of at least 0 (" + REMEDY + ")",
        ),
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
        ("1 qid:1 1:1 qid:2", "'qid:2' is among the features; expected it right after the label"),
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
    assert (
        read_letor(put(folder, GOOD.encode("utf-16"))).labels.tolist() == read_letor(put(folder, GOOD)).labels.tolist()
    )
    assert "query id 'a\ufffd' is not text" in str(fault(put(folder, b"1 qid:a\xff 1:2\n")))
    error = fault(put(folder, GOOD.encode() + b"1 qid:1 1:2 # docid = \xff\n"))
    assert (error.line, error.message) == (2, "document id '\ufffd' is not text; expected UTF-8")
    assert read_letor(put(folder, b"1 qid:1 1:2 # free \xff text\n")).doc_ids is None
    assert "gzip" in str(fault(put(folder, gzip.compress(GOOD.encode() * 1000)[:-20], "cut.gz")))
    assert "cannot be read" in str(fault(folder / "missing.txt"))


# Weight


def test_labels_are_read_without_numba(folder):
    path = put(folder, GOOD)
    code = (
        "import sys; from rankwright.io.letor import read_letor_labels, read_letor; "
        f"read_letor_labels({str(path)!r}); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_progress_is_told(folder):
    calls = []
    path = put(folder, GOOD * 10)
    read_letor(path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)
