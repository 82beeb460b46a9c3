"""Retrieval functions: how well a document fits a query, from counts of terms.

Every function here is a sum, over the terms that query and document share, of the term's weight in the query times its
impact on the document, plus an optional part that depends on the document alone:

    score(q, d) = Σ_t query_weight(t) · impact(t, d) + |q| · prior(d)

The impact has one of three forms (:data:`SATURATED`, :data:`LOGARITHMIC`, :data:`RATIO`) in the count c of the term in
the document, a weight w of the term and a factor m of the document. That is all the compiled code
(:mod:`rankwright.text.search_kernel`) knows about a function. A class that is registered here can be searched
with, is a feature of every view (``name[analyser]``) and is named in help and messages;
:mod:`rankwright.exporting.counterparts` says what search engines have in its place.

Below, N is the number of documents, df the number of documents that contain the term, c its count in the document, q
its count in the query, |d| the length of the document, avg the mean length, p the term's share of all term occurrences
in the collection, and |q| the number of terms in the query. Terms that occur in no document are always dropped from a
query.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.contents import View

__all__ = ["BM25", "TFIDF", "Cosine", "Dirichlet", "JelinekMercer"]

SATURATED = 0
"""w · c / (c + m)"""
LOGARITHMIC = 1
"""w · (1 + ln c) · m"""
RATIO = 2
"""ln(1 + w · c · m)"""

_SMALLEST = 1e-9
_WRITTEN = re.compile(r"\s*(?P<name>[a-z][a-z0-9_-]*)\s*(?:\((?P<inside>[^()]*)\))?\s*", re.IGNORECASE)
_FEATURE = re.compile(r"(?P<function>[^\[]+)\[(?P<analyzer>[^,]+?)(?:,(?P<field>.+))?\]")

FUNCTIONS: dict[str, type[Function]] = {}
"""The retrieval functions by name; filled by :func:`register`."""

SUMS: Mapping[str, str] = {
    "log-tf": "counts of the query's words",
    "log-cf": "rarity of matching words in the collection",
    "log-idf": "rarity of matching words",
    "log-share": "share of the query's words",
    "log-share-idf": "share of the query's words, by rarity",
    "log-share-cf": "share of the query's words, by rarity in the collection",
    "log-bm25": "logarithm of BM25",
}
"""The sums over terms that are features but not functions (:mod:`rankwright.text.features`), in plain words."""


@dataclass(frozen=True)
class Function:
    """Base class of the retrieval functions; ``str()`` gives the name with its non-default parameters.

    `name`: what it is called in commands and in the names of features. `label`: what it is called where people read of
    it. `form`: its impact: :data:`SATURATED`, :data:`LOGARITHMIC` or :data:`RATIO`.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    form: ClassVar[int]

    def term_weights(self, view: View, terms: Array) -> Array:
        """The weight w of some terms."""
        raise NotImplementedError

    def doc_factors(self, view: View) -> Array:
        """The factor m of every document."""
        return np.ones(view.n_docs)

    def doc_priors(self, view: View) -> Array | None:
        """What is added to a document for each term of the query, or None."""
        return None

    def query_weights(self, indptr: Array, times: Array, rarities: Array) -> Array:
        """The weights of the terms of several queries; query ``q`` owns the terms ``indptr[q]:indptr[q+1]``.

        `indptr`: boundaries of the queries. `times`: how often each term occurs in its query. `rarities`: n / df of
        each term.
        """
        return times

    def __str__(self) -> str:
        written = ",".join(
            f"{field.name.rstrip('_')}={_plain(getattr(self, field.name))}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        )
        return f"{self.name}({written})" if written else self.name


_Kind = TypeVar("_Kind", bound=type[Function])


def register(kind: _Kind) -> _Kind:
    """Class decorator: register a retrieval function under its name."""
    if kind.name in FUNCTIONS or kind.name in SUMS:
        raise InputError(f"the name {kind.name!r} is already taken")
    FUNCTIONS[kind.name] = kind
    return kind


@register
@dataclass(frozen=True)
class BM25(Function):
    """Okapi BM25.

    Σ_t (k3 + 1) q / (k3 + q) · idf · c / (c + k1 (1 − b + b |d| / avg))

    The constant factor k1 + 1 of the older form is omitted: it changes no ranking.

    Parameters
    ----------
    k1 : float, default=1.2
        How slowly repeated occurrences in the document saturate; 0 counts presence only.
    b : float, default=0.75
        How strongly long documents are penalised, from 0 (not at all) to 1.
    k3 : float, default=7
        How slowly repeated occurrences in the query saturate; with ``inf`` the weight is q.
    idf : {"lucene", "okapi"}
        ``"lucene"``: ln(1 + (N − df + ½) / (df + ½)), always positive. ``"okapi"``: ln((N − df + ½) / (df + ½)), the
        weight of Robertson and Spärck Jones, negative for terms in more than half of the documents.

    Examples
    --------
    >>> print(BM25(k1=0.9, b=0.4))
    bm25(k1=0.9,b=0.4)
    """

    k1: float = 1.2
    b: float = 0.75
    k3: float = 7.0
    idf: Literal["lucene", "okapi"] = "lucene"

    name: ClassVar[str] = "bm25"
    label: ClassVar[str] = "BM25"
    form: ClassVar[int] = SATURATED

    def __post_init__(self) -> None:
        _check(self, "k1", 0, math.inf, "a number of at least 0")
        _check(self, "b", 0, 1, "a number from 0 to 1")
        _check(self, "k3", 0, math.inf, "a number of at least 0, or inf", may_be_infinite=True)
        if self.idf not in ("lucene", "okapi"):
            raise InputError(f"idf of bm25 is {self.idf!r}; expected lucene or okapi")

    def term_weights(self, view: View, terms: Array) -> Array:
        df = view.doc_counts[terms]
        odds = (view.n_docs - df + 0.5) / (df + 0.5)
        return np.log1p(odds) if self.idf == "lucene" else np.log(odds)

    def doc_factors(self, view: View) -> Array:
        mean = view.total_length / max(view.n_docs, 1)
        return self.k1 * (1 - self.b + self.b * view.lengths / (mean or 1.0))

    def query_weights(self, indptr: Array, times: Array, rarities: Array) -> Array:
        return times if math.isinf(self.k3) else (self.k3 + 1) * times / (self.k3 + times)


@register
@dataclass(frozen=True)
class TFIDF(Function):
    """Term frequency times inverse document frequency, without length normalisation.

    Σ_t q · (1 + ln c) · ln(1 + N / df)

    Examples
    --------
    >>> print(TFIDF())
    tfidf
    """

    name: ClassVar[str] = "tfidf"
    label: ClassVar[str] = "TF-IDF"
    form: ClassVar[int] = LOGARITHMIC

    def term_weights(self, view: View, terms: Array) -> Array:
        return _idf(view, terms)


@register
@dataclass(frozen=True)
class Cosine(Function):
    """Cosine of the angle between the vectors of the query and the document.

    Σ_t x_t y_t / √(Σ_t x_t² · Σ_t y_t²)   with x_t = (1 + ln q) · idf, y_t = (1 + ln c) · idf, idf = ln(1 + N / df)

    Examples
    --------
    >>> print(Cosine())
    cosine
    """

    name: ClassVar[str] = "cosine"
    label: ClassVar[str] = "cosine similarity"
    form: ClassVar[int] = LOGARITHMIC

    def term_weights(self, view: View, terms: Array) -> Array:
        return _idf(view, terms)

    def doc_factors(self, view: View) -> Array:
        """One over the length of the document's vector."""
        from rankwright.text.search_kernel import sum_squares

        view.check()
        used = np.flatnonzero(view.doc_counts)
        weights = np.zeros(view.n_terms)
        weights[used] = _idf(view, used)
        squares = np.zeros(view.n_docs)
        indptr, docs, counts, _ = view.arrays
        sum_squares(weights, indptr, docs.view(np.uint32), counts, squares)
        return 1 / np.sqrt(np.where(squares > 0, squares, 1.0))

    def query_weights(self, indptr: Array, times: Array, rarities: Array) -> Array:
        """The components of each query's vector, normalised to length 1."""
        vectors: Array = (1 + np.log(times)) * np.log1p(rarities)
        for start, stop in pairwise(indptr.tolist()):
            vector = vectors[start:stop]
            vector /= math.sqrt(float(vector @ vector) or 1.0)
        return vectors


@register
@dataclass(frozen=True)
class Dirichlet(Function):
    """Query likelihood with Dirichlet smoothing: ln Π_t ((c + μ p) / (|d| + μ))^q up to a constant.

    Σ_t q · ln(1 + c / (μ p)) + |q| · ln(μ / (|d| + μ))

    The constant, Σ_t q · ln p, is the same for every document. Scores are often negative.

    Parameters
    ----------
    mu : float, default=1000
        Number of pseudo-terms from the whole collection added to every document.

    Examples
    --------
    >>> print(Dirichlet(mu=2500))
    dirichlet(mu=2500)
    """

    mu: float = 1000.0

    name: ClassVar[str] = "dirichlet"
    label: ClassVar[str] = "query likelihood, Dirichlet"
    form: ClassVar[int] = RATIO

    def __post_init__(self) -> None:
        _check(self, "mu", _SMALLEST, math.inf, f"a number of at least {_SMALLEST:g}")

    def term_weights(self, view: View, terms: Array) -> Array:
        return 1 / (self.mu * _shares(view, terms))

    def doc_priors(self, view: View) -> Array:
        """ln(μ / (|d| + μ))."""
        return -np.log1p(view.lengths / self.mu)


@register
@dataclass(frozen=True)
class JelinekMercer(Function):
    """Query likelihood with Jelinek–Mercer smoothing: ln Π_t ((1 − λ) c / |d| + λ p)^q up to a constant.

    Σ_t q · ln(1 + (1 − λ) c / (λ p |d|))

    The constant, Σ_t q · ln(λ p), is the same for every document.

    Parameters
    ----------
    lambda_ : float, default=0.5
        The weight of the whole collection, between 0 and 1; written ``jm(lambda=0.5)``.

    Examples
    --------
    >>> print(JelinekMercer(lambda_=0.7))
    jm(lambda=0.7)
    """

    lambda_: float = 0.5

    name: ClassVar[str] = "jm"
    label: ClassVar[str] = "query likelihood, Jelinek–Mercer"
    form: ClassVar[int] = RATIO

    def __post_init__(self) -> None:
        _check(self, "lambda_", _SMALLEST, 1 - _SMALLEST, "a number between 0 and 1")

    def term_weights(self, view: View, terms: Array) -> Array:
        return (1 - self.lambda_) / (self.lambda_ * _shares(view, terms))

    def doc_factors(self, view: View) -> Array:
        return 1 / np.maximum(view.lengths, 1)


def parse_function(text: str | Function) -> Function:
    """Turn a name such as ``"bm25"`` or ``"bm25(k1=0.9,b=0.4)"`` into a retrieval function.

    `text`: ``name`` or ``name(parameter=value,…)``, in upper or lower case. A Function is returned unchanged.

    Examples
    --------
    >>> parse_function("BM25(k1=0.9, k3=inf)")
    BM25(k1=0.9, b=0.75, k3=inf, idf='lucene')
    >>> parse_function("jm(lambda=0.7)")
    JelinekMercer(lambda_=0.7)
    """
    if isinstance(text, Function):
        return text
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"bad retrieval function {text!r}; expected, for example, bm25 or bm25(k1=0.9,b=0.4)")
    kind = FUNCTIONS.get(match["name"].lower())
    if kind is None:
        raise InputError(f"unknown retrieval function {match['name']!r}; expected one of {', '.join(FUNCTIONS)}")
    return kind(**_parameters(kind, match["inside"] or "", text))


class FeatureParts(NamedTuple):
    """The parts of a feature name such as ``bm25[porter,title]``."""

    function: str
    analyzer: str
    field: str | None


def feature_parts(name: str) -> FeatureParts | None:
    """The function or sum, the analyser and the field in the name of a feature; None for any other name.

    Examples
    --------
    >>> feature_parts("bm25(b=0.4)[plain,title]")
    FeatureParts(function='bm25(b=0.4)', analyzer='plain', field='title')
    >>> feature_parts("log-tf[porter]").field, feature_parts("price")
    (None, None)
    """
    match = _FEATURE.fullmatch(name)
    return None if match is None else FeatureParts(match["function"], match["analyzer"], match["field"])


def parse_feature(text: str) -> Function | str:
    """The function of a feature, or the name of its sum.

    Examples
    --------
    >>> parse_feature("jm(lambda=0.7)"), parse_feature("log-tf")
    (JelinekMercer(lambda_=0.7), 'log-tf')
    """
    if text in SUMS:
        return text
    base = text.partition("(")[0].strip()
    if base in SUMS:
        raise InputError(f"{base} takes no parameters")
    if base.lower() not in FUNCTIONS:
        raise InputError(f"unknown function {base!r}; expected one of {', '.join((*FUNCTIONS, *SUMS))}")
    return parse_function(text)


def function_names() -> str:
    """The names of all functions, for help texts.

    Examples
    --------
    >>> function_names()
    'bm25, tfidf, cosine, dirichlet or jm'
    """
    *names, last = FUNCTIONS
    return f"{', '.join(names)} or {last}"


def _parameters(kind: type[Function], inside: str, text: str) -> dict[str, Any]:
    names = {field.name.rstrip("_"): field.name for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        key, equals, value = (piece.strip().lower() for piece in part.partition("="))
        if not equals or not value:
            raise InputError(f"bad parameter {part!r} in {text!r}; expected parameter=value")
        if key not in names:
            hint = f"its parameters: {', '.join(names)}" if names else "it has none"
            raise InputError(f"{kind.name} has no parameter {key!r}; {hint}")
        if names[key] in values:
            raise InputError(f"duplicate parameter {key} in {text!r}")
        try:
            values[names[key]] = float(value)
        except ValueError:
            values[names[key]] = value  # a word, as in idf=okapi
    return values


def _check(
    function: Function, key: str, low: float, high: float, expected: str, *, may_be_infinite: bool = False
) -> None:
    value = getattr(function, key)
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (math.isinf(value) and not may_be_infinite):
        shown = value if isinstance(value, str) else _plain(value)
        raise InputError(f"{key.rstrip('_')} of {function.name} is {shown}; expected {expected}")


def _plain(value: float) -> str:
    """A number in as few digits as possible without loss."""
    return f"{value:.15g}" if isinstance(value, int | float) and float(f"{value:.15g}") == value else str(value)


def _idf(view: View, terms: Array) -> Array:
    return np.log1p(view.n_docs / view.doc_counts[terms])


def _shares(view: View, terms: Array) -> Array:
    return view.total_counts[terms] / view.total_length


_ANALYZER_LABELS = {"plain": "words as written", "porter": "stemmed", "porter+stop": "stemmed, no stop words"}


def plain_words(feature: str) -> str:
    """A feature's name for people; the name itself if it does not come from an index.

    Examples
    --------
    >>> plain_words("bm25[porter+stop,title]"), plain_words("jm(lambda=0.7)[plain]")
    ('BM25 in title (stemmed, no stop words)', 'query likelihood, Jelinek–Mercer, lambda=0.7 (words as written)')
    >>> plain_words("clicks")
    'clicks'
    """
    parts = feature_parts(feature)
    if parts is None:
        return feature
    base, _, inside = parts.function.partition("(")
    label = FUNCTIONS[base].label if base in FUNCTIONS else SUMS.get(base)
    if label is None:
        return feature
    settings = f", {inside.rstrip(')')}" if inside else ""
    where = f" in {parts.field}" if parts.field else ""
    return f"{label}{settings}{where} ({_ANALYZER_LABELS.get(parts.analyzer, parts.analyzer)})"
