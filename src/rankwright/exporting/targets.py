"""The targets of an export, by name."""

from __future__ import annotations

from rankwright.errors import InputError
from rankwright.exporting.engine_files import with_features
from rankwright.exporting.target import Target
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

__all__ = ["TARGETS", "find_target"]

_ENGINES = tuple(map(with_features, (OPENSEARCH, ELASTICSEARCH, SOLR, VESPA)))
_OTHERS = (LIGHTGBM, XGBOOST, RANKLIB, ONNX, PYTHON, SQL)
TARGETS: dict[str, Target] = {target.name: target for target in (*_ENGINES, *_OTHERS)}


def find_target(name: str) -> Target:
    """The target of a name.

    Examples
    --------
    >>> find_target("lightgbm").name
    'lightgbm'
    """
    if name not in TARGETS:
        raise InputError(f"no target {name!r}; expected one of: {', '.join(TARGETS)}")
    return TARGETS[name]
