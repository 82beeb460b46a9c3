"""The features of a model in a search engine: what the engine needs to compute them, and where its numbers differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rankwright.errors import InputError
from rankwright.exporting.counterparts import Called, FeatureSet, Origin, identifiers, origin_of
from rankwright.exporting.ensemble import Ensemble
from rankwright.exporting.lucene_sets import elasticsearch_set, opensearch_set
from rankwright.exporting.target import Options
from rankwright.exporting.to_solr import solr_set
from rankwright.exporting.to_vespa import RANK_FEATURE, vespa_set

ENGINES: Mapping[str, Callable[[Sequence[Origin], Called], FeatureSet]] = {
    "opensearch": opensearch_set,
    "elasticsearch": elasticsearch_set,
    "solr": solr_set,
    "vespa": vespa_set,
}
"""The engines whose feature sets can be written, by name."""


_WORDS_ONLY = {"solr": (), "vespa": ("attribute", "bm25", "log", "max", "min", "nativeRank", "query")}
"""Engines whose features need names of letters, digits and underscores, and the words that are taken there."""


def engine_names(engine: str, names: Sequence[str]) -> dict[str, str]:
    """The names of a model's features in an engine.

    Examples
    --------
    >>> engine_names("vespa", ["bm25[porter,title]", "price"])
    {'bm25[porter,title]': 'bm25_porter_title', 'price': 'price'}
    >>> engine_names("opensearch", ["bm25[porter,title]"])
    {'bm25[porter,title]': 'bm25[porter,title]'}
    """
    if engine not in _WORDS_ONLY:
        return {name: name for name in names}
    kept = {name: name for name in names if engine == "vespa" and RANK_FEATURE.fullmatch(name)}
    return kept | identifiers((name for name in names if name not in kept), taken=_WORDS_ONLY[engine])


def engine_features(
    engine: str,
    names: Sequence[str],
    *,
    used: Sequence[int] | None = None,
    model: str = "model",
    feature_set: str = "features",
    index: str = "documents",
) -> FeatureSet:
    """What an engine needs to compute the features of a model.

    `engine` ({"opensearch", "elasticsearch", "solr", "vespa"}): the engine; the files for OpenSearch are also those of
    the Elasticsearch LTR plugin. `names`: the features of the model, such as ``bm25[porter,title]`` or ``price``.
    `used`: which of them to define; by default all. `model`, `feature_set`: the names of the model and of its feature
    set, feature store or rank profile in the engine. `index`: the index, collection or schema with the documents.

    Examples
    --------
    >>> found = engine_features("opensearch", ["bm25[porter,title]", "cosine[plain]", "price"])
    >>> found.summary()
    'features in opensearch: 1 read from fields, 1 approximately the same, 1 without a counterpart'
    >>> sorted(found.files)
    ['featureset-legacy.json', 'featureset.json', 'index.json', 'log.json', 'search.json']
    """
    if engine not in ENGINES:
        raise InputError(f"no feature sets for {engine!r}; expected one of {', '.join(ENGINES)}")
    chosen = list(names) if used is None else [names[at] for at in used]
    called = Called(model, feature_set, index, engine_names(engine, names))
    return ENGINES[engine]([origin_of(name) for name in chosen], called)


def features_of(engine: str, ensemble: Ensemble, options: Options) -> FeatureSet:
    """The features that an ensemble uses, in an engine; all of them where features go by number."""
    used = None if options.form == "ranklib" else ensemble.used.tolist()
    return engine_features(engine, ensemble.names, used=used, model=options.name, feature_set=options.feature_set)
