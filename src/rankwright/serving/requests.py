"""What a request may hold: parameters and JSON bodies as checked values, or an error of one line for the client.

Nothing here trusts its input: sizes are limited before anything is allocated from them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankwright.errors import shown
from rankwright.io.tables import is_shallow

_LONGEST_ID = 512
_LONGEST_NAME = 200
_FEW = 10


class RequestError(Exception):
    """A request that cannot be answered: the status of HTTP, and one line for the client."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.status = message, status


@dataclass(frozen=True)
class Limits:
    """How large a request may be, and how long it may take.

    `body`: bytes of a body. `documents`: documents of a request to ``/rank``. `k`: results of a search. `query`:
    characters of a query. `seconds`: time for a request, waiting included. `threads`: requests computed at a time.
    `waiting`: requests that may wait for a thread; further ones are turned away.
    """

    body: int = 8 << 20
    documents: int = 10_000
    k: int = 1_000
    query: int = 1_000
    seconds: float = 10.0
    threads: int = 2
    waiting: int = 32


@dataclass(frozen=True)
class SearchRequest:
    """``GET /search``: a query, the number of results, the ranker and the fields to return; None for the defaults."""

    query: str
    k: int
    ranker: str | None
    fields: tuple[str, ...] | None

    @classmethod
    def of(cls, given: Sequence[tuple[str, str]], limits: Limits) -> SearchRequest:
        parameters = _parameters(given, ("q", "k", "ranker", "fields"), ("q",))
        fields = parameters.get("fields")
        listed = None if fields is None else tuple(part for part in fields.split(",") if part)
        k = parameters.get("k", str(_FEW))
        if not (k.isascii() and k.isdecimal() and len(k) < 10 and 1 <= int(k) <= limits.k):
            raise RequestError(f"k is {shown(k)}; expected a whole number from 1 to {limits.k:,}")
        return cls(_query(parameters["q"], "q", limits), int(k), parameters.get("ranker"), listed)


@dataclass(frozen=True)
class ExplainRequest:
    """``GET /explain``: a query, a document and, optionally, another one to compare it with."""

    query: str
    document: str
    against: str | None
    ranker: str | None

    @classmethod
    def of(cls, given: Sequence[tuple[str, str]], limits: Limits) -> ExplainRequest:
        parameters = _parameters(given, ("q", "doc", "against", "ranker"), ("q", "doc"))
        query, document, against = _query(parameters["q"], "q", limits), parameters["doc"], parameters.get("against")
        if document == against:
            raise RequestError("doc and against are the same document; expected two")
        return cls(query, document, against, parameters.get("ranker"))


@dataclass(frozen=True)
class RankRequest:
    """``POST /rank``: either features of documents, or a query and ids of documents in the index.

    `ranker`: name of the ranker. `names`: names of the columns of ``rows``, if they are lists. `rows`: one mapping or
    one list of values per document. `ids`: ids of the documents. `query`: the query, if the documents are in the index.
    `missing_as_zero`: whether features that no document has are 0; otherwise they are an error.
    """

    ranker: str | None
    names: list[str] | None
    rows: list[Any] | None
    ids: list[str] | None
    query: str | None
    missing_as_zero: bool

    @classmethod
    def of(cls, body: bytes, limits: Limits) -> RankRequest:
        given = json_object(body, ("ranker", "features", "ids", "query", "documents", "missing_as_zero"))
        ranker, zero = given.get("ranker"), given.get("missing_as_zero", False)
        if ranker is not None and not isinstance(ranker, str):
            raise RequestError(f"ranker is {shown(ranker)}; expected a name")
        if not isinstance(zero, bool):
            raise RequestError(f"missing_as_zero is {shown(zero)}; expected true or false")
        if "features" in given:
            if "query" in given or "documents" in given:
                raise RequestError("features cannot be combined with query or documents; expected one form")
            names, rows = _features(given["features"], limits)
            ids = None if given.get("ids") is None else _ids(given["ids"], "ids", len(rows))
            return cls(ranker, names, rows, ids, None, zero)
        if "query" not in given or "documents" not in given:
            raise RequestError("expected features, or query and documents (ids of documents in the index)")
        if "ids" in given or zero:
            raise RequestError("ids and missing_as_zero belong to features; expected query and documents alone")
        documents = _listed(given["documents"], "documents", limits.documents)
        ids = _ids(documents, "documents", len(documents))
        return cls(ranker, None, None, ids, _query(given["query"], "query", limits), zero)


def _parameters(given: Sequence[tuple[str, str]], allowed: tuple[str, ...], needed: tuple[str, ...]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in given:
        if name not in allowed:
            raise RequestError(f"unknown parameter {shown(name)}; expected {', '.join(allowed)}")
        if name in parameters:
            raise RequestError(f"duplicate parameter {name}")
        parameters[name] = value
    for name in needed:
        if name not in parameters:
            raise RequestError(f"no parameter {name}; expected {', '.join(needed)}")
    return parameters


def _query(text: str, name: str, limits: Limits) -> str:
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f"{name} is {shown(text)}; expected the text of a query")
    if len(text) > limits.query:
        raise RequestError(f"{name} has {len(text):,} characters; expected at most {limits.query:,}", 413)
    return _encodable(text, name)


def _encodable(text: str, name: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RequestError(f"{name} has half of a surrogate pair; expected Unicode text")
    return text


def json_object(body: bytes, allowed: tuple[str, ...]) -> dict[str, Any]:
    """The object that a body holds, with no other names than these."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise RequestError("the body is nested too deeply") from None
    except ValueError as error:  # text that is not UTF-8, not JSON, or a number of thousands of digits
        raise RequestError(f"the body is not JSON in UTF-8: {' '.join(str(error).split())[:200]}") from None
    if not is_shallow(value):
        raise RequestError("the body is nested too deeply")
    return _object(value, "the body", allowed)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise RequestError(f"duplicate name {shown(_twice(name for name, _ in pairs))} in an object")
    return members


def _twice(names: Iterable[str]) -> str:
    """The name that occurs most often."""
    return Counter(names).most_common(1)[0][0]


def _no_constant(name: str) -> Any:
    raise RequestError(f"{name} is not a number of JSON; expected finite numbers, null where one is missing")


def _object(value: Any, holder: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        kinds = {list: "list", str: "string", bool: "boolean", type(None): "null"}
        kind = kinds.get(type(value), "number")
        raise RequestError(f"{holder} is a JSON {kind}; expected an object with {', '.join(allowed)}")
    for name in value:
        if name not in allowed:
            raise RequestError(f"{holder} has the unknown name {shown(name)}; expected {', '.join(allowed)}")
    return value


def _listed(value: Any, name: str, maximum: int) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise RequestError(f"{name} is {shown(value)}; expected a list of at least one document")
    if len(value) > maximum:
        raise RequestError(f"{name} has {len(value):,} documents; expected at most {maximum:,}", 413)
    return value


def _ids(value: Any, name: str, size: int) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(id_, str) for id_ in value):
        raise RequestError(f"{name} is {shown(value)}; expected a list of strings")
    if len(value) != size:
        raise RequestError(f"{name} has {len(value):,} entries; expected one for each of {size:,} documents")
    if max(map(len, value), default=0) > _LONGEST_ID:
        raise RequestError(f"{name} has an id of more than {_LONGEST_ID} characters")
    if len(set(value)) < size:
        raise RequestError(f"duplicate document {shown(_twice(value))} in {name}")
    for id_ in value:
        _encodable(id_, name)
    return value


def _features(value: Any, limits: Limits) -> tuple[list[str] | None, list[Any]]:
    """Names and rows; no names if rows are mappings, or by position."""
    if isinstance(value, dict):
        given = _object(value, "features", ("names", "rows"))
        names, rows = given.get("names"), _listed(given.get("rows"), "rows of features", limits.documents)
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise RequestError(f"names of features is {shown(names)}; expected a list of strings")
        if names is not None and len(set(names)) < len(names):
            raise RequestError("names of features has a duplicate; expected different names")
        width = len(names) if names is not None else len(rows[0]) if isinstance(rows[0], list) else 0
        for at, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != width:
                raise RequestError(
                    f"row {at} (from 0) of features is {shown(row)}; expected a list of {width:,} values"
                )
        return names, rows
    rows = _listed(value, "features", limits.documents)
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            expected = 'an object of features by name; rows without names go into {"names": …, "rows": …}'
            raise RequestError(f"document {at} (from 0) of features is {shown(row)}; expected {expected}")
    return None, rows


def number(value: float, feature: str, row: int) -> float | str:
    """A value of a feature: a finite number, NaN for null, or the text of a category."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _encodable(value, f"feature {shown(feature, _LONGEST_NAME)}")
    try:
        finite = math.nan if isinstance(value, bool | list | dict) else float(value)
    except OverflowError:
        finite = math.inf
    if not math.isfinite(finite):
        problem = f"feature {shown(feature, _LONGEST_NAME)} of document {row} (from 0) is {shown(value)}"
        raise RequestError(f"{problem}; expected a finite number, or null if it is missing")
    return finite
