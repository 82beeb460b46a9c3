"""Whether an exported model scores as the model does, on and just above its thresholds too.

LambdaMART of 100 trees × 31 leaves and a linear model are trained on 5,000 made-up rows × 136 features, 3 % of them
missing (0 for the linear model), and exported for every target. 10,000 rows are scored, 4,000 of them with a feature on
a threshold of the model or on the next number above: by the library itself where it is a Python package, else by our
model of the engine's rule. "Off" are rows whose score differs by more than 1e-4 of the largest; what a target has no
way to say is counted apart: thresholds, and the rows that they move. The last rows are what a naive exporter would
give. Needs LightGBM, XGBoost, onnxruntime and treelite (`pip install "rankwright[verify]" treelite`); `--results FILE`
writes the figures as data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from figures import Table
from rankwright import LambdaMART, RankingData, RankingSVM, TreeModel
from rankwright.boosting.float32 import rounded_down
from rankwright.exporting import verify as verifying
from rankwright.exporting.ensemble import Ensemble, ensemble_of
from rankwright.exporting.target import ExportTarget, Options, Scorer
from rankwright.exporting.targets import TARGETS
from study_runs import Shown, run_study

Array = npt.NDArray[Any]
ROWS, FEATURES, MISSING, TRIED, ON_THRESHOLDS = 5_000, 136, 0.03, 10_000, 4_000
ZERO_ONLY = ("ranklib",)


def made_up(rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows of raw features of many kinds, float32, and labels."""
    X = rng.lognormal(size=(ROWS, FEATURES), sigma=rng.uniform(0.1, 3.0, FEATURES))
    X[:, ::5] = np.round(X[:, ::5])
    X[:, 1::7] *= 10.0 ** rng.uniform(-6, 6, X[:, 1::7].shape[1])
    total = np.log1p(X) @ (rng.normal(size=FEATURES) / np.log1p(X).std(axis=0)) + 3.0 * rng.normal(size=ROWS)
    holes = rng.random(X.shape) < MISSING
    total += total.std() * holes[:, :5].sum(axis=1)  # that a value is missing says something, too
    labels = np.digitize(total, np.quantile(total, [0.5, 0.75, 0.9, 0.97])).astype(float)
    X[holes] = np.nan
    return X.astype(np.float32).astype(np.float64), labels


def tried_rows(ensemble: Ensemble, X: Array, target: ExportTarget, rng: np.random.Generator) -> Array:
    """Rows drawn from the data, 4,000 of them with every feature that trees use on a threshold or just above one."""
    rows = X[rng.integers(len(X), size=TRIED)].copy()
    limits = [ensemble.trees.threshold[(ensemble.trees.feature == j)] for j in range(FEATURES)]
    for j, thresholds in enumerate(limits):
        finite = thresholds[np.isfinite(thresholds)]
        if not len(finite):
            continue
        on = rounded_down(rng.choice(finite, ON_THRESHOLDS), target.dtype)
        above = np.nextafter(on, target.dtype(np.inf))
        chosen = np.where(rng.random(ON_THRESHOLDS) < 0.5, on, above)
        rows[:ON_THRESHOLDS, j] = np.where(rng.random(ON_THRESHOLDS) < 0.3, chosen, rows[:ON_THRESHOLDS, j])
    return target.seen(rows, ensemble)


def compared(target: ExportTarget, scorer: Scorer, model: Any, rows: Array) -> tuple[float, int]:
    """The largest difference relative to the largest score, and the rows that are off."""
    expected = model.score(rows)
    difference = np.abs(scorer(rows, np.array([0, len(rows)])) - expected) / np.abs(expected).max()
    return float(difference.max()), int((difference > target.tolerance).sum())


def exported(name: str, model: Any, X: Array, form: str = "auto", treelite: bool = False) -> list[Any]:
    """One target: who scored, largest difference, rows off, thresholds that it has no way to say and rows they move."""
    target, ensemble = TARGETS[name], ensemble_of(model)
    zero = name in ZERO_ONLY or form == "ranklib"
    options = Options(form=form, missing_as_zero=zero)
    ensemble = ensemble.zero_filled() if zero else ensemble
    why = target.refusal(ensemble, options)
    if why is not None:
        return [None, None, None, None, None, why]
    written = target.write(ensemble, options)
    data = np.nan_to_num(X) if zero or ensemble.has_weights else X
    rows = tried_rows(ensemble, data, target, np.random.default_rng(1))
    scorer, by = verifying._scorer(target, written.files, ensemble.names)
    if treelite:
        scorer, by = treelite_scorer(name, written.files), f"treelite {version('treelite')}"
    thresholds, moved = 0, 0
    if written.representable is not None:
        represented = written.representable.trees
        thresholds = int((represented.threshold != ensemble.trees.threshold).sum())
        moved = compared(target, scorer, model, rows)[1]
        model = TreeModel(len(ensemble.names), None, represented)
    return [by, *compared(target, scorer, model, rows), thresholds, moved, None]


def treelite_scorer(name: str, files: dict[str, bytes]) -> Scorer:
    """Scores by treelite from the same file."""
    import treelite

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / next(iter(files))
        path.write_bytes(files[path.name])
        frontend = treelite.frontend
        model = frontend.load_lightgbm_model(path) if name == "lightgbm" else frontend.load_xgboost_model(path)
    dtype = TARGETS[name].dtype
    return lambda X, _: treelite.gtil.predict(model, X.astype(dtype), nthread=1).reshape(-1)


def naive(model: Any, X: Array) -> Iterator[list[Any]]:
    """The same with one piece of the exporter replaced by the obvious one."""

    def cast(threshold: Any, dtype: Any = np.float32) -> Any:
        return np.clip(np.asarray(threshold, dtype), np.finfo(dtype).min, np.finfo(dtype).max)

    pieces = {
        "xgboost": ("to_xgboost.for_below", cast, "thresholds cast to float32"),
        "solr": ("to_solr.for_slack", lambda threshold: (cast(threshold), cast(threshold)), "slack left on"),
    }
    for name, (piece, wrong, what) in pieces.items():
        with mock.patch(f"rankwright.exporting.{piece}", wrong):
            yield ["trees", name, what, *exported(name, model, X)]


def pages(_: Path) -> Iterator[Shown]:
    """Train the models; one table of all exports."""
    rng = np.random.default_rng(0)
    X, labels = made_up(rng)
    group = [50] * (ROWS // 50)
    data = RankingData.from_arrays(X, labels, group=group, allow_missing=True)
    trees = LambdaMART(n_trees=100, max_leaves=31, min_rows=10, learning_rate=0.1).fit(data).model_
    whole = RankingData.from_arrays(np.nan_to_num(X), labels, group=group)
    linear = RankingSVM(C=0.01).fit(whole).model_
    forest = trees.forest
    splits = forest.feature >= 0
    yield {
        "trees": forest.n_trees,
        "splits": int(splits.sum()),
        "splits on missing values": int(np.isinf(forest.threshold[splits]).sum()),
        "rows": TRIED,
        "rows on thresholds": ON_THRESHOLDS,
    }
    rows: list[list[Any]] = []
    for kind, model in (("trees", trees), ("linear", linear)):
        for name, target in TARGETS.items():
            rows += [[kind, name, form, *exported(name, model, X, form)] for form in target.forms or ("auto",)]
    rows += [["trees", name, "treelite", *exported(name, trees, X, treelite=True)] for name in ("lightgbm", "xgboost")]
    rows += naive(trees, X)
    head = ["model", "target", "form", "scored by", "largest", "off", "thresholds", "moved", "refused"]
    yield Table("exports", head, rows, ["", "", "", "", "2 significant", "integer", "integer", "integer", ""])


if __name__ == "__main__":
    run_study(__doc__, (), pages)
