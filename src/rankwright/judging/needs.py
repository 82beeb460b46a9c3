"""What lies behind a query: the description in the file of queries, if there is one, for the judge to read."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from rankwright.data.files import line_chunks
from rankwright.errors import InputError
from rankwright.text.reading.queries import PARTS, read_queries

__all__ = ["read_needs"]

_IDS = ("id", "_id", "qid", "query_id", "num")
_NEEDS = ("description", "need", "narrative", "desc", "narr")


def read_needs(path: str | Path) -> dict[str, str]:
    """Descriptions by query id, of JSON lines (description, need or narrative) or of TREC topics.

    A file without any gives an empty mapping; whether the file is right is for
    :func:`~rankwright.text.reading.queries.read_queries` to say.
    """
    text = b"".join(line_chunks(path)).decode("utf-8-sig", "replace")
    start = text.lstrip()[:1]
    if start == "<":
        return _of_topics(path)
    return _of_lines(text) if start == "{" else {}


def _of_topics(path: str | Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in PARTS:
        if part == "title":
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read = dict(read_queries(path, part=part))
            except InputError:  # topics without this part
                continue
        for query, text in read.items():
            found[query] = " ".join(filter(None, (found.get(query), text)))
    return {query: text for query, text in found.items() if text}


def _of_lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.split("\n")):
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):  # not JSON lines
            return {}
        if not isinstance(given, dict):
            continue
        name = next((given[key] for key in _IDS if key in given), None)
        parts = [given[key] for key in _NEEDS if isinstance(given.get(key), str) and given[key].strip()]
        if name is not None and parts:
            found[str(name)] = " ".join(" ".join(part.split()) for part in dict.fromkeys(parts))
    return found
