"""What the columns of people's tables are: found by name, whatever the case, or named by the user.

Names are compared in lower case with ``_`` for blanks and hyphens, so ``Doc ID``, ``doc-id`` and ``doc_id`` are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rankwright.errors import InputError

__all__ = [
    "BESIDE",
    "DOCUMENT",
    "LABEL",
    "QUERY_ID",
    "QUERY_TEXT",
    "ROLES",
    "TEXTS",
    "Columns",
    "check_columns",
    "find",
    "named_in",
    "parse_columns",
    "plain",
]

Columns = Mapping[str, str]
"""Columns by role, as the user names them."""

QUERY_ID = ("qid", "query_id", "queryid", "topic", "topic_id", "num")
QUERY_TEXT = ("query", "query_text", "querytext", "query_string")
DOCUMENT = (
    *("docid", "doc_id", "docno", "document_id", "documentid", "corpus_id", "product_id"),
    *("doc", "document", "id", "_id", "url"),
)
LABEL = ("rating", "grade", "label", "relevance", "rel", "judgement", "judgment", "score", "gain")
TITLE = ("title", "headline", "name")
TEXT = ("text", "body", "content", "description", "passage", "contents")
TEXTS = (
    *(*TITLE, *TEXT, *QUERY_TEXT, "url", "information_need", "snippet"),
    *("note", "notes", "comment", "comments", "explanation", "rationale", "judge", "annotator", "rater"),
)
"""Columns of a table of judgements or features that are for people to read."""

BESIDE = (
    *("position", "doc_position", "rank", "iteration", "timestamp"),
    *("judge_id", "annotator_id", "rater_id", "user_id", "session_id"),
)
"""Columns that hold numbers in tables of judgements, and are no reason to take a table for features."""

ROLES = {
    "id": ("id", "_id", *(name for name in DOCUMENT if name not in ("id", "_id"))),
    "title": TITLE,
    "text": TEXT,
    "qid": QUERY_ID,
    "query": QUERY_TEXT,
    "docid": DOCUMENT,
    "label": LABEL,
    "feature": (),
    "skip": (),
    "categorical": (),
}
"""The roles that a column can have, and the names by which it is found, the first that is there."""

_SEVERAL = ("feature", "skip", "categorical")
_GAPS = re.compile(r"[\s\-]+")


def plain(name: str) -> str:
    """A column's name as it is compared.

    Examples
    --------
    >>> plain(" Doc-ID ")
    'doc_id'
    """
    return _GAPS.sub("_", name.strip().lower())


def find(names: Iterable[str], role: str, columns: Columns | None = None, known: Sequence[str] = ()) -> str | None:
    """The column of a role: the one the user names, or the first whose name is known; None if there is none."""
    if columns and role in columns:
        return columns[role]
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    return next((by_plain[one] for one in known or ROLES[role] if one in by_plain), None)


def named_in(columns: Columns | None, role: str) -> list[str]:
    """The columns that the user names for a role that may have several."""
    return [name for name in (columns or {}).get(role, "").split("\n") if name]


def check_columns(columns: Columns | None, names: Sequence[str]) -> None:
    """Reject a column that the user names and that is not there."""
    for role, several in (columns or {}).items():
        for name in several.split("\n"):
            if name not in names:
                listed = ", ".join(repr(one[:40]) for one in names[:8]) + (", …" if len(names) > 8 else "")
                raise InputError(f"no column {name!r}, named for {role}; its columns: {listed}")


def parse_columns(text: str | None) -> dict[str, str] | None:
    """Columns as an option gives them, ``ROLE=NAME,ROLE=NAME``.

    Examples
    --------
    >>> parse_columns("qid=search id,label=stars")
    {'qid': 'search id', 'label': 'stars'}
    """
    if text is None:
        return None
    found: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = part.partition("=")
        role, name = role.strip().lower(), name.strip()
        if not equals or role not in ROLES or not name:
            expected = f"ROLE=NAME, separated by commas, with the roles {', '.join(ROLES)}"
            raise InputError(f"--columns is {text!r}; expected {expected}")
        if role in found and role not in _SEVERAL:
            raise InputError(f"--columns names two columns for {role}; expected one")
        found[role] = f"{found[role]}\n{name}" if role in found else name
    return found
