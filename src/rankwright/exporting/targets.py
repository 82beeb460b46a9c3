"""The targets of an export, by name."""

from __future__ import annotations

from rankwright.errors import InputError
from rankwright.exporting.target import Target
from rankwright.exporting.to_elasticsearch import ELASTICSEARCH
from rankwright.exporting.to_lightgbm import LIGHTGBM
from rankwright.exporting.to_opensearch import OPENSEARCH
from rankwright.exporting.to_ranklib import RANKLIB
from rankwright.exporting.to_solr import SOLR
from rankwright.exporting.to_vespa import VESPA
from rankwright.exporting.to_xgboost import XGBOOST

__all__ = ["TARGETS", "find_target"]

TARGETS: dict[str, Target] = {
    target.name: target for target in (OPENSEARCH, ELASTICSEARCH, SOLR, VESPA, LIGHTGBM, XGBOOST, RANKLIB)
}


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
