"""What lies behind a query, from files of queries."""

import pytest

from rankwright.judging.pool import read_needs

TOPIC = "<top><num> Number: 7 <title> wings <desc> Description: How they lift. <narr> Narrative: Theory counts. </top>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": "1", "text": "a", "description": " two\\n words "}\n{"id": 2, "text": "b"}\n', {"1": "two words"}),
        ('{"qid": 3, "query": "a", "narrative": "n", "description": "d"}\n', {"3": "d n"}),
        ('{"id": "1", "text": "a", "description": 7}\n', {}),
        (TOPIC, {"7": "How they lift. Theory counts."}),
        ("<top><num>7 <title>wings</top>", {}),
        ("1\twings\n", {}),
        ('{\n"id": "1"\n}', {}),
        ("", {}),
    ],
)
def test_descriptions(tmp_path, text, expected):
    (tmp_path / "queries").write_text(text)
    assert read_needs(tmp_path / "queries") == expected
