"""An experiment file read and checked: every mistake that can be found before anything runs, with its line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.evaluation.table import CONVENTIONS, DEFAULT_MEASURES
from rankwright.experiments.background_checks import check_background
from rankwright.experiments.config import DataSource, Experiment, MethodSpec, Protocol, data_folders
from rankwright.experiments.finding import check_data
from rankwright.experiments.method_checks import check_measure, check_method
from rankwright.experiments.problems import Problems
from rankwright.experiments.toml_lines import Place, parse_toml
from rankwright.measures import parse_measure

__all__ = ["check_text"]

_SECTIONS = {"experiment": "a table", "protocol": "a table", "data": "", "method": ""}
_EXPERIMENT = {
    "name": "a text",
    "seed": "a whole number from 0",
    "measures": "a list of texts",
    "baseline": "a text",
    "tests": "a list of texts",
    "correction": "a text",
    "output": "a text",
    "save_models": "true or false",
    "convention": "a text",
    "empty": '0, 1 or "skip"',
    "choose_by": "a text",
}
_SIZE = "a number of queries, or a share such as 0.5"
_PROTOCOL: dict[str, dict[str, str]] = {
    "trials": {"trials": "a whole number from 1", "train": _SIZE, "valid": _SIZE, "test": _SIZE},
    "folds": {"folds": "a whole number from 1", "valid_folds": "a whole number from 0"},
    "fixed": {"train": _SIZE, "valid": _SIZE, "test": _SIZE},
}
_OWN_SPLIT = ("parts", "folds", "fixed")


def check_text(
    text: str, path: str | Path, *, data: str | Path | None = None
) -> tuple[Experiment | None, list[InputError]]:
    """The experiment of a TOML text, and what is wrong with it.

    Parameters
    ----------
    text : str
        The text.
    path : path
        Where it stands; its paths are relative to this file's folder.
    data : path, optional
        Where files are looked for that are not there; the environment variable RANKWRIGHT_DATA unless given.

    Returns
    -------
    Experiment or None
        None where there is a mistake.
    list of InputError
        The mistakes, from the top to the end.
    """
    try:
        tables, lines = parse_toml(text, path)
    except InputError as error:
        return None, [error]
    problems = Problems(lines, path)
    for key in tables:
        problems.choice(key, (key,), _SECTIONS, "section")
    common = _common(problems, tables.get("experiment", {}))
    folders = data_folders(path, data)
    entries = _entries(problems, tables, "data")
    sources = [
        _data(problems, entry, ("data", number), common.get("choose_by"), folders)
        for number, entry in enumerate(entries)
    ]
    protocol = _protocol(problems, tables, [source for source in sources if source is not None])
    validated = _all_validated(problems, sources, protocol)
    methods = [
        check_method(problems, entry, ("method", number), common.get("choose_by"), validated, folders, entries)
        for number, entry in enumerate(_entries(problems, tables, "method"))
    ]
    _check_names(problems, tables, sources, "data")
    _check_names(problems, tables, methods, "method")
    names = [method.name for method in methods if method is not None]
    baseline = common.get("baseline", names[0] if names else "")
    if "baseline" in common and None not in methods:
        problems.choice(baseline, ("experiment", "baseline"), names, "method for the baseline")
    if problems.found:
        return None, problems.found
    stem = Path(path).stem
    experiment = Experiment(
        name=common.get("name", stem),
        data=tuple(source for source in sources if source is not None),
        methods=tuple(method for method in methods if method is not None),
        protocol=protocol,
        measures=tuple(str(parse_measure(measure)) for measure in common.get("measures", DEFAULT_MEASURES)),
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


def _common(problems: Problems, table: Any) -> dict[str, Any]:
    """The section [experiment]."""
    place: Place = ("experiment",)
    common = problems.table(table, place, _EXPERIMENT, "[experiment]")
    for number, measure in enumerate(common.get("measures", [])):
        check_measure(problems, (*place, "measures", number), measure)
    if common.get("measures") == []:
        problems.add((*place, "measures"), "measures is empty; expected at least one, such as nDCG@10")
    if "choose_by" in common and not check_measure(problems, (*place, "choose_by"), common["choose_by"]):
        del common["choose_by"]
    for number, test in enumerate(common.get("tests", [])):
        problems.choice(test, (*place, "tests", number), TESTS, "test")
    if common.get("tests") == []:
        problems.add((*place, "tests"), f"tests is empty; expected at least one of {', '.join(TESTS)}")
    for key, known in (("correction", CORRECTIONS), ("convention", CONVENTIONS)):
        if key in common:
            problems.choice(common[key], (*place, key), known, key)
    return common


def _data(
    problems: Problems, table: Any, place: Place, choose_by: str | None, folders: Sequence[Path]
) -> DataSource | None:
    """One entry [[data]], with its background."""
    source = check_data(problems, table, place, folders)
    if not isinstance(table, dict) or not isinstance(table.get("background"), dict):
        return source
    own = {} if source is None else source.files
    background = check_background(problems, table["background"], (*place, "background"), own, choose_by, folders)
    return None if source is None else dataclasses.replace(source, background=background)


def _entries(problems: Problems, tables: dict[str, Any], section: str) -> list[Any]:
    found = tables.get(section, [])
    if isinstance(found, dict):
        problems.add((section,), f"there is one table [{section}]; expected a list of them, [[{section}]]")
        return []
    if not isinstance(found, list) or not found:
        problems.add((section,), f"there is no [[{section}]]; expected at least one")
        return []
    return found


def _protocol(problems: Problems, tables: dict[str, Any], sources: list[DataSource]) -> Protocol | None:
    """The section [protocol]; None where it is left out and no data need one."""
    if "protocol" not in tables:
        for number, source in enumerate(sources):
            if source.kind not in _OWN_SPLIT:
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
    found = problems.table(table, place, _PROTOCOL[kind] | {"kind": "a text"}, f"[protocol] of the kind {kind}")
    if kind == "trials" and "train" not in table:
        problems.add(place, "[protocol] has no train; expected the number of training queries of a trial")
    protocol = Protocol(**found)
    if kind == "folds" and not 0 <= protocol.valid_folds <= protocol.folds - 2:
        what = f"{protocol.folds} folds, {protocol.valid_folds} of them for validation, leave none to train on"
        problems.add((*place, "folds"), f"{what}; expected at least {protocol.valid_folds + 2}")
    if kind != "folds" and protocol.train == 0:
        problems.add((*place, "train"), "train is 0; expected queries to train on")
    return protocol


def _all_validated(problems: Problems, sources: list[DataSource | None], protocol: Protocol | None) -> bool:
    """Whether there are validation queries in every data set; that some of none are used is noted."""
    everywhere = True
    for number, source in enumerate(sources):
        if source is None:
            continue
        if source.kind in _OWN_SPLIT:
            validated = source.kind != "fixed" or "valid" in source.files
        else:
            validated = protocol is None or protocol.has_validation
        if source.valid_queries is not None and not validated:
            message = f"{source.name} has no validation queries; expected them, or no valid_queries"
            problems.add(("data", number, "valid_queries"), message)
        everywhere &= validated
    return everywhere


def _check_names(
    problems: Problems,
    tables: dict[str, Any],
    entries: list[Any] | list[DataSource | None] | list[MethodSpec | None],
    section: str,
) -> None:
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        if entry.name in seen:
            problems.add((section, number, "name"), f"the name {entry.name!r} is taken; expected different names")
        seen.add(entry.name)
