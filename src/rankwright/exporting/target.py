"""What a target is: what it can hold, how it is written, and how what was written is scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.tree_model import GradeModel
from rankwright.data.categories import named
from rankwright.exporting.ensemble import Ensemble
from rankwright.nets.model import NetModel

Scorer = Callable[[Array, Array], Array]
"""Scores of rows by an exported file: called with X, the ensemble's features as columns, and the query boundaries."""


@dataclass(frozen=True)
class Options:
    """What the user asked for: see :func:`rankwright.export_model`."""

    name: str = "model"
    form: str = "auto"
    missing_as_zero: bool = False
    feature_set: str = "features"


@dataclass(frozen=True)
class ExportFiles:
    """The files of an export.

    `files`: by name, the model first. `notes`: what the user has to know, one line each. `representable`: what the
    files represent where the target cannot represent the ensemble exactly; the difference is reported with numbers.
    `beside`: further files that are not the model: its features in the engine, example requests.
    """

    files: dict[str, bytes]
    notes: tuple[str, ...] = ()
    representable: Ensemble | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Consumer:
    """A Python package that reads the files itself; `read` is as in the target."""

    package: str
    read: Callable[[Mapping[str, bytes], tuple[str, ...]], Scorer]


@dataclass(frozen=True)
class ExportTarget:
    """A target of an export.

    `name`: as in ``--to``. `about`: one line: who reads it. `rule`: one line: how the consumer decides and adds.
    `refusal`: why an ensemble cannot be held, in the words after "TARGET cannot hold this model: "; None if it can.
    `write`: returns the files. `read`: returns a scorer from the files and the names of the ensemble's features, by our
    own model of the rule. It sees nothing but the files. `dtype`: what the consumer holds features in: float32 or
    float64. `forms`: what ``--form`` may be; ``auto`` is always allowed. `consumer`: the package that scores instead
    where it is installed. `run_by`: what runs the files in ``read``, where that is not our model of a rule: Python
    itself, SQLite. `tiny`: features up to this size are 0 to the consumer. `tolerance`: a row is off its path if its
    score differs by more than this share of the largest score.
    """

    name: str
    about: str
    rule: str
    refusal: Callable[[Ensemble, Options], str | None]
    write: Callable[[Ensemble, Options], ExportFiles]
    read: Callable[[Mapping[str, bytes], tuple[str, ...]], Scorer]
    dtype: Any = np.float32
    forms: tuple[str, ...] = ()
    consumer: Consumer | None = None
    run_by: str | None = None
    tiny: float = 0.0
    tolerance: float = 1e-4

    def seen(self, X: Array, ensemble: Ensemble) -> Array:
        """Rows as the consumer sees them: numbers in its type; codes of categories stay."""
        X = X.copy()
        plain = [j for j in range(X.shape[1]) if j not in ensemble.categories]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            X[:, plain] = X[:, plain].astype(self.dtype)
            X[np.abs(X) <= self.tiny] = 0.0
        return X


def refuse_others(ensemble: Ensemble, *, nets: bool = False, categories: bool = False) -> str | None:
    """Why a target of weights and trees cannot hold an ensemble; None if nothing but weights and trees is in it.

    `nets`: whether a net alone is held. `categories`: whether splits on sets of categories are held.
    """
    if ensemble.scales_queries:
        return "it scales features within each query, but documents are scored one by one there"
    if any(isinstance(other.model, GradeModel) for other in ensemble.others):
        return "its score is an expected grade, a function of several sums of trees"
    if any(isinstance(other.model, NetModel) for other in ensemble.others):
        alone = len(ensemble.others) == 1 and not ensemble.has_weights and not ensemble.trees.n_trees
        if not (nets and alone):
            return "it adds a net to other parts" if nets else "it is a net"
    if ensemble.categories and not categories and (ensemble.trees.subset >= 0).any():
        return "it splits on categories, not on thresholds only"
    return None


def refuse_all_but_trees(ensemble: Ensemble, options: Options) -> str | None:
    """Why a target of trees alone, which may split on sets of categories, cannot hold an ensemble; None if it can."""
    if ensemble.has_weights:
        return "it has linear weights, which trees cannot represent exactly"
    return refuse_others(ensemble, categories=True)


def repeated_names(ensemble: Ensemble) -> str | None:
    """Why a target that knows features by name only cannot hold an ensemble; None if used names differ."""
    counts = Counter(ensemble.names[j] for j in ensemble.used)
    twice = [name for name, count in counts.items() if count > 1]
    return f"it has several features of the name {named(twice)}, and features go by name there" if twice else None


def refuse_to_engine(ensemble: Ensemble, *, nets: bool = False) -> str | None:
    """Why an engine that computes features by name for a model cannot hold an ensemble; None if it can."""
    why = refuse_others(ensemble, nets=nets) or repeated_names(ensemble)
    if why is None and not len(ensemble.used):
        return "it uses no feature, so all documents score the same"
    return why
