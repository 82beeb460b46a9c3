"""The table ``[data.background]``: a model file, or feature files and the method that a ranker is trained by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.experiments.config import ADAPT, BackgroundSource
from rankwright.experiments.finding import Finder
from rankwright.experiments.method_checks import check_method
from rankwright.experiments.problems import Problems
from rankwright.experiments.toml_lines import Place

__all__ = ["check_background"]

_PATHS = "a text or a list of texts"
_KEYS = {"features": _PATHS, "valid": _PATHS, "model": "a text", "method": "a text", "parameters": "a table"}
_TITLE = "[data.background]"
_DEFAULT = "lambdamart"
# Keys that do not go with a model, and why.
_TRAINING = {
    "method": "the model is used as it is",
    "parameters": "the model is used as it is",
    "valid": "there is nothing to choose; data for neighbours are features",
}


def check_background(
    problems: Problems,
    table: Any,
    place: Place,
    own: Mapping[str, Path],
    choose_by: str | None,
    folders: Sequence[Path],
) -> BackgroundSource | None:
    """The background of a data set; None, and what is wrong noted, where it cannot be used.

    Parameters
    ----------
    table : dict
        The table as it stands in the file.
    own : dict of str to Path
        The files of the data set: these are no background.
    choose_by : str or None
        The measure that chooses for the whole experiment.
    """
    before = len(problems.found)
    found = problems.table(table, place, _KEYS, _TITLE)
    if "model" in found:
        for key in (key for key in _TRAINING if key in found):
            problems.add((*place, key), f"{_TITLE} has model and {key}: {_TRAINING[key]}; expected one of them")
    elif "features" not in found and len(problems.found) == before:
        problems.add(place, f"{_TITLE} has neither features nor model; expected features to train on, or a model file")
    if len(problems.found) > before:
        return None
    files = _files(problems, found, place, own, folders)
    spec = None
    if "model" not in found:
        entry = {"method": _DEFAULT} | {key: found[key] for key in ("method", "parameters") if key in found}
        if entry["method"].startswith(ADAPT):
            problems.add((*place, "method"), "a background is not adapted itself; expected a method that trains it")
            return None
        spec = check_method(problems, entry, place, choose_by, "valid" in found, folders)
    return None if len(problems.found) > before else BackgroundSource(files, spec)


def _files(
    problems: Problems, found: dict[str, Any], place: Place, own: Mapping[str, Path], folders: Sequence[Path]
) -> dict[str, Path]:
    """The files by their roles; queries that are trained on are not validated on."""
    from rankwright.models.saving import load_model

    finder = Finder(problems, place, folders)
    files: dict[str, Path] = {}
    for key in ("features", "valid"):
        if key in found:
            listed = finder.feature_files(key, found[key], {**own, **files})
            files |= {f"{key} {number}": path for number, path in listed.items()}
    if "model" in found:
        model = finder.one("model", found["model"])
        files |= model
        try:
            for path in model.values():
                load_model(path)
        except InputError as error:
            problems.add((*place, "model"), f"{found['model']}: {error.message}")
    return files
