"""TREC files: what is read, written and refused."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.tables import FieldColumns
from rankwright.io.trec import read_qrels, read_run, write_qrels, write_run


def as_dict(table):
    bounds = table.indptr.tolist()
    return {
        query: dict(zip(table.documents[a:b], table.values[a:b].tolist(), strict=True))
        for query, a, b in zip(table.query_ids.tolist(), bounds, bounds[1:], strict=False)
    }


def test_reads_interleaved_queries_crlf_tabs_blank_lines_and_no_last_newline(tmp_path):
    path = tmp_path / "a.run"
    path.write_bytes(b"q1 Q0 d1 1 0.5 tag\r\n\nq2\tQ0\te  9 -1e3 tag\n  q1 Q0 d2 2 0.25 tag\n\nq2 Q0 f 1 7 x")
    assert as_dict(read_run(path)) == {"q1": {b"d1": 0.5, b"d2": 0.25}, "q2": {b"e": -1000.0, b"f": 7.0}}


def test_qrels_keep_labels_below_zero_and_fractions(tmp_path):
    path = tmp_path / "qrels"
    path.write_text("1 0 a -2\n1 0 b 0.5\n")
    assert as_dict(read_qrels(path)) == {"1": {b"a": -2.0, b"b": 0.5}}


def test_ids_may_be_any_utf8(tmp_path):
    path = tmp_path / "qrels"
    path.write_text("früh 0 été-☃ 1\n", encoding="utf-8")
    table = read_qrels(path)
    assert table.query_ids.tolist() == ["früh"]
    assert table.documents == ["été-☃".encode()]


def test_gzip_is_told_by_its_content(tmp_path):
    path = tmp_path / "no_suffix"
    path.write_bytes(gzip.compress(b"1 0 a 1\n"))
    assert read_qrels(path).n_docs == 1


@pytest.mark.parametrize("name", ["x.run", "x.run.gz"])
def test_a_run_written_reads_back_in_rank_order(tmp_path, name):
    run = TrecTable.from_dict({"2": {"a": 0.1, "b": 1 / 3, "c": 1 / 3}, "1": {"z": 5.0}})
    write_run(run, tmp_path / name, tag="me")
    back = read_run(tmp_path / name)
    assert as_dict(back) == as_dict(run)
    assert back.documents == [b"c", b"b", b"a", b"z"]  # ties by document id, descending
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "rt") as lines:
        assert next(lines) == "2 Q0 c 1 0.3333333333333333 me\n"


def test_qrels_written_read_back(tmp_path):
    qrels = TrecTable.from_columns(["b", "a", "b"], ["x", "y", "z"], [2, 0, 1.5])
    write_qrels(qrels, tmp_path / "qrels")
    assert (tmp_path / "qrels").read_text() == "b 0 x 2\nb 0 z 1.5\na 0 y 0\n"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"1 Q0 d 1 0.5\n", 1, "5 fields; expected 6: query Q0 document rank score tag"),
        (b"1 Q0 d 1 0.5 t\n1 Q0 e 1 0.5\n", 2, "5 fields; expected 6"),
        (b"1 Q0 d 1 0.5 t\n\n1 Q0 e 1 high t\n", 3, "score is 'high'; expected a finite number"),
        (b"1 Q0 d 1 nan t\n", 1, "score is 'nan'"),
        (b"1 Q0 d 1 0.5 t\n1 Q0 e 1 -inf t\n", 2, "score is '-inf'"),
        (b"1 Q0 d 1 1_0 t\n", 1, "score is '1_0'"),
        (b"1 Q0 d 1 1.2.3 t\n", 1, "score is '1.2.3'"),
        (b"1 Q0 d 1 - t\n", 1, "score is '-'"),
        (b"1 Q0 d 1 5 t\n2 Q0 d 1 5 t\n1 Q0 d 2 4 t\n", 3, "duplicate document 'd' in query '1' (first on line 1)"),
        (b"", None, "is empty; expected lines of: query Q0 document rank score tag"),
        (b"\n \n", None, "is empty"),
        (b"\x00\x01\x02\xff\xfe" * 20, 1, "is not a text file"),
        (b"\xff\xfe Q0 d 1 0.5 t\n", None, "query ids are not UTF-8 text"),
        (b"1 Q0 " + b"d" * 5000 + b" 1 0.5 t\n", 1, "a field of 5000 bytes"),
        (gzip.compress(b"1 Q0 d 1 0.5 t\n" * 100, mtime=0)[:-9], None, "damaged or truncated gzip file"),
        (b"\x1f\x8b garbage", None, "damaged or truncated gzip file"),
    ],
)  # fmt: skip
def test_bad_files_are_explained_with_file_and_line(tmp_path, content, line, message):
    path = tmp_path / "bad.run"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_run(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_folder_and_a_missing_file_are_explained(tmp_path):
    with pytest.raises(InputError, match="is a folder; expected a file"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_run(tmp_path / "nowhere")


def test_line_numbers_are_right_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwright.io.files.line_chunks.__defaults__", (None, 64))
    path = tmp_path / "long.run"
    rows = [f"{i // 10} Q0 doc{i} 1 {i}.5 tag" for i in range(100)]
    path.write_text("\n".join(rows) + "\n")
    assert read_run(path).n_docs == 100
    rows[77] = "7 Q0 doc77 1 oops tag"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"long\.run:78: score is 'oops'"):
        read_run(path)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000000, 1000000, places=6).map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["+5", ".5", "5.", "-0", "1e5", "000012.50", "-.125", "1E-7"]),
)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_numbers_are_those_that_python_reads(texts):
    columns = FieldColumns({"x": np.array([text.encode() for text in texts])}, np.arange(len(texts)), "")
    expected = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(columns.numbers("x"), expected)


@given(st.binary(max_size=200), st.integers(0, 60), st.integers(0, 60))
def test_mutated_files_give_a_result_or_one_line(tmp_path_factory, noise, start, length):
    good = b"q1 Q0 d1 1 0.5 tag\nq2 Q0 d1 1 0.25 tag\nq2 Q0 d2 2 0.125 tag\n"
    path = tmp_path_factory.mktemp("mutated") / "x.run"
    path.write_bytes(good[:start] + noise + good[start + length :])
    message = ""
    try:
        read_run(path)
    except InputError as error:
        message = str(error)
    assert "\n" not in message


def test_tables_refuse_what_is_no_number_and_ids_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="non-numeric value"):
        TrecTable.from_dict({"1": {"a": "high"}})
    with pytest.raises(InputError, match="nan or inf"):
        TrecTable.from_dict({"1": {"a": float("nan")}})
    with pytest.raises(InputError, match="document id 'a b' cannot be written"):
        write_run(TrecTable.from_dict({"1": {"a b": 1.0}}), tmp_path / "x")
    with pytest.raises(InputError, match="tag 'my run' cannot be written"):
        write_run(TrecTable.from_dict({"1": {"a": 1.0}}), tmp_path / "x", tag="my run")
    assert list(tmp_path.iterdir()) == []
    write_run(TrecTable.from_dict({"1": {"a": 1.0}}), tmp_path / "x", tag="\ud800")  # no text of UTF-8
    assert (tmp_path / "x").read_bytes() == b"1 Q0 a 1 1 ?\n"


def test_writing_fails_whole(tmp_path):
    run = TrecTable.from_dict({"1": {"a": 1.0}})
    with pytest.raises(InputError, match="is a folder"):
        write_run(run, tmp_path)
    with pytest.raises(InputError, match=r"cannot be written: the folder .*nowhere does not exist; make it first"):
        write_run(run, tmp_path / "nowhere" / "x")
    (tmp_path / "kept").write_text("old")
    with pytest.raises(InputError):
        write_run(TrecTable.from_dict({"1": {"a": 1.0}, "2 3": {"b": 1.0}}), tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_select_keeps_the_tables_order_and_ignores_unknown_queries():
    table = TrecTable.from_dict({"b": {"d1": 1.0, "d2": 0.5}, "a": {"d1": 2.0}, "7": {"d9": 3.0}}, "qrels")
    chosen = table.select([7, "b", "unknown"])
    assert as_dict(chosen) == {"b": {b"d1": 1.0, b"d2": 0.5}, "7": {b"d9": 3.0}}
    assert (chosen.query_ids.tolist(), chosen.indptr.tolist(), chosen.name) == (["b", "7"], [0, 2, 3], "qrels")
    nothing = table.select(np.array([], str))
    assert (nothing.n_queries, nothing.n_docs, nothing.indptr.tolist()) == (0, 0, [0])
