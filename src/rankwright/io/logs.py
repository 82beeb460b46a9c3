"""Rows of features in JSON: flat objects, with features beside ids, and as search engines log them.

    {"qid": 1, "docid": "a", "label": 2, "bm25": 7.5}                            flat, on lines or in an array
    {"qid": 1, "docid": "a", "label": 2, "features": {"bm25": 7.5}}              features beside, by name or as a list
    {"qid": 1, "_id": "a", "fields": {"_ltrlog": [{"log": [{"name": …, "value": …}]}]}}
    {"qid": 1, "id": "a", "[features]": "bm25=7.5,price=3"}
    {"qid": 1, "hits": {"hits": [ … ]}}, {"qid": 1, "response": {"docs": [ … ]}}    answers with such rows in them

The third form is that of Elasticsearch's and OpenSearch's plugins, the fourth Solr's. Of a row that an engine logged,
the ids, the label and the logged features are taken; an answer does not say which query it is of, so ``qid`` stands
beside it. Cells become text, as in a table in text: one rule for all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from rankwright.errors import InputError, shown
from rankwright.io.files import OpenFile, Progress
from rankwright.io.roles import DOCUMENT, LABEL, QUERY_ID, QUERY_TEXT, Columns, named_columns, plain
from rankwright.io.tables import NamedRow, Table, json_array, json_lines, json_value, start_of, utf8_lines

_JSON = re.compile(r'\{|\[\s*(?:[\[{\]"]|$)')  # other files have [words], too
_IDS = frozenset((*QUERY_ID, *QUERY_TEXT, *DOCUMENT, *LABEL))
JUDGEMENT_LISTS = ("judgmentRatings", "judgementRatings", "judgments", "judgements")
_QUERIES = frozenset((*QUERY_ID, *QUERY_TEXT))
_NO_QUERY = 'is an answer of a search engine without its query; expected one beside it, as in {"qid": 1, "hits": …}'


def is_json(start: str) -> bool:
    return _JSON.match(start) is not None


def json_objects(file: OpenFile, progress: Progress | None = None) -> Iterator[NamedRow]:
    """The objects of a file, with their lines: one per line, in an array, or the only one, on several lines."""
    if start_of(file).startswith(b"["):
        yield from json_array("\n".join(text for _, text in utf8_lines(file, progress)), file.path)
        return
    lines = utf8_lines(file, progress)
    first = next(((line, text) for line, text in lines if text.strip()), (1, ""))
    if first[1].rstrip().endswith("}"):
        yield from json_lines(chain([first], lines), file.path)
        return
    value = json_value("\n".join(text for _, text in chain([first], lines)), file.path, None, "objects with features")
    if not isinstance(value, dict):
        raise InputError(f"a JSON value, {shown(value, 40)}; expected objects with features", file.path)
    yield first[0], value


def holds_judgements(file: OpenFile) -> bool:
    """Whether the first object has the form of judgements that are no rows: lists of ratings, documents by query."""
    first = next((given for _, given in json_objects(file)), {})
    if any(isinstance(first.get(key), list) for key in (*JUDGEMENT_LISTS, "ratings")):
        return True
    if isinstance(first.get("_source"), dict) and logged_features(first) is None:
        return True
    values = list(first.values())
    return bool(values) and all(isinstance(value, dict) for value in values) and not {"hits", "response"} & set(first)


def feature_table(
    file: OpenFile,
    columns: Columns | None,
    progress: Progress | None = None,
    *,
    names: Sequence[str] = (),
    most: int | None = None,
) -> Table:
    """The rows as a table of text. ``names``: its columns; by default all that the first ``most`` rows have."""
    if not names:
        rows = islice(_feature_rows(file, columns, None), most)
        names = list(dict.fromkeys(name for _, row in rows for name in row))
    cells = ((line, [_cell(row.get(name)) for name in names]) for line, row in _feature_rows(file, columns, progress))
    return Table(list(names), file.path, cells)


def _feature_rows(file: OpenFile, columns: Columns | None, progress: Progress | None) -> Iterator[NamedRow]:
    kept = set(named_columns(columns).values())
    for line, given in json_objects(file, progress):
        hits, answer = given.get("hits"), given.get("response")
        listed = (
            hits.get("hits") if isinstance(hits, dict) else answer.get("docs") if isinstance(answer, dict) else None
        )
        if not isinstance(listed, list):
            yield line, _row(given, kept)
            continue
        beside = _ids(given, kept)
        for hit in listed:
            if not isinstance(hit, dict):
                raise InputError(f"a hit is {shown(hit)}; expected an object", file.path, line)
            row = {**beside, **_row(hit, kept)}
            if not any(plain(name) in _QUERIES or name in kept for name in row):
                raise InputError(_NO_QUERY, file.path, line)
            yield line, row


def _row(given: Mapping[str, Any], kept: set[str]) -> dict[str, Any]:
    logged = logged_features(given)
    if logged is None:
        return dict(given)
    source = given.get("_source")
    return {**(_ids(source, kept) if isinstance(source, dict) else {}), **_ids(given, kept), **logged}


def _ids(given: Mapping[str, Any], kept: set[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in kept or plain(name) in _IDS}


def logged_features(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The features that a row has beside its ids, in any of the forms above; None if it is flat."""
    fields = given.get("fields")
    log = fields.get("_ltrlog") if isinstance(fields, dict) else None
    if isinstance(log, list):
        entries = (entry for part in log if isinstance(part, dict) for listed in part.values() for entry in listed)
        return {
            str(entry["name"]): entry.get("value") for entry in entries if isinstance(entry, dict) and "name" in entry
        }
    text, beside = given.get("[features]"), given.get("features")
    if isinstance(text, str):
        pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
        return {name.strip(): value for name, _, value in pairs}
    if isinstance(beside, list):
        return {f"f{number}": value for number, value in enumerate(beside, 1)}
    return beside if isinstance(beside, dict) else None


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)  # true and false, numbers; lists are texts
