"""The targets of an export, by name; those that are engines with the files that define features there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from rankwright.errors import InputError
from rankwright.exporting.ensemble import Ensemble
from rankwright.exporting.feature_sets import engine_names, features_of
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer
from rankwright.exporting.to_elasticsearch import ELASTICSEARCH
from rankwright.exporting.to_lightgbm import LIGHTGBM
from rankwright.exporting.to_onnx import ONNX
from rankwright.exporting.to_opensearch import OPENSEARCH
from rankwright.exporting.to_python import PYTHON
from rankwright.exporting.to_ranklib import RANKLIB
from rankwright.exporting.to_solr import SOLR
from rankwright.exporting.to_sql import SQL
from rankwright.exporting.to_vespa import VESPA
from rankwright.exporting.to_xgboost import XGBOOST

_NAMES, _REPORT = "feature_names.json", "features.txt"
_IN_THE_MODEL = "feature_extractors.json"


def with_features(target: ExportTarget) -> ExportTarget:
    """A target for an engine, with names that the engine allows, and files that define the features there.

    The target's own example request is replaced by one that asks the fields of the features.
    """

    def renamed(ensemble: Ensemble) -> Ensemble:
        called = engine_names(target.name, ensemble.names)
        return dataclasses.replace(ensemble, names=tuple(called[name] for name in ensemble.names))

    def write(ensemble: Ensemble, options: Options) -> ExportFiles:
        written = target.write(renamed(ensemble), options)
        representable = written.representable
        if representable is not None:
            representable = dataclasses.replace(representable, names=ensemble.names)
        features = features_of(target.name, ensemble, options)
        note = f"{features.summary()}; see {_REPORT}"
        return dataclasses.replace(written, notes=(*written.notes, note), representable=representable)

    def read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
        called = engine_names(target.name, names)
        return target.read(files, tuple(called[name] for name in names))

    def request(ensemble: Ensemble, options: Options, row: Mapping[str, Any]) -> dict[str, bytes]:
        features = features_of(target.name, ensemble, options)
        files = {name: text for name, text in features.files.items() if name != _IN_THE_MODEL}
        called = engine_names(target.name, ensemble.names)
        changed = {
            name: called[name]
            for name in (counterpart.name for counterpart in features.counterparts)
            if called[name] != name
        }
        if changed:
            files[_NAMES] = json.dumps(changed, indent=1, ensure_ascii=False) + "\n"
        files[_REPORT] = features.report()
        return {name: text.encode() for name, text in files.items()}

    def refusal(ensemble: Ensemble, options: Options) -> str | None:
        return target.refusal(renamed(ensemble), options)

    return dataclasses.replace(target, refusal=refusal, write=write, read=read, request=request)


_ENGINES = tuple(map(with_features, (OPENSEARCH, ELASTICSEARCH, SOLR, VESPA)))
_OTHERS = (LIGHTGBM, XGBOOST, RANKLIB, ONNX, PYTHON, SQL)
TARGETS: dict[str, ExportTarget] = {target.name: target for target in (*_ENGINES, *_OTHERS)}


def find_target(name: str) -> ExportTarget:
    """Return a target by its name.

    Examples
    --------
    >>> find_target("lightgbm").name
    'lightgbm'
    """
    if name not in TARGETS:
        raise InputError(f"no target {name!r}; expected one of: {', '.join(TARGETS)}")
    return TARGETS[name]
