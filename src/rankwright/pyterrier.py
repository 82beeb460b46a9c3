"""Transformers for PyTerrier: search over a Rankwright index, features, and reranking with a model.

    search = Search(index) >> Features(index) >> pt.ltr.apply_learned_model(LambdaMART(), form="ltr")

They need PyTerrier (``pip install 'rankwright[pyterrier]'``) and no Java. Rankwright's rankers are learners for
``pt.ltr.apply_learned_model`` as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.models.saving import load_model
from rankwright.text.features import Columns, feature_set
from rankwright.text.index import Index
from rankwright.text.learned import LearnedSearch
from rankwright.text.search import Hits, Scorer, default_analyzer

try:
    import pandas as pd
    import pyterrier as pt
except ImportError:
    raise ImportError(
        "rankwright.pyterrier needs PyTerrier; install it with: pip install 'rankwright[pyterrier]'"
    ) from None


class Search(pt.Transformer):
    """Search an index: queries in, ranked documents out.

    `index`: a Rankwright index. `function`: the retrieval function, for example ``"dirichlet(mu=500)"``. `num_results`:
    most documents for a query. `analyzer`, `field`: the view of the index, as for :func:`rankwright.search`. `model`:
    search with a learned model instead, see :class:`rankwright.LearnedSearch`. `n_jobs`: number of threads, -1 for all
    cores; does not affect the results.

    Examples
    --------
    >>> Search("docs.index", "bm25").search("lift of a wing")  # doctest: +SKIP
    """

    def __init__(
        self,
        index: Index | str | Path,
        function: str = "bm25",
        *,
        num_results: int = 1000,
        analyzer: str | None = None,
        field: str | None = None,
        model: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__()
        self.index = _opened(index)
        self.num_results, self.n_jobs = num_results, n_jobs
        if model is not None:
            self._engine: Any = LearnedSearch(self.index, _loaded(model))
        else:
            view = self.index.view(analyzer or default_analyzer(self.index.analyzers), field)
            self._engine = Scorer(view, function)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The documents of each query: columns ``docno``, ``score`` and ``rank`` are added."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        kept = [name for name in inp.columns if name not in ("docno", "docid", "score", "rank")]
        hits: Hits = self._engine.search_all([str(text) for text in inp["query"]], self.num_results, n_jobs=self.n_jobs)
        results = inp[kept].iloc[np.repeat(np.arange(len(inp)), np.diff(hits.indptr))].reset_index(drop=True)
        results["docno"] = pd.Series([self.index.doc_id(doc) for doc in hits.docs.tolist()], dtype=object)
        results["score"] = hits.scores
        return pt.model.add_ranks(results)


class Features(pt.Transformer):
    """Compute features of documents for queries: adds the column ``features``.

    `index`: a Rankwright index that has the documents. `features`: names of features, as `rankwright features` has
    them; by default the 15 base functions, see :func:`rankwright.feature_set`. `names`: the features in the order of
    the column.

    Examples
    --------
    >>> pipeline = Search("docs.index") >> Features("docs.index")  # doctest: +SKIP
    """

    def __init__(self, index: Index | str | Path, features: Sequence[str] | None = None) -> None:
        super().__init__()
        self.index = _opened(index)
        self._columns = Columns(self.index, feature_set("base") if features is None else list(features))
        self.names = tuple(self._columns.names)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The same rows with their features."""
        pt.validate.result_frame(inp, extra_columns=["query"], context=self)
        return inp.assign(features=pd.Series(list(self.values(inp)), index=inp.index, dtype=object))

    def values(self, inp: pd.DataFrame) -> np.ndarray[Any, Any]:
        """The features of each row, as a table."""
        out = np.empty((len(inp), len(self.names)), np.float32)
        docs = np.array([self._find(document) for document in inp["docno"]], np.int64)
        for query, rows in inp.reset_index(drop=True).groupby("qid", sort=False).groups.items():
            at = np.asarray(rows)
            texts = set(inp["query"].iloc[at])
            if len(texts) > 1:
                raise InputError(f"query {query!r} has {len(texts)} different texts; expected one")
            order = at[np.argsort(docs[at], kind="stable")]
            if len(np.unique(docs[order])) < len(order):
                raise InputError(f"query {query!r} has a document twice; expected every document once")
            out[order] = self._columns.values(str(texts.pop()), docs[order])
        return out

    def _find(self, document: str) -> int:
        doc = self.index.find(str(document))
        if doc is None:
            raise InputError(f"document {document!r} is not in the index; expected one of its documents")
        return doc


class Rerank(pt.Transformer):
    """Score documents with a Rankwright model and rank them by it.

    `model`: what gives the scores; an imported model works too. `index`: computes the model's features by name. Without
    it, the column ``features`` has them in the model's order.

    Examples
    --------
    >>> pipeline = Search("docs.index") % 100 >> Rerank("model.rkw", "docs.index")  # doctest: +SKIP
    """

    def __init__(self, model: Any, index: Index | str | Path | None = None) -> None:
        super().__init__()
        self.model = _loaded(model)
        self._features: Features | None = None
        if index is not None:
            names = self.model.feature_names
            if names is None:
                raise InputError("the model has no feature names; expected named features, or a column 'features'")
            self._features = Features(index, names)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The same documents with the model's scores, and ranks by these."""
        features = self._features
        pt.validate.result_frame(inp, extra_columns=["features" if features is None else "query"], context=self)
        if not len(inp):
            return pt.model.add_ranks(inp.assign(score=np.empty(0)))
        X = np.stack(inp["features"].tolist()) if features is None else features.values(inp)
        qid, labels = [str(query) for query in inp["qid"]], np.zeros(len(inp))
        names = None if features is None else features.names
        data = RankingData.from_arrays(X, labels, qid, feature_names=names, allow_missing=True)
        return pt.model.add_ranks(inp.assign(score=self.model.predict(data)))


def _opened(index: Index | str | Path) -> Index:
    return index if isinstance(index, Index) else Index.open(index)


def _loaded(model: Any) -> Any:
    """The model of a file, of a fitted ranker, or itself."""
    if isinstance(model, str | Path):
        model = load_model(model)
    return getattr(model, "model", getattr(model, "model_", model))
