"""What an experiment is: data sets, methods, a protocol, and how they are compared.

An experiment is read from a TOML file by :func:`load_experiment`; docs/experiments.md lists the keys.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwright.errors import InputError

__all__ = [
    "ADAPT",
    "BEST_FEATURE",
    "FEATURE",
    "BackgroundSource",
    "DataSource",
    "Experiment",
    "MethodSpec",
    "Protocol",
    "load_experiment",
]

ADAPT = "adapt:"
FEATURE = "feature:"
BEST_FEATURE = "best-feature"
DATA_VARIABLE = "RANKWRIGHT_DATA"


@dataclass(frozen=True)
class DataSource:
    """Where the data of one ``[[data]]`` entry come from.

    Attributes
    ----------
    name : str
        What it is called in the results.
    kind : str
        ``features``, ``parts`` (S1 … S5), ``folds`` (files for every fold), ``fixed``, ``collection`` or ``runs``.
    files : dict of str to Path
        What is read, by its role; those of an open test are ``open 1``, ``open 2`` …
    options : dict
        The other keys of the entry.
    train_queries, valid_queries : int or None
        How many training and validation queries of a split are used; None: all.
    background : BackgroundSource or None
        The rich domain that methods adapt from.
    """

    name: str
    kind: str
    files: Mapping[str, Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    train_queries: int | None = None
    valid_queries: int | None = None
    background: BackgroundSource | None = None


@dataclass(frozen=True)
class BackgroundSource:
    """The background of a data set: the ranker of a rich domain, and its data.

    Attributes
    ----------
    files : dict of str to Path
        ``features 1`` …, ``valid 1`` …, or ``model``.
    spec : MethodSpec or None
        What its ranker is trained by; None where it is a model file.
    """

    files: Mapping[str, Path]
    spec: MethodSpec | None = None


@dataclass(frozen=True)
class MethodSpec:
    """One ``[[method]]`` entry.

    Attributes
    ----------
    name : str
        What it is called in the results.
    method : str
        A method of `rankwright train`, ``feature:NAME``, ``feature:NUMBER``, ``best-feature`` or ``adapt:NAME``.
    parameters : dict
        Of the estimator, or of the adaptation.
    grid : dict
        Values to choose from on validation data: lists, or ``{"low": …, "high": …}`` for random search.
    random : int or None
        How many points of the grid are drawn; None: all are tried.
    choose_by : str
        The measure on validation data that chooses.
    trained_for : str or None
        What the criterion table calls its row.
    """

    name: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    random: int | None = None
    choose_by: str = "nDCG@10"
    trained_for: str | None = None

    def settings(self) -> dict[str, Any]:
        """What decides about the outcome: all but the names."""
        return {key: value for key, value in self.as_dict().items() if key not in ("name", "trained_for")}

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return dataclasses.asdict(self) | {"parameters": dict(self.parameters), "grid": dict(self.grid)}


@dataclass(frozen=True)
class Protocol:
    """How queries are split where the data have no split of their own.

    Attributes
    ----------
    kind : {"trials", "folds", "fixed"}
        Balanced random trials, cross-validation, or one random split.
    trials, folds : int
        How many of them.
    valid_folds : int
        Folds for validation.
    train, valid, test : int, float or None
        Queries of a trial: their number, or their share as a number below 1. None for ``test``: all others.
    """

    kind: str = "fixed"
    trials: int = 50
    folds: int = 5
    valid_folds: int = 1
    train: int | float = 0.5
    valid: int | float = 0.2
    test: int | float | None = None

    @property
    def has_validation(self) -> bool:
        """Whether there are validation queries."""
        return self.valid_folds > 0 if self.kind == "folds" else self.valid > 0

    def as_dict(self) -> dict[str, Any]:
        """What matters for its kind."""
        keys = {"folds": ("folds", "valid_folds"), "trials": ("trials", "train", "valid", "test")}
        return {key: getattr(self, key) for key in ("kind", *keys.get(self.kind, ("train", "valid", "test")))}


@dataclass(frozen=True)
class Experiment:
    """An experiment, ready to run; see :func:`load_experiment`.

    Attributes
    ----------
    name : str
        Of the experiment.
    data : tuple of DataSource
        The data sets.
    methods : tuple of MethodSpec
        What is trained on each of them.
    protocol : Protocol or None
        For data without a split of their own.
    measures : tuple of str
        What the test queries are evaluated by.
    baseline : str
        Name of the method that the others are compared with.
    tests, correction
        As for :func:`rankwright.compare`.
    seed : int
        Of the splits, of random search and of every method that draws.
    output : Path
        The folder of the results.
    save_models : bool
        Whether the models are kept.
    convention, empty
        As for :func:`rankwright.evaluate`; None: ``trec`` for collections and runs, else ``letor``.
    text : str
        The file as it was read.
    """

    name: str
    data: tuple[DataSource, ...]
    methods: tuple[MethodSpec, ...]
    protocol: Protocol | None
    measures: tuple[str, ...]
    baseline: str
    tests: tuple[str, ...]
    correction: str
    seed: int
    output: Path
    save_models: bool = False
    convention: str | None = None
    empty: Any = 0
    text: str = ""


def load_experiment(path: str | Path, *, data: str | Path | None = None) -> Experiment:
    """Read an experiment file, and complain about the first mistake in it.

    Parameters
    ----------
    path : path
        The TOML file. Its paths are relative to its folder.
    data : path, optional
        Where files are looked for that are not there; the environment variable RANKWRIGHT_DATA unless given.

    Examples
    --------
    >>> experiment = load_experiment("exp.toml")  # doctest: +SKIP
    """
    from rankwright.experiments.checking import check_text

    experiment, problems = check_text(read_text(path), path, data=data)
    if problems:
        more = f" (and {len(problems) - 1} more: see `rankwright experiment check`)" if len(problems) > 1 else ""
        first = problems[0]
        raise InputError(first.message + more, first.path, first.line)
    assert experiment is not None
    return experiment


def read_text(path: str | Path) -> str:
    """The text of an experiment file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError:
        raise InputError("is no UTF-8 text; expected an experiment file (TOML)", path) from None


def data_folders(path: str | Path, data: str | Path | None) -> list[Path]:
    """Where the files of an experiment are looked for: beside its file, then in the folder of the data."""
    more = data if data is not None else os.environ.get(DATA_VARIABLE)
    return [Path(path).parent, *([] if not more else [Path(more)])]
