import gzip
import json

import pytest

from rankwright import InputError, InputWarning
from rankwright.text.documents import read_documents, read_records

DOCS = [
    ("d1", {"title": "A wing", "text": "in a slipstream"}),
    ("2", {"text": "tabs\tand\nlines ✓"}),
    ("d3", {}),
]
JSON = "".join(json.dumps({"id": doc_id, **fields}) + "\n" for doc_id, fields in DOCS)
SGML = """<?xml version="1.0"?>
<!-- several <documents> -->
<DOC>
<DOCNO> FT-1 </DOCNO>
<DATE>1992</DATE>
<HEADLINE>Wings &amp; <I>things</I></HEADLINE>
<TEXT>
<P>First &lt;paragraph&gt;, 1 < 2
<P>Second<!-- hidden
--> one
</TEXT>
</DOC>
<doc><docno>FT-2</docno>loose words<title>Small</title> and <text>more</doc>

<DOC id="x"><DOCNO>FT-3</DOCNO></DOC>
"""


def write(path, text, encoding="utf-8"):
    data = text if isinstance(text, bytes) else text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path, **options):
    return list(read_documents(path, **options))


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz", "a.ndjson", "a", "a.txt", "a.gz"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_json_lines(tmp_path, name, bom):
    assert read(write(tmp_path / name, bom + JSON)) == DOCS


def test_json_lines_with_blank_lines_windows_ends_and_no_last_end(tmp_path):
    path = write(tmp_path / "a.jsonl", "\r\n" + JSON.replace("\n", "\r\n\n").rstrip())
    assert read(path) == DOCS
    assert [line for _, _, _, line in read_records(path)] == [2, 4, 6]


@pytest.mark.parametrize("key", ["id", "_id", "docno"])
def test_keys_of_ids(tmp_path, key):
    assert read(write(tmp_path / "a.jsonl", f'{{"t": "x", "{key}": 7}}')) == [("7", {"t": "x"})]


def test_keys_without_text_are_told_once(tmp_path):
    lines = ['{"id": "a", "t": "x", "year": 1990, "who": ["b"]}', '{"id": "b", "year": null, "t": null, "ok": true}']
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    with pytest.warns(InputWarning, match="a.jsonl: ignored keys that are not text: year, who, ok$") as told:
        assert read(path) == [("a", {"t": "x"}), ("b", {})]
    assert len(told) == 1
    assert len(list(read_records(path, wanted=["t"]))) == 2  # and not at all where they are not asked for


@pytest.mark.parametrize("name", ["a.tsv", "a", "a.tsv.gz"])
def test_columns(tmp_path, name):
    found = read(write(tmp_path / name, "d1\tsome text\r\n\nd2\t\n"))
    assert found == [("d1", {"text": "some text"}), ("d2", {"text": ""})]
    for header in ("id\ttitle\tbody", "DOCNO\ttitle\tbody", "_id\ttitle \tbody\r"):
        found = read(write(tmp_path / name, header + '\nd1\tA\t"B"\nd2\t\tC'))
        assert found == [("d1", {"title": "A", "body": '"B"'}), ("d2", {"title": "", "body": "C"})]


@pytest.mark.parametrize("name", ["a.sgml", "a.trec.gz", "a", "a.xml"])
@pytest.mark.parametrize("size", [1 << 20, 50, 7, 1])
def test_sgml(tmp_path, monkeypatch, name, size):
    monkeypatch.setattr(
        "rankwright.text.documents.line_chunks", lambda source, progress=None: chunks_of(source.path, size)
    )
    found = list(read_records(write(tmp_path / name, SGML)))
    assert [record[:2] for record in found] == [
        ("FT-1", {"title": "Wings &\nthings", "text": "1992\nFirst <paragraph>, 1 < 2\nSecond\none"}),
        ("FT-2", {"title": "Small", "text": "loose words\nand\nmore"}),
        ("FT-3", {"text": ""}),
    ]
    assert [line for _, _, _, line in found] == [3, 13, 15]


def chunks_of(path, size):
    """Pieces of whole lines, as few as make ``size`` bytes."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    piece = b""
    for line in data.splitlines(keepends=True):
        piece += line
        if len(piece) >= size:
            yield piece
            piece = b""
    if piece:
        yield piece


def test_sgml_with_a_tag_over_a_line_end(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rankwright.text.documents.line_chunks", lambda source, progress=None: chunks_of(source.path, 1)
    )
    path = write(tmp_path / "a.sgml", "<DOC\n><DOCNO>a</DOCNO\n>x</DOC><DOC\nid='3'>\n<DOCNO>\nb\n</DOCNO></DOC\n>")
    assert read(path) == [("a", {"text": "x"}), ("b", {"text": ""})]


def test_folder(tmp_path):
    folder = tmp_path / "docs"
    for name, text in {"b.txt": "bee", "a/c.sgml": "<DOC>", "a/.hidden": "x", ".git/d": "x", "a.txt": ""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, text)
    write(folder / "z.gz", "packed")
    seen = []
    found = read(folder, progress=lambda done, total: seen.append((done, total)))
    assert found == [
        ("a.txt", {"text": ""}),
        ("a/c.sgml", {"text": "<DOC>"}),
        ("b.txt", {"text": "bee"}),
        ("z.gz", {"text": "packed"}),
    ]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_format_can_be_given(tmp_path):
    path = write(tmp_path / "a.jsonl", "{1\ttext")
    assert read(path, format="tsv") == [("{1", {"text": "text"})]
    with pytest.raises(InputError, match="unknown format 'xml'; expected csv, jsonl, json, tsv, parquet, trec"):
        read(path, format="xml")
    with pytest.raises(InputError, match="not a folder"):
        read(path, format="folder")


def test_progress_of_a_file(tmp_path):
    path, seen = write(tmp_path / "a.jsonl", JSON), []
    read(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(JSON), len(JSON))


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.jsonl", '{"id": "a"}\n\n{"id": "b",}', 3, "invalid JSON (.*column 1[12].*); expected one object per line"),
        ("a.jsonl", '{"id": ' + "9" * 5000 + "}", 1, "invalid JSON"),
        ("a.jsonl", '{"id": ' + "[" * 100_000, 1, "invalid JSON"),
        ("a.jsonl", '[{"id": "a"}]', 1, "not an object; expected one object per line"),
        (
            "a.jsonl",
            '{"id": "a"}\n{"text": "b"}',
            2,
            "without an id; expected one of the keys id, _id, docid, doc_id",
        ),
        ("a.jsonl", '{"id": ""}', 1, "empty document id"),
        ("a.jsonl", '{"id": true}', 1, "the document id is True; expected a string"),
        ("a.jsonl", '{"id": null}', 1, "the document id is None"),
        ("a.jsonl", '{"id": "a b"}', 1, "the document id 'a b' contains whitespace; expected one word"),
        ("a.jsonl", '{"id": "a\\u00a0b"}', 1, "whitespace"),
        ("a.jsonl", '{"id": "a", "t": "x\\uD83d!"}', 1, "a lone surrogate"),
        ("a.tsv", "a\tx\n\tb", 2, "empty document id"),
        ("a.tsv", "a b\tx", 1, "whitespace"),
        ("a.tsv", "a\tx\ty", 1, "3 columns; expected 2 .id, text., or a first line that names them"),
        ("a.tsv", "id\tt\tu\nx\ty", 2, "2 columns; expected 3 .id, t, u."),
        ("a.tsv", "id\tt\t\n", 1, "bad column name ''"),
        ("a.tsv", "id\tt\tt\n", 1, "bad column name 't'"),
        ("a.sgml", "<DOC>\n<DOC>", 2, "<DOC> inside a document; expected </DOC>"),
        ("a.sgml", "\n</DOC>", 2, "</DOC> outside a document"),
        ("a.sgml", "\n<DOC>\n<DOCNO>a</DOCNO>", 2, "unterminated document; expected </DOC>"),
        ("a.sgml", "\n\n<DOC></DOC>", 3, "without an id; expected <DOCNO>"),
        ("a.sgml", "<DOC><DOCNO> </DOCNO></DOC>", 1, "empty document id"),
        ("a.sgml", "<DOC><DOCNO>a b</DOCNO></DOC>", 1, "whitespace"),
    ],
)
def test_errors_with_file_and_line(tmp_path, name, text, line, message):
    path = write(tmp_path / name, text)
    with pytest.raises(InputError, match=message) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a", "a.jsonl", "a.tsv", "a.sgml", "a.jsonl.gz"])
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_no_documents(tmp_path, name, text):
    with pytest.raises(InputError, match="contains no documents"):
        read(write(tmp_path / name, text))


def test_no_documents_in_a_header_or_a_folder(tmp_path):
    with pytest.raises(InputError, match="contains no documents"):
        read(write(tmp_path / "a.tsv", "id\ttext\n"))
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    with pytest.raises(InputError, match="contains no documents"):
        read(tmp_path / "docs")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="unknown document format, its first line is 'just words'; expected CSV"):
        read(write(tmp_path / "a.txt", "just words\n"))
    path = write(tmp_path / "a.jsonl.gz", JSON * 1000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="damaged or truncated gzip file"):
        read(path)
    with pytest.raises(InputError, match='errors is \'ignore\'; expected "strict" or "replace"'):
        read(path, errors="ignore")


@pytest.mark.parametrize(
    ("name", "data", "line", "expected"),
    [
        ("a.jsonl", b'{"id": "a", "t": "x"}\n{"id": "b", "t": "caf\xe9 \xff\xfe."}', 2, ["x", "caf\ufffd \ufffd."]),
        ("a.tsv", b"a\tx\nb\t\xe9", 2, ["x", "\ufffd"]),
        ("a.sgml", b"<DOC><DOCNO>a</DOCNO>x</DOC>\n<DOC><DOCNO>b</DOCNO>\n\xe9</DOC>", 3, ["x", "\ufffd"]),
    ],
)
def test_bytes_that_are_not_text(tmp_path, name, data, line, expected):
    path = write(tmp_path / name, data)
    with pytest.raises(InputError, match="is not valid UTF-8") as error:
        read(path)
    assert str(error.value).startswith(f"{path}:{line}: the byte 0xe9")
    with pytest.warns(InputWarning, match="replaced bytes that are not UTF-8 in 1 document"):
        found = read(path, errors="replace")
    assert [next(iter(fields.values())) for _, fields in found] == expected


def test_bytes_that_are_not_text_in_a_folder(tmp_path):
    write(tmp_path / "b", b"\n\xe9x")
    write(tmp_path / "a", "fine")
    with pytest.raises(InputError, match="/b:2: the byte 0xe9"):
        read(tmp_path)
    with pytest.warns(InputWarning, match="replaced bytes that are not UTF-8 in 1 document"):
        assert read(tmp_path, errors="replace") == [("a", {"text": "fine"}), ("b", {"text": "\n\ufffdx"})]


def test_halves_of_surrogate_pairs_are_replaced(tmp_path):
    path = write(tmp_path / "a.jsonl", r'{"id": "a", "t": "\ud83d x \ud83d\ude00 \uDead", "u": "y"}')
    with pytest.warns(InputWarning, match="in 1 document"):
        assert read(path, errors="replace") == [("a", {"t": "\ufffd x 😀 \ufffd", "u": "y"})]
