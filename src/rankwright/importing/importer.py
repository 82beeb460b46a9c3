"""Importing a model: the format is found by content, then its reader makes the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rankwright.errors import InputError, InputWarning
from rankwright.importing import catboost, lightgbm, ranklib, svm, xgboost
from rankwright.importing.source import Imported, ImportSettings, ModelFile
from rankwright.importing.ubjson import parse_ubjson
from rankwright.models.saving import SavedModel

__all__ = ["import_model"]

KINDS = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "ranklib": "RankLib",
    "svmrank": "SVMrank or SVMlight",
    "liblinear": "liblinear",
}
"""The libraries whose models can be imported."""

_UNDERSTOOD = "a model file of LightGBM, XGBoost, CatBoost (JSON), RankLib, SVMrank, SVMlight or liblinear"
_REFUSED = {
    b"CBM1": ("is CatBoost's binary form", 'expected JSON: save_model(..., format="json")'),
    b"binf": ("is XGBoost's old binary form", "expected save_model('model.json') or 'model.ubj'"),
    b"booster[": ("is a text dump of XGBoost", 'expected save_model(...), or a dump with dump_format="json"'),
    b"\x80": ("is a pickle, which could run code", "expected what save_model of the library writes"),
    b"PK\x03\x04": ("is an archive or a Rankwright model", f"expected {_UNDERSTOOD}"),
}
_UBJSON_SIZES = b"iUIlL$#"


Format = tuple[str, Callable[[ImportSettings], Imported]]  # the kind, and its reader


def import_model(
    path: str | Path,
    *,
    kind: str | None = None,
    first_feature: int | None = None,
    n_features: int | None = None,
    all_trees: bool = False,
    constant: bool = True,
) -> SavedModel:
    """Read a model of another library; nothing in the file is run, and the library is not needed.

    Scores are those of the library: to the last bit for LightGBM, to the rounding of its sums in float32 for XGBoost
    and RankLib. What cannot be held exactly is an error.

    Parameters
    ----------
    path : path
        A model file of LightGBM (text or JSON), XGBoost (JSON, UBJSON or a JSON dump), CatBoost (JSON), RankLib,
        SVMrank, SVMlight or liblinear; the format is found by content. It may be packed by gzip.
    kind : str, optional
        The library it must be from: ``"lightgbm"``, ``"xgboost"``, ``"catboost"``, ``"ranklib"``, ``"svmrank"`` or
        ``"liblinear"``.
    first_feature : int, optional
        The number that the file gives to the first feature of your data. The default is 0 for LightGBM, XGBoost and
        CatBoost, which count columns, and 1 for the others. LightGBM and XGBoost that were trained on LETOR text have
        an empty column 0: then it is 1.
    n_features : int, optional
        Number of features of your data, where the model does not use the last ones and its file does not say.
    all_trees : bool
        XGBoost: whether trees after the best round of early stopping are kept.
    constant : bool
        Whether a constant (a bias, XGBoost's base score) is added to all scores. It changes no ranking; without it, a
        linear model with a bias is a LinearModel, otherwise a sum.

    Returns
    -------
    SavedModel
        The model as ``model``, its library as ``method``; :func:`rankwright.save_model` writes it.

    Warns
    -----
    InputWarning
        If something was left out that changes scores but no ranking, such as the sigmoid of two classes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.txt"
    ...     _ = path.write_text("## Coordinate Ascent\\n1:0.5 3:2.0\\n")
    ...     saved = import_model(path)
    >>> saved.method, saved.predict([[1.0, 0.0, 3.0]]).tolist()
    ('ranklib', [6.5])
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"kind is {kind!r}; expected one of: {', '.join(KINDS)}")
    for name, value in (("first_feature", first_feature), ("n_features", n_features)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise InputError(f"{name} is {value!r}; expected a whole number of at least 0")
    file = ModelFile.read(path)
    try:
        library, read = _format_of(file)
        if kind is not None and library != kind:
            raise file.error(f"is a model of {KINDS[library]}; expected one of {KINDS[kind]}")
        imported = read(ImportSettings(first_feature, n_features, all_trees, constant))
    except InputError as error:
        raise InputError(error.message, path, error.line) from None
    for notice in imported.notices:
        warnings.warn(f"{path}: {notice}", InputWarning, stacklevel=2)
    facts = {key: value for key, value in imported.facts.items() if value != ""}
    return SavedModel(imported.model, library, training={"imported from": KINDS[library], **facts})


def model_from(content: bytes, name: str, n_features: int, names: tuple[str, ...]) -> Any:
    """The model of what a library saves, with these names of the features, empty for none; ``name`` is for errors."""
    _, read = _format_of(ModelFile(name, content))
    return read(ImportSettings(n_features=n_features, names=names)).model


def _format_of(file: ModelFile) -> Format:
    content = file.content
    if not content.strip():
        raise file.error(f"is empty; expected {_UNDERSTOOD}")
    for start, (problem, expected) in _REFUSED.items():
        if content.startswith(start):
            raise file.error(f"{problem}; {expected}")
    if content[:1] == b"{" and content[1:2] and content[1:2] in _UBJSON_SIZES:
        return _json_format(file, parse_ubjson(content))
    start = content.lstrip()[:1]
    if start in (b"{", b"["):
        return _json_format(file, file.json())
    return _text_format(file)


def _json_format(file: ModelFile, value: Any) -> Format:
    if isinstance(value, dict):
        if "learner" in value:
            return "xgboost", partial(xgboost.read, file, value=value)
        if "tree_info" in value:
            return "lightgbm", partial(lightgbm.read_json, file, value=value)
        if "features_info" in value:
            return "catboost", partial(catboost.read, file, value=value)
    if isinstance(value, list) and value and all(isinstance(tree, dict) for tree in value) and "nodeid" in value[0]:
        return "xgboost", partial(xgboost.read_dump, file, value=value)
    raise file.error(f"is JSON, but not {_UNDERSTOOD}; expected one")


def _text_format(file: ModelFile) -> Format:
    first = file.content[:200].lstrip().split(b"\n", 1)[0].strip()
    if first == b"tree":
        return "lightgbm", partial(lightgbm.read_text, file)
    if first.startswith((b"##", b"<ensemble>")):
        return "ranklib", partial(ranklib.read, file)
    if first.startswith(b"SVM-light Version"):
        return "svmrank", partial(svm.read_svmlight, file)
    if first.startswith(b"solver_type"):
        return "liblinear", partial(svm.read_liblinear, file)
    raise file.error(f"is of an unknown format; expected {_UNDERSTOOD}")
