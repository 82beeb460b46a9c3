"""Inputs without an end, or of a cost far beyond their size: refused in one line, or read in proportion."""

import gzip
import os
import socket
import threading
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest

from rankwright import RankingData, read_data, read_queries, read_run, save_folder
from rankwright.errors import InputError, InputWarning
from rankwright.experiments.checks import read_text
from rankwright.experiments.toml import parse_toml
from rankwright.io import files, letor
from rankwright.io import files as pipes
from rankwright.io import parquet as parquet_files
from rankwright.io.files import line_chunks, open_file
from rankwright.io.letor import read_letor, read_letor_labels
from rankwright.text.documents import read_documents

LETOR = b"1 qid:1 1:0.5\n0 qid:1 1:2\n"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="devices and pipes of another kind")


@pytest.mark.parametrize("read", [read_data, read_run, read_queries, read_text, lambda p: list(read_documents(p))])
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "socket", "folder"])
def test_what_is_not_a_file(tmp_path, monkeypatch, read, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(InputError, match=r"is a device or a socket; expected|is a folder|contains no documents"):
            read(name)


def test_a_pipe_is_read_whole(tmp_path):
    for text, read in ((LETOR, read_data), (b"1\twing\n", read_queries), (b"1 Q0 a 1 2 x\n", read_run)):
        plain, pipe = tmp_path / "plain.txt", tmp_path / "pipe"
        plain.write_bytes(text)
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(text,))
        writer.start()
        assert str(read(pipe)) == str(read(plain)).replace("plain.txt", "pipe")
        writer.join()
        pipe.unlink()


def test_documents_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b'{"id": "a", "text": "wing"}\n',))
    writer.start()
    assert list(read_documents(tmp_path / "pipe")) == [("a", {"text": "wing"})]
    writer.join()


def test_a_pipe_without_a_writer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pipes, "_NO_WRITER", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: is a pipe without a writer; expected a file"):
        read_data(tmp_path / "pipe")


def test_a_silent_writer_is_waited_for_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(pipes, "_SILENCE", 0.02)
    os.mkfifo(tmp_path / "pipe")

    def write():
        with open(tmp_path / "pipe", "wb") as out:
            while not told:
                time.sleep(0.01)
            out.write(LETOR)

    told = []
    writer = threading.Thread(target=write)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_: told.append((str(message), category))
        writer.start()
        with open_file(tmp_path / "pipe") as file:
            assert b"".join(file.chunks()) == LETOR
    writer.join()
    assert told == [(f"{tmp_path / 'pipe'}: waiting for data from this pipe", InputWarning)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_lines_are_joined_from_any_pieces(tmp_path, size):
    text = b"a" * 50 + b"\n" + b"b\n" * 20 + b"c" * 90 + b"\nlast"
    (tmp_path / "f").write_bytes(text)
    found = list(line_chunks(tmp_path / "f", size=size))
    assert b"".join(found) == text
    assert all(chunk.endswith(b"\n") for chunk in found[:-1])


@pytest.mark.parametrize("start", [b"", b"short\nlines\n"])
@pytest.mark.parametrize("size", [7, 50])
def test_endless_lines_are_refused(tmp_path, monkeypatch, start, size):
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    (tmp_path / "f").write_bytes(start + b"x" * 99 + b"\n")
    assert b"".join(line_chunks(tmp_path / "f", size=size)).endswith(b"x\n")
    (tmp_path / "f").write_bytes(start + b"x" * 300 + b"\n")
    with pytest.raises(InputError, match=rf":{start.count(10) + 1}: a line of more than 100 bytes"):
        list(line_chunks(tmp_path / "f", size=size))


def test_gzip_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PACKED_LEAST", 1 << 16)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"0\n" * 2_000_000))
    with pytest.raises(InputError, match=r"bomb.gz: unpacks to more than 100 times its size"):
        list(line_chunks(tmp_path / "bomb.gz", size=1 << 14))
    (tmp_path / "text.gz").write_bytes(gzip.compress(np.random.default_rng(0).bytes(1 << 18)))
    assert len(b"".join(line_chunks(tmp_path / "text.gz"))) == 1 << 18


@pytest.mark.parametrize("line", ["1 qid:{} 1:1", "1 qid:1 1:1 # docid = {}"])
def test_ids_are_of_bounded_length(tmp_path, line):
    (tmp_path / "f.txt").write_text("0 qid:1 1:1\n" + line.format("x" * 4097) + "\n")
    for read in (read_letor, read_letor_labels):
        with pytest.raises(InputError, match=r"f.txt:2: (query|document) id of 4,097 bytes; expected at most 4096"):
            read(tmp_path / "f.txt")


def test_ids_of_texts_are_of_bounded_length(tmp_path):
    (tmp_path / "d.tsv").write_text("x" * 4097 + "\twing\n")
    with pytest.raises(InputError, match=r"d.tsv:1: a document id of 4,097 characters"):
        list(read_documents(tmp_path / "d.tsv"))
    with pytest.raises(InputError, match=r"d.tsv:1: a query id of 4,097 characters"):
        read_queries(tmp_path / "d.tsv")


def test_a_folder_claims_features_in_proportion(tmp_path):
    from scipy import sparse

    wide = sparse.csr_array(([1.0], ([0], [2**25])), shape=(2, 2**25 + 1))
    with pytest.raises(InputError, match=r"33,554,433 features for \d+ bytes of values"):
        save_folder(RankingData.from_arrays(wide, [0, 1], qid=[1, 1]), tmp_path / "d.rank")
    assert list(tmp_path.iterdir()) == []


UNFINISHED = ["<DOC " * 40_000, "<DOC><DOCNO>a</DOCNO>" + "<!--" * 40_000 + "</DOC>", "<DOC>" + "<DOCNO " * 40_000]


@pytest.mark.parametrize("text", [*UNFINISHED, "<top>" * 40_000], ids=lambda text: text[:5] + text[-5:])
def test_unfinished_tags_take_no_time(tmp_path, text):
    (tmp_path / "d").write_text(text)  # quadratic, these would take minutes
    for read in (lambda path: list(read_documents(path, format="trec")), read_queries):
        with suppress(InputError):
            read(tmp_path / "d")


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a = {b = " * 10_000, "a." * 100_000 + "b = 1", "a = " + "[" * 60 + "]" * 60]
)
def test_deeply_nested_toml(text):
    with pytest.raises(InputError, match=r"e.toml:1: nested more than 50 levels deep"):
        parse_toml("" + text, "e.toml")


def test_integers_that_python_will_not_read():
    with pytest.raises(InputError, match=r"e.toml:1: not valid TOML: Exceeds the limit"):
        parse_toml("a = " + "9" * 5000, "e.toml")


class TestParquet:
    """Tables with ids that are not text, and descriptions that claim too much."""

    @pytest.fixture(autouse=True)
    def arrow(self, tmp_path):
        pa, self.pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        self.pa, self.path = pa, tmp_path / "t.parquet"

    def read(self, **columns):
        fixed = {"qid": [1, 1], "docid": ["a", "b"], "label": [0, 1], "f": [0.5, 1.0]}
        self.pq.write_table(self.pa.table(fixed | columns), self.path)
        return read_data(self.path)

    def test_bytes_are_text_if_they_can_be(self):
        assert self.read(docid=[b"x", "ü".encode()]).doc_ids.tolist() == ["x", "ü"]
        with pytest.raises(InputError, match=r"column 'docid', row 1 \(from 0\) is b'\\xff'; expected"):
            self.read(docid=[b"x", b"\xff"])

    @pytest.mark.parametrize("role", ["qid", "docid"])
    def test_other_ids(self, role):
        for ids in ([1.0, np.nan], [None, None], [[1], [2]], [{"a": 1}, {"a": 2}], ["x" * 5000, "b"]):
            with pytest.raises(InputError, match=r"t.parquet: "):
                self.read(**{role: ids})
        for ids in ([1, 2], ["a", "b"], self.pa.array(["a", "b"]).dictionary_encode()):
            assert self.read(**{role: ids}).n_docs == 2

    def test_claims(self, monkeypatch):
        monkeypatch.setattr(parquet_files, "_CLAIM_LEAST", 1000)
        n = 1_000_000
        zeros = np.zeros(n, np.int8)
        self.pq.write_table(self.pa.table({"qid": zeros, "label": zeros, "f": zeros}), self.path)
        with pytest.raises(InputError, match=r"claims 1,000,000 rows of 3 columns, 0 GiB, in [\d,]+ bytes"):
            read_data(self.path)


def test_chunks_are_counted_however_long_lines_are(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_CHUNK_BYTES", 16)
    (tmp_path / "f.txt").write_bytes(LETOR + b"0 qid:1 " + b" " * 100 + b"1:x\n")
    with pytest.raises(InputError, match=r"f.txt:3: feature 1 has the value 'x'"):
        read_letor(tmp_path / "f.txt")
