"""Files of queries in every format, and each thing that can be wrong with them."""

import gzip
import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwright
from rankwright import InputError, InputWarning
from rankwright.text.queries import Queries, read_queries

TOPICS = """
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in international
criminal activity.

<narr> Narrative:
A relevant document must name them &amp; say why.
</top>

<TOP>
<NUM>Number: 302</NUM>
<TITLE>Topic: Poliomyelitis
 and Post-Polio</TITLE>
<DESC>Is it under control?</DESC>
<narr></narr>
</TOP>
"""


def read(tmp_path, text, **options):
    path = tmp_path / "queries"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_queries(path, **options)


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "7", "text": "lift of a wing"}\n\n{"id": "x-1", "text": " heat\\n transfer "}\n',
        '{"_id": "7", "query": "lift of a wing"}\r\n{"qid": "x-1", "title": "heat transfer"}',
        '  {"num": 7, "text": "lift of a wing", "title": "no"}\n{"query_id": "x-1", "text": "heat transfer", "a": 1}',
        "7\tlift of a wing\nx-1\theat transfer\n",
        "7\tlift of a\twing\r\n\r\n x-1 \t heat  transfer \r\n",
        "QID\tQuery\n7\tlift of a wing\nx-1\theat transfer",
        "<top><num>7<title>lift of a wing</top><top><title>heat transfer<num>Number:x-1</top>",
        b"\xef\xbb\xbf7\tlift of a wing\nx-1\theat transfer",
    ],
)
def test_every_format(tmp_path, text):
    queries = read(tmp_path, text)
    assert queries == Queries(("7", "x-1"), ("lift of a wing", "heat transfer"))
    assert list(queries) == [("7", "lift of a wing"), ("x-1", "heat transfer")]
    assert len(queries) == 2


def test_gzip_and_the_public_name(tmp_path):
    path = tmp_path / "queries.tsv.gz"
    path.write_bytes(gzip.compress(b"1\ta b\n"))
    assert dict(rankwright.read_queries(path)) == {"1": "a b"}


def test_topics(tmp_path):
    assert dict(read(tmp_path, TOPICS)) == {
        "301": "International Organized Crime",
        "302": "Poliomyelitis and Post-Polio",
    }
    description = read(tmp_path, TOPICS, part="description")
    assert description.texts[0] == "Identify organizations that participate in international criminal activity."
    with pytest.warns(InputWarning, match="query '302' has no text"):
        narrative = read(tmp_path, TOPICS, part="narrative")
    assert narrative.texts == ("A relevant document must name them & say why.", "")
    both = read(tmp_path, TOPICS, part="Title + description")
    assert both.texts[1] == "Poliomyelitis and Post-Polio Is it under control?"


def test_no_text_is_told_once(tmp_path):
    with pytest.warns(InputWarning) as told:
        queries = read(tmp_path, "1\t\n2\ta\n3\t  \n")
    assert queries.texts == ("", "a", "")
    assert len(told) == 1
    assert str(told[0].message).endswith("queries: 2 queries (first '1') have no text")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "contains no queries; expected JSON lines, lines of id, tab and text, or TREC topics"),
        (" \n\n", None, "contains no queries"),
        ("1\ta\n2 b\n", 2, "no tab in '2 b'; expected id, tab and text"),
        ("1\ta\n\n1\tb\n", 3, "duplicate query '1' (first on line 1)"),
        ("1\ta\n\tb\n", 2, "the query id is ''; expected one word"),
        ("1 2\ta\n", 1, "the query id is '1 2'; expected one word"),
        (b"1\ta\n2\t\xff\n", 2, "byte 0xff is not valid UTF-8"),
        ('{"id": 1, "text": "a"}\n{"id": 2,\n', 2, "invalid JSON ("),
        ('{"id": 1, "text": "a"}\n[1]\n', 2, "a JSON value that is not an object; expected one object per line"),
        ("{}", 1, "has the columns none; expected one for the query (query, query_text, "),
        ('{"id": 1}', 1, "has the columns 'id'; expected one for the query"),
        ('{"id": 1.5, "text": "a"}', 1, "the id of a query is 1.5; expected a string"),
        ('{"id": true, "text": "a"}', 1, "the id of a query is True; expected a string"),
        ('{"id": 1, "text": ["a"]}', 1, "the text of a query is ['a']; expected a string"),
        ('{"id": 1, "text": "\\ud800"}', 1, "the text of a query contains a lone surrogate; expected text"),
        ("\n<top><title>a</top>", 2, "a topic without <num>; its tags: title"),
        ("<top>\n<num>1\n</top>", 1, "a topic without <title>; its tags: num"),
        ("<top></top>", 1, "a topic without <num>; its tags: none"),
        ("<top><num>1<title>a</top>\n\n<top><num>2<title>b", 3, "'<top><num>2<title>b'; expected TREC topics"),
        ('<?xml version="1.0"?>\n<topics>', 1, "'<?xml version=\"1.0\"?>'; expected TREC topics, <top> … </top>"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, line, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert error.value.message.startswith(said)
    assert error.value.line == line
    assert str(error.value.path).endswith("queries")


def test_other_errors(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_queries(tmp_path / "missing")
    with pytest.raises(InputError, match="unknown topic part 'text'; expected title, description, narrative"):
        read(tmp_path, TOPICS, part="title+text")


@given(st.dictionaries(st.from_regex(r"[a-z0-9_-]{1,6}", fullmatch=True), st.text(max_size=20), min_size=1, max_size=5))
@settings(deadline=None)
def test_json_lines_come_back(tmp_path_factory, queries):
    path = tmp_path_factory.mktemp("json") / "queries.jsonl"
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in queries.items()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        found = read_queries(path)
    assert dict(found) == {key: " ".join(text.split()) for key, text in queries.items()}
    assert list(found.ids) == list(queries)
