"""What search engines have in the place of each retrieval function and sum: one class each, with a method per engine.

Functions that Lucene lacks are written as scripts of a similarity, formula by formula
(:mod:`rankwright.text.functions`). Solr has no scripts, so that only BM25 and Jelinek–Mercer smoothing have a
counterpart there; Vespa has BM25. A function without a class here is exported with a placeholder, and the report says
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwright.exporting.counterparts import Origin, Status, what_differs
from rankwright.text.functions import BM25, TFIDF, Cosine, Dirichlet, Function, JelinekMercer

_STATISTICS = "counts of documents and words are those of each shard, over documents that have the field"
_SHARE = "doc.freq * 1.0 / doc.length"
_IDF = "field.docCount * 1.0 / term.docFreq"
_CF = "field.sumTotalTermFreq * 1.0 / term.totalTermFreq"
_TFIDF = f"query.boost * (1.0 + Math.log(doc.freq)) * Math.log(1.0 + {_IDF})"
_NO_DIRICHLET = "no score may be below 0, and LMDirichlet leaves out the words that a document lacks"


@dataclass(frozen=True)
class Similarity:
    """How Lucene scores a field: a similarity, how well it stands for ours, and the factor of its older BM25."""

    settings: dict[str, Any]
    status: Status
    note: str
    factor: float = 1.0


@dataclass(frozen=True)
class RankFeature:
    """How Vespa scores a field: an expression around ``{field}``, and the settings of the field if not the usual."""

    expression: str
    status: Status
    note: str
    settings: Mapping[str, float] = field(default_factory=dict)
    variant: str = ""


class Similarities:
    """What the engines have for a function that they lack: placeholders."""

    lack = "unknown"

    def lucene(self, origin: Origin) -> Similarity:
        """The similarity in OpenSearch and Elasticsearch."""
        return Similarity(_scripted(_TFIDF), "none", f"{self.lack}; the placeholder is tf-idf")

    def solr(self, origin: Origin) -> Similarity:
        """The similarity in Solr."""
        note = "Solr has no such similarity; the placeholder is BM25"
        return Similarity({"class": "solr.BM25SimilarityFactory"}, "none", note)

    def vespa(self, origin: Origin) -> RankFeature:
        """The rank feature in Vespa."""
        note = "Vespa has no such rank feature; the placeholder is nativeRank"
        return RankFeature("nativeRank({field})", "none", note)


class _OfBM25(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        function = _bm25_of(origin)
        similarity: dict[str, Any] = {"type": "BM25", "k1": function.k1, "b": function.b}
        factor = function.k1 + 1
        if function.idf == "okapi":
            note = "idf=okapi may be below 0; the placeholder has idf=lucene"
            return Similarity(similarity, "none", note, factor)
        differs = what_differs(origin, lengths=function.b > 0 and function.k1 > 0, statistics=_STATISTICS)
        older = "Elasticsearch and OpenSearch before 3.0 multiply by k1 + 1, which a boost takes back"
        return Similarity(similarity, "approximate", f"{differs} ({older})", factor)

    def solr(self, origin: Origin) -> Similarity:
        function = _bm25_of(origin)
        similarity: dict[str, Any] = {"class": "solr.BM25SimilarityFactory", "k1": function.k1, "b": function.b}
        if function.idf == "okapi":
            return Similarity(similarity, "none", "idf=okapi may be below 0; the placeholder has idf=lucene")
        lengths = function.b > 0 and function.k1 > 0
        return Similarity(similarity, "approximate", what_differs(origin, lengths=lengths, statistics=_STATISTICS))

    def vespa(self, origin: Origin) -> RankFeature:
        function, settings, variant = _bm25_of(origin), {}, ""
        if (function.k1, function.b) != (BM25.k1, BM25.b):
            settings, variant = {"k1": function.k1, "b": function.b}, str(BM25(function.k1, function.b))
        if function.idf == "okapi":
            lacking = super().vespa(origin)
            return RankFeature(lacking.expression, lacking.status, lacking.note, settings, variant)
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


class _OfTFIDF(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        differs = what_differs(origin, lengths=False, statistics=_STATISTICS)
        return Similarity(_scripted(_TFIDF), "approximate", differs)


class _OfCosine(Similarities):
    lack = "the length of a document's vector is not in the index"


class _OfJelinekMercer(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        assert isinstance(origin.function, JelinekMercer)
        odds = (1 - origin.function.lambda_) / origin.function.lambda_
        script = f"query.boost * Math.log(1.0 + {odds!r} * {_SHARE} * {_CF})"
        differs = what_differs(origin, lengths=True, statistics=_STATISTICS)
        return Similarity(_scripted(script), "approximate", differs)

    def solr(self, origin: Origin) -> Similarity:
        assert isinstance(origin.function, JelinekMercer)
        similarity = {"class": "solr.LMJelinekMercerSimilarityFactory", "lambda": origin.function.lambda_}
        statistics = f"{_STATISTICS}, and 1 is added to both counts of the collection"
        return Similarity(similarity, "approximate", what_differs(origin, lengths=True, statistics=statistics))


class _OfDirichlet(Similarities):
    def lucene(self, origin: Origin) -> Similarity:
        assert isinstance(origin.function, Dirichlet)
        return Similarity({"type": "LMDirichlet", "mu": origin.function.mu}, "none", _NO_DIRICHLET)

    def solr(self, origin: Origin) -> Similarity:
        assert isinstance(origin.function, Dirichlet)
        similarity = {"class": "solr.LMDirichletSimilarityFactory", "mu": origin.function.mu}
        return Similarity(similarity, "none", _NO_DIRICHLET)


@dataclass(frozen=True)
class _OfSum(Similarities):
    """A sum as a script in which each term counts once."""

    script: str
    uses_length: bool = False
    is_exact: bool = False

    def lucene(self, origin: Origin) -> Similarity:
        if self.is_exact:
            return Similarity(_scripted(self.script), "exact", "from the counts of the words in the document alone")
        differs = what_differs(origin, lengths=self.uses_length, statistics=_STATISTICS)
        return Similarity(_scripted(self.script), "approximate", differs)


SIMILARITIES: Mapping[type[Function] | str, Similarities] = {
    BM25: _OfBM25(),
    TFIDF: _OfTFIDF(),
    Cosine: _OfCosine(),
    Dirichlet: _OfDirichlet(),
    JelinekMercer: _OfJelinekMercer(),
    "log-tf": _OfSum("Math.log(doc.freq + 1.0)", is_exact=True),
    "log-cf": _OfSum(f"Math.log({_CF} + 1.0)"),
    "log-idf": _OfSum(f"Math.log({_IDF})"),
    "log-share": _OfSum(f"Math.log({_SHARE} + 1.0)", uses_length=True),
    "log-share-idf": _OfSum(f"Math.log({_SHARE} * {_IDF} + 1.0)", uses_length=True),
    "log-share-cf": _OfSum(f"Math.log({_SHARE} * {_CF} + 1.0)", uses_length=True),
    "log-bm25": _OfLogBM25(),
}
"""By the class of a function, or the name of a sum."""


def similarities_of(origin: Origin) -> Similarities:
    """What engines have in the place of a feature that is made from text."""
    function = origin.function
    kind = function if isinstance(function, str) or function is None else type(function)
    return Similarities() if kind is None else SIMILARITIES.get(kind, Similarities())


def _bm25_of(origin: Origin) -> BM25:
    """The function itself, or the one that ``log-bm25`` is the logarithm of."""
    return origin.function if isinstance(origin.function, BM25) else BM25()


def _scripted(script: str) -> dict[str, Any]:
    return {"type": "scripted", "script": {"source": f"return {script};"}}
