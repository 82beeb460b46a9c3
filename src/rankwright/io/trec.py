"""Judgements and runs: TREC files, tables, JSON, LETOR lines, data frames, BEIR folders, ir_datasets.

TREC's are qrels (`query iteration document label`) and runs (`query Q0 document rank score tag`). As in trec_eval, the
iteration, Q0, rank and tag columns are ignored: the ranking is the order of the scores.

A query may be named by its text: its id is then the text with ``_`` between the words (:func:`query_word`), which
:func:`rankwright.read_queries` gives to queries without an id, too.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright._types import Array
from rankwright.data.order import gather_queries, query_of_row, rank_order, sizes_to_indptr
from rankwright.data.trec_table import Duplicates, TrecTable, gathered_table
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.files import MAX_FIELD, OpenFile, Progress, Source, open_file, replace_file
from rankwright.io.frames import columns_of, import_library, is_frame
from rankwright.io.logs import JUDGEMENT_LISTS
from rankwright.io.roles import (
    DOCUMENT,
    LABEL,
    QUERY_ID,
    QUERY_TEXT,
    ColumnLayout,
    Columns,
    check_columns,
    find,
    find_query,
    grades_in,
    lacking,
    listed,
    named_columns,
    plain,
    with_grades,
)
from rankwright.io.tables import (
    PARQUET,
    header_cells,
    is_number,
    json_lines,
    json_value,
    open_table,
    read_fields,
    start_of,
    utf8_lines,
)
from rankwright.io.values import bad_grade, grade_of, is_missing, number_or_comma_in

__all__ = ["read_qrels", "read_run", "read_strata", "read_subtopics", "write_qrels", "write_run"]

# Collections of the package ir_datasets, named `ir_datasets:NAME` where a file of documents or queries may stand.


PREFIX = "ir_datasets:"


def is_catalogued(path: object) -> bool:
    """Whether this names a collection of ir_datasets instead of a file."""
    return isinstance(path, str | Path) and str(path).startswith(PREFIX)


def collection_of(path: str | Path, part: str) -> Any:
    """A collection that has ``docs``, ``queries`` or ``qrels``; the package downloads what it lacks."""
    package = import_library("ir_datasets")
    name = str(path).removeprefix(PREFIX)
    try:
        collection = package.load(name)
    except KeyError:
        raise InputError("is not a collection of ir_datasets; expected a name of its catalogue", path) from None
    if not getattr(collection, f"has_{part}")():
        raise InputError(f"has no {part}; expected a collection of ir_datasets that has them", path)
    return collection


TrecKind = Literal["qrels", "run"]
_ONCE = "once, or --duplicates keep-first or keep-best (in Python, duplicates=)"
_WORD = re.compile(r"[^\W\d][^\d,;]*")

TREC = ("query", "iteration", "document", "label")
"""The columns of TREC's qrels, which have no header."""

_VALUES = {"qrels": ("label", "rating"), "run": ("score", "score")}  # role, and the word for it
_KNOWN = frozenset((*QUERY_ID, *QUERY_TEXT, *DOCUMENT, *LABEL))


@dataclass
class JudgedRows:
    """Judgements or a run as they are read: one entry per row in each list."""

    path: str | Path
    kind: TrecKind = "qrels"
    queries: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    unrated: int = 0
    layout: str = ""
    grades: Mapping[str, float] = field(default_factory=dict)
    has_commas: bool = False
    bad_grades: dict[str, int | None] = field(default_factory=dict)

    def add(self, query: Any, document: Any, value: Any, line: int | None) -> None:
        """Add a judgement, or a document of a run; a judgement without a document or a rating is counted."""
        if document is None or not str(document).strip() or is_missing(value):
            if self.kind == "run":
                raise InputError("has no document or no score; expected both in every row", self.path, line)
            self.unrated += 1
            return
        words = {"query": query_word(_plain_text(query)), "document id": _plain_text(document).strip()}
        for kind, word in words.items():
            if not word or len(word) > MAX_FIELD:
                problem = "is empty" if not word else f"has {len(word):,} characters"
                raise InputError(f"the {kind} {problem}; expected up to {MAX_FIELD}", self.path, line)
        if len(words["document id"].split()) != 1:
            problem = f"the document id {shown(document)} contains whitespace"
            raise InputError(f"{problem}; expected one word (for TREC files)", self.path, line)
        self.queries.append(words["query"])
        self.documents.append(words["document id"])
        self.values.append(self._number(value, line))
        self.lines.append(line or 0)

    def _number(self, value: Any, line: int | None) -> float:
        grade = grade_of(value, self.grades) if self.kind == "qrels" else None
        if grade is not None:
            return grade
        if self.kind == "qrels" and isinstance(value, str) and _WORD.fullmatch(value.strip()):
            self.bad_grades.setdefault(value.strip(), line)  # all of them are listed at the end
            return math.nan
        if self.has_commas and isinstance(value, str):
            value = number_or_comma_in(value.strip()) or value
        return _number(value, _VALUES[self.kind][1], self.path, line)

    def finish(self) -> JudgedRows:
        """Report what was skipped; without any row it is an error."""
        if self.bad_grades:
            line = next(iter(self.bad_grades.values()))
            raise InputError(bad_grade("the rating", self.bad_grades, self.grades).message, self.path, line)
        if self.kind == "run" and not self.values:
            raise InputError("has no documents; expected query, document and score", self.path)
        skipped = f"{self.unrated:,} row{'s' if self.unrated > 1 else ''} without a document or a rating"
        if not self.values:
            problem = f"has only {skipped}" if self.unrated else "has no judgements"
            raise InputError(f"{problem}; expected query, document and rating", self.path)
        if self.unrated:
            warnings.warn(f"{self.path}: skipped {skipped}", InputWarning, stacklevel=4)
        return self


def query_word(text: str) -> str:
    """The id of a query that has only a text."""
    return "_".join(text.split())


def judgement_layout(
    names: Sequence[str], columns: Columns | None = None, kind: TrecKind = "qrels", *, is_declared: bool = True
) -> ColumnLayout | None:
    """Find the columns of queries, documents and grades, or scores of a run; None if one of them is missing.

    Grades called ``score`` are understood as BEIR and ranx write them, beside ``corpus_id`` and ``q_id``; the latter
    only where the caller knows which of the two it is, as runs of ranx have the same columns as its judgements.

    Examples
    --------
    >>> print(judgement_layout(["Query", "docid", "rating", "comment"]))
    queries 'Query', documents 'docid', grades 'rating'; skipped 'comment'
    """
    check_columns(columns, names)
    role = _VALUES[kind][0]
    query, document, value = find_query(names, columns), find(names, "docid", columns), find(names, role, columns)
    if value is None and kind == "qrels" and {plain(name) for name in names} & {"corpus_id", "q_id" * is_declared}:
        value = find(names, "score")
    if query is None or document is None or value is None:
        return None
    return ColumnLayout(query, value, document, [], [name for name in names if name not in (query, document, value)])


def _no_layout(names: Sequence[str], columns: Columns | None, kind: TrecKind) -> str:
    """Say which columns were expected of judgements or a run, and what the missing ones may be called."""
    role, word = _VALUES[kind]
    missing = lacking([str(name) for name in names], columns, "qid", "docid", role)
    return f"has the columns {listed(names)}; expected columns for query, docid and {word}; {missing}"


def judged_in(
    file: OpenFile, columns: Columns | None, progress: Progress | None, kind: TrecKind = "qrels"
) -> JudgedRows | None:
    """Read the judgements, or the run, of a file that is not TREC's (a table, JSON, LETOR lines); None if it is."""
    read = _reader_of(file, columns, kind)
    if read is None:
        return None
    judged = JudgedRows(file.path, kind, grades=grades_in(columns))
    try:
        read(file, judged, columns, progress)
    except InputError as error:
        raise error if error.path is not None else InputError(error.message, file.path) from None
    return judged.finish()


_Reader = Callable[[OpenFile, JudgedRows, Columns | None, Progress | None], None]


def _reader_of(file: OpenFile, columns: Columns | None, kind: TrecKind) -> _Reader | None:
    if file.start(len(PARQUET)) == PARQUET:
        return _read_table
    start = start_of(file)
    if start[:1] in (b"{", b"["):
        return _read_json
    lines = (line.strip() for line in start.split(b"\n"))
    first = next((line for line in lines if line and not line.startswith(b"#")), b"").decode("utf-8", "replace")
    words = first.split()
    if kind == "run":
        return _read_table if named_columns(columns) or judgement_layout(header_cells(first), None, "run") else None
    if len(words) > 1 and words[1].startswith("qid:"):
        return _read_letor
    return _read_table if named_columns(columns) or _is_header(first, grades_in(columns)) else None


def _is_header(line: str, grades: Mapping[str, float]) -> bool:
    """Whether a line names columns of a table; one of TREC has four words, the last of them a number or a grade."""
    cells, words = header_cells(line), line.split()
    if len(cells) < 2 or (len(words) == len(TREC) and (is_number(words[-1]) or words[-1].lower() in grades)):
        return False
    return any(plain(cell) in _KNOWN for cell in cells) or (len(cells) > 2 and "\t" not in line)


def beir_qrels(folder: Path) -> Path | None:
    """The judgements of a folder as BEIR has them; None if it is not one."""
    paths = sorted([*folder.glob("qrels/*.tsv"), *folder.glob("qrels/*.tsv.gz")])
    if len(paths) > 1:
        listed = ", ".join(path.name for path in paths[:5])
        raise InputError(f"has several judgements ({listed}); expected one of them, such as {paths[-1]}", folder)
    return paths[0] if paths else None


def _read_table(file: OpenFile, judged: JudgedRows, columns: Columns | None, progress: Progress | None) -> None:
    table = open_table(file, progress)
    judged.has_commas = table.delimiter == ";"
    _add_rows(table.named(), judged, columns)


def _add_rows(
    rows: Iterable[tuple[int | None, Mapping[str, Any]]], judged: JudgedRows, columns: Columns | None
) -> None:
    """Add rows whose columns the first one tells."""
    chosen: ColumnLayout | None = None
    for line, row in rows:
        if chosen is None:
            chosen = judgement_layout(list(row), columns, judged.kind)
            if chosen is None:
                raise InputError(_no_layout(list(row), columns, judged.kind), judged.path, line)
            judged.layout = judged.layout or str(chosen)
        judged.add(row.get(chosen.qid), row.get(chosen.docid or ""), row.get(chosen.label or ""), line)


def _read_json(file: OpenFile, judged: JudgedRows, columns: Columns | None, progress: Progress | None) -> None:
    lines = list(utf8_lines(file, progress))
    objects = [text for _, text in lines if text.strip()]
    if len(objects) > 1 and all(text.lstrip().startswith("{") and text.rstrip().endswith("}") for text in objects[:2]):
        for line, row in json_lines(lines, file.path):
            _add_json(row, judged, columns, line)
        return
    content = json_value("\n".join(text for _, text in lines), file.path, None, "judgements")
    _add_json(content, judged, columns, None)


def _add_json(content: Any, judged: JudgedRows, columns: Columns | None, line: int | None) -> None:
    """Add judgements in any of the forms of JSON: OpenSearch's lists, flat rows, documents by query."""
    if isinstance(content, list):
        if content and isinstance(content[0], dict) and not isinstance(content[0].get("ratings"), list):
            rows = ((line or number, row if isinstance(row, dict) else {}) for number, row in enumerate(content, 1))
            _add_rows(rows, judged, columns)
            return
        for item in content:
            _add_ratings(item, judged, line)
        return
    if not isinstance(content, dict):
        problem = f"a JSON {type(content).__name__}; expected columns for query, docid and rating"
        raise InputError(problem, judged.path, line)
    content = content["_source"] if isinstance(content.get("_source"), dict) else content
    listed = next((content[key] for key in JUDGEMENT_LISTS if isinstance(content.get(key), list)), None)
    if listed is not None:
        _add_json(listed, judged, columns, line)
    elif isinstance(content.get("ratings"), list):
        _add_ratings(content, judged, line)
    elif content and all(isinstance(value, dict) for value in content.values()):
        for query, documents in content.items():
            for document, rating in documents.items():
                judged.add(query, document, rating, line)
    else:
        _add_rows([(line, content)], judged, columns)


def _add_ratings(item: Any, judged: JudgedRows, line: int | None) -> None:
    """Add a query of OpenSearch's judgement lists: its text, then ratings of documents."""
    ratings = item.get("ratings") if isinstance(item, dict) else None
    if not isinstance(ratings, list) or "query" not in item:
        raise InputError(f"{shown(item)}; expected a query and its ratings (docId, rating)", judged.path, line)
    _add_rows(
        ((line, {"query": item["query"], **(rating if isinstance(rating, dict) else {})}) for rating in ratings),
        judged,
        None,
    )


def _read_letor(file: OpenFile, judged: JudgedRows, columns: Columns | None, progress: Progress | None) -> None:
    from rankwright.io.letor import read_letor_labels

    labels, qid, documents = read_letor_labels(file, progress=progress)
    if documents is None or (documents == "").any():
        expected = "expected `# docid = X` or `# X query` at the end of every line"
        raise InputError(f"has lines without document ids; {expected}", file.path)
    judged.queries, judged.documents = qid.tolist(), documents.tolist()
    judged.values, judged.lines = labels.tolist(), [0] * len(labels)
    judged.layout = "LETOR lines, with the documents that their comments name"


def _plain_text(value: str) -> str:
    """An id or a text; a whole number in a column of floats is written as such."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else "" if value is None else str(value)


def _number(value: str, word: str, path: str | Path, line: int | None) -> float:
    text = str(value).strip()
    number = float(text) if is_number(text) else math.nan
    if not math.isfinite(number):
        hint = " with a decimal point" if "," in text else ", such as 0 to 4" if word == "rating" else ""
        raise InputError(f"the {word} is {shown(value)}; expected a number{hint}", path, line)
    return number


def _of_frame(frame: Any, kind: TrecKind) -> TrecTable:
    """Judgements or a run from a data frame, by the rules of tables in files.

    Rows without a document or a rating are skipped with a warning; the words of a query are joined.
    """
    columns = columns_of(frame)
    layout = judgement_layout(columns.names, None, kind)
    if layout is None or layout.docid is None or layout.label is None:
        raise InputError(f"the data frame of the {kind} {_no_layout(columns.names, None, kind)}")
    if columns.number_type(layout.label) is None:
        raise InputError(f"the column {layout.label!r} of the {kind} has a non-numeric value; expected numbers")
    values = {name: columns.values(name) for name in (layout.qid, layout.docid, layout.label)}
    kept = np.ones(columns.n_rows, bool)
    for name in values:
        missing = np.isnan(values[name]) if values[name].dtype.kind == "f" else columns.missing(name)
        if missing.any() and (kind == "run" or name == layout.qid):
            which = f"the column {name!r} of the {kind} has missing values (row {int(np.argmax(missing))}, from 0)"
            raise InputError(f"{which}; expected one in every row")
        if missing.any():
            kept &= ~missing
    if not kept.all():
        n = int((~kept).sum())
        skipped = f"skipped {n:,} row{'s' if n > 1 else ''} without a document or a rating"
        warnings.warn(f"the data frame of the {kind}: {skipped}", InputWarning, stacklevel=4)
        values = {name: column[kept] for name, column in values.items()}
    queries, documents = _words(values[layout.qid], query_word), _words(values[layout.docid], str.strip)
    return _of_columns(queries, documents, values[layout.label], kind)


def _words(values: Array, word: Callable[[str], str]) -> Array:
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind in "iu":
        return values.astype(str)
    texts = [value if isinstance(value, str) else str(value) for value in values.tolist()]
    return np.array([word(text) for text in texts], dtype=str)


_RUN = ("query", "Q0", "document", "rank", "score", "tag")


def read_qrels(
    path: Source,
    progress: Progress | None = None,
    *,
    columns: Columns | None = None,
    grades: Mapping[str, float] | None = None,
) -> TrecTable:
    """Read judgements; labels below 0 are kept and count as not relevant in every measure.

    Parameters
    ----------
    path : path
        TREC qrels; a table with a header line (CSV, tabs, semicolons), Parquet, or JSON with columns for query,
        document and rating; OpenSearch's judgement lists; LETOR lines whose comments name the document; a folder as
        BEIR has them; or ``ir_datasets:NAME``. Text may be gzip. A query that is named by its text gets the id that
        :func:`rankwright.read_queries` gives it, its words joined by ``_``.
    progress : callable, optional
        Called with (bytes read, total bytes).
    columns : mapping, optional
        Columns by role, ``qid`` or ``query``, ``docid`` and ``label``; by default found by name.
    grades : mapping, optional
        The numbers of ratings that are words, such as ``{"bad": 0, "fair": 1}``, in any case.

    Examples
    --------
    >>> qrels = read_qrels("qrels.txt")  # doctest: +SKIP
    >>> ratings = read_qrels("ratings.csv", columns={"label": "stars"})  # doctest: +SKIP
    """
    columns = with_grades(columns, grades)
    if not isinstance(path, OpenFile):
        if is_catalogued(path):
            judged = JudgedRows(path)
            for qrel in collection_of(path, "qrels").qrels_iter():
                judged.add(qrel.query_id, qrel.doc_id, qrel.relevance, None)
            return _of_rows(judged.finish())
        if Path(path).is_dir():
            judgements = beir_qrels(Path(path))
            if judgements is None:
                problem = "is a folder without qrels/*.tsv; expected a file of judgements, or a BEIR folder"
                raise InputError(problem, path)
            path = judgements
    with open_file(path) as file:  # once: it may be a pipe
        rows = judged_in(file, columns, progress)
        return _read(file, TREC, "label", progress, columns=columns) if rows is None else _of_rows(rows)


def _of_rows(judged: JudgedRows, duplicates: Duplicates = "error") -> TrecTable:
    queries = np.char.encode(np.array(judged.queries), "utf-8")
    documents = np.char.encode(np.array(judged.documents), "utf-8")
    lines = np.array(judged.lines) if all(judged.lines) else None
    expected = _ONCE if judged.kind == "run" else "once"
    names = (Path(judged.path).name, judged.path, expected, duplicates)
    table = gathered_table(queries, documents, np.array(judged.values), lines, *names)
    return replace(table, layout=judged.layout)


def match_queries(table: TrecTable, queries: Iterable[tuple[str, str]]) -> tuple[TrecTable, int]:
    """Give queries that are named by their text the ids that a file of queries has for them.

    `table`: judgements or a run. `queries`: such as :func:`rankwright.read_queries` returns. Returns `table`: queries
    whose id is known keep it, and so do those that are unknown altogether. `matched`: how many were found by their
    text.
    """
    ids: set[str] = set()
    by_text: dict[str, str] = {}
    for query, text in queries:
        ids.add(query)
        by_text.setdefault(query_word(text), query)
    names = [str(query) for query in table.query_ids]
    new = [name if name in ids else by_text.get(name, name) for name in names]
    matched = sum(before != after for before, after in zip(names, new, strict=True))
    if not matched:
        return table, 0
    if len(set(new)) < len(new):
        name = next(name for name in new if new.count(name) > 1)
        raise InputError(f"{table.name or 'the judgements'}: the query {name!r} is named by its id and by its text")
    return replace(table, query_ids=np.array(new)), matched


def read_run(
    path: Source,
    progress: Progress | None = None,
    *,
    columns: Columns | None = None,
    duplicates: Duplicates = "error",
) -> TrecTable:
    """Read a run; the rank column is ignored, as in trec_eval, and the tag may have blanks in it.

    Parameters
    ----------
    path : path
        A TREC run; or a table (CSV, JSON, Parquet) with columns for query, document and score.
    progress : callable, optional
        Called with (bytes read, total bytes).
    columns : mapping, optional
        Columns by role, ``qid`` or ``query``, ``docid`` and ``score``; by default found by name.
    duplicates : {"error", "keep-first", "keep-best"}
        What to do with a document that a query has more than once: report it, or keep the row that comes first, or the
        one with the highest score.

    Examples
    --------
    >>> run = read_run("bm25.run.gz")  # doctest: +SKIP
    """
    with open_file(path) as file:
        scored = judged_in(file, columns, progress, "run")
        if scored is not None:
            return _of_rows(scored, duplicates)
        return _read(file, _RUN, "score", progress, duplicates)


def _read(
    file: OpenFile,
    names: tuple[str, ...],
    value: str,
    progress: Progress | None,
    duplicates: Duplicates = "error",
    columns: Columns | None = None,
) -> TrecTable:
    fields, values, lines = _read_columns(file, names, ("query", "document"), value, progress, grades_in(columns))
    expected = "once, or `evaluate --subtopics` if the second column is the subtopic" if names == TREC else _ONCE
    name = Path(file.path).name
    return gathered_table(fields["query"], fields["document"], values, lines, name, file.path, expected, duplicates)


def _read_columns(
    file: OpenFile,
    names: Sequence[str],
    words: Sequence[str],
    number: str,
    progress: Progress | None,
    grades: Mapping[str, float] | None = None,
) -> tuple[dict[str, Array], Array, Array]:
    """Columns of words and one of numbers, and the line of every row, of a file with the columns ``names``."""
    chunks = list(read_fields(file, names, (*words, number), progress))
    fields = {name: np.concatenate([chunk.fields[name] for chunk in chunks]) for name in words}
    numbers = np.concatenate([chunk.numbers(number, grades) for chunk in chunks])
    return fields, numbers, np.concatenate([chunk.lines for chunk in chunks])


def write_qrels(table: TrecTable, path: str | Path) -> None:
    """Write judgements as ``query 0 document label``; gzip if the name ends in .gz."""
    with replace_file(path) as out:
        for query, start, stop in _blocks(table):
            rows = zip(table.doc_ids[start:stop].tolist(), table.values[start:stop].tolist(), strict=True)
            out.write(b"".join(b"%s 0 %s %s\n" % (query, document, _plain(label)) for document, label in rows))


def write_run(table: TrecTable, path: str | Path, tag: str = "rankwright", head: Sequence[str] = ()) -> None:
    """Write a run in rank order (ties by the tie rule), ranks from 1, scores in full precision.

    ``head`` has lines to begin with, as comments; of readers of runs, few take them.
    """
    end = b" " + _word(tag, "tag") + b"\n"
    order = rank_order(table.values, table.indptr, table.doc_ids)
    documents, values = table.doc_ids[order], table.values[order]
    with replace_file(path) as out:
        out.write("".join(f"# {line}\n" for line in head).encode())
        for query, start, stop in _blocks(table):
            rows = enumerate(zip(documents[start:stop].tolist(), values[start:stop].tolist(), strict=True), 1)
            lines = (b"%s Q0 %s %d %s" % (query, document, rank, _plain(score)) for rank, (document, score) in rows)
            out.write(end.join([*lines, b""]))


def _blocks(table: TrecTable) -> list[tuple[bytes, int, int]]:
    queries = [_word(str(query), "query id") for query in table.query_ids]
    for word in table.doc_ids.tolist():
        if not word or len(word.split()) != 1:
            _check_word(word, "document id")
    return list(zip(queries, table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True))


def _word(text: str, kind: str) -> bytes:
    word = text.encode("utf-8", "replace")  # half of a surrogate pair becomes a question mark
    _check_word(word, kind)
    return word


def _check_word(word: bytes, kind: str) -> None:
    if len(word.split()) != 1 or word != word.strip():
        text = word.decode("utf-8", "replace")
        raise InputError(f"{kind} {text!r} cannot be written to a TREC file; expected one word without white space")


def _plain(number: float) -> bytes:
    return (b"%d" % number) if abs(number) < 1e15 and number == int(number) else repr(number).encode()


# TREC judgements that say more than a label: by subtopic of the query, or with the stratum of a sampled pool.
#
# by subtopic   query subtopic document label                    a line for every subtopic that was judged
# with strata   query iteration document stratum label           a label below 0: in the pool, and not sampled


def read_subtopics(path: Source, progress: Progress | None = None) -> TrecTable:
    """Read judgements by subtopic, for measures of diversity.

    Parameters
    ----------
    path : path
        Four columns, as TREC's web tracks have them: query, subtopic, document, label.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Returns
    -------
    TrecTable
        A row for every document of a query, ordered by id from the highest; its value is the highest label that it has
        for a subtopic.

    Examples
    --------
    >>> qrels = read_subtopics("qrels.diversity.txt")  # doctest: +SKIP
    """
    names = ("query", "subtopic", "document", "label")
    fields, labels, lines, name, indptr, queries = _read_pooled(path, names, progress)
    query = query_of_row(indptr)
    order = np.lexsort((fields["subtopic"], fields["document"], query))
    order = order[np.lexsort((-np.arange(len(order)), query[order]))]  # ids descending within a query
    query, document, subtopic = query[order], fields["document"][order], fields["subtopic"][order]
    labels, lines = labels[order], lines[order]
    same = _repeats(query, document)
    _check_once(same & _repeats(subtopic), lines, name, document, subtopic)
    start = np.flatnonzero(np.append(True, ~same))
    row = np.cumsum(np.append(True, ~same)) - 1
    numbers = _numbered(query, subtopic)
    table = np.zeros((len(start), int(numbers.max(initial=0)) + 1))
    table[row, numbers] = labels
    sizes = np.bincount(query[start], minlength=len(queries))
    values = np.maximum.reduceat(labels, start)
    return TrecTable(queries, sizes_to_indptr(sizes), document[start], values, Path(name).name, subtopics=table)


def read_strata(path: Source, progress: Progress | None = None) -> TrecTable:
    """Read judgements of a sampled pool, for xinfAP.

    Parameters
    ----------
    path : path
        Five columns, as NIST's sample_eval reads them: query, iteration, document, stratum, label. Documents of the
        pool that were not sampled have a label below 0.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> qrels = read_strata("qrels.sampled.txt")  # doctest: +SKIP
    """
    names = ("query", "iteration", "document", "stratum", "label")
    fields, labels, lines, name, indptr, queries = _read_pooled(path, names, progress)
    query, document = query_of_row(indptr), fields["document"]
    order = np.lexsort((document, query))
    _check_once(_repeats(query[order], document[order]), lines[order], name, document[order])
    return TrecTable(queries, indptr, document, labels, Path(name).name, strata=_numbered(query, fields["stratum"]))


def _read_pooled(
    source: Source, names: tuple[str, ...], progress: Progress | None
) -> tuple[dict[str, Array], Array, Array, str, Array, Array]:
    """The columns of a file, its labels and the line of every row, query by query; its name; boundaries and ids."""
    words = [name for name in names if name not in ("iteration", "label")]
    with open_file(source) as file:
        fields, labels, lines = _read_columns(file, names, words, "label", progress)
        path = str(file.path)
    rows, indptr, queries = gather_queries(fields["query"])
    if rows is not None:
        fields, labels, lines = {key: column[rows] for key, column in fields.items()}, labels[rows], lines[rows]
    ids = np.array([_text(word) for word in queries.tolist()], dtype=str)
    return fields, labels, lines, path, indptr, ids


def _repeats(*columns: Array) -> Array:
    """Whether the values of each row but the first are those of the row before."""
    return np.logical_and.reduce([column[1:] == column[:-1] for column in columns])


def _check_once(repeats: Array, lines: Array, path: str, document: Array, subtopic: Array | None = None) -> None:
    """Refuse sorted rows of which one repeats the row before."""
    if repeats.any():
        row = int(np.argmax(repeats))
        first, second = sorted(lines[[row, row + 1]].tolist())
        where = "" if subtopic is None else f" for subtopic {_text(subtopic[row])!r}"
        problem = f"duplicate document {_text(document[row])!r}{where} (first on line {first})"
        raise InputError(f"{problem}; expected once", path, second)


def _numbered(query: Array, names: Array) -> Array:
    """For every row the number of its name among those of its query, from 0."""
    order = np.lexsort((names, query))
    new_query = np.append(True, query[order][1:] != query[order][:-1])
    new_name = np.append(True, names[order][1:] != names[order][:-1]) | new_query
    running = np.cumsum(new_name) - 1
    numbers = np.empty(len(query), np.int64)
    numbers[order] = running - running[new_query][np.cumsum(new_query) - 1]
    return numbers


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


# Judgements and runs as other libraries hold them: data frames, ranx's Qrels and Run, ir_measures' lists.
#
# Data frames may be of pandas, polars or pyarrow; their columns are found by name, as in every table.


TrecSource = TrecTable | str | Path | Mapping[Any, Mapping[Any, float]] | Iterable[Any]
"""A file, a table, ``{query: {document: number}}``, a data frame, or an object of ranx or ir_measures."""

_FORMS = "a file, a TrecTable, {query: {document: number}}, a data frame, or an object of ranx or ir_measures"


def trec_table(source: TrecSource, kind: TrecKind) -> TrecTable:
    """Judgements or a run in any form, as a table."""
    if isinstance(source, TrecTable):
        return source
    if isinstance(source, str | Path):
        return read_run(source) if kind == "run" else read_qrels(source)
    if is_frame(source):
        return _of_frame(source, kind)
    if type(source).__module__.partition(".")[0] == "ranx":
        name = str(getattr(source, "name", None) or kind)
        return TrecTable.from_dict(source.to_dict(), name)  # type: ignore[union-attr]
    if isinstance(source, Mapping):
        for query, row in source.items():
            if not isinstance(row, Mapping):
                raise InputError(f"the {kind} has {shown(row)} for query {query!r}; expected {{document: number}}")
        return TrecTable.from_dict(source, kind)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _of_objects(source, kind)
    raise InputError(f"the {kind} is a {type(source).__name__}; expected {_FORMS}")


def _of_objects(rows: Iterable[Any], kind: TrecKind) -> TrecTable:
    """Rows with the attributes ``query_id``, ``doc_id`` and ``score`` or ``relevance``, as ir_measures has them."""
    value = "score" if kind == "run" else "relevance"
    triples = []
    for row in rows:
        try:
            triples.append((row.query_id, row.doc_id, float(getattr(row, value))))
        except (AttributeError, TypeError, ValueError):
            expected = f"expected query_id, doc_id and {value} in every row, or {_FORMS}"
            raise InputError(f"the {kind} has {shown(row)}; {expected}") from None
    if not triples:
        raise InputError(f"the {kind} is empty; expected at least one document (an iterator can be read only once)")
    queries, documents, values = zip(*triples, strict=True)
    return _of_columns(queries, documents, values, kind)


def _of_columns(queries: Any, documents: Any, values: Any, kind: TrecKind) -> TrecTable:
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"the {kind} contains nan or inf; expected finite numbers")
    return TrecTable.from_columns(queries, documents, numbers, kind)
