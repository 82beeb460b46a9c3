"""The origin of a feature by its name, and its counterpart in a search engine.

Rankwright names the features that it makes from an index by function, analyser and field (``bm25[porter,title]``);
every other name is taken for a number that documents carry (``field``). An engine can compute the same number
(``exact``), a similar one (``approximate``, with what differs), or none.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rankwright.errors import InputError
from rankwright.text.functions import BM25, Function, feature_parts, parse_feature

Status = Literal["exact", "field", "approximate", "none"]
ALL_FIELDS = "rankwright_all"
"""The field of an engine that holds the text of all fields."""
KEPT_LENGTHS = 40
"""Lucene keeps the number of words of a field in a byte: exactly up to 40, then rounded down by less than an eighth."""
WORDS = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*"
"""A word of ours, as a regular expression of Java."""
_TABLE_PREFIX = "doc:"
_BY_POSITION = re.compile(r"f?\d+")
_OF_RUN = re.compile(r".+:(score|rr)")
_FILLED = re.compile(r"(?P<name>[^()\[\]]+)\(missing=(?P<fill>[^()\[\]]+)\)")


@dataclass(frozen=True)
class Origin:
    """Where a feature comes from, by its name.

    `name`: the feature. `kind` ({"text", "value", "run", "position"}): made from an index; a number of the document;
    made from a run; or nothing is known but its position. `function`: of text: the retrieval function, or the name of a
    sum such as ``"log-tf"``. `analyzer`: of text: the analyser. `field`: of text: the field, None for all fields
    together. Of a value: the field that holds it. `fill`: of a value: what it is where a document has none; None if it
    is missing then.
    """

    name: str
    kind: Literal["text", "value", "run", "position"]
    function: Function | str | None = None
    analyzer: str = ""
    field: str | None = None
    fill: float | None = None

    @property
    def key(self) -> str:
        """Function and analyser as one word, for names of fields and types: ``porter_bm25``."""
        return identifier(f"{self.analyzer}_{self.function}")


def origin_of(name: str) -> Origin:
    """Read the origin of a feature from its name.

    Examples
    --------
    >>> origin_of("bm25(b=0.4)[porter+stop,title]").key, origin_of("bm25[porter]").field
    ('porter_stop_bm25_b_0_4', None)
    >>> origin_of("price(missing=0)").field, origin_of("price(missing=0)").fill
    ('price', 0.0)
    >>> origin_of("doc:year").field, origin_of("price").kind, origin_of("17").kind, origin_of("bm25.run:rr").kind
    ('year', 'value', 'position', 'run')
    """
    parts = feature_parts(name)
    if parts is not None:
        with contextlib.suppress(InputError):
            return Origin(name, "text", parse_feature(parts.function), parts.analyzer, parts.field)
    filled = _FILLED.fullmatch(name)
    if filled is not None and _is_finite(filled["fill"]):
        return Origin(name, "value", field=filled["name"], fill=float(filled["fill"]))
    if _BY_POSITION.fullmatch(name):
        return Origin(name, "position", field=name)
    if name.startswith(_TABLE_PREFIX) and len(name) > len(_TABLE_PREFIX):
        return Origin(name, "value", field=name[len(_TABLE_PREFIX) :])
    return Origin(name, "run" if _OF_RUN.fullmatch(name) else "value", field=name)


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class Called:
    """The names of things in an engine: the model, its feature set, the index, and every feature."""

    model: str
    feature_set: str
    index: str
    features: Mapping[str, str]


@dataclass(frozen=True)
class Counterpart:
    """The counterpart of one feature in an engine.

    `name`: the feature. `status` ({"exact", "field", "approximate", "none"}): whether the engine computes the same
    number, reads it from a field, computes a similar one, or none: then the definition is a placeholder. `note`: what
    differs, or what to do. `definition`: a query, or an expression, in the engine's language.
    """

    name: str
    status: Status
    note: str
    definition: Any


@dataclass(frozen=True)
class FeatureSet:
    """The features of a model in an engine: files to send to it, and how well they stand for ours.

    `engine`: ``opensearch``, ``elasticsearch``, ``solr`` or ``vespa``. `counterparts`: one per feature, in the model's
    order. `files`: texts by file name.
    """

    engine: str
    counterparts: tuple[Counterpart, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        """Number of features with this status."""
        return sum(counterpart.status == status for counterpart in self.counterparts)

    def summary(self) -> str:
        """One line: how many features the engine computes exactly, approximately or not at all."""
        parts = [
            (self.count("exact"), "the same"),
            (self.count("field"), "read from fields"),
            (self.count("approximate"), "approximately the same"),
            (self.count("none"), "without a counterpart"),
        ]
        counts = ", ".join(f"{n:,} {label}" for n, label in parts if n) or "none"
        return f"features in {self.engine}: {counts}"

    def report(self) -> str:
        """Every feature with its status and what differs, as text."""
        titles = {
            "exact": "The same numbers",
            "field": "Read from the field of that name; a feature that the engine logged keeps its own definition",
            "approximate": "Similar numbers: check them on a few documents, or log them and train on those",
            "none": "No counterpart: log the engine's own features and train on those",
        }
        blocks = [f"{self.summary()}\n"]
        for status, title in titles.items():
            counterparts = [counterpart for counterpart in self.counterparts if counterpart.status == status]
            if counterparts:
                blocks.append(
                    f"{title}\n\n"
                    + "".join(_listed(note, counterparts) for note in dict.fromkeys(o.note for o in counterparts))
                )
        return "\n".join(blocks)


def _listed(note: str, counterparts: Iterable[Counterpart]) -> str:
    names = "".join(f"  {one_line(counterpart.name)}\n" for counterpart in counterparts if counterpart.note == note)
    return f"{names}    {note}\n"


def one_line(name: str) -> str:
    """A name without control characters, fit for a line of text."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "�", name)


def identifier(text: str) -> str:
    """A text as one word of letters, digits and underscores that starts with a letter.

    Examples
    --------
    >>> identifier("bm25(k1=0.9)[porter,title]"), identifier("3 prices"), identifier("größe")
    ('bm25_k1_0_9_porter_title', 'f_3_prices', 'gr_e')
    """
    word = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return word if word[:1].isalpha() else f"f_{word}".rstrip("_")


def identifiers(texts: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """A different word for each text.

    Examples
    --------
    >>> identifiers(["a b", "a-b", "a b"])
    {'a b': 'a_b', 'a-b': 'a_b_2'}
    """
    words: dict[str, str] = {}
    used = set(taken)
    for text in texts:
        if text in words:
            continue
        word, number = identifier(text), 1
        while (candidate := word if number == 1 else f"{word}_{number}") in used:
            number += 1
        words[text] = candidate
        used.add(candidate)
    return words


def placeholder_note(origin: Origin) -> str:
    """What to do about a feature of which only the name is known."""
    if origin.kind == "run":
        return "made from the run of another system: compute it there, or log the engine's own features"
    return "only its position is known: replace the definition by what the feature stands for"


def json_text(value: Any) -> str:
    """Indented JSON, with a line end."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def what_differs(origin: Origin, *, lengths: bool, statistics: str) -> str:
    """Why a Lucene score differs from ours although the formula is the same."""
    differences = [statistics]
    if lengths:
        differences.append(f"fields of more than {KEPT_LENGTHS} words have their length rounded down by less than 1/8")
    if isinstance(origin.function, BM25) and origin.function.k3 != float("inf"):
        differences.append("a word that the query repeats counts in full, as with k3=inf")
    return "same formula, but " + "; ".join(differences)
