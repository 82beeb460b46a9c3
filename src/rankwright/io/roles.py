"""The names of columns: THE list, for every command, container and format; or columns named by the user.

Names are compared in lower case with ``_`` for blanks and hyphens, so ``Doc ID``, ``doc-id`` and ``doc_id`` are the
same. Of several columns with names of one role, the one named first in the list is taken. Which columns are features is
decided in :func:`feature_layout`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rankwright.errors import InputError

Columns = Mapping[str, str]
"""Columns by role, as the user names them; several are separated by line ends.

Beside them: ``grades``, the numbers of labels that are words (``bad=0``, one per line); where rows are only scored, so
that labels may be missing, ``scoring``: the features of the model, and ``scoring_text``: those that hold texts; and of
a piece of a table, ``holds``: what texts hold (``published=date``, one per line), which all pieces decide together.
"""

QUERY_ID = ("qid", "query_id", "queryid", "q_id", "topic", "topic_id", "num")
QUERY_TEXT = ("query", "query_text", "querytext", "query_string", "user_query")
DOCUMENT = (
    *("docid", "doc_id", "docno", "document_id", "documentid", "corpus_id", "product_id", "item_id", "object_id"),
    *("doc", "document", "id", "_id", "url"),
)
LABEL = ("label", "rating", "grade", "relevance", "rel", "judgement", "judgment", "gain")
SCORE = ("score", "scores")
TITLE = ("title", "headline", "name")
TEXT = ("text", "body", "content", "description", "passage", "contents")

ROLES: dict[str, tuple[str, ...]] = {
    # Of a table of documents, `id` is the document; anywhere else it may be the number of a row, and comes last.
    "id": ("id", "_id", *(name for name in DOCUMENT if name not in ("id", "_id"))),
    "title": TITLE,
    "text": TEXT,
    "qid": QUERY_ID,
    "query": QUERY_TEXT,
    "docid": DOCUMENT,
    "label": LABEL,
    "score": SCORE,
    "position": ("position", "pos", "rank", "ordinal", "doc_position"),
    "clicked": ("clicked", "click", "is_click", "clicks"),
    "count": ("count", "impressions"),
    "session": ("session", "session_id"),
    "user": ("user", "user_id", "client_id"),
    "page": ("page", "page_id", "serp_id", "impression_id"),
    "time": ("time", "timestamp", "datetime", "date"),
    "feature": (),
    "skip": (),
    "categorical": (),
}
"""The roles that a column can have, and the names by which it is found, in this order."""

TEXTS = frozenset(
    (
        *(*TITLE, *TEXT, *QUERY_TEXT, "url", "information_need", "snippet"),
        *("note", "notes", "comment", "comments", "explanation", "rationale", "judge", "annotator", "rater"),
    )
)
"""Columns that are for people to read, where they hold text; columns of numbers with these names are features."""

BESIDE = frozenset(
    (
        *("position", "doc_position", "rank", "iteration", "timestamp"),
        *("judge", "judge_id", "annotator", "annotator_id", "rater", "rater_id", "user_id", "session_id"),
    )
)
"""Columns that hold numbers in tables of judgements, and are no reason to take a table for features."""

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none"))
"""Cells without a value, in lower case; an id may have any of these names except the first."""

CLICKS = ("query", "docid", "position", "clicked", "count", "session", "user", "page")
"""The roles of a click log."""

TABLES = ("id", "title", "text", "qid", "query", "docid", "label", "score", "feature", "skip", "categorical")
"""The roles that ``--columns`` of the other commands knows."""

_SEVERAL = ("feature", "skip", "categorical")
_SETTINGS = ("grades", "scoring", "scoring_text", "holds")  # beside columns
_GAPS = re.compile(r"[\s\-]+")
_SHOWN = 8  # columns in a message
_QUEPID = frozenset(("case_name", "doc_position"))  # its detailed export: judgements, and fields of documents


@dataclass(frozen=True)
class ColumnLayout:
    """Which column of a table of features, of judgements or of a run is what; the last two have no features.

    `label`: None where rows are only scored, and have none. `values`: of features that hold dates, or yes and no: what
    they hold.
    """

    qid: str
    label: str | None
    docid: str | None
    features: list[str]
    skipped: list[str]
    categorical: list[str] = field(default_factory=list)
    values: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        from rankwright.data.categories import named  # which imports numpy; the list is for the command line, too

        documents = "" if self.docid is None else f", documents {self.docid!r}"
        features = f", {len(self.features):,} feature{'s' * (len(self.features) > 1)}" if self.features else ""
        values = "labels" if features else "scores" if plain(self.label or "") in SCORE else "grades"
        labels = "no labels" if self.label is None else f"{values} {self.label!r}"
        skipped = f"; skipped {named(self.skipped)}" if self.skipped else ""
        return f"queries {self.qid!r}{documents}, {labels}{features}{skipped}"

    @property
    def used(self) -> list[str]:
        return [name for name in (self.qid, self.label, self.docid) if name] + self.features


def plain(name: str) -> str:
    """Return a column's name as it is compared.

    Examples
    --------
    >>> plain(" Doc-ID ")
    'doc_id'
    """
    return _GAPS.sub("_", name.strip().lower())


def find(names: Iterable[str], role: str, columns: Columns | None = None, candidates: Sequence[str] = ()) -> str | None:
    """Find the column of a role: the one the user names, else the first with an accepted name (of ``candidates``).

    Examples
    --------
    >>> find(["Item ID", "stars"], "docid"), find(["stars"], "label", {"label": "stars"})
    ('Item ID', 'stars')
    """
    if columns and role in columns:
        return columns[role]
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    return next((by_plain[name] for name in candidates or ROLES[role] if name in by_plain), None)


def find_query(names: Sequence[str], columns: Columns | None = None, *, text_first: bool = False) -> str | None:
    """Find the column that names the queries, by id or by text; in click logs, text comes first.

    An id of a click log may be that of one search (UBI), which is another one every time.
    """
    given = [role for role in ("qid", "query") if columns and role in columns]
    if given:
        return (columns or {})[given[-1] if text_first else given[0]]
    candidates = (*QUERY_TEXT, *QUERY_ID) if text_first else (*QUERY_ID, *QUERY_TEXT)
    return find(names, "qid", None, candidates)


def accepted(*roles: str) -> str:
    """Return the accepted names of roles, for messages."""
    return ", ".join(dict.fromkeys(name for role in roles for name in ROLES[role]))


def lacking(names: Sequence[str], columns: Columns | None, *roles: str) -> str:
    """Say which of some roles no column has, with the names that were looked for and how to name one.

    Examples
    --------
    >>> lacking(["qid", "stars"], None, "qid", "label")[:58]
    'no column for label (label, rating, grade, relevance, rel,'
    """
    missing: dict[str, str] = {}
    for role in roles:
        column = find_query(names, columns) if role == "qid" else find(names, role, columns)
        if column is None:
            missing[role] = accepted("qid", "query") if role == "qid" else accepted(role)
    if not missing:
        return ""
    which = " and ".join(f"{role} ({names_of_role})" for role, names_of_role in missing.items())
    return f"no column for {which}; --columns {','.join(f'{role}=NAME' for role in missing)} names it"


def listed(names: Iterable[str]) -> str:
    shown = [repr(str(name)[:40]) for name in names]
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "") or "none"


def named_in(columns: Columns | None, role: str) -> list[str]:
    """Return the columns that the user names for a role that may have several."""
    return [name for name in (columns or {}).get(role, "").split("\n") if name]


def named_columns(columns: Columns | None) -> dict[str, str]:
    """Return the columns that the user names, without the settings beside them."""
    return {role: name for role, name in (columns or {}).items() if role not in _SETTINGS}


def settings_in(columns: Columns | None) -> dict[str, str]:
    """Return the settings beside the columns that the user names."""
    return {role: value for role, value in (columns or {}).items() if role in _SETTINGS}


def with_grades(columns: Columns | None, grades: Mapping[str, float] | None) -> Columns | None:
    """Return columns by role, with the numbers of labels that are words."""
    if not grades:
        return columns
    lines = "\n".join(f"{word.strip().lower()}={float(number)!r}" for word, number in grades.items())
    return {**(columns or {}), "grades": lines}


def grades_in(columns: Columns | None) -> dict[str, float]:
    """Return the numbers of labels that are words, by the words in lower case."""
    pairs = (line.rpartition("=") for line in named_in(columns, "grades"))
    return {word: float(number) for word, _, number in pairs}


def for_scoring(columns: Columns | None, features: Iterable[str] = (), texts: Iterable[str] = ()) -> Columns:
    """Return columns by role of rows that are only scored, by a model with these features, of which some hold texts.

    Labels may be missing, and columns called as the features are features, no others.
    """
    return {**(columns or {}), "scoring": "\n".join(features), "scoring_text": "\n".join(texts)}


def is_for_scoring(columns: Columns | None) -> bool:
    return columns is not None and "scoring" in columns


def check_columns(
    columns: Columns | None, names: Sequence[str], path: str | Path | None = None, line: int | None = None
) -> None:
    """Reject a column that the user names and that is not there."""
    for role, several in named_columns(columns).items():
        for name in several.split("\n"):
            if name not in names:
                raise InputError(f"no column {name!r}, named for {role}; its columns: {listed(names)}", path, line)


def feature_layout(
    names: Sequence[str],
    columns: Columns | None = None,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
) -> ColumnLayout | None:
    """Find the roles of columns; None if there are no features, queries or labels.

    Features are ``features``, in this order, or all other columns but texts for people to read. The rule of every
    container: a column called ``title`` is a feature if it holds numbers or declared categories, by ``kinds``, and is
    skipped otherwise.

    Examples
    --------
    >>> print(feature_layout(["query_id", "Grade", "url", "bm25", "title"]))
    queries 'query_id', documents 'url', labels 'Grade', 1 feature; skipped 'title'
    >>> feature_layout(["query_id", "grade", "bm25", "title"], kinds={"title": "number"}).features
    ['bm25', 'title']
    """
    check_columns(columns, names)
    of_model = set(named_in(columns, "scoring"))
    free = [name for name in names if name not in of_model]
    qid, label, docid = find_query(free, columns), find(free, "label", columns), find(free, "docid", columns)
    scores = is_for_scoring(columns)
    if qid is None or (label is None and not scores):
        return None
    if not named_columns(columns) and {plain(name) for name in names} >= _QUEPID:
        return None
    others = [name for name in names if name not in (qid, label, docid)]
    asked, unwanted = named_in(columns, "categorical"), named_in(columns, "skip")
    asked += [name for name in named_in(columns, "scoring_text") if name in names and name not in asked]
    is_chosen = features is not None or bool(named_in(columns, "feature"))
    if features is not None:
        wanted = list(features)
    elif is_chosen:
        wanted = [name for name in others if name in {*asked, *named_in(columns, "feature")}]
    elif of_model.intersection(others):
        wanted = [name for name in others if name in of_model]
    else:
        declared = [name for name, kind in (kinds or {}).items() if kind in ("number", "truth", "category")]
        wanted = [name for name in others if name and (name in {*asked, *declared} or plain(name) not in TEXTS)]
    chosen = [name for name in wanted if name not in unwanted]
    if not is_chosen and not of_model and label is not None:
        chosen = _without_labels(chosen, label, columns)
    if not chosen:
        return None
    values = {name: kind for name, kind in (kinds or {}).items() if kind in ("truth", "date") and name in chosen}
    values = {name: kind for name, kind in values.items() if name not in asked}
    skipped = [name for name in others if name not in chosen]
    return ColumnLayout(qid, label, docid, chosen, skipped, asked, values)


def _without_labels(features: list[str], label: str, columns: Columns | None) -> list[str]:
    """Features without columns that look like labels, too: which one it is has to be said, and none is a feature."""
    also = [name for name in features if plain(name) in LABEL]
    if also and "label" not in (columns or {}):
        problem = f"has {len(also) + 1} columns that look like labels, {', '.join(map(repr, [label, *also]))}"
        remedy = ",".join([f"label={label}", *(f"skip={name}" for name in also)])
        raise InputError(f"{problem}; expected one: name it, as in --columns {remedy}")
    return [name for name in features if name not in also]


def required_layout(
    names: Sequence[str],
    columns: Columns | None = None,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
) -> ColumnLayout:
    """Like :func:`feature_layout`; what is missing is an error."""
    for name in features or ():
        if name not in names:
            raise InputError(f"there is no column {name!r}; the columns are {listed(names)}")
    layout = feature_layout(names, columns, kinds, features)
    if layout is not None:
        return layout
    if not names:
        raise InputError("the table has no columns")
    missing = lacking(names, columns, *(("qid",) if is_for_scoring(columns) else ("qid", "label")))
    if missing:
        raise InputError(f"has the columns {listed(names)}; {missing}")
    raise InputError(f"no feature columns among {listed(names)}; expected one or more beside queries and labels")


def undecided(names: Sequence[str], columns: Columns | None) -> list[str]:
    """The columns of text, such as ``title``, whose cells must tell whether they are features."""
    layouts = [feature_layout(names, columns, kinds) for kinds in (dict.fromkeys(names, "number"), None)]
    largest, smallest = (() if layout is None else layout.features for layout in layouts)
    return [name for name in largest if name not in set(smallest)]


def parse_grades(text: str | None) -> dict[str, float] | None:
    """Parse the numbers of labels that are words, as an option gives them.

    Examples
    --------
    >>> parse_grades("bad=0,Fair=1")
    {'bad': 0.0, 'fair': 1.0}
    """
    if text is None:
        return None
    grades: dict[str, float] = {}
    for part in text.split(","):
        word, _, number = part.rpartition("=")
        word = word.strip().lower()
        try:
            grades[word] = float(number)
        except ValueError:
            word = ""
        if not word or not 0 <= grades[word] < float("inf"):
            raise InputError(f"--grades is {text!r}; expected WORD=NUMBER, separated by commas, such as bad=0,fair=1")
    return grades


def parse_columns(text: str | None, roles: Sequence[str] = TABLES) -> dict[str, str] | None:
    """Parse columns as an option gives them, ``ROLE=NAME,ROLE=NAME``, with the roles that the command knows.

    Examples
    --------
    >>> parse_columns("qid=search id,label=stars")
    {'qid': 'search id', 'label': 'stars'}
    """
    if text is None:
        return None
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = part.partition("=")
        role, name = role.strip().lower(), name.strip()
        role = "docid" if role == "document" else role  # as `clicks --columns` calls it
        if not equals or role not in roles or not name:
            expected = f"ROLE=NAME, separated by commas, with the roles {', '.join(roles)}"
            raise InputError(f"--columns is {text!r}; expected {expected}")
        if role in columns and role not in _SEVERAL:
            raise InputError(f"--columns names two columns for {role}; expected one")
        columns[role] = f"{columns[role]}\n{name}" if role in columns else name
    return columns
