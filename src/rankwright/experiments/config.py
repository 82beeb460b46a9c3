"""What an experiment is: data sets, methods, a protocol, and how the methods are compared.

Experiments are read from TOML files by :func:`~rankwright.experiments.load_experiment`; docs/experiments.md lists the
keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwright.measures import Measure, parse_measure

ADAPT = "adapt:"
BACKGROUND = "background"
BACKGROUNDS = "backgrounds"
FEATURE = "feature:"
BEST_FEATURE = "best-feature"
SCORES = "scores:"
HINDSIGHT = "best-feature:hindsight"
CHOOSE_BY = parse_measure("nDCG@10")
"""What single features and adaptations are chosen by unless the file says otherwise."""


@dataclass(frozen=True)
class DataSource:
    """The source of one ``[[data]]`` entry.

    `kind`: ``features``, ``parts`` (S1 … S5), ``folds`` (files for every fold), ``fixed``, ``collection`` or ``runs``.
    `files`: by role; those of an open test are ``open 1``, ``open 2`` … `options`: the other keys of the entry.
    `train_queries`, `valid_queries`: number of queries to use from each split; None: all. `without_best`: whether
    methods are trained without the feature that is best on the test queries. `backgrounds`: the rich domains that
    methods adapt from.
    """

    name: str
    kind: str
    files: Mapping[str, Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    train_queries: int | None = None
    valid_queries: int | None = None
    without_best: bool | None = None
    backgrounds: tuple[BackgroundSource, ...] = ()


@dataclass(frozen=True)
class BackgroundSource:
    """A background of a data set: the ranker of a rich domain, and its data.

    `name`: what methods call it. `files`: ``features 1`` …, ``valid 1`` …, or ``model``. `spec`: how to train the
    ranker; None if it is a model file.
    """

    name: str
    files: Mapping[str, Path]
    spec: MethodSpec | None = None


@dataclass(frozen=True)
class Background:
    """A background on disk.

    `name`: what methods call it. `model`: the ranker. `data`: all its feature data, including validation data, from
    which neighbours are taken. `content`: hash of everything that affects it. `facts`: for the manifest: name, hash,
    method, seconds of training, chosen parameters, sizes, files.
    """

    name: str
    model: Path
    data: Path | None
    content: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class MethodSpec:
    """One ``[[method]]`` entry.

    `method`: a method of `rankwright train`, ``feature:NAME``, ``feature:NUMBER``, ``best-feature``,
    ``best-feature:hindsight``, ``adapt:NAME`` or ``scores:FILE``. `parameters`: of the estimator or the adaptation.
    `grid`: values to choose from on validation data: lists, or ``{"low": …, "high": …}`` for random search. `random`:
    number of random points of the grid to try; None: all points. `choose_by`: what chooses on validation data.
    `trained_for`: its row in the criterion table.
    """

    name: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    random: int | None = None
    choose_by: Measure = CHOOSE_BY
    trained_for: str | None = None

    @property
    def is_feature(self) -> bool:
        """Whether it is a single feature, or has its scores in files, with nothing to train."""
        return self.method.startswith((FEATURE, SCORES)) or self.method in (BEST_FEATURE, HINDSIGHT)

    def adapts(self, name: str) -> bool:
        """Whether the method uses the background of this name: any, unless it names some."""
        chosen = self.parameters.get(BACKGROUNDS)
        names = [chosen] if isinstance(chosen, str) else chosen
        return self.method.startswith(ADAPT) and (names is None or name in names)

    def settings(self) -> dict[str, Any]:
        """Everything that affects the outcome, as plain JSON: all but the names."""
        return {key: value for key, value in self.as_dict().items() if key not in ("name", "trained_for")}

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain JSON."""
        return vars(self) | {
            "parameters": dict(self.parameters),
            "grid": dict(self.grid),
            "choose_by": str(self.choose_by),
        }


@dataclass(frozen=True)
class Protocol:
    """How to split the queries of data without a split of their own.

    `kind`: ``trials`` (balanced random trials), ``folds`` (cross-validation) or ``fixed`` (one random split).
    `valid_folds`: number of folds for validation. `train`, `valid`, `test`: queries of a trial: a number, or a fraction
    below 1; None for ``test``: all others.
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
        """The settings that its kind uses."""
        keys = {"folds": ("folds", "valid_folds"), "trials": ("trials", "train", "valid", "test")}
        return {key: getattr(self, key) for key in ("kind", *keys.get(self.kind, ("train", "valid", "test")))}


@dataclass(frozen=True)
class Experiment:
    """An experiment, ready to run; see :func:`~rankwright.experiments.load_experiment`.

    `methods`: to train on each data set. `protocol`: for data without a split of their own. `measures`: for the test
    queries. `baseline`: name of the method that the others are compared with. `tests`, `correction`: as for
    :func:`rankwright.compare`. `seed`: of the splits, of random search and of the methods. `seeds`: of random search
    and of the methods instead, which are then run with each of them; empty: `seed` alone. `output`: the results folder.
    `plugins`: files with own measures and rankers, which were allowed. `save_models`: whether to keep the models.
    `convention`, `empty`: as for :func:`rankwright.evaluate`; None: ``trec`` for collections and runs, else ``letor``.
    `text`: the text of the file.
    """

    name: str
    data: tuple[DataSource, ...]
    methods: tuple[MethodSpec, ...]
    protocol: Protocol | None
    measures: tuple[Measure, ...]
    baseline: str
    tests: tuple[str, ...]
    correction: str
    seed: int
    output: Path
    plugins: tuple[Path, ...] = ()
    save_models: bool = False
    convention: str | None = None
    empty: Any = 0
    text: str = ""
    seeds: tuple[int, ...] = ()
