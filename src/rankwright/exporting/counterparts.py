"""The origin of a feature by its name, and its counterpart in a search engine.

Rankwright names the features that it makes from an index by function, analyser and field (``bm25[porter,title]``);
every other name is taken for a number that documents carry (``field``). An engine can compute the same number
(``exact``), a similar one (``approximate``, with what differs), or none.

Each retrieval function and sum has a class with what engines have in its place, a method per engine. Functions that
Lucene lacks are written as scripts of a similarity, formula by formula (:mod:`rankwright.text.functions`). Solr has no
scripts, so that only BM25 and Jelinek–Mercer smoothing have a counterpart there; Vespa has BM25. A function without a
class is exported with a placeholder, and the report says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rankwright.errors import InputError
from rankwright.text.analysis import BUILT_IN
from rankwright.text.functions import (
    BM25,
    TFIDF,
    Cosine,
    Dirichlet,
    Function,
    JelinekMercer,
    feature_parts,
    parse_feature,
)

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

    `kind`: made from an index; a number of the document; made from a run; or nothing is known but its position.
    `function`: of text: the retrieval function, or the name of a sum such as ``"log-tf"``. `field`: of text: the field,
    None for all fields together. Of a value: the field that holds it. `fill`: of a value: what it is where a document
    has none; None if it is missing then.
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

    @property
    def text_field(self) -> str:
        """The field of an engine with the text."""
        return ALL_FIELDS if self.field is None else self.field


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
    if filled is not None:
        with contextlib.suppress(ValueError):
            fill = float(filled["fill"])
            if math.isfinite(fill):
                return Origin(name, "value", field=filled["name"], fill=fill)
    if _BY_POSITION.fullmatch(name):
        return Origin(name, "position", field=name)
    if name.startswith(_TABLE_PREFIX) and len(name) > len(_TABLE_PREFIX):
        return Origin(name, "value", field=name[len(_TABLE_PREFIX) :])
    return Origin(name, "run" if _OF_RUN.fullmatch(name) else "value", field=name)


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

    `status`: whether the engine computes the same number, reads it from a field, computes a similar one, or none: then
    the definition is a placeholder. `note`: what differs, or what to do. `definition`: a query, or an expression, in
    the engine's language.
    """

    name: str
    status: Status
    note: str
    definition: Any


@dataclass(frozen=True)
class FeatureSet:
    """The features of a model in an engine: how well they stand for ours, and texts to send to it by file name."""

    engine: str
    counterparts: tuple[Counterpart, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    def count(self, status: Status) -> int:
        return sum(counterpart.status == status for counterpart in self.counterparts)

    def summary(self) -> str:
        """One line: how many features the engine computes exactly, approximately or not at all."""
        labels: dict[Status, str] = {
            "exact": "the same",
            "field": "read from fields",
            "approximate": "approximately the same",
            "none": "without a counterpart",
        }
        counts = {label: self.count(status) for status, label in labels.items()}
        listed = ", ".join(f"{n:,} {label}" for label, n in counts.items() if n)
        return f"features in {self.engine}: {listed or 'none'}"

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
            names_by_note: dict[str, list[str]] = {}
            for counterpart in self.counterparts:
                if counterpart.status == status:
                    names_by_note.setdefault(counterpart.note, []).append(f"  {one_line(counterpart.name)}\n")
            if names_by_note:
                listed = (f"{''.join(names)}    {note}\n" for note, names in names_by_note.items())
                blocks.append(f"{title}\n\n{''.join(listed)}")
        return "\n".join(blocks)


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


def number_counterpart(origin: Origin, note: str, definition: Any) -> Counterpart:
    """The counterpart of a number: read from a field, with a note on that; a placeholder if only its name is known."""
    if origin.kind == "value":
        return Counterpart(origin.name, "field", note, definition)
    note = "only its position is known: replace the definition by what the feature stands for"
    if origin.kind == "run":
        note = "made from the run of another system: compute it there, or log the engine's own features"
    return Counterpart(origin.name, "none", note, definition)


def json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_STATISTICS = "counts of documents and words are those of each shard, over documents that have the field"
_SHARE = "doc.freq * 1.0 / doc.length"
_IDF = "field.docCount * 1.0 / term.docFreq"
_CF = "field.sumTotalTermFreq * 1.0 / term.totalTermFreq"
_TFIDF = f"query.boost * (1.0 + Math.log(doc.freq)) * Math.log(1.0 + {_IDF})"


def _what_differs(origin: Origin, *, lengths: bool, statistics: str = _STATISTICS) -> str:
    """Why a Lucene score differs from ours although the formula is the same."""
    differences = [statistics]
    if lengths:
        differences.append(f"fields of more than {KEPT_LENGTHS} words have their length rounded down by less than 1/8")
    if isinstance(origin.function, BM25) and origin.function.k3 != float("inf"):
        differences.append("a word that the query repeats counts in full, as with k3=inf")
    return "same formula, but " + "; ".join(differences)


@dataclass(frozen=True)
class Similarity:
    """How Lucene scores a field: a similarity, how well it stands for ours, and the factor of its older BM25."""

    settings: dict[str, Any]
    status: Status
    note: str
    factor: float = 1.0

    def analyzed(self, analyzer: str, place: str) -> Similarity:
        """The same for an analyser; the user's own ones have to be defined in a place of the engine."""
        if analyzer in BUILT_IN:
            return self
        note = f"the analyser {analyzer!r} is your own: define it {place}"
        return dataclasses.replace(self, status="none", note=note)


@dataclass(frozen=True)
class RankFeature:
    """How Vespa scores a field: an expression around ``{field}``, and the settings of the field if not the usual."""

    expression: str
    status: Status
    note: str
    settings: Mapping[str, float] = field(default_factory=dict)
    variant: str = ""


@dataclass(frozen=True)
class Similarities:
    """What the engines have for a function that they lack, and why Lucene lacks it: placeholders."""

    lack: str = "unknown"

    def lucene(self, origin: Origin) -> Similarity:
        """In OpenSearch and Elasticsearch."""
        return Similarity(_scripted(_TFIDF), "none", f"{self.lack}; the placeholder is tf-idf")

    def solr(self, origin: Origin) -> Similarity:
        note = "Solr has no such similarity; the placeholder is BM25"
        return Similarity({"class": "solr.BM25SimilarityFactory"}, "none", note)

    def vespa(self, origin: Origin) -> RankFeature:
        note = "Vespa has no such rank feature; the placeholder is nativeRank"
        return RankFeature("nativeRank({field})", "none", note)


class _OfBM25(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        function, (status, note) = _bm25_of(origin), self._compared(origin)
        if status != "none":
            note += " (Elasticsearch and OpenSearch before 3.0 multiply by k1 + 1, which a boost takes back)"
        return Similarity({"type": "BM25", "k1": function.k1, "b": function.b}, status, note, function.k1 + 1)

    def solr(self, origin: Origin) -> Similarity:
        function = _bm25_of(origin)
        settings = {"class": "solr.BM25SimilarityFactory", "k1": function.k1, "b": function.b}
        return Similarity(settings, *self._compared(origin))

    def _compared(self, origin: Origin) -> tuple[Status, str]:
        function = _bm25_of(origin)
        if function.idf == "okapi":
            return "none", "idf=okapi may be below 0; the placeholder has idf=lucene"
        return "approximate", _what_differs(origin, lengths=function.b > 0 and function.k1 > 0)

    def vespa(self, origin: Origin) -> RankFeature:
        function, settings, variant = _bm25_of(origin), {}, ""
        if (function.k1, function.b) != (BM25.k1, BM25.b):
            settings, variant = {"k1": function.k1, "b": function.b}, str(BM25(function.k1, function.b))
        if function.idf == "okapi":
            return dataclasses.replace(super().vespa(origin), settings=settings, variant=variant)
        notes = ["same formula, but words and stems are those of Vespa's linguistics"]
        notes.append("counts are those of a content node")
        if origin.analyzer == "porter+stop":
            notes.append(
                "stop words count in the length of the document, and in the score unless the query leaves them out"
            )
        if function.k3 != float("inf"):
            notes.append("a word that the query repeats counts in full, as with k3=inf")
        # The feature has the factor k1 + 1 of the older formula.
        return RankFeature(f"bm25({{field}}) / {function.k1 + 1!r}", "approximate", "; ".join(notes), settings, variant)


class _OfLogBM25(_OfBM25):
    def lucene(self, origin: Origin) -> Similarity:
        return Similarity({"type": "BM25"}, "none", "no score may be below 0; the placeholder is BM25", 2.2)

    def solr(self, origin: Origin) -> Similarity:
        return Similarities.solr(self, origin)

    def vespa(self, origin: Origin) -> RankFeature:
        plain = super().vespa(origin)
        return RankFeature(f"log(max({plain.expression}, 0.001))", plain.status, plain.note)


class _OfJelinekMercer(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        assert isinstance(origin.function, JelinekMercer)
        odds = (1 - origin.function.lambda_) / origin.function.lambda_
        script = f"query.boost * Math.log(1.0 + {odds!r} * {_SHARE} * {_CF})"
        return _OfScript(script=script, uses_length=True).lucene(origin)

    def solr(self, origin: Origin) -> Similarity:
        assert isinstance(origin.function, JelinekMercer)
        settings = {"class": "solr.LMJelinekMercerSimilarityFactory", "lambda": origin.function.lambda_}
        statistics = f"{_STATISTICS}, and 1 is added to both counts of the collection"
        return Similarity(settings, "approximate", _what_differs(origin, lengths=True, statistics=statistics))


class _OfDirichlet(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        return self._placeholder(origin, {"type": "LMDirichlet"})

    def solr(self, origin: Origin) -> Similarity:
        return self._placeholder(origin, {"class": "solr.LMDirichletSimilarityFactory"})

    def _placeholder(self, origin: Origin, kind: dict[str, Any]) -> Similarity:
        assert isinstance(origin.function, Dirichlet)
        note = "no score may be below 0, and LMDirichlet leaves out the words that a document lacks"
        return Similarity({**kind, "mu": origin.function.mu}, "none", note)


@dataclass(frozen=True)
class _OfScript(Similarities):
    """A script; in that of a sum each term counts once."""

    script: str = ""
    uses_length: bool = False
    is_exact: bool = False

    def lucene(self, origin: Origin) -> Similarity:
        if self.is_exact:
            return Similarity(_scripted(self.script), "exact", "from the counts of the words in the document alone")
        differs = _what_differs(origin, lengths=self.uses_length)
        return Similarity(_scripted(self.script), "approximate", differs)


SIMILARITIES: Mapping[type[Function] | str, Similarities] = {
    BM25: _OfBM25(),
    TFIDF: _OfScript(script=_TFIDF),
    Cosine: Similarities("the length of a document's vector is not in the index"),
    Dirichlet: _OfDirichlet(),
    JelinekMercer: _OfJelinekMercer(),
    "log-tf": _OfScript(script="Math.log(doc.freq + 1.0)", is_exact=True),
    "log-cf": _OfScript(script=f"Math.log({_CF} + 1.0)"),
    "log-idf": _OfScript(script=f"Math.log({_IDF})"),
    "log-share": _OfScript(script=f"Math.log({_SHARE} + 1.0)", uses_length=True),
    "log-share-idf": _OfScript(script=f"Math.log({_SHARE} * {_IDF} + 1.0)", uses_length=True),
    "log-share-cf": _OfScript(script=f"Math.log({_SHARE} * {_CF} + 1.0)", uses_length=True),
    "log-bm25": _OfLogBM25(),
}
"""By the class of a function, or the name of a sum."""


def similarities_of(origin: Origin) -> Similarities:
    function = origin.function
    kind = function if isinstance(function, str) or function is None else type(function)
    return Similarities() if kind is None else SIMILARITIES.get(kind, Similarities())


def _bm25_of(origin: Origin) -> BM25:
    """The function itself, or the one that ``log-bm25`` is the logarithm of."""
    return origin.function if isinstance(origin.function, BM25) else BM25()


def _scripted(script: str) -> dict[str, Any]:
    return {"type": "scripted", "script": {"source": f"return {script};"}}
