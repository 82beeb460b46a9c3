"""Exporting a model: files for a target, checked against the model before anything is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.categories import codes_of
from rankwright.data.dataset import MissingFeaturesError, RankingData
from rankwright.errors import InputError, shown
from rankwright.exporting.ensemble import Ensemble, as_json, ensemble_of
from rankwright.exporting.target import ExportFiles, ExportTarget, Options
from rankwright.exporting.targets import TARGETS, find_target
from rankwright.exporting.verify import ScoredRows, Verification, golden_rows, scored_probe_rows, verify
from rankwright.io.files import replace_folder
from rankwright.models.base import Model
from rankwright.nets.model import NetModel

__all__ = ["Export", "export_model"]

DATA = "the data to verify on"  # in messages, as the name of a file
_FACTS, _GOLDEN = "export.json", "golden.json"
_CLOSE = 1e-5  # of the largest golden score: what an installation may differ by


@dataclass(frozen=True)
class Export:
    """What was written, and how it compares with the model.

    Attributes
    ----------
    path : Path
        The folder.
    files : tuple of str
        Its files, the model first.
    notes : tuple of str
        What there is to know, one line each.
    made : Verification
        The comparison on rows made from the model.
    given : Verification or None
        The comparison on the rows of ``verify``.
    """

    path: Path
    files: tuple[str, ...]
    notes: tuple[str, ...]
    made: Verification
    given: Verification | None = None


def export_model(
    model: Any,
    target: str,
    path: str | Path,
    *,
    form: str = "auto",
    name: str | None = None,
    feature_set: str | None = None,
    missing_as_zero: bool = False,
    verify: RankingData | None = None,
) -> Export:
    """Write a model in the format of a search engine or library, and check that it scores the same there.

    What was written is read back and scores rows made from the model: on every threshold, just above, just below and
    missing. The consumer itself does that where it is a Python package and installed, otherwise an exact model of its
    rule. A model that the target cannot represent exactly is refused, and nothing is written.

    Parameters
    ----------
    model : Model, SavedModel or fitted ranker
        What to export.
    target : str
        ``"lightgbm"``, ``"xgboost"``, ``"opensearch"``, …: see ``rankwright export --help``.
    path : path
        The folder to write. An existing one is replaced if it is an export.
    form : str
        Which of the target's formats; ``"auto"`` for the one that suits the model.
    name : str, optional
        The name of the model at the engine; by default that of the folder.
    feature_set : str, optional
        The name of the engine's feature set, feature store or rank profile.
    missing_as_zero : bool
        Whether missing values are 0 to the engine, and in the rows of ``verify``. Some engines know no other way: they
        hold trees only if you say so, or if all splits send missing values where 0 goes.
    verify : RankingData, optional
        Rows to compare on as well.

    Returns
    -------
    Export
        Its files and figures.

    Raises
    ------
    InputError
        If the target cannot hold the model, or scores another way.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import LinearModel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = export_model(LinearModel([2.0, -1.0], ("bm25", "age")), "opensearch", Path(folder) / "shop")
    >>> done.files[:2], done.made.off
    (('model.json', 'golden.json'), 0)
    """
    model = getattr(model, "model_", getattr(model, "model", model))
    if not isinstance(model, Model):
        raise InputError(f"a {type(model).__name__} cannot be exported; expected a model or a fitted ranker")
    chosen, path = find_target(target), Path(path)
    options = Options(name or path.name, form, missing_as_zero, feature_set or f"{name or path.name}_features")
    if form != "auto" and form not in chosen.forms:
        expected = f"one of: auto, {', '.join(chosen.forms)}" if chosen.forms else "auto, as it has one form only"
        raise InputError(f"the target {target} has no form {form!r}; expected {expected}")
    ensemble = ensemble_of(model).zero_filled() if missing_as_zero else ensemble_of(model)
    _check(ensemble, chosen, options)
    written = chosen.write(ensemble, options)
    rows = scored_probe_rows(chosen, model, ensemble, options)
    made, given = _verified(chosen, written, model, ensemble, options, rows, verify)
    files = {**written.files, _GOLDEN: as_json(_golden(written, ensemble, rows), 1), **written.beside}
    facts = {
        "target": target,
        "model": options.name,
        "rule": chosen.rule,
        "notes": list(written.notes),
        "verified": made.as_dict(),
        "verified_on_data": None if given is None else given.as_dict(),
        "files": list(files),
    }
    with replace_folder(path, _FACTS) as folder:
        for file, content in {**files, _FACTS: as_json(facts, 1)}.items():
            (folder / file).write_bytes(content)
    return Export(path, (*files, _FACTS), written.notes, made, given)


def _check(ensemble: Ensemble, target: ExportTarget, options: Options) -> None:
    """Raise if no file can hold the names of features, or the target cannot hold the ensemble."""
    for name in ensemble.names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"the feature {shown(name)} has no name in UTF-8; expected text") from None
    refusal = _refusal(ensemble, target, options)
    if refusal is not None:
        anyhow = dataclasses.replace(options, form="auto")
        able = [other.name for other in TARGETS.values() if _refusal(ensemble, other, anyhow) is None]
        instead = f"; these can: {', '.join(able)}" if able else ""
        if ensemble.trees.n_trees and len(ensemble.linear_features):  # a committee, most likely
            instead += f"; or train one method that {target.name} holds, such as lambdamart"
        raise InputError(f"{target.name} cannot hold this model: {refusal}{instead}")


def _refusal(ensemble: Ensemble, target: ExportTarget, options: Options) -> str | None:
    """Why a target cannot hold an ensemble; None if it can."""
    refusal = target.refusal(ensemble, options)
    if refusal is not None:
        return refusal
    limits = np.finfo(target.dtype)
    numbers = [ensemble.weights, ensemble.trees.value, np.array([ensemble.constant])]
    for other in ensemble.others:
        if isinstance(other.model, NetModel):
            numbers += [other.model.inner.ravel(), other.model.constants, other.weight * other.model.outer]
    sizes = np.abs(np.concatenate(numbers))
    sizes = sizes[sizes > 0]
    if len(sizes) and not (sizes.max() < limits.max / 2 and sizes.max() > limits.tiny):
        return f"its largest number is {sizes.max():g}, beyond the range of {np.dtype(target.dtype)}"
    return None


def _verified(
    target: ExportTarget,
    written: ExportFiles,
    model: Model,
    ensemble: Ensemble,
    options: Options,
    rows: ScoredRows,
    data: RankingData | None,
) -> tuple[Verification, Verification | None]:
    made = verify(target, written, model, ensemble, options, made=rows)
    given = None
    if data is not None:
        given = _verified_on(target, written, model, ensemble, options, data)
    for comparison, where in ((made, "made rows"), (given, "rows of the data")):
        if comparison is not None and comparison.off:
            problem = f"{comparison.off:,} of {comparison.rows:,} {where} are off their path"
            size = f"scores differ by up to {comparison.largest:.2g} of the largest"
            raise InputError(f"not exported: {problem} in the files for {target.name}, {size}, by {comparison.by}")
    return made, given


def _verified_on(
    target: ExportTarget, written: ExportFiles, model: Model, ensemble: Ensemble, options: Options, data: RankingData
) -> Verification:
    """Compare on given rows; errors in them name the data."""
    try:
        model.check_text(data.feature_names, data.categories)
        if options.missing_as_zero:
            X, names = model.with_missing(data.X, data.feature_names)
            data = dataclasses.replace(data, X=X, feature_names=names)
        return verify(target, written, model, ensemble, options, data)
    except MissingFeaturesError as error:
        raise error.or_use("missing_as_zero=True", DATA) from None
    except InputError as error:
        raise InputError(error.message, DATA) from None


def _golden(written: ExportFiles, ensemble: Ensemble, made: ScoredRows) -> dict[str, Any]:
    """Rows and their scores, to check an installation with."""
    keys, chosen = _keys(ensemble), golden_rows(written, ensemble, made)
    rows = [
        {"features": {key: _value(ensemble, j, float(row[j])) for j, key in keys.items()}, "score": score}
        for row, score in zip(chosen.X, chosen.scores.tolist(), strict=True)
    ]
    golden: dict[str, Any] = {
        "features": [*keys.values()],
        "columns": [*keys],
        "tolerance": _CLOSE * (float(np.abs(chosen.scores).max(initial=0.0)) or 1.0),
        "rows": rows,
    }
    if ensemble.scales_queries:
        golden["query_sizes"] = np.diff(chosen.bounds).tolist()
    return golden


def _value(ensemble: Ensemble, j: int, number: float) -> Any:
    """What JSON has for a feature; None if it is missing, or a category that the model does not know."""
    if j not in ensemble.categories:
        return None if np.isnan(number) else number
    code = int(codes_of(np.array([number]), ensemble.categories[j])[0])
    return ensemble.categories[j][code] if code >= 0 else None


def _keys(ensemble: Ensemble) -> dict[int, str]:
    """The used features by column, from 0: their names, with the number of the column where several share one."""
    counts = Counter(ensemble.names[j] for j in ensemble.used)
    return {j: f"{name}_{j + 1}" if counts[name := ensemble.names[j]] > 1 else name for j in ensemble.used.tolist()}
