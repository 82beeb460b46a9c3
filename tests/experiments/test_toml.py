"""The lines of keys: against texts whose every value is its own line."""

import tomllib

import pytest

from rankwright.errors import InputError
from rankwright.experiments.toml import line_of, parse_toml


def values(tables, place=()):
    """Every number of a document, with its place."""
    if isinstance(tables, dict):
        for key, value in tables.items():
            yield from values(value, (*place, key))
    elif isinstance(tables, list):
        for number, value in enumerate(tables):
            yield from values(value, (*place, number))
    else:
        yield place, tables


NUMBERED = """\
# every number is the line it stands on
a = 2
"b c" = 3
'd.e' = 4
f.g = 5
f.h.i = 6

[table]   # [not.a.table]
x = 9
list = [10, 10,
  11,  # 12, ]
  12, [12,
  13], { k = 13, l.m = 13 }]
inline = { y = 14, z = [14, { q = 14 }] }
[[entry]]
n = 16
[entry.inside]
n = 18
[[entry]]
n = 20
[entry.inside]
n = 22
[[entry.deep]]
n = 24
[[entry.deep]]
n = 26
[entry.inside.more]
n = 28
[  "quo.ted" . bare ]
n = 30
"""


def test_every_value_is_on_its_line():
    tables, lines = parse_toml(NUMBERED)
    found = dict(values(tables))
    assert len(found) > 20
    assert {place: lines[place] for place in found} == found


def test_texts_of_several_lines_are_counted():
    text = 'a = """\nb = 1\n[c]\n\\""" [[d]]\n"""\ne = 6\nf = \'\'\'\n[g]\n\'\'\'\nh = "# \\" [" # ]\ni = 11\n'
    tables, lines = parse_toml(text)
    assert tables == tomllib.loads(text)
    assert (lines["a",], lines["e",], lines["f",], lines["h",], lines["i",]) == (1, 6, 7, 10, 11)


def test_windows_line_ends():
    assert parse_toml("a = 1\r\n[b]\r\nc = 3\r\n")[1]["b", "c"] == 3


def test_the_nearest_line_around():
    _, lines = parse_toml("[a]\nb = [1, 2]\n")
    assert line_of(lines, ("a", "b", 1, "x")) == 2
    assert line_of(lines, ("a", "missing")) == 1
    assert line_of(lines, ("missing",)) is None


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb = \n", 2), ("a = 1\na = 2\n", 2), ("[a\n", 1), ("a = [1,\n2", 2)]
)
def test_what_is_no_toml(text, line):
    with pytest.raises(InputError, match="not valid TOML") as caught:
        parse_toml(text, "x.toml")
    assert (caught.value.path, caught.value.line) == ("x.toml", line)
