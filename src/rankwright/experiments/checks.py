"""Reads and checks an experiment file: finds every mistake that can be found before anything runs, with its line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.adaptation.methods import METHODS
from rankwright.data.pipes import open_plain
from rankwright.errors import InputError, shown
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.evaluation.table import CONVENTIONS, DEFAULT_MEASURES
from rankwright.experiments.config import (
    ADAPT,
    BACKGROUND,
    BackgroundSource,
    DataSource,
    Experiment,
    MethodSpec,
    Protocol,
)
from rankwright.experiments.data_checks import Finder, check_data
from rankwright.experiments.method_checks import check_measure, check_method
from rankwright.experiments.toml import Place, Problems, parse_toml
from rankwright.measures import Measure, parse_goal, parse_measure, parse_reported

__all__ = ["check_text", "load_experiment", "read_text"]

_DATA_VARIABLE = "RANKWRIGHT_DATA"
_SECTIONS = ("experiment", "protocol", "data", "method")
_EXPERIMENT = {
    "name": "a string",
    "seed": "an integer of at least 0",
    "measures": "a list of strings",
    "baseline": "a string",
    "tests": "a list of strings",
    "correction": "a string",
    "output": "a string",
    "save_models": "true or false",
    "convention": "a string",
    "empty": '0, 1 or "skip"',
    "choose_by": "a string",
}
_SIZE = "a number of queries, or a fraction such as 0.5"
_PROTOCOL: dict[str, dict[str, str]] = {
    "trials": {"trials": "an integer from 1 to 100000", "train": _SIZE, "valid": _SIZE, "test": _SIZE},
    "folds": {"folds": "an integer from 1 to 100000", "valid_folds": "an integer of at least 0"},
    "fixed": {"train": _SIZE, "valid": _SIZE, "test": _SIZE},
}
_OWN_SPLIT = ("parts", "folds", "fixed")
_PATHS = "a string or a list of strings"
_BACKGROUND = "[data.background]"
_BACKGROUNDS = "[[data.background]]"
_BACKGROUND_KEYS = {
    "name": "a string",
    "features": _PATHS,
    "valid": _PATHS,
    "model": "a string",
    "method": "a string",
    "parameters": "a table",
}
# Keys that exclude a model file, and why.
_TRAINING = {
    "method": "the model is used unchanged",
    "parameters": "the model is used unchanged",
    "valid": "there is nothing to choose; data for neighbours go under features",
}


def load_experiment(path: str | Path, *, data: str | Path | None = None) -> Experiment:
    """Read an experiment file; raise the first mistake in it.

    Parameters
    ----------
    path : path
        The TOML file. Its paths are relative to its folder.
    data : path, optional
        Folder for data files that are not found there. Default: the environment variable RANKWRIGHT_DATA.

    Examples
    --------
    >>> experiment = load_experiment("exp.toml")  # doctest: +SKIP
    """
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
        with open_plain(path) as file:
            return file.read().decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text; expected an experiment file (TOML)", path) from None


def check_text(
    text: str, path: str | Path, *, data: str | Path | None = None
) -> tuple[Experiment | None, list[InputError]]:
    """Turn a TOML text into an experiment, and list its mistakes.

    Parameters
    ----------
    text : str
        The text.
    path : path
        Its file; paths in the text are relative to the folder of this file.
    data : path, optional
        Folder for data files that are not found there. Default: the environment variable RANKWRIGHT_DATA.

    Returns
    -------
    Experiment or None
        None if there is a mistake.
    list of InputError
        The mistakes, in the order of their lines.
    """
    try:
        tables, lines = parse_toml(text, path)
    except InputError as error:
        return None, [error]
    problems = Problems(lines, path)
    for key in tables:
        problems.choice(key, (key,), _SECTIONS, "section")
    common, choose_by = _common(problems, tables.get("experiment", {}))
    folders = _data_folders(path, data)
    entries = _entries(problems, tables, "data")
    sources = [_data(problems, entry, ("data", number), choose_by, folders) for number, entry in enumerate(entries)]
    protocol = _protocol(problems, tables, sources)
    validated = _all_validated(problems, sources, protocol)
    methods = [
        check_method(problems, entry, ("method", number), choose_by, validated, folders, entries)
        for number, entry in enumerate(_entries(problems, tables, "method"))
    ]
    _check_names(problems, sources, "data")
    _check_names(problems, methods, "method")
    names = [method.name for method in methods if method is not None]
    baseline = common.get("baseline", names[0] if names else "")
    if "baseline" in common and None not in methods:
        problems.choice(baseline, ("experiment", "baseline"), names, "method for the baseline")
    if len(problems):
        return None, problems.found
    stem = Path(path).stem
    experiment = Experiment(
        name=common.get("name", stem),
        data=tuple(source for source in sources if source is not None),
        methods=tuple(method for method in methods if method is not None),
        protocol=protocol,
        measures=tuple(common.get("measures", map(parse_measure, DEFAULT_MEASURES))),
        baseline=baseline,
        tests=tuple(common.get("tests", ["wilcoxon"])),
        correction=common.get("correction", "holm"),
        seed=common.get("seed", 0),
        output=Path(path).parent / common.get("output", f"{stem}-results"),
        save_models=common.get("save_models", False),
        convention=common.get("convention"),
        empty=common.get("empty", 0),
        text=text,
    )
    return experiment, []


def _data_folders(path: str | Path, data: str | Path | None) -> list[Path]:
    """Where files are searched: next to the experiment file, then in the data folder."""
    more = data if data is not None else os.environ.get(_DATA_VARIABLE)
    return [Path(path).parent, *([Path(more)] if more else [])]


def _common(problems: Problems, table: Any) -> tuple[dict[str, Any], Measure | None]:
    """The section [experiment], its measures parsed, and the measure to choose by."""
    place: Place = ("experiment",)
    common = problems.table(table, place, _EXPERIMENT, "[experiment]")
    if "measures" in common:
        listed = enumerate(common["measures"])
        common["measures"] = [
            check_measure(problems, (*place, "measures", at), name, parse_reported) for at, name in listed
        ]
    for number, test in enumerate(common.get("tests", [])):
        problems.choice(test, (*place, "tests", number), TESTS, "test")
    for key, such_as in (("measures", "such as nDCG@10"), ("tests", f"of {', '.join(TESTS)}")):
        if common.get(key) == []:
            problems.add((*place, key), f"{key} is empty; expected at least one, {such_as}")
    for key, known in (("correction", CORRECTIONS), ("convention", CONVENTIONS)):
        if key in common:
            problems.choice(common[key], (*place, key), known, key)
    choose_by = common.get("choose_by")
    return common, None if choose_by is None else check_measure(problems, (*place, "choose_by"), choose_by, parse_goal)


def _data(
    problems: Problems, table: Any, place: Place, choose_by: Measure | None, folders: Sequence[Path]
) -> DataSource | None:
    """One [[data]] entry, with its backgrounds."""
    source = check_data(problems, table, place, folders)
    given = table.get(BACKGROUND) if isinstance(table, dict) else None
    own = {} if source is None else source.files
    settings: Any = (own, choose_by, folders)
    found: list[BackgroundSource | None] = []
    if isinstance(given, dict):
        found = [_background(problems, given, (*place, BACKGROUND), *settings)]
    elif isinstance(given, list) and all(isinstance(one, dict) for one in given):
        found = [_background(problems, one, (*place, BACKGROUND, n), *settings) for n, one in enumerate(given)]
        _check_different(problems, given, found, (*place, BACKGROUND))
    backgrounds = tuple(one for one in found if one is not None)
    return None if source is None else dataclasses.replace(source, backgrounds=backgrounds)


def _check_different(
    problems: Problems, given: Sequence[dict[str, Any]], found: Sequence[BackgroundSource | None], place: Place
) -> None:
    """Several backgrounds have names, and no two are the same."""
    for number, one in enumerate(given):
        here, name = (*place, number), one.get("name")
        if "name" not in one:
            problems.add(here, f"one of several {_BACKGROUNDS} has no name; expected one for methods to refer to")
        elif name in [other.get("name") for other in given[:number]]:
            problems.add((*here, "name"), f"duplicate name {shown(name)}; expected different names")
        elif name in list(METHODS):
            problems.add((*here, "name"), f"{shown(name)} is a way to adapt; expected another name")
    for number, background in enumerate(found):
        for other in found[:number]:
            if background is not None and other is not None and _same(background, other):
                what = f"the backgrounds {other.name} and {background.name} are the same"
                problems.add((*place, number), f"{what}; expected other files or another method")


def _same(one: BackgroundSource, other: BackgroundSource) -> bool:
    """Whether two backgrounds are trained on the same files in the same way, or are the same model file."""
    if one.spec is None or other.spec is None:
        paths = (one.files.get("model"), other.files.get("model"))
        return paths[0] is not None and paths[1] is not None and paths[0].samefile(paths[1])
    return dict(one.files) == dict(other.files) and one.spec.settings() == other.spec.settings()


def _background(
    problems: Problems,
    table: dict[str, Any],
    place: Place,
    own: Mapping[str, Path],
    choose_by: Measure | None,
    folders: Sequence[Path],
) -> BackgroundSource | None:
    """The table [data.background]; None if it has mistakes. Files in ``own`` belong to the data set itself."""
    before = len(problems)
    found = problems.table(table, place, _BACKGROUND_KEYS, _BACKGROUND)
    if "model" in found:
        for key in (key for key in _TRAINING if key in found):
            problems.add((*place, key), f"{_BACKGROUND} has model and {key}: {_TRAINING[key]}; expected one of them")
    elif "features" not in found and len(problems) == before:
        what = f"{_BACKGROUND} has neither features nor model"
        problems.add(place, f"{what}; expected features to train on, or a model file")
    if len(problems) > before:
        return None
    files = _background_files(problems, found, place, own, folders)
    spec = None
    if "model" not in found:
        entry = {"method": "lambdamart"} | {key: found[key] for key in ("method", "parameters") if key in found}
        if entry["method"].startswith(ADAPT):
            problems.add((*place, "method"), "a background cannot be adapted itself; expected a method to train it by")
            return None
        spec = check_method(problems, entry, place, choose_by, "valid" in found, folders)
    return None if len(problems) > before else BackgroundSource(found.get("name", BACKGROUND), files, spec)


def _background_files(
    problems: Problems, found: dict[str, Any], place: Place, own: Mapping[str, Path], folders: Sequence[Path]
) -> dict[str, Path]:
    """The files by role; no file is used for both training and validation."""
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


def _entries(problems: Problems, tables: dict[str, Any], section: str) -> list[Any]:
    found = tables.get(section, [])
    if isinstance(found, dict):
        problems.add((section,), f"[{section}] is a single table; expected a list of tables, [[{section}]]")
        return []
    if not isinstance(found, list) or not found:
        problems.add((section,), f"no [[{section}]]; expected at least one")
        return []
    return found


def _protocol(problems: Problems, tables: dict[str, Any], sources: Sequence[DataSource | None]) -> Protocol | None:
    """The section [protocol]; None if it is left out and no data set needs one."""
    if "protocol" not in tables:
        for number, source in enumerate(sources):
            if source is not None and source.kind not in _OWN_SPLIT:
                message = f"{source.name} has no split of its own; expected a section [protocol]"
                problems.add(("data", number), message)
                break
        return None
    table, place = tables["protocol"], ("protocol",)
    if not isinstance(table, dict) or "kind" not in table:
        problems.add(place, f"[protocol] has no kind; expected one of {', '.join(_PROTOCOL)}")
        return None
    kind = table["kind"]
    if not problems.choice(kind, (*place, "kind"), _PROTOCOL, "kind of protocol"):
        return None
    found = problems.table(table, place, _PROTOCOL[kind] | {"kind": "a string"}, f"[protocol] of kind {kind}")
    if kind == "trials" and "train" not in table:
        problems.add(place, "[protocol] has no train; expected the number of training queries of a trial")
    protocol = Protocol(**found)
    if kind == "folds" and not 0 <= protocol.valid_folds <= protocol.folds - 2:
        what = f"{protocol.folds} folds, {protocol.valid_folds} of them for validation, leave none to train on"
        problems.add((*place, "folds"), f"{what}; expected at least {protocol.valid_folds + 2}")
    if kind != "folds" and protocol.train == 0:
        problems.add((*place, "train"), "train is 0; expected queries to train on")
    return protocol


def _all_validated(problems: Problems, sources: Sequence[DataSource | None], protocol: Protocol | None) -> bool:
    """Whether every data set has validation queries; a valid_queries without them is a mistake."""
    everywhere = True
    for number, source in enumerate(sources):
        if source is None:
            continue
        if source.kind in _OWN_SPLIT:
            validated = source.kind != "fixed" or "valid" in source.files
        else:
            validated = protocol is None or protocol.has_validation
        if source.valid_queries is not None and not validated:
            message = f"{source.name} has no validation queries; expected some, or no valid_queries"
            problems.add(("data", number, "valid_queries"), message)
        everywhere &= validated
    return everywhere


def _check_names(problems: Problems, entries: Sequence[DataSource | MethodSpec | None], section: str) -> None:
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        if entry.name in seen:
            problems.add((section, number, "name"), f"duplicate name {entry.name!r}; expected different names")
        seen.add(entry.name)
