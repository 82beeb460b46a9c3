"""What tables are wrapped in (UTF-16, zip, Excel), and files that are named for what they are."""

import datetime
import gzip
import pickle
import zipfile

import pytest

from rankwright import InputError, read_data, read_letor, read_qrels
from rankwright.cli.main import main
from rankwright.io import wrapped
from rankwright.io.files import open_file

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")

TABLE = "qid,label,x\na,1,2\nä,0,3\n"


def text_of(path):
    with open_file(path) as file:
        return b"".join(file.chunks()).decode()


def zipped(path, **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def sheet(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        page = book.create_sheet(f"sheet {number}")
        for row in rows:
            page.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("packed", ["", "gzip", "zip"])
def test_unicode_is_read_as_utf_8(tmp_path, encoding, packed):
    mark = "\ufeff" if encoding.endswith("e") else ""
    content = (mark + TABLE).encode(encoding)
    path = tmp_path / "t"
    if packed == "zip":
        zipped(path, **{"t.csv": content})
    else:
        path.write_bytes(gzip.compress(content) if packed else content)
    assert text_of(path) == TABLE
    assert read_data(path).query_ids.tolist() == ["a", "ä"]


def test_utf_16_that_ends_in_half_a_letter_is_reported(tmp_path):
    (tmp_path / "t").write_bytes(TABLE.encode("utf-16")[:-1])
    with pytest.raises(InputError, match="starts as UTF-16 and is not UTF-16 throughout"):
        read_data(tmp_path / "t")


def test_a_letor_file_in_a_zip_archive(tmp_path):
    letor = "1 qid:1 1:0.5 # docid = a\n"
    path = zipped(tmp_path / "t.zip", **{"t.txt": letor, "__MACOSX/._t.txt": "x"})
    assert read_letor(path).X.tolist() == [[0.5]]
    assert read_data(path).doc_ids.tolist() == ["a"]


def test_cells_of_a_sheet(tmp_path):
    day, moment = datetime.date(2024, 5, 31), datetime.datetime(2024, 5, 31, 12, 30)
    rows = [["qid", "a;b", "when"], ["q", 1.0, day], ["q", 'say "x", y', moment], ["q", True, None], ["q", 2.5, "é"]]
    text = text_of(sheet(tmp_path / "t.xlsx", [[], *rows], []))
    expected = '"qid","a;b","when"\nq,1,2024-05-31\nq,"say ""x"", y",2024-05-31 12:30:00\nq,true,\nq,2.5,é\n'
    assert text.lstrip("\n") == expected


def test_lines_of_a_sheet_are_those_of_the_sheet(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [[None], [None], ["qid", "label", "x"], ["q", 1, 2], ["q", -1, 2]])
    with pytest.raises(InputError, match=r"t.xlsx:5: label is negative"):
        read_data(path)


def test_an_excel_file_without_the_library_says_what_to_install(tmp_path, monkeypatch):
    path = sheet(tmp_path / "t.xlsx", [["qid", "label", "x"], ["q", 1, 2]])
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(InputError, match=r"is an Excel file.*save it as CSV, or install rankwright\[excel\]"):
        read_data(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99),
            r"is an Excel file \(.xls of Excel 97\).*save it as CSV or .xlsx",
        ),
        (pickle.dumps([1, 2]), "is a Python pickle, which is not read, as it can run code"),
        (b"\x89HDF\r\n\x1a\n" + bytes(9), "is an HDF5 file; write CSV or Parquet"),
        (gzip.compress(b"RDX3\nX\n" + bytes(9), mtime=0), "is R data"),
        (gzip.compress(b"X\n\0\0\0\x03\0\x04" + bytes(9), mtime=0), "is R data"),
        (b"ARROW1\0\0", "is an Arrow or Feather file; write Parquet"),
        (b"SQLite format 3\0", "is an SQLite database"),
        (b"BZh91AY&SY", "is packed in another way than gzip or zip"),
        (b"%PDF-1.7\n", "is a PDF document"),
    ],
)
@pytest.mark.parametrize("read", [read_data, read_qrels])
def test_what_cannot_be_read_is_named(tmp_path, content, message, read):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "t")


def test_words_that_start_like_other_files_are_text(tmp_path):
    for name in ("ORCID", "RDX", "FEAT", "BZh", "Rar", "Obj"):
        (tmp_path / "t.csv").write_text(f"{name},qid,label\n1,q,1\n")
        assert read_data(tmp_path / "t.csv").feature_names == (name,)


def test_archives_that_are_refused(tmp_path, monkeypatch):
    several = {"a.csv": TABLE, "b.csv": TABLE}
    for files, message in (
        (several, r"is a zip archive with 2 files \(a.csv, b.csv\) in it; expected one file"),
        ({}, "is a zip archive with no file in it"),
        ({"word/document.xml": "x", "x": "y"}, "is an Office document"),
        ({"a.npy": "x", "b.npy": "y"}, "is a NumPy archive"),
    ):
        with pytest.raises(InputError, match=message):
            read_data(zipped(tmp_path / "t.zip", **files))
    sheet(tmp_path / "t.xlsx", [["qid"]], [["qid"]])
    with pytest.raises(InputError, match=r"2 sheets with rows \('sheet 0', 'sheet 1'\); expected one sheet"):
        read_data(tmp_path / "t.xlsx")
    zipped(tmp_path / "cut.zip", **{"a.csv": TABLE * 100})
    (tmp_path / "cut.zip").write_bytes((tmp_path / "cut.zip").read_bytes()[:-30])
    with pytest.raises(InputError, match="is a damaged or incomplete zip archive"):
        read_data(tmp_path / "cut.zip")
    monkeypatch.setattr(wrapped, "PACKED_LEAST", 1 << 10)
    with pytest.raises(InputError, match="unpacks to more than 100 times its size"):
        read_data(zipped(tmp_path / "bomb.zip", **{"a.csv": "1" * 10**6}))


def test_a_damaged_sheet_is_one_line(tmp_path):
    sheet(tmp_path / "t.xlsx", [["qid", "label", "x"], ["q", 1, 2]])
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for name in contents:
        changed = contents | {name: contents[name][: len(contents[name]) // 2] + b"<x>\xff"}
        with zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as archive:
            for other, content in changed.items():
                archive.writestr(other, content)
        try:
            line = repr(read_data(tmp_path / "bad.xlsx"))
        except InputError as error:
            line = str(error)
        assert len(line.splitlines()) == 1


def test_commands_take_them(tmp_path, capsys):
    rows = [["query", "docid", "rating"], ["q", "d1", 1], ["q", "d2", 0]]
    sheet(tmp_path / "qrels.xlsx", rows)
    run = "q Q0 d1 1 2.0 t\nq Q0 d2 2 1.0 t\n"
    zipped(tmp_path / "run.zip", **{"a.run": run.encode("utf-16")})
    assert main(["evaluate", str(tmp_path / "qrels.xlsx"), str(tmp_path / "run.zip"), "-m", "AP"]) == 0
    assert "1.0000" in capsys.readouterr().out
