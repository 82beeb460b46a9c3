"""Reading LETOR text by several threads, and gzip by a thread of its own: the same data, the same errors."""

import gzip
import threading
from unittest import mock

import numpy as np
import pytest
from letor_files import put, same

from rankwright.errors import InputError
from rankwright.io import files as unpacking
from rankwright.io import letor
from rankwright.io.detect import read_data
from rankwright.io.files import line_chunks, map_ahead, read_ahead
from rankwright.io.letor import read_letor, read_letor_labels

THREADS = (1, 2, 3, 8)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(letor, "_CHUNK_BYTES", 1 << 10)


def lines(n=400, width=30, full=0.7, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        kept = np.flatnonzero(rng.random(width) < (full if i < n // 2 else 0.1))
        features = " ".join(f"{j + 1}:{rng.normal():.{rng.integers(1, 19)}g}" for j in kept)
        rows.append(f"{rng.integers(3)} qid:{i // 7 % 40} {features} # docid = d{i}")
    return rows


@pytest.mark.parametrize("packed", [False, True])
def test_the_same_bits_for_any_number_of_threads(tmp_path, packed):
    text = ("\ufeff" + "\n".join(lines())).encode()
    path = put(tmp_path, gzip.compress(text) if packed else text)
    for options in ({}, {"sparse": True}, {"sparse": False, "dtype": np.float64}):
        expected = read_letor(put(tmp_path, text, "plain.txt"), **options)
        for threads in THREADS:
            data = read_letor(path, n_jobs=threads, **options)
            same(data, expected)
            assert data.X.data.tobytes() == expected.X.data.tobytes()
    found = read_data(put(tmp_path, "\n".join(lines()), "other.txt"), n_jobs=2)
    same(found, read_letor(path))
    labels, qid, doc_ids = read_letor_labels(path)
    order = np.arange(len(labels)) if expected.rows is None else expected.rows
    assert np.array_equal(labels[order], expected.labels)
    assert qid[order].tolist() == expected.qid.tolist()
    assert doc_ids[order].tolist() == expected.doc_ids.tolist()


BAD = {
    "x qid:1 1:1": "label 'x'",
    "1 qid: 1:1": "without a query id",
    "1 qid:1 0:1": "feature id 0",
    "1 qid:1 2:1 2:1": "feature id 2 after 2",
    "1 qid:1 1:nope": "feature 1 has the value 'nope'",
    "1 qid:1 1:1e400": "expected a number that fits float32",
    "1 1:1": "no qid",
    "-1 qid:1 1:1": "label -1 is negative",
    "1 qid:1 1:\0": "NUL byte",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("line", "message"), BAD.items())
def test_the_first_fault_is_reported_with_its_line(tmp_path, line, message, packed):
    rows = lines(300)
    for at, others in ((0, ()), (150, (151, 299)), (299, ())):
        bad = list(rows)
        bad[at] = line
        for other in others:  # the first line decides, whichever chunk is parsed first
            bad[other] = "1 qid:1 1:zzz" if other == 299 else "2 qid:1 5:\0"
        text = "\n".join(bad).encode()
        path = put(tmp_path, gzip.compress(text) if packed else text)
        found = set()
        for threads in THREADS:
            with pytest.raises(InputError) as caught:
                read_letor(path, n_jobs=threads)
            found.add(str(caught.value))
        assert len(found) == 1
        if at == 0 and message == "no qid":  # it is the second line that differs then
            assert caught.value.line == 2
            assert "has a qid, unlike the lines before" in str(caught.value)
        elif not others:
            assert caught.value.line == at + 1
            assert message in str(caught.value)


def test_a_damaged_end_is_reported_after_the_faults_before_it(tmp_path):
    rows = lines(1000)
    whole = gzip.compress("\n".join(rows).encode())
    rows[5] = "1 qid:1 1:zzz"
    faulty = gzip.compress("\n".join(rows).encode())
    for threads in THREADS:
        with pytest.raises(InputError, match=r"cut.gz: damaged or truncated gzip file"):
            read_letor(put(tmp_path, whole[:-30], "cut.gz"), n_jobs=threads)
        with pytest.raises(InputError, match=r"cut.gz:6: feature 1 has the value 'zzz'"):
            read_letor(put(tmp_path, faulty[:-30], "cut.gz"), n_jobs=threads)


def test_progress_is_told_in_the_callers_thread_and_ends_at_the_end(tmp_path):
    text, seen = "\n".join(lines(500)).encode(), set()
    for content in (text, gzip.compress(text)):
        path = put(tmp_path, content)
        for threads in (1, 2):
            told = mock.Mock(side_effect=lambda done, total: seen.add(threading.get_ident()))
            seen.clear()
            read_letor(path, n_jobs=threads, progress=told)
            assert seen == {threading.get_ident()}
            calls = [call.args for call in told.call_args_list]
            assert calls == sorted(calls)
            assert calls[-1] == (len(content), len(content))


def test_no_thread_is_left(tmp_path):
    before = threading.active_count()
    path = put(tmp_path, gzip.compress("\n".join(["x qid:1 1:x", *lines(2000)]).encode()))
    for read in (lambda: read_letor(path), lambda: read_letor(path, n_jobs=3), lambda: read_letor_labels(path)):
        with pytest.raises(InputError) as caught:  # whose traceback keeps every frame
            read()
        assert threading.active_count() == before
        assert caught.value.line == 1


@pytest.mark.parametrize("n_jobs", [0, True, "2"])
def test_n_jobs_is_checked(tmp_path, n_jobs):
    with pytest.raises(InputError, match="n_jobs is"):
        read_letor(put(tmp_path, "1 qid:1 1:1\n"), n_jobs=n_jobs)


# Reading ahead


def _failing():
    yield 1
    yield 2
    raise ValueError("third")


@pytest.mark.parametrize("ahead", [lambda items: read_ahead(items, 5), lambda items: map_ahead(abs, items, 2, 5)])
def test_errors_come_in_their_place(ahead):
    items = ahead(_failing())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(items)
    assert list(ahead(iter(()))) == []


def test_no_more_is_taken_than_asked_for():
    taken = []
    items = (taken.append(i) or i for i in range(100))
    results = map_ahead(abs, items, 2, 3)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    assert len(taken) <= 4 + 3
    results.close()


# Gzip


@pytest.mark.parametrize("piece", [1, 7, 1 << 19])
@pytest.mark.parametrize("size", [5, 1 << 20])
def test_gzip_members_and_padding(tmp_path, monkeypatch, piece, size):
    monkeypatch.setattr(unpacking, "_GZIP_PIECE", piece)
    parts = [b"one\n" * 50, b"", b"two\n", np.random.default_rng(0).bytes(300) + b"\n"]
    content = b"".join(map(gzip.compress, parts))
    for padding in (b"", b"\0" * 20):
        path = put(tmp_path, content + padding, "f.gz")
        assert b"".join(line_chunks(path, size=size)) == b"".join(parts)
    for damaged in (content[:-1], content[:-9], content + b"more", content[:40] + b"\0\1" + content[42:]):
        with pytest.raises(InputError, match="damaged or truncated gzip file"):
            list(line_chunks(put(tmp_path, damaged, "f.gz"), size=size))
