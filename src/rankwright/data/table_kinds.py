"""Whether a table holds features or judgements: by the names of its columns, and by what stands in its first rows.

A table with queries, documents and grades holds judgements unless another column has numbers in it; a position or the
number of a judge does not count. Where one column of numbers is all there is, or texts to read stand beside it, it
could be either: it is then taken for features, with a line that says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rankwright.data.categories import named
from rankwright.data.csv_columns import MISSING
from rankwright.data.csv_features import feature_layout
from rankwright.data.delimited import is_number
from rankwright.data.judgements import judgement_layout
from rankwright.data.roles import BESIDE, Columns, plain

__all__ = ["TableKind", "columns_of_numbers", "table_kind"]

_SEVERAL_WORDS = 3  # in a cell that is for people to read


@dataclass(frozen=True)
class TableKind:
    """``csv`` (features) or ``qrels``, and what to do if it should be the other."""

    kind: str
    doubt: str = ""


def table_kind(
    names: Sequence[str], numbers: Collection[str], texts: Collection[str] = (), columns: Columns | None = None
) -> TableKind | None:
    """What a table holds; None if neither features nor judgements can be found in it.

    Parameters
    ----------
    names : sequence of str
        Its columns.
    numbers, texts : collection of str
        The columns that hold numbers, and those that hold texts of several words; see :func:`columns_of_numbers`.
    columns : mapping, optional
        Columns by role.

    Examples
    --------
    >>> table_kind(["query", "docid", "rating", "remark"], numbers=["rating"]).kind
    'qrels'
    >>> table_kind(["query", "docid", "rating", "bm25", "price"], numbers=["rating", "bm25", "price"])
    TableKind(kind='csv', doubt='')
    """
    features, judged = feature_layout(names, columns), judgement_layout(names, columns)
    if features is None:
        return None if judged is None else TableKind("qrels")
    if judged is None or any(role in (columns or {}) for role in ("feature", "categorical")):
        return TableKind("csv")
    found = [name for name in features.features if name in numbers and plain(name) not in BESIDE]
    if not found:
        others = named(features.features)
        return TableKind("qrels", f"to take {others} for features, use --columns feature=NAME or categorical=NAME")
    if len(found) > 1 and not any(name in texts for name in features.features):
        return TableKind("csv")
    why = f"{named(found)} {'holds' if len(found) == 1 else 'hold'} numbers"
    skip = ",".join(f"skip={name}" for name in found)
    return TableKind("csv", f"taken for features, as {why}; for judgements, use --columns {skip}")


def columns_of_numbers(names: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[set[str], set[str]]:
    """The columns in whose cells numbers prevail, and those with texts of several words.

    Examples
    --------
    >>> numbers, texts = columns_of_numbers(["a", "b"], [["1", "so it is"], ["", ""]])
    >>> sorted(numbers), sorted(texts)
    (['a'], ['b'])
    """
    filled, numeric, worded = ([0] * len(names) for _ in range(3))
    for row in rows:
        for at, cell in enumerate(row[: len(names)]):
            text = cell.strip()
            if text.lower() in MISSING:
                continue
            filled[at] += 1
            numeric[at] += is_number(text) or text.lower() in ("true", "false")
            worded[at] += len(text.split()) >= _SEVERAL_WORDS
    if not any(filled):  # nothing but a header
        return set(names), set()
    numbers = {name for at, name in enumerate(names) if 2 * numeric[at] > filled[at]}
    texts = {name for at, name in enumerate(names) if 2 * worded[at] > filled[at]}
    return numbers, texts - numbers
