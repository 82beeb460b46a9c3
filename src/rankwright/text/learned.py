"""Search with a learned model: its retrieval-function features find the candidates, its scores rank them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import MissingFeaturesError
from rankwright.data.order import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.io.files import Progress
from rankwright.text.features import Columns, DocumentTable, all_numbers
from rankwright.text.index import Index
from rankwright.text.numbers import GivenNumbers
from rankwright.text.search import Hits, QueryHits, by_threads, check_queries, positive_integer

__all__ = ["LearnedSearch"]

_NAMED = 3  # missing features named in an error
_BLOCK = 16  # queries that a thread processes at a time


class LearnedSearch:
    """Search an index with a model whose features can be computed from an index.

    Parameters
    ----------
    index : Index
        Where the documents are.
    model : model
        A model, or the result of :func:`rankwright.load_model`, trained on features from `rankwright features` or
        :func:`rankwright.make_features`.
    depth : int
        Candidates are the top ``depth`` documents of each retrieval function among the features.
    missing_as_zero : bool
        Whether features of the model that cannot be computed from the index are 0; otherwise they are an error.
    numbers : path, data frame, mapping or DocumentTable, optional
        Numbers of documents that are not in the index, or take the place of those in it, as for
        :meth:`Index.set_numbers`: a feature of the model called ``price`` is the number ``price`` of a document.

    Notes
    -----
    Several threads may search at once. An index that is changed on disk, by new documents or numbers, changes nothing
    here: open it again (``Index.open``) and make another search. A pickle holds the model and the path of the index,
    which is opened again; a copy shares the index.

    Examples
    --------
    >>> engine = LearnedSearch(index, load_model("model.rkw"))  # doctest: +SKIP
    >>> found = engine.search("lift of a wing", 2)  # doctest: +SKIP
    >>> found.ids, found.scores  # doctest: +SKIP
    (['51', '12'], array([3.25, 2.75]))
    >>> docs, scores = found  # numbers instead of ids  # doctest: +SKIP
    """

    def __init__(
        self,
        index: Index,
        model: Any,
        depth: int = 1000,
        *,
        missing_as_zero: bool = False,
        numbers: GivenNumbers | DocumentTable | None = None,
    ) -> None:
        if not isinstance(index, Index):
            raise InputError(f"the index is of the type {type(index).__name__}; expected an Index, as from Index.open")
        self._model = _checked_model(model)
        names = _names(self._model)
        if names is None:
            raise InputError("the model has no feature names; expected one trained on named features")
        # `price(missing=0)` is a feature called like the number `price`.
        bases = {name.partition("(")[0] for name in names}
        used = {name: values for name, values in all_numbers(index, numbers).items() if name in bases}
        self._given = None if numbers is None or not used else used
        try:
            self.columns = Columns(index, names, self._given)
        except InputError:
            computable, problem = _computable(index, names, self._given)
            if not missing_as_zero:
                raise problem from None
            self.columns = Columns(index, computable, self._given)
        self._depth, self._missing_as_zero = positive_integer(depth, "depth"), missing_as_zero
        if not self.columns.functions:
            raise InputError("none of the model's features is a retrieval function; expected one, to find candidates")
        self._check_missing()

    def _check_missing(self) -> None:
        """Refuse numbers that some documents lack if the model cannot score them: some query would find them."""
        for name, n_missing in self.columns.missing().items():
            X = np.zeros((1, len(self.columns.names)), np.float32)
            X[0, self.columns.names.index(name)] = np.nan
            try:
                self._best(np.zeros(1, np.int64), X, 1)
            except InputError:
                n_docs, has = self.index.n_docs, "has" if n_missing == 1 else "have"
                problem = (
                    f"{n_missing:,} of {n_docs:,} documents {has} no number {name!r}, which this model cannot score"
                )
                how = f"a number for each, a model of trees, or one trained on {name}(missing=0)"
                raise InputError(f"{problem}; expected {how}") from None

    @property
    def index(self) -> Index:
        """Where the documents are."""
        return self.columns.index

    @property
    def model(self) -> Any:
        """The model, without the facts of its file."""
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        settings = {"depth": self._depth, "missing_as_zero": self._missing_as_zero}
        documents = self.index.ids.checksum
        return {"index": self.index, "model": self._model, **settings, "numbers": self._given, "documents": documents}

    def __setstate__(self, state: dict[str, Any]) -> None:
        settings = dict(state)
        documents, index = settings.pop("documents"), settings["index"]
        if settings["numbers"] is not None and documents != index.ids.checksum:
            problem = "has other documents than the pickled engine, whose numbers are in their order"
            raise InputError(f"{problem}; expected the same index", index.path)
        self.__init__(**settings)  # type: ignore[misc]

    def search(self, text: str, k: int = 10) -> QueryHits:
        """Numbers and scores of the top k documents, best first, ties in ascending order of numbers.

        Parameters
        ----------
        text : str
            The query.
        k : int, default=10
            Maximum number of documents.

        Returns
        -------
        QueryHits
            A pair ``(docs, scores)`` with the attributes ``ids``, ``docs`` and ``scores``.
        """
        check_queries([text])
        return QueryHits(*self._search_block([text], positive_integer(k, "k"))[0], self.index.ids)

    def search_all(
        self,
        texts: Sequence[str],
        k: int = 1000,
        *,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Hits:
        """The top k documents of each query, as :meth:`search` finds them.

        Parameters
        ----------
        texts : sequence of str
            The queries.
        k : int, default=1000
            Maximum number of documents for each query.
        n_jobs : int, optional
            Number of threads, -1 for all cores; does not affect the result.
        progress : callable, optional
            Called with (queries done, total queries).
        """
        check_queries(texts)
        threads, work = threads_of(n_jobs), partial(self._search_block, k=positive_integer(k, "k"))
        blocks = [texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK)]
        results = list(chain.from_iterable(by_threads(work, blocks, threads, progress)))
        docs = np.concatenate([np.empty(0, np.int64), *(docs for docs, _ in results)])
        scores = np.concatenate([np.empty(0), *(scores for _, scores in results)])
        indptr = sizes_to_indptr(np.array([len(docs) for docs, _ in results], np.int64))
        return Hits(indptr, docs, scores, self.index.ids)

    def _search_block(self, texts: Sequence[str], k: int) -> list[tuple[Array, Array]]:
        """Documents and scores of several queries; scores query by query, as their bits may depend on it."""
        indptr, docs = self.columns.candidates_all(texts, self._depth)
        X = self.columns.by_feature(texts, indptr, docs).T
        if self._model.scales_queries:  # numpy sums rows in another order then
            X = np.ascontiguousarray(X)
        return [self._best(docs[a:b], X[a:b], k) for a, b in pairwise(indptr.tolist())]

    def _best(self, docs: Array, X: Array, k: int) -> tuple[Array, Array]:
        """The top k of the candidates of one query, and their scores."""
        if not len(docs):
            return docs, np.empty(0)
        names: Sequence[str] | None = self.columns.names
        if self._missing_as_zero:
            X, names = self._model.with_missing(X, names)
        scores = np.asarray(self._model.score(X, names, np.array([0, len(docs)])), np.float64)
        if k < len(docs):  # what is below the k-th need not be sorted
            above = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
            docs, scores = docs[above], scores[above]
        best = np.argsort(-scores, kind="stable")[:k]
        return docs[best], scores[best]


def _checked_model(model: Any) -> Any:
    """A model: itself, or that of a model file or of a fitted ranker."""
    for name in ("model", "model_"):
        model = getattr(model, name, model)
    if not (hasattr(model, "score") and hasattr(model, "feature_names")):
        problem = f"the model is of the type {type(model).__name__}"
        raise InputError(f"{problem}; expected a model, as from load_model, or a fitted ranker")
    return model


def _names(model: Any) -> tuple[str, ...] | None:
    """The names of a model's features, those of all parts of a sum; None if there are none."""
    parts = [part.feature_names for part in getattr(model, "parts", (model,))]
    return None if None in parts else tuple(dict.fromkeys(name for names in parts for name in names))


def _computable(
    index: Index, names: Sequence[str], numbers: dict[str, Array] | None
) -> tuple[list[str], MissingFeaturesError]:
    """The features that can be computed from an index, and what is wrong with the others."""
    computable: list[str] = []
    reasons: list[str] = []
    for name in names:
        try:
            Columns(index, [name], numbers)
            computable.append(name)
        except InputError as error:
            reasons.append(error.message)
    first = "; ".join(reasons[:_NAMED])
    more = f"; and {len(reasons) - _NAMED:,} more" if len(reasons) > _NAMED else ""
    problem = f"the index lacks {len(reasons):,} of the model's {len(names):,} features"
    return computable, MissingFeaturesError(f"{problem}: {first}{more}")
