"""Tables in text, against Python's own csv module and by hand."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright import InputError
from rankwright.io.files import open_file
from rankwright.io.tables import header_cells, text_table, utf8_lines


def read(path):
    with open_file(path) as file:
        table = text_table(utf8_lines(file), path)
        return table.names, list(table.rows)


def put(folder, content):
    path = folder / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        ("a,b\n1,2\n", ["a", "b"], [(2, ["1", "2"])]),
        ("\ufeffa,b\r\n1,2\r\n", ["a", "b"], [(2, ["1", "2"])]),
        ("a;b\n1,5;2\n", ["a", "b"], [(2, ["1,5", "2"])]),
        ("a\tb, c\n1\t2\n", ["a", "b, c"], [(2, ["1", "2"])]),
        ('"a;x",b\n1,2\n', ["a;x", "b"], [(2, ["1", "2"])]),
        ('a,b\n"x\ny",2\n3,4\n', ["a", "b"], [(2, ["x\ny", "2"]), (4, ["3", "4"])]),
        ('a,b\r\n"x\r\n\r\ny",2\r\n', ["a", "b"], [(2, ["x\n\ny", "2"])]),
        ('a,b\n"say ""hi""",""\n', ["a", "b"], [(2, ['say "hi"', ""])]),
        ('a,b\n5" pipe,2\n', ["a", "b"], [(2, ['5" pipe', "2"])]),
        ("\n\na,b\n\n1,2\n,\n", ["a", "b"], [(5, ["1", "2"])]),
        ("a|b\n1|2", ["a", "b"], [(2, ["1", "2"])]),
        ("one\nx\n", ["one"], [(2, ["x"])]),
        (",a\n0,x\n", ["", "a"], [(2, ["0", "x"])]),
    ],
)
def test_tables(tmp_path, content, names, rows):
    assert read(put(tmp_path, content)) == (names, rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.csv: is empty; expected a header line"),
        ("\n \n", "is empty"),
        ('a,b\n"x,2\n3,4\n', "a.csv:2: a quotation mark is never closed; expected quotation marks in pairs"),
        ('a,b\n"x"y,2\n', "a.csv:2: 'y' after a quotation mark"),
        ("a,a\n1,2\n", "a.csv:1: 2 columns are called 'a'"),
        (b"a,b\n1,2\n\xe9,3\n", "a.csv:3: byte 0xe9 is not valid UTF-8"),
        (b"a,b\n1,\0\n", "a.csv:2: is not a text file"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    with pytest.raises(InputError) as caught:
        read(put(tmp_path, content))
    assert message in str(caught.value)


def test_rows_with_other_numbers_of_cells(tmp_path):
    path = put(tmp_path, "a,b\n1,2\n1,2,3\n")
    with (
        open_file(path) as file,
        pytest.raises(InputError, match=r"a.csv:3: 3 cells; expected 2, as in the header \(put"),
    ):
        list(text_table(utf8_lines(file), path).full_rows())


def test_a_long_cell_takes_time_in_proportion(tmp_path):
    text = '""\n' * 50_000  # every line of the cell has quotation marks
    assert read(put(tmp_path, f'a,b\n"{text}",x\n'))[1][0][1] == ['"\n' * 50_000, "x"]


cells = st.text(st.sampled_from('ab1",;\t\n é'), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows, delimiter, quoting, end, mark):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow(["id", "x", "y"])
    writer.writerows(rows)
    path = put(tmp_path_factory.mktemp("csv"), mark + out.getvalue())
    names, found = read(path)
    assert names == ["id", "x", "y"]
    assert [row for _, row in found] == [row for row in rows if any(row)]


def test_cells_of_a_header():
    assert header_cells('\ufeff"Doc ID",x\r') == ["Doc ID", "x"]
    assert header_cells("only") == ["only"]
    assert header_cells('"open, x') == ['"open, x']
