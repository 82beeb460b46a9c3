"""The targets of an export by name, and the features of a model in those that are search engines.

An engine has to compute the features before its plugin can score: what it needs for that, and where its numbers differ,
is exported beside the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from rankwright.errors import InputError
from rankwright.exporting.counterparts import Called, FeatureSet, Origin, identifiers, origin_of
from rankwright.exporting.ensemble import Ensemble, as_json
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer
from rankwright.exporting.to_elasticsearch import (
    ELASTICSEARCH,
    IN_THE_MODEL,
    OPENSEARCH,
    elasticsearch_set,
    opensearch_set,
)
from rankwright.exporting.to_lightgbm import LIGHTGBM
from rankwright.exporting.to_onnx import ONNX
from rankwright.exporting.to_python import PYTHON
from rankwright.exporting.to_ranklib import RANKLIB
from rankwright.exporting.to_solr import SOLR, solr_set
from rankwright.exporting.to_sql import SQL
from rankwright.exporting.to_vespa import RANK_FEATURE, VESPA, vespa_set
from rankwright.exporting.to_xgboost import XGBOOST

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

    `engine`: one of ``ENGINES``; the files for OpenSearch are also those of the Elasticsearch LTR plugin. `used`: which
    of the features to define; by default all. `feature_set`: its name in the engine, or that of the feature store or
    rank profile. `index`: the index, collection or schema with the documents.

    Examples
    --------
    >>> features = engine_features("opensearch", ["bm25[porter,title]", "cosine[plain]", "price"])
    >>> features.summary()
    'features in opensearch: 1 read from fields, 1 approximately the same, 1 without a counterpart'
    >>> sorted(features.files)
    ['featureset-legacy.json', 'featureset.json', 'index.json', 'log.json', 'search.json']
    """
    if engine not in ENGINES:
        raise InputError(f"no feature sets for {engine!r}; expected one of {', '.join(ENGINES)}")
    chosen = list(names) if used is None else [names[at] for at in used]
    called = Called(model, feature_set, index, engine_names(engine, names))
    return ENGINES[engine]([origin_of(name) for name in chosen], called)


_REPORT = "features.txt"


def with_features(target: ExportTarget) -> ExportTarget:
    """A target for an engine, with names that the engine allows, and files that define the features there."""

    def renamed(ensemble: Ensemble) -> Ensemble:
        called = engine_names(target.name, ensemble.names)
        return dataclasses.replace(ensemble, names=tuple(called[name] for name in ensemble.names))

    def refusal(ensemble: Ensemble, options: Options) -> str | None:
        return target.refusal(renamed(ensemble), options)

    def write(ensemble: Ensemble, options: Options) -> ExportFiles:
        written = target.write(renamed(ensemble), options)
        used = None if options.form == "ranklib" else ensemble.used.tolist()  # it knows features by number: all
        features = engine_features(
            target.name, ensemble.names, used=used, model=options.name, feature_set=options.feature_set
        )
        files = {name: text.encode() for name, text in features.files.items() if name != IN_THE_MODEL}
        called = engine_names(target.name, ensemble.names)
        names = [counterpart.name for counterpart in features.counterparts]
        changed = {name: called[name] for name in names if called[name] != name}
        if changed:
            files["feature_names.json"] = as_json(changed, 1)
        files[_REPORT] = features.report().encode()
        notes = (*written.notes, f"{features.summary()}; see {_REPORT}")
        return dataclasses.replace(written, notes=notes, beside=files)

    def read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
        called = engine_names(target.name, names)
        return target.read(files, tuple(called[name] for name in names))

    return dataclasses.replace(target, refusal=refusal, write=write, read=read)


_ENGINES = tuple(map(with_features, (OPENSEARCH, ELASTICSEARCH, SOLR, VESPA)))
_OTHERS = (LIGHTGBM, XGBOOST, RANKLIB, ONNX, PYTHON, SQL)
TARGETS: dict[str, ExportTarget] = {target.name: target for target in (*_ENGINES, *_OTHERS)}


def find_target(name: str) -> ExportTarget:
    if name not in TARGETS:
        raise InputError(f"no target {name!r}; expected one of: {', '.join(TARGETS)}")
    return TARGETS[name]
