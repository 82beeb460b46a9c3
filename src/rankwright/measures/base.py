"""What a measure is, and the batch of rankings it is computed on.

A measure is an immutable, printable value (`nDCG@10`). It sees labels in rank order, nothing else: `value` takes many
queries at once and returns one number per query. A measure also says how it is trained for: `swaps` (what swapping two
documents changes), `position_sum` (for the line search) and `oracle` (the most violated ranking).
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.order import descending, sizes_to_indptr
from rankwright.errors import InputError


@dataclass(frozen=True, eq=False)
class Rankings:
    """Labels in rank order, query after query, with the judged labels that an ideal ranking would use.

    Attributes
    ----------
    labels : ndarray
        Labels of the ranked documents, best rank first.
    indptr : ndarray
        Query ``q`` owns the places ``indptr[q]:indptr[q+1]`` of ``labels``.
    judged : Rankings or None
        All labels known for each query, whether the document was retrieved or not, in any order. None: the ranked
        documents are all there are.
    is_judged : ndarray of bool or None
        Whether each of the ranked documents has a judgement; without one, its label is 0. None: all have.
    grades : ndarray or None
        Labels as the judgements have them, those below 0 included; nan without a judgement. None: the labels.
    strata : ndarray of int or None
        The stratum of the pool that each document was sampled from; -1 without one. None: not known.
    subtopics : ndarray of shape (documents, subtopics) or None
        Labels by subtopic of the query; 0 if not judged. None: not known.
    """

    labels: Array
    indptr: Array
    judged: Rankings | None = None
    is_judged: Array | None = None  # for Judged@k alone; all other measures ignore it
    grades: Array | None = None
    strata: Array | None = None
    subtopics: Array | None = None

    @cached_property
    def ideal(self) -> Rankings:
        """The same queries with all judged documents in the best order."""
        judged = self.known
        return Rankings(descending(judged.labels, judged.indptr), judged.indptr)

    @property
    def known(self) -> Rankings:
        """All labels known for each query, in no particular order."""
        return self if self.judged is None else self.judged

    @property
    def n_queries(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def sizes(self) -> Array:
        return np.diff(self.indptr)

    @cached_property
    def rank(self) -> Array:
        """Rank of every document in its query, from 0."""
        return np.arange(len(self.labels)) - np.repeat(self.indptr[:-1], self.sizes)

    def top(self, k: int | None) -> Rankings:
        """Only the first ``k`` documents of each query (all of them for None); judged labels stay."""
        if k is None or len(self.labels) == 0 or k >= int(self.sizes.max()):
            return self
        sizes = np.minimum(self.sizes, k)
        indptr = sizes_to_indptr(sizes)
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1] - indptr[:-1], sizes)
        more = (self.is_judged, self.grades, self.strata, self.subtopics)
        cut = (None if values is None else values[places] for values in more)
        return Rankings(self.labels[places], indptr, self.known, *cut)

    def sum(self, values: Array) -> Array:
        """Sum one value per document over each query."""
        return self._reduce(np.add, values)

    def max(self, values: Array) -> Array:
        """Largest of one value per document in each query; 0 for a query without documents."""
        return self._reduce(np.maximum, values)

    def _reduce(self, function: np.ufunc, values: Array) -> Array:
        result = np.zeros(self.n_queries)
        used = self.sizes > 0  # reduceat has no empty segments
        if used.any():
            result[used] = function.reduceat(values, self.indptr[:-1][used])
        return result

    def cumsum(self, values: Array) -> Array:
        """Running sum of one whole number per document, restarting in each query."""
        running = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
        return running[1:] - np.repeat(running[self.indptr[:-1]], self.sizes)


# The forms in which a measure may be offered for training.


STATE = 4
"""Rows of the table in which the functions of `Swaps` keep their state for a query."""


def read_only(values: npt.ArrayLike) -> Array:
    """A read-only float64 copy, as parameters of compiled functions must be."""
    array = np.array(values, np.float64, order="C")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Oracle:
    """Finds the most violated ranking of a loss, 1 − measure; see :mod:`rankwright.measures.oracles`.

    Attributes
    ----------
    kernel : compiled function
        loss = kernel(scores, labels, order, parameters, coef, work) for one query, with labels 0 and 1.
    parameters : callable
        ``parameters(longest)``: the kernel's parameters for queries of up to ``longest`` documents.
    feature_map : {"po", "mrr", "dorm"}
        What the coefficients refer to: the partial order of all documents, the topmost relevant one, or positions.
    graded : bool
        Whether labels are the grades themselves rather than 0 and 1.
    library : callable, optional
        ``loss, coef = library(scores, labels, parameters)``: the same for queries that are not ``cheap``.
    cheap : callable, optional
        ``cheap(labels)``: whether the kernel is faster for a query than the library.
    hinge_learns : bool
        Whether the papers' hinge is the better bound: losses that count every rank. By default the ramp bound is.
    """

    kernel: Any
    parameters: Callable[[int], Array]
    feature_map: str
    graded: bool = False
    library: Callable[[Array, Array, Array], tuple[float, Array]] | None = None
    cheap: Callable[[Array], bool] | None = None
    hinge_learns: bool = False


def _no_parameters(longest: int) -> Array:
    return read_only([])


def _prepare_nothing(worth: Array, judged: Array, parameters: Array, state: Array) -> None: ...


@dataclass(frozen=True, eq=False)
class Swaps:
    """Changes by swapping two documents, as functions that training compiles.

    Both are plain functions at module level that numba can compile: numbers, arrays and loops only. Evaluation never
    loads numba, and the lambda loop is compiled once for all measures, which are handed to it as first-class functions
    of a fixed signature. They see `Measure.worth` of the labels; their results are divided by `Measure.norms`.

    Attributes
    ----------
    changes : function
        ``changes(i, worth, parameters, state, out)`` sets ``out[j]``, for every rank j > i, to the change of
        the value if the documents at ranks i and j swap; ``worth`` is in rank order.
    prepare : function
        ``prepare(worth, judged, parameters, state)`` is called first, once per ranking. ``judged`` is the worth of all
        judged documents, highest first; ``state`` has `STATE` rows and one column more than there are ranks.
    parameters : callable
        ``parameters(longest)``: a read-only array for queries of up to ``longest`` documents.
    """

    changes: Callable[[int, Array, Array, Array, Array], None]
    prepare: Callable[[Array, Array, Array, Array], None] = _prepare_nothing
    parameters: Callable[[int], Array] = _no_parameters


@dataclass(frozen=True)
class Measure:
    """Base of all measures: a frozen dataclass of parameters with a name.

    A subclass writes :meth:`value`; everything else has a working default.

    Attributes
    ----------
    name, aliases : str, tuple of str
        Names users may write; ``name`` is that of the class unless it says otherwise.
    needs_cutoff, takes_cutoff : bool
        Whether a cutoff is required, and whether there can be one.
    is_goal : bool
        Whether it says how good a ranking is, so that it can be trained for and chosen by.
    feature_maps : tuple of str
        Feature maps that :meth:`oracle` takes, the default first.
    loss_name : str
        Name of the loss 1 − measure; by default ``name`` in lower case.
    loss_has_cutoff : bool
        Whether the loss has a cutoff unless its name ends with ``-nc``.
    own_losses : tuple of str
        Feature maps that make a loss of their own name.
    at : str
        The parameter that is written behind ``@``.
    evaluates_only : str
        Why the measure cannot be trained for; empty: it can.
    is_mean : bool
        Whether the value of a system is the arithmetic mean over queries, which comparisons need.
    needs : str
        What judgements must have besides labels; empty: nothing.
    """

    cutoff: int | None = None

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    needs_cutoff: ClassVar[bool] = False
    is_goal: ClassVar[bool] = True
    takes_cutoff: ClassVar[bool] = True
    feature_maps: ClassVar[tuple[str, ...]] = ()
    loss_name: ClassVar[str] = ""
    loss_has_cutoff: ClassVar[bool] = False
    own_losses: ClassVar[tuple[str, ...]] = ()
    at: ClassVar[str] = "cutoff"
    evaluates_only: ClassVar[str] = ""
    is_mean: ClassVar[bool] = True
    needs: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = vars(cls).get("name", cls.__name__)

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            if not self.takes_cutoff:
                raise InputError(f"{self.name} has no cutoff; write {self.name}")
            is_whole = isinstance(self.cutoff, int | np.integer) and not isinstance(self.cutoff, bool)
            if not is_whole or not 1 <= self.cutoff < 2**31:
                raise InputError(f"the cutoff of {self.name} is {self.cutoff!r}; expected a whole number from 1")
        elif self.needs_cutoff:
            raise InputError(f"{self.name} needs a cutoff; write for example {self.name}@10")

    def value(self, rankings: Rankings) -> Array:
        """One number per query. The caller decides what a query without a relevant document counts as."""
        raise InputError(f"{self.name} does not define its value")

    def mean(self, values: Array) -> float:
        """The mean over queries, of the values that are not nan; nan if there is none."""
        counted = values[~np.isnan(values)]
        return float(counted.mean()) if len(counted) else float("nan")

    def has_relevant(self, rankings: Rankings) -> Array:
        """Which queries have something relevant to find; by default a judged label above 0."""
        return rankings.known.max(rankings.known.labels) > 0

    def check_labels(self, labels: Array) -> None:
        """Raise an InputError if the measure is not defined for one of the labels."""

    def worth(self, labels: Array) -> Array:
        """What the measure sees of each label: one float64 each, which must not fall as labels rise."""
        return labels

    def norms(self, rankings: Rankings) -> Array:
        """What the value of each query is divided by; above 0, and independent of the order of the documents."""
        return np.ones(rankings.n_queries)

    def swaps(self) -> Swaps | None:
        """What swapping two documents changes, in a form that can be compiled; None: by brute force, which is slow."""
        return None

    def position_sum(self) -> PositionSum | None:
        """The measure as a sum over positions, if it is one: the line search is then fast."""
        return None

    def swap_deltas(self, labels: npt.ArrayLike, judged: npt.ArrayLike | None = None) -> Array:
        """Change of the value when the documents at two ranks swap, for all pairs of ranks of one query.

        Parameters
        ----------
        labels : array-like
            Labels in rank order.
        judged : array-like, optional
            All judged labels of the query, in any order; by default ``labels``.

        Returns
        -------
        ndarray of shape (n, n)
            Entry ``[i, j]``: value with ranks i and j swapped, minus the value as it is. Symmetric.
        """
        ranked = np.asarray(labels, np.float64)
        worths = np.sort(ranked if judged is None else np.asarray(judged, np.float64))[::-1]
        swaps = self.swaps()
        if swaps is None:
            return self.brute_force_swap_deltas(ranked, worths)
        n = len(ranked)
        worth, parameters, state = self.worth(ranked), swaps.parameters(n), np.zeros((STATE, n + 1))
        deltas = np.zeros((n, n))
        swaps.prepare(worth, self.worth(worths), parameters, state)
        for i in range(n):
            swaps.changes(i, worth, parameters, state, deltas[i])
        return (deltas + deltas.T) / self.norms(_copies(ranked[None, :], worths))

    def brute_force_swap_deltas(self, labels: Array, judged: Array) -> Array:
        """Swap every pair and compute the value anew: the definition, which every fast version is tested against."""
        n = len(labels)
        value = self.value(_copies(labels[None, :], judged))[0] if n else 0.0
        deltas = np.zeros((n, n))
        for i in range(n):
            swapped = np.repeat(labels[None, :], n, axis=0)
            swapped[:, i] = labels
            swapped[np.arange(n), np.arange(n)] = labels[i]
            deltas[i] = self.value(_copies(swapped, judged)) - value
        return deltas

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """The most violated ranking, which training for this measure with a max-margin solver needs.

        Parameters
        ----------
        feature_map : str, optional
            How a ranking is described, one of ``feature_maps``; by default the first.
        """
        trainable = sorted({kind.name for kind in REGISTRY.values() if kind.feature_maps}, key=str.lower)
        raise InputError(
            f"{self} has no most violated ranking, so it cannot be trained for with the max-margin solver; "
            f"losses: {', '.join(trainable)}"
        )

    def smoother(self) -> Measure:
        """A measure of the same kind whose lambda gradients lead further; this one, unless it sees few documents."""
        return self

    def check_feature_map(self, feature_map: str | None) -> None:
        """Raise an InputError for a feature map that the measure cannot be trained with."""
        if feature_map is None:
            return
        name, decayed, _ = str(feature_map).partition(":")
        if name not in self.feature_maps or (decayed and name not in self.own_losses):
            raise InputError(
                f"{self} cannot be trained with the feature map {feature_map!r}; "
                f"expected {' or '.join(self.feature_maps)}"
            )

    def method_name(self, feature_map: str | None = None) -> str:
        """The method that trains for this measure on a feature map, as `rankwright train` calls it.

        Examples
        --------
        >>> from rankwright.measures import parse_measure
        >>> parse_measure("AP").method_name(), parse_measure("nDCG").method_name(), parse_measure("RR@5").method_name()
        ('svm-map', 'svm-ndcg-nc', 'svm-mrr@5')
        """
        map_name = (feature_map or "").partition(":")[0]
        name = map_name if map_name in self.own_losses else f"svm-{self.loss_name or self.name.lower()}"
        if self.cutoff is not None:
            return f"{name}@{self.cutoff}"
        return f"{name}-nc" if self.loss_has_cutoff else name

    def with_relevant_from(self, label: float | None) -> Self:
        """The measure with documents relevant from this label on, if it has such a threshold; 1 leaves it unchanged.

        Examples
        --------
        >>> from rankwright.measures import parse_measure
        >>> print(parse_measure("AP").with_relevant_from(2), parse_measure("nDCG@10").with_relevant_from(2))
        AP(rel=2) nDCG@10
        """
        return self

    def resolve(self, convention: str) -> Self:
        """The measure with everything that depends on the convention (``trec`` or ``letor``) filled in."""
        return self

    def definition(self) -> str:
        """The parameters in words, for the line under a table."""
        return ""

    def __matmul__(self, cutoff: int) -> Self:
        return dataclasses.replace(self, cutoff=cutoff)

    def _parameters(self) -> dict[str, Any]:
        """What to print in brackets: the parameters that differ from their defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("cutoff", self.at) and getattr(self, field.name) != field.default
        }

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self._parameters().items())
        at = getattr(self, self.at)
        cutoff = "" if at is None else f"@{at}"
        return f"{self.name}({inside}){cutoff}" if inside else f"{self.name}{cutoff}"


@dataclass(frozen=True)
class BinaryMeasure(Measure):
    """A measure for binary relevance: a document is relevant when its label is at least ``rel``."""

    rel: int | float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rel, bool) or not isinstance(self.rel, int | float) or not 0 < self.rel < np.inf:
            raise InputError(f"rel of {self.name} is {self.rel!r}; expected a number above 0")

    def relevant(self, rankings: Rankings) -> Array:
        """Whether each ranked document is relevant."""
        return rankings.labels >= self.rel

    def worth(self, labels: Array) -> Array:
        """1 for relevant documents, 0 for others."""
        return (labels >= self.rel).astype(np.float64)

    def with_relevant_from(self, label: float | None) -> Self:
        """The measure with the threshold ``label``."""
        if label is None or label == 1 or label <= 0:
            return self
        return dataclasses.replace(self, rel=int(label) if float(label).is_integer() else label)

    def n_relevant(self, rankings: Rankings) -> Array:
        """Relevant documents per query, retrieved or not; at least 1, to divide by."""
        return np.maximum(rankings.known.sum((rankings.known.labels >= self.rel).astype(np.float64)), 1.0)

    def has_relevant(self, rankings: Rankings) -> Array:
        """Which queries have a relevant judged document."""
        return rankings.known.max(rankings.known.labels) >= self.rel

    def definition(self) -> str:
        return f"relevant from label {self.rel:g}"


@dataclass(frozen=True)
class PositionSum(Measure):
    """A measure that is a sum over positions, which makes it fast to train for.

        value = Σ_r worth(label_r) · discount(r) / norm                    nDCG, P, R, RBP
        value = Σ_r [relevant at r] · credit(hits_r) · discount(r) / norm  AP, RR, Success

    Ranks r count from 0; ranks from the cutoff on do not count. hits_r is the number of relevant documents at or above
    rank r. In the second form worth is 1 or 0. Value, swap changes and line search follow from what a subclass defines.

    By default discounts and norms are 1, and the worth of a label is the label itself, or whether it is relevant.
    """

    def discounts(self, ranks: Array) -> Array:
        return np.ones(len(ranks))

    def credits(self, hits: Array) -> Array | None:
        """What the hits-th relevant document counts; None: its worth, whichever it is."""
        return None

    def value(self, rankings: Rankings) -> Array:
        """The sum over the ranks that count, over the norm."""
        top = rankings.top(self.cutoff)
        worth, longest = self.worth(top.labels), int(top.sizes.max(initial=0))
        credits = self.credits(np.arange(longest + 1))
        if credits is not None:
            worth = worth * credits[top.cumsum(worth)]
        return np.asarray(top.sum(worth * self.discounts(np.arange(longest))[top.rank]) / self.norms(rankings))

    def cut_discounts(self, n: int) -> Array:
        """Discounts of the first ``n`` ranks, 0 from the cutoff on."""
        discounts = self.discounts(np.arange(n))
        if self.cutoff is not None:
            discounts[self.cutoff :] = 0.0
        return discounts

    def position_sum(self) -> PositionSum:
        return self

    def swaps(self) -> Swaps:
        if self.credits(np.arange(1)) is None:
            return Swaps(_changes, parameters=lambda longest: read_only(self.cut_discounts(longest)))
        return Swaps(_changes_of_hits, _prepare_hits, self._discounts_and_credits)

    def _discounts_and_credits(self, longest: int) -> Array:
        hits = np.arange(longest + 2)
        return read_only(np.concatenate([self.cut_discounts(longest + 2), self.credits(hits)]))


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """The documents exchange their discounts."""
    gain, discount = worth[i], parameters[i]
    lower, discounts, changes = worth[i + 1 :], parameters[i + 1 :], out[i + 1 :]  # positions that are not negative
    for j in range(lower.size):
        changes[j] = (lower[j] - gain) * (discount - discounts[j])


def _prepare_hits(worth: Array, judged: Array, parameters: Array, state: Array) -> None:
    """Rows: hits; total gain of the relevant documents above a rank from one hit more, and from one less; own parts."""
    half, hits = parameters.size // 2, 0
    state[1, 0] = state[2, 0] = 0.0
    for r in range(worth.size):
        hits += worth[r] > 0.0
        credit, discount = parameters[half + hits], worth[r] * parameters[r]
        state[0, r] = hits
        state[1, r + 1] = state[1, r] + (parameters[half + hits + 1] - credit) * discount
        state[2, r + 1] = state[2, r] + (parameters[half + max(hits - 1, 0)] - credit) * discount
        state[3, r] = credit * parameters[r]


def _changes_of_hits(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """The relevant document changes rank and hits; those in between have one hit more or less."""
    if worth[i] > 0.0:
        for j in range(i + 1, worth.size):
            out[j] = (1.0 - worth[j]) * (state[3, j] + (state[2, j] - state[2, i + 1]) - state[3, i])
    else:
        lifted = parameters[parameters.size // 2 + int(state[0, i]) + 1] * parameters[i]
        for j in range(i + 1, worth.size):
            out[j] = worth[j] * (lifted + (state[1, j] - state[1, i + 1]) - state[3, j])


def _copies(lists: Array, judged: Array) -> Rankings:
    """Rankings of equal length, one per row, with the same judged labels."""
    count, length = lists.shape
    judgements = Rankings(np.tile(judged, count), np.arange(count + 1) * len(judged))
    return Rankings(lists.reshape(-1), np.arange(count + 1) * length, judgements)


REGISTRY: dict[str, type[Measure]] = {}
"""Measures by lower-case name and alias; filled by :func:`register` when the files of this folder are loaded."""

_Kind = TypeVar("_Kind", bound=type[Measure])


def _home(kind: type) -> Any:
    """The file of a class, of a plugin its content; None if it was typed."""
    module = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
    return module.get("__content__") or module.get("__file__")


def register(kind: _Kind) -> _Kind:
    """Class decorator: register a measure under its name and aliases."""
    for name in (kind.name, *kind.aliases):
        registered = REGISTRY.setdefault(name.lower(), kind)
        # A class that was typed may be typed again; of two files only the same may have the same measure.
        homes = {_home(one) for one in (registered, kind)} - {None}
        if registered.__qualname__ != kind.__qualname__ or len(homes) > 1:
            raise InputError(f"the name {name!r} is already taken by the measure {registered.name}")
        REGISTRY[name.lower()] = kind
    return kind
