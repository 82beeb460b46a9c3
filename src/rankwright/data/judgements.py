"""Judgements in the forms that people have them: tables, JSON, LETOR lines without features, BEIR folders, ir_datasets.

A query may be named by its text: its id is then the text with ``_`` between the words (:func:`query_word`), which
:func:`rankwright.read_queries` gives to queries without an id, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwright.data.catalogue import collection_of, is_catalogued
from rankwright.data.categories import named
from rankwright.data.columns import MAX_FIELD
from rankwright.data.delimited import header_cells, is_number, utf8_lines
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.named_rows import PARQUET, json_value, named_rows, start_of
from rankwright.data.roles import DOCUMENT, LABEL, QUERY_ID, QUERY_TEXT, Columns, check_columns, find, plain
from rankwright.errors import InputError, InputWarning, shown

__all__ = ["TREC", "Judged", "JudgementLayout", "beir_qrels", "judged_in", "judgement_layout", "query_word"]

TREC = ("query", "iteration", "document", "label")
"""The columns of TREC's qrels, which have no header."""

_EXPECTED = "expected columns for query, docid and rating, or --columns query=NAME,docid=NAME,label=NAME"
_KNOWN = frozenset((*QUERY_ID, *QUERY_TEXT, *DOCUMENT, *LABEL))
_LISTS = ("judgmentRatings", "judgementRatings", "judgments", "judgements")
_NO_RATING = ("", "na", "n/a", "nan", "null", "none")


@dataclass(frozen=True)
class JudgementLayout:
    """Which column of a table of judgements is what."""

    query: str
    document: str
    label: str
    skipped: list[str]

    def __str__(self) -> str:
        skipped = f"; skipped {named(self.skipped)}" if self.skipped else ""
        return f"queries {self.query!r}, documents {self.document!r}, grades {self.label!r}{skipped}"


@dataclass
class Judged:
    """Judgements as they are read: one entry per row in each list."""

    path: str | Path
    queries: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unrated: int = 0
    layout: str = ""

    def add(self, query: Any, document: Any, rating: Any, line: int | None) -> None:
        """Add a judgement; one without a document or a rating is counted."""
        if document is None or rating is None or not str(document).strip() or _is_missing(rating):
            self.unrated += 1
            return
        words = {"query": query_word(_text(query)), "document id": _text(document).strip()}
        for what, word in words.items():
            if not word or len(word) > MAX_FIELD:
                found = "is empty" if not word else f"has {len(word):,} characters"
                raise InputError(f"the {what} {found}; expected up to {MAX_FIELD}", self.path, line)
        if len(words["document id"].split()) != 1:
            what = f"the document id {shown(document)} contains whitespace"
            raise InputError(f"{what}; expected one word (for TREC files)", self.path, line)
        self.queries.append(words["query"])
        self.documents.append(words["document id"])
        self.values.append(_rating(rating, self.path, line))
        self.lines.append(line or 0)

    def finish(self) -> Judged:
        """Tell what was skipped; without any judgement it is an error."""
        skipped = f"{self.unrated:,} row{'s' if self.unrated > 1 else ''} without a document or a rating"
        if not self.values:
            found = f"has only {skipped}" if self.unrated else "has no judgements"
            raise InputError(f"{found}; expected query, document and rating", self.path)
        if self.unrated:
            warnings.warn(f"{self.path}: skipped {skipped}", InputWarning, stacklevel=4)
        return self


def query_word(text: str) -> str:
    """The id of a query that has only a text.

    Examples
    --------
    >>> query_word(" red  dress")
    'red_dress'
    """
    return "_".join(text.split())


def judgement_layout(names: Sequence[str], columns: Columns | None = None) -> JudgementLayout | None:
    """The columns of queries, documents and grades; None if one of them is missing.

    Examples
    --------
    >>> print(judgement_layout(["Query", "docid", "rating", "comment"]))
    queries 'Query', documents 'docid', grades 'rating'; skipped 'comment'
    """
    check_columns(columns, names)
    known = [plain(name) for name in names]
    labels = LABEL if "corpus_id" in known else tuple(name for name in LABEL if name != "score")
    by_text = find(names, "query", columns, ()) if columns and "query" in columns else None
    query = by_text or find(names, "qid", columns, (*QUERY_ID, *QUERY_TEXT))
    document, label = find(names, "docid", columns, DOCUMENT), find(names, "label", columns, labels)
    if query is None or document is None or label is None:
        return None
    return JudgementLayout(query, document, label, [name for name in names if name not in (query, document, label)])


def judged_in(source: Source, columns: Columns | None, progress: Progress | None) -> Judged | None:
    """The judgements of a file that is not TREC's; None if it is.

    Parameters
    ----------
    source : path or open file
        A table with a header, JSON, Parquet, LETOR lines, a BEIR folder, or ``ir_datasets:NAME``.
    columns : mapping, optional
        Columns by role.
    progress : callable, optional
        Called with (bytes read, total bytes).
    """
    if is_catalogued(source):
        assert not isinstance(source, OpenFile)
        return _catalogued(source)
    with open_file(_of_folder(source)) as file:
        read = _reader_of(file, columns)
        if read is None:
            return None
        judged = Judged(file.path)
        try:
            read(file, judged, columns, progress)
        except InputError as error:
            raise error if error.path is not None else InputError(error.message, file.path) from None
        return judged.finish()


_Reader = Callable[[OpenFile, Judged, Columns | None, Progress | None], None]


def _reader_of(file: OpenFile, columns: Columns | None) -> _Reader | None:
    if file.start(len(PARQUET)) == PARQUET:
        return _table
    start = start_of(file)
    if start[:1] in (b"{", b"["):
        return _json
    lines = (line.strip() for line in start.split(b"\n"))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"").decode("utf-8", "replace")
    words = first.split()
    if len(words) > 1 and words[1].startswith("qid:"):
        return _letor
    return _table if columns or _is_header(first) else None


def _is_header(line: str) -> bool:
    """Whether a line names columns of a table; one of TREC has four words, the last of them a number."""
    cells, words = header_cells(line), line.split()
    if len(cells) < 2 or (len(words) == len(TREC) and is_number(words[-1])):
        return False
    return any(plain(cell) in _KNOWN for cell in cells) or (len(cells) > 2 and "\t" not in line)


def beir_qrels(folder: Path) -> Path | None:
    """The judgements of a folder as BEIR has them; None if it is not one."""
    found = sorted([*folder.glob("qrels/*.tsv"), *folder.glob("qrels/*.tsv.gz")])
    if len(found) > 1:
        listed = ", ".join(path.name for path in found[:5])
        raise InputError(f"has several judgements ({listed}); expected one of them, such as {found[-1]}", folder)
    return found[0] if found else None


def _of_folder(source: Source) -> Source:
    if isinstance(source, OpenFile) or not Path(source).is_dir():
        return source
    found = beir_qrels(Path(source))
    if found is None:
        raise InputError("is a folder without qrels/*.tsv; expected a file of judgements, or a BEIR folder", source)
    return found


def _catalogued(path: str | Path) -> Judged:
    judged = Judged(path)
    for one in collection_of(path, "qrels").qrels_iter():
        judged.add(one.query_id, one.doc_id, one.relevance, None)
    return judged.finish()


def _table(file: OpenFile, judged: Judged, columns: Columns | None, progress: Progress | None) -> None:
    _add_rows(named_rows(file, progress), judged, columns)


def _add_rows(rows: Iterable[tuple[int | None, Mapping[str, Any]]], judged: Judged, columns: Columns | None) -> None:
    """Add rows whose columns the first one tells."""
    chosen: JudgementLayout | None = None
    for line, row in rows:
        if chosen is None:
            chosen = judgement_layout(list(row), columns)
            if chosen is None:
                found = ", ".join(repr(str(name)[:40]) for name in list(row)[:8])
                raise InputError(f"has the columns {found or 'none'}; {_EXPECTED}", judged.path, line)
            judged.layout = judged.layout or str(chosen)
        judged.add(row.get(chosen.query), row.get(chosen.document), row.get(chosen.label), line)


def _json(file: OpenFile, judged: Judged, columns: Columns | None, progress: Progress | None) -> None:
    lines = list(utf8_lines(file, progress))
    objects = [text for _, text in lines if text.strip()]
    if len(objects) > 1 and all(text.lstrip().startswith("{") and text.rstrip().endswith("}") for text in objects[:2]):
        for line, row in named_rows(file, None):
            _add_json(row, judged, columns, line)
        return
    found = json_value("\n".join(text for _, text in lines), file.path, None, "judgements")
    _add_json(found, judged, columns, None)


def _add_json(found: Any, judged: Judged, columns: Columns | None, line: int | None) -> None:
    """Add judgements in any of the forms of JSON: OpenSearch's lists, flat rows, documents by query."""
    if isinstance(found, list):
        if found and isinstance(found[0], dict) and not isinstance(found[0].get("ratings"), list):
            rows = ((line or number, row if isinstance(row, dict) else {}) for number, row in enumerate(found, 1))
            _add_rows(rows, judged, columns)
            return
        for item in found:
            _add_ratings(item, judged, line)
        return
    if not isinstance(found, dict):
        raise InputError(f"a JSON {type(found).__name__}; {_EXPECTED}", judged.path, line)
    found = found["_source"] if isinstance(found.get("_source"), dict) else found
    listed = next((found[key] for key in _LISTS if isinstance(found.get(key), list)), None)
    if listed is not None:
        _add_json(listed, judged, columns, line)
    elif isinstance(found.get("ratings"), list):
        _add_ratings(found, judged, line)
    elif found and all(isinstance(value, dict) for value in found.values()):
        for query, documents in found.items():
            for document, rating in documents.items():
                judged.add(query, document, rating, line)
    else:
        _add_rows([(line, found)], judged, columns)


def _add_ratings(found: Any, judged: Judged, line: int | None) -> None:
    """Add a query of OpenSearch's judgement lists: its text, then ratings of documents."""
    ratings = found.get("ratings") if isinstance(found, dict) else None
    if not isinstance(ratings, list) or "query" not in found:
        raise InputError(f"{shown(found)}; expected a query and its ratings (docId, rating)", judged.path, line)
    _add_rows(
        ((line, {"query": found["query"], **(one if isinstance(one, dict) else {})}) for one in ratings), judged, None
    )


def _letor(file: OpenFile, judged: Judged, columns: Columns | None, progress: Progress | None) -> None:
    from rankwright.data.letor import read_letor_labels

    labels, qid, documents = read_letor_labels(file, progress=progress)
    if documents is None or (documents == "").any():
        what = "has lines without document ids"
        raise InputError(f"{what}; expected `# docid = X` or `# X query` at the end of every line", file.path)
    judged.queries, judged.documents = qid.tolist(), documents.tolist()
    judged.values, judged.lines = labels.tolist(), [0] * len(labels)
    judged.layout = "LETOR lines, with the documents that their comments name"


def _is_missing(rating: Any) -> bool:
    if isinstance(rating, float):
        return math.isnan(rating)
    return isinstance(rating, str) and rating.strip().lower() in _NO_RATING


def _text(value: Any) -> str:
    """An id or a text; a whole number in a column of floats is written as such."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else "" if value is None else str(value)


def _rating(value: Any, path: str | Path, line: int | None) -> float:
    text = str(value).strip()
    number = float(text) if is_number(text) else math.nan
    if not math.isfinite(number):
        hint = " with a decimal point" if "," in text else ", such as 0 to 4"
        raise InputError(f"the rating is {shown(value)}; expected a number{hint}", path, line)
    return number
