"""What a target is: what it can hold, how it is written, and how what was written is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.exporting.ensemble import Ensemble
from rankwright.models.net import NetModel
from rankwright.models.trees.model import GradeModel

Array = npt.NDArray[Any]
Scorer = Callable[[Array, Array], Array]
"""Scores of rows by an exported file: called with X, the ensemble's features as columns, and the query boundaries."""


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes
    ----------
    name : str
        The name of the model at the consumer.
    form : str
        One of the target's forms, or ``"auto"``.
    missing_as_zero : bool
        Whether the consumer makes missing features 0 before the model sees them.
    feature_set : str
        The name of the feature set, feature store or rank profile.
    """

    name: str = "model"
    form: str = "auto"
    missing_as_zero: bool = False
    feature_set: str = "features"


@dataclass(frozen=True)
class ExportFiles:
    """The files of an export.

    Attributes
    ----------
    files : dict of str to bytes
        By name, the model first.
    notes : tuple of str
        What the user has to know, one line each.
    representable : Ensemble, optional
        What the files represent where the target cannot represent the ensemble exactly; the difference is reported with
        numbers.
    """

    files: dict[str, bytes]
    notes: tuple[str, ...] = ()
    representable: Ensemble | None = None


@dataclass(frozen=True)
class Consumer:
    """A Python package that reads the files itself.

    Attributes
    ----------
    package : str
        The name it is imported and installed by.
    read : callable
        Returns a scorer from the files and the names of the ensemble's features.
    """

    package: str
    read: Callable[[Mapping[str, bytes], tuple[str, ...]], Scorer]


@dataclass(frozen=True)
class ExportTarget:
    """A target of an export.

    Attributes
    ----------
    name : str
        As in ``--to``.
    about : str
        One line: who reads it.
    rule : str
        One line: how the consumer decides and adds.
    refusal : callable
        Why an ensemble cannot be held, in the words after "TARGET cannot hold this model: "; None if it can.
    write : callable
        Returns the files.
    read : callable
        Returns a scorer from the files and the names of the ensemble's features, by our own model of the rule. It sees
        nothing but the files.
    dtype : type
        What the consumer holds features in: float32 or float64.
    forms : tuple of str
        What ``--form`` may be; ``auto`` is always allowed.
    consumer : Consumer, optional
        The package that scores instead where it is installed.
    run_by : str, optional
        What runs the files in ``read``, where that is not our model of a rule: Python itself, SQLite.
    request : callable, optional
        Further files that are not the model: an example request, a feature set. Called with the ensemble, the options
        and one golden row.
    tiny : float
        Features up to this size are 0 to the consumer.
    tolerance : float
        A row is off its path if its score differs by more than this share of the largest score.
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
    request: Callable[[Ensemble, Options, Mapping[str, float | None]], dict[str, bytes]] | None = None
    tiny: float = 0.0
    tolerance: float = 1e-4

    def seen(self, X: Array, ensemble: Ensemble) -> Array:
        """Rows as the consumer sees them: numbers in its type; categories stay."""
        X = X.copy()
        plain = [j for j in range(X.shape[1]) if j not in ensemble.categories]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            X[:, plain] = X[:, plain].astype(self.dtype)
            X[np.abs(X) <= self.tiny] = 0.0
        return X


def refuse_others(ensemble: Ensemble, *, nets: bool = False, categories: bool = False) -> str | None:
    """Why a target of weights and trees cannot hold an ensemble; None if nothing but weights and trees is in it.

    Parameters
    ----------
    nets : bool
        Whether a net alone is held.
    categories : bool
        Whether splits on sets of categories are held.
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
    """Why a target of trees alone, on thresholds and sets of categories, cannot hold an ensemble; None if it can."""
    if ensemble.has_weights:
        return "it has linear weights, which trees cannot represent exactly"
    return refuse_others(ensemble, categories=True)
