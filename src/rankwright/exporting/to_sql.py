"""A score as an expression of standard SQL: weights as a sum of products, every tree as one CASE.

The leaves of a tree are listed from left to right, each with the left turns on its way: a row that takes a right turn
has been refused by all leaves on the left before. So the CASE is a flat list, however deep the tree. Missing values are
NULL: ``x <= t`` is not true of them, and ``OR x IS NULL`` is added where they go left. The check runs in SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import numpy as np

from rankwright._types import Array
from rankwright.exporting.ensemble import Ensemble
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_others, repeated_names

_EXPRESSION, _QUERY = "score.sql", "query.sql"
_MAX_LEAVES = 5000
_MAX_FEATURES = 1000  # columns that SQLite and others allow in a table
_GROUP = 40  # terms of a sum between brackets: long sums nest too deeply for some parsers
_TABLE = "documents"


def quoted(name: str) -> str:
    """Quote a name as an identifier.

    Examples
    --------
    >>> quoted('5" pipes')
    '"5"" pipes"'
    """
    return '"' + name.replace('"', '""') + '"'


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    others = refuse_others(ensemble) or repeated_names(ensemble)
    if others is not None:
        return others
    names = [ensemble.names[j] for j in ensemble.used]
    n_leaves = int((ensemble.trees.feature < 0).sum())
    if n_leaves > _MAX_LEAVES:
        return f"it has {n_leaves:,} leaves, more than the {_MAX_LEAVES:,} that an expression should; use fewer trees"
    if len(names) > _MAX_FEATURES:
        return f"it uses {len(names):,} features, more than the {_MAX_FEATURES:,} columns of a table"
    if any("\0" in name or not name for name in names):
        return "a feature has no name, or one with the character NUL"
    folded: dict[str, str] = {}
    for name in names:
        if folded.setdefault(name.casefold(), name) != name:
            same = f"{folded[name.casefold()]!r} and {name!r}"
            return f"the features {same} would be one column where names are not case-sensitive"
    return None


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    terms = [f"{_number(ensemble.weights[j])} * {quoted(ensemble.names[j])}" for j in ensemble.linear_features]
    terms += [_case(ensemble, int(root)) for root in ensemble.trees.roots]
    if ensemble.constant or not terms:
        terms.append(_number(ensemble.constant))
    expression = _sum(terms)
    about = f"-- The score of a document; {len(ensemble.used):,} features are columns, NULL where a value is missing.\n"
    query = f"SELECT {quoted(_TABLE)}.*,\n{expression} AS score\nFROM {quoted(_TABLE)}\nORDER BY score DESC;\n"
    notes = [f"SQL: numbers are double precision; replace the table {quoted(_TABLE)} in {_QUERY} by yours"]
    if ensemble.has_weights:
        notes.append("SQL: the score is NULL where a feature with a weight is")
    files = {_EXPRESSION: f"{about}{expression}\n", _QUERY: query}
    return ExportFiles({name: text.encode() for name, text in files.items()}, tuple(notes))


def _number(value: float) -> str:
    """A literal of double precision: with an exponent, as others may be decimal."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _sum(terms: list[str]) -> str:
    """A sum, between brackets of a few terms each."""
    while len(terms) > _GROUP:
        parts = [terms[at : at + _GROUP] for at in range(0, len(terms), _GROUP)]
        terms = ["(" + "\n+ ".join(part) + ")" for part in parts]
    return "(" + "\n+ ".join(terms) + ")"


def _case(ensemble: Ensemble, root: int) -> str:
    trees = ensemble.trees
    lines: list[str] = []
    todo: list[tuple[int, tuple[str, ...]]] = [(root, ())]
    while todo:
        node, turns = todo.pop()
        value = _number(trees.value[node])
        if trees.feature[node] < 0:
            lines.append(f"WHEN {' AND '.join(turns)} THEN {value}" if turns else f"ELSE {value}")
            continue
        name = quoted(ensemble.names[trees.feature[node]])
        left = int(trees.left[node])
        turn = _left_turn(name, float(trees.threshold[node]), bool(trees.missing_left[node]))
        todo += [(left + 1, turns), (left, (*turns, turn))]
    if len(lines) == 1:
        return lines[0].removeprefix("ELSE ")
    return "CASE " + "\n  ".join(lines) + " END"


def _left_turn(name: str, threshold: float, missing_left: bool) -> str:
    """A condition that is true of values that go left, and false or unknown of others."""
    if np.isfinite(threshold):
        condition = f"{name} <= {_number(threshold)}"
        return f"({condition} OR {name} IS NULL)" if missing_left else condition
    if threshold > 0:  # all values, as none is infinite
        return "1 = 1" if missing_left else f"{name} IS NOT NULL"
    return f"{name} IS NULL" if missing_left else "1 = 0"


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    expression = files[_EXPRESSION].decode()
    used = [j for j, name in enumerate(names) if quoted(name) in expression][:_MAX_FEATURES]

    def scores(X: Array, _: Array) -> Array:
        columns = ", ".join(f"{quoted(names[j])} DOUBLE PRECISION" for j in used) or '"" DOUBLE PRECISION'
        rows = [[None if np.isnan(value) else value for value in row] for row in X[:, used].tolist()]
        with sqlite3.connect(":memory:") as base:
            base.execute(f"CREATE TABLE {quoted(_TABLE)} ({columns})")
            base.executemany(
                f"INSERT INTO {quoted(_TABLE)} VALUES ({', '.join('?' * max(1, len(used)))})",
                rows if used else [[None]] * len(X),
            )
            records = base.execute(f"SELECT {expression} FROM {quoted(_TABLE)} ORDER BY rowid").fetchall()
        base.close()
        return np.array([np.nan if score is None else score for (score,) in records], np.float64)

    return scores


SQL = ExportTarget(
    name="sql",
    about="an expression of standard SQL for linear models and small trees",
    rule="CASE WHEN x <= threshold, in double precision; missing values are NULL",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
    run_by=f"SQLite {sqlite3.sqlite_version}",
)
