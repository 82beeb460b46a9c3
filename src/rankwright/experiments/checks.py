"""Reads and checks an experiment file: finds every mistake that can be found before anything runs, with its line."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.adaptation.ways import IN_DOMAIN, METHODS, NEED_DATA
from rankwright.errors import InputError, shown
from rankwright.evaluation.evaluate import CONVENTIONS, DEFAULT_MEASURES
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.experiments.config import (
    ADAPT,
    BACKGROUND,
    BACKGROUNDS,
    BEST_FEATURE,
    FEATURE,
    HINDSIGHT,
    BackgroundSource,
    DataSource,
    Experiment,
    MethodSpec,
    Protocol,
)
from rankwright.experiments.data_checks import Finder, check_data, find
from rankwright.experiments.toml import (
    ABOVE_0,
    COUNT,
    EMPTY,
    NOT_NEGATIVE,
    NUMBER,
    PATHS,
    SIZE,
    SPLITS,
    TABLE,
    TEXT,
    TEXTS,
    TRUTH,
    Place,
    Problems,
    choice,
    choices,
    integer,
    nearest,
    parse_toml,
)
from rankwright.experiments.tuning import make_plan
from rankwright.io.files import open_plain
from rankwright.measures import Measure, parse_goal, parse_measure, parse_reported
from rankwright.rankers.parameters import Rule, hint
from rankwright.training.methods import NAMES, Method, counterpart, parse_method, set_elsewhere
from rankwright.training.train import Plan

_DATA_VARIABLE = "RANKWRIGHT_DATA"
_SECTIONS = ("experiment", "protocol", "data", "method")
_EXPERIMENT = {
    "name": TEXT,
    "seed": NOT_NEGATIVE,
    "measures": TEXTS,
    "baseline": TEXT,
    "tests": choices(TESTS),
    "correction": choice(CORRECTIONS),
    "output": TEXT,
    "save_models": TRUTH,
    "convention": choice(CONVENTIONS),
    "empty": EMPTY,
    "choose_by": TEXT,
}
_PROTOCOL: dict[str, dict[str, Rule]] = {
    "trials": {"trials": SPLITS, "train": SIZE, "valid": SIZE, "test": SIZE},
    "folds": {"folds": SPLITS, "valid_folds": NOT_NEGATIVE},
    "fixed": {"train": SIZE, "valid": SIZE, "test": SIZE},
}
_OWN_SPLIT = ("parts", "folds", "fixed")
_BACKGROUND = "[data.background]"
_BACKGROUNDS = "[[data.background]]"
_BACKGROUND_KEYS = {
    "name": TEXT,
    "features": PATHS,
    "valid": PATHS,
    "model": TEXT,
    "method": TEXT,
    "parameters": TABLE,
}
# Keys that exclude a model file, and why.
_TRAINING = {
    "method": "the model is used unchanged",
    "parameters": "the model is used unchanged",
    "valid": "there is nothing to choose; data for neighbours go under features",
}

_KEYS = {
    "name": TEXT,
    "method": TEXT,
    "parameters": TABLE,
    "grid": TABLE,
    "random": TABLE,
    "choose_by": TEXT,
    "trained_for": TEXT,
}
_RANGE = {"low": NUMBER, "high": NUMBER, "log": TRUTH}
_MOST_CHECKED = 1000  # points of a grid whose parameters are checked
_BOOSTING = {
    "leaves": integer("an integer of at least 2", 2),
    "rate": ABOVE_0,
    "trees": COUNT,
    "randomize_nodes": TRUTH,
}
_TRAIN_OWN = ("in-domain", "interpolate", "augment", "interpolate-3")
# Parameters of adaptations, and the adaptations that have them besides auto.
_ADAPT_PARAMETERS: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "leaves": (_BOOSTING["leaves"], ("lambdamart",)),
    "rate": (_BOOSTING["rate"], ("lambdamart", "lambdaboost")),
    "trees": (_BOOSTING["trees"], ("lambdamart", "lambdaboost")),
    "randomize_nodes": (_BOOSTING["randomize_nodes"], ("lambdamart",)),
    BACKGROUNDS: (PATHS, ("background", "interpolate", "augment", "interpolate-3", "lambdaboost", "lambdamart")),
    "in_domain": (TEXT, _TRAIN_OWN),
    "in_domain_settings": (TABLE, _TRAIN_OWN),
    "weights": (
        choice(("powell", "lambdarank")),
        ("background", "interpolate", "interpolate-3", "lambdaboost", "lambdamart"),
    ),
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
    place: Place = ("experiment",)
    common = problems.table(table, place, _EXPERIMENT, "[experiment]", {"tests": "test"})
    if "measures" in common:
        listed = enumerate(common["measures"])
        common["measures"] = [
            check_measure(problems, (*place, "measures", at), name, parse_reported) for at, name in listed
        ]
    for key, such_as in (("measures", "such as nDCG@10"), ("tests", f"of {', '.join(TESTS)}")):
        if common.get(key) == []:
            problems.add((*place, key), f"{key} is empty; expected at least one, {such_as}")
    choose_by = common.get("choose_by")
    return common, None if choose_by is None else check_measure(problems, (*place, "choose_by"), choose_by, parse_goal)


def _data(
    problems: Problems, table: Any, place: Place, choose_by: Measure | None, folders: Sequence[Path]
) -> DataSource | None:
    source = check_data(problems, table, place, folders)
    given = table.get(BACKGROUND) if isinstance(table, dict) else None
    files = {} if source is None else source.files
    settings: Any = (files, choose_by, folders)
    backgrounds_read: list[BackgroundSource | None] = []
    if isinstance(given, dict):
        backgrounds_read = [_background(problems, given, (*place, BACKGROUND), *settings)]
    elif isinstance(given, list) and all(isinstance(one, dict) for one in given):
        backgrounds_read = [
            _background(problems, one, (*place, BACKGROUND, n), *settings) for n, one in enumerate(given)
        ]
        _check_different(problems, given, backgrounds_read, (*place, BACKGROUND))
    backgrounds = tuple(one for one in backgrounds_read if one is not None)
    return None if source is None else dataclasses.replace(source, backgrounds=backgrounds)


def _check_different(
    problems: Problems, given: Sequence[dict[str, Any]], backgrounds: Sequence[BackgroundSource | None], place: Place
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
    for number, background in enumerate(backgrounds):
        for other in backgrounds[:number]:
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
    own_files: Mapping[str, Path],
    choose_by: Measure | None,
    folders: Sequence[Path],
) -> BackgroundSource | None:
    """The table [data.background]; None if it has mistakes. Files in ``own`` belong to the data set itself."""
    before = len(problems)
    entries = problems.table(table, place, _BACKGROUND_KEYS, _BACKGROUND)
    if "model" in entries:
        for key in (key for key in _TRAINING if key in entries):
            problems.add((*place, key), f"{_BACKGROUND} has model and {key}: {_TRAINING[key]}; expected one of them")
    elif "features" not in entries and len(problems) == before:
        what = f"{_BACKGROUND} has neither features nor model"
        problems.add(place, f"{what}; expected features to train on, or a model file")
    if len(problems) > before:
        return None
    files = _background_files(problems, entries, place, own_files, folders)
    spec = None
    if "model" not in entries:
        entry = {"method": "lambdamart"} | {key: entries[key] for key in ("method", "parameters") if key in entries}
        if entry["method"].startswith(ADAPT):
            problems.add((*place, "method"), "a background cannot be adapted itself; expected a method to train it by")
            return None
        spec = check_method(problems, entry, place, choose_by, "valid" in entries, folders)
    return None if len(problems) > before else BackgroundSource(entries.get("name", BACKGROUND), files, spec)


def _background_files(
    problems: Problems, entries: dict[str, Any], place: Place, own_files: Mapping[str, Path], folders: Sequence[Path]
) -> dict[str, Path]:
    """The files by role; no file is used for both training and validation."""
    from rankwright.models.saving import load_model

    finder = Finder(problems, place, folders)
    files: dict[str, Path] = {}
    for key in ("features", "valid"):
        if key in entries:
            listed = finder.feature_files(key, entries[key], {**own_files, **files})
            files |= {f"{key} {number}": path for number, path in listed.items()}
    if "model" in entries:
        model = finder.one("model", entries["model"])
        files |= model
        try:
            for path in model.values():
                load_model(path)
        except InputError as error:
            problems.add((*place, "model"), f"{entries['model']}: {error.message}")
    return files


def _entries(problems: Problems, tables: dict[str, Any], section: str) -> list[Any]:
    entries = tables.get(section, [])
    if isinstance(entries, dict):
        problems.add((section,), f"[{section}] is a single table; expected a list of tables, [[{section}]]")
        return []
    if not isinstance(entries, list) or not entries:
        problems.add((section,), f"no [[{section}]]; expected at least one")
        return []
    return entries


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
    entries = problems.table(table, place, _PROTOCOL[kind] | {"kind": TEXT}, f"[protocol] of kind {kind}")
    if kind == "trials" and "train" not in table:
        problems.add(place, "[protocol] has no train; expected the number of training queries of a trial")
    protocol = Protocol(**entries)
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


def check_measure(
    problems: Problems, place: Place, name: str, parse: Callable[[str], Measure] = parse_measure
) -> Measure | None:
    """The measure of a name; None, with the mistake recorded, if there is none."""
    try:
        return parse(name)
    except InputError as error:
        problems.add(place, error.message)
        return None


def check_method(
    problems: Problems,
    table: Any,
    place: Place,
    choose_by: Measure | None,
    validated: bool,
    folders: Sequence[Path],
    data: Sequence[Any] = (),
) -> MethodSpec | None:
    """One entry; None, with the mistakes recorded, if it cannot be used.

    `choose_by`: the measure that chooses in the whole experiment. `validated`: whether every data set has validation
    queries. `folders`: where files are searched. `data`: the [[data]] entries of the file, whose backgrounds are
    adapted.
    """
    before = len(problems)
    entries = problems.table(table, place, _KEYS, "[[method]]")
    if "method" not in entries:
        if not isinstance(table, dict) or "method" not in table:
            problems.add(place, "[[method]] has no method; expected a name such as svm-map")
        return None
    text = entries["method"]
    if "choose_by" in entries:
        choose_by = check_measure(problems, (*place, "choose_by"), entries["choose_by"], parse_goal)
    spec = MethodSpec(
        name=entries.get("name", text),
        method=text,
        parameters=dict(entries.get("parameters", {})),
        grid=dict(entries.get("grid", {})),
        random=_random(problems, entries, place),
        trained_for=entries.get("trained_for"),
        **({} if choose_by is None else {"choose_by": choose_by}),
    )
    if spec.is_feature:
        _check_feature(problems, entries, place, validated)
    elif text.startswith(ADAPT):
        _check_adapt(problems, spec, place, validated, data)
    else:
        names = (*NAMES, BEST_FEATURE, HINDSIGHT, "feature:NAME", *_adapt_names())
        method = _parsed(problems, text, (*place, "method"), names)
        if method is None:
            return None
        _check_grid(problems, spec, place, validated)
        not_set = set_elsewhere() | {"C_grid": "write the values under grid, as C"}
        for section in ("parameters", "grid"):
            _check_parameters(problems, getattr(spec, section), text, method, not_set, (*place, section))
        spec = _with_background(problems, spec, place, folders)
        if len(problems) == before:
            spec = _completed(problems, spec, method, place, choose_by, validated)
    return None if len(problems) > before else spec


def _parsed(problems: Problems, text: str, place: Place, names: Sequence[str]) -> Method | None:
    """The method of a name; None, with the mistake recorded, if there is none among the known."""
    try:
        return parse_method(text)
    except InputError as error:
        meant = counterpart(text) or nearest(text, names)
        problems.add(place, error.message if "cutoff" in error.message else f"unknown method {text!r}; {meant}")
        return None


def _check_feature(problems: Problems, entries: Mapping[str, Any], place: Place, validated: bool) -> None:
    for key in ("parameters", "grid", "random"):
        if key in entries:
            problems.add((*place, key), f"{entries['method']} does not take {key}; a feature is used unchanged")
    if entries["method"] == FEATURE:
        problems.add((*place, "method"), "which feature? expected a name or a number after feature:")
    if entries["method"] == BEST_FEATURE and not validated:
        problems.add((*place, "method"), f"{BEST_FEATURE} is chosen on validation queries; not every data set has some")


def _adapt_names() -> list[str]:
    return [ADAPT + name for name in (*METHODS, "auto")]


def _check_adapt(problems: Problems, spec: MethodSpec, place: Place, validated: bool, data: Sequence[Any]) -> None:
    """An adaptation needs a background in every data set."""
    text, name = spec.method, spec.method.removeprefix(ADAPT)
    here = (*place, "method")
    if not problems.choice(text, here, _adapt_names(), "method"):
        return
    rules = {key: rule for key, (rule, ways) in _ADAPT_PARAMETERS.items() if name in ("auto", *ways)}
    kinds, title = {"weights": "kind of weights"}, f"the parameters of {text}"
    given = problems.table(spec.parameters, (*place, "parameters"), rules, title, kinds)
    _check_in_domain(problems, given, (*place, "parameters"))
    _check_adapt_grid(problems, spec, place, validated, [key for key in _BOOSTING if key in rules and key != "trees"])
    if not validated:
        problems.add(here, f"{text} chooses on validation queries; not every data set has some")
    for entry in (entry for entry in data if isinstance(entry, dict)):
        _check_backgrounds(problems, spec, place, entry)


def _check_backgrounds(problems: Problems, spec: MethodSpec, place: Place, entry: Mapping[str, Any]) -> None:
    """A data set has the backgrounds that an adaptation uses."""
    here, text, called = (*place, "method"), spec.method, entry.get("name", "[[data]]")
    listed = entry.get(BACKGROUND)
    tables = [one for one in (listed if isinstance(listed, list) else [listed]) if isinstance(one, dict)]
    if not listed:
        problems.add(here, f"{text} adapts a background ranker; {called} has none, expected [data.background]")
        return
    names = [one["name"] for one in tables if isinstance(one.get("name", BACKGROUND), str) and "name" in one]
    names += [BACKGROUND] * any("name" not in one for one in tables)
    wanted = spec.parameters.get(BACKGROUNDS, [])
    for name in [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []:
        if isinstance(name, str) and name not in names:
            message = f"{called} has no background {name!r}; {nearest(name, names)}"
            problems.add((*place, "parameters", BACKGROUNDS), message)
    if wanted == [] and BACKGROUNDS in spec.parameters:
        problems.add((*place, "parameters", BACKGROUNDS), "backgrounds is empty; expected at least one name")
    used = [one for one in tables if spec.adapts(str(one.get("name", BACKGROUND)))]
    if text.removeprefix(ADAPT) in NEED_DATA and used and not any("features" in one for one in used):
        what = f"{text} takes neighbours from the background data; the background of {called} has no features"
        problems.add(here, what)


def _check_in_domain(problems: Problems, given: Mapping[str, Any], place: Place) -> None:
    text, settings = given.get("in_domain", IN_DOMAIN), given.get("in_domain_settings", {})
    before = len(problems)
    method = _parsed(problems, text, (*place, "in_domain"), NAMES)
    if method is None:
        return
    place = (*place, "in_domain_settings")
    not_set = set_elsewhere() | {"background": "it is trained on the in-domain data alone"}
    _check_parameters(problems, settings, text, method, not_set, place)
    if len(problems) == before:
        try:
            make_plan(MethodSpec(text, text, settings), {}, measure=None, validated=True)
        except InputError as error:
            problems.add(place, error.message)


def _check_adapt_grid(
    problems: Problems, spec: MethodSpec, place: Place, validated: bool, settings: Sequence[str]
) -> None:
    """A grid of an adaptation has lists of the settings of boosting."""
    if spec.random is not None:
        problems.add((*place, "random"), f"{spec.method} does not take random; it tries every point of its grid")
    if spec.grid and not settings:
        what = f"{spec.method} does not take grid; it chooses on validation queries by itself"
        problems.add((*place, "grid"), what)
        return
    _check_grid(problems, spec, place, validated)
    for key, values in spec.grid.items():
        here = (*place, "grid")
        if key not in settings:
            problems.add((*here, key), f"{spec.method} chooses no {key!r}; expected one of {', '.join(settings)}")
        elif isinstance(values, list):
            for value in values:
                problems.table({key: value}, here, _BOOSTING, f"the grid of {spec.method}")


def _random(problems: Problems, entries: Mapping[str, Any], place: Place) -> int | None:
    if "random" not in entries:
        return None
    place = (*place, "random")
    table = problems.table(entries["random"], place, {"n": COUNT}, "random")
    if "n" not in entries["random"]:
        problems.add(place, "random has no n; expected the number of points to draw")
    if "grid" not in entries:
        problems.add(place, "nothing to draw from; expected a grid with lists or ranges")
    return table.get("n")


def _check_grid(problems: Problems, spec: MethodSpec, place: Place, validated: bool) -> None:
    place = (*place, "grid")
    if spec.grid and not validated:
        problems.add(place, "a grid needs validation queries to choose on; not every data set has some")
    for key, values in spec.grid.items():
        here = (*place, key)
        if isinstance(values, list):
            if not values:
                problems.add(here, f"the grid of {key} is empty; expected at least one value")
        elif isinstance(values, dict):
            table = problems.table(values, here, _RANGE, f"the range of {key}")
            low, high = table.get("low"), table.get("high")
            if low is None or high is None or not low < high:
                problems.add(here, f"the range of {key} is from {low} to {high}; expected low below high")
            elif table.get("log") and low <= 0:
                problems.add(here, f"the range of {key} starts at {low}; expected a number above 0 for log")
            if spec.random is None:
                problems.add(here, f"the grid of {key} is a range; expected random = {{n = 20}} to draw from it")
        else:
            problems.add(here, f"the grid of {key} is {values!r}; expected a list of values, or a range")
        if key in spec.parameters:
            problems.add(here, f"{key} is also among the parameters; expected it once")


def _check_parameters(
    problems: Problems, names: Iterable[str], text: str, method: Method, not_set: Mapping[str, str], place: Place
) -> None:
    settable = [name for name in method.defaults() if name not in not_set]
    for name in names:
        if name in not_set:
            problems.add((*place, name), f"{name} cannot be set here: {not_set[name]}")
        elif name not in settable:
            meant = hint(name, settable) or nearest(name, sorted(settable))
            problems.add((*place, name), f"{text} has no parameter {name!r}; {meant}")


def _with_background(problems: Problems, spec: MethodSpec, place: Place, folders: Sequence[Path]) -> MethodSpec:
    """The parameter background is the path of a model file."""
    if "background" in spec.grid:
        problems.add((*place, "grid", "background"), "background cannot be chosen; expected it among the parameters")
    if "background" not in spec.parameters:
        return spec
    place, value = (*place, "parameters", "background"), spec.parameters["background"]
    path = find(value, folders) if isinstance(value, str) else None
    if path is None:
        problems.add(place, f"background is {value!r}; expected an existing model file")
        return spec
    return dataclasses.replace(spec, parameters={**spec.parameters, "background": str(path)})


def _completed(
    problems: Problems, spec: MethodSpec, method: Method, place: Place, choose_by: Measure | None, validated: bool
) -> MethodSpec:
    """The entry with its defaults filled in, after every value of its grid was checked."""
    first = {key: values[0] if isinstance(values, list) else values["low"] for key, values in spec.grid.items()}
    planned = _planned(spec, {}, validated)
    if not isinstance(planned, Plan):
        alone = {key: dataclasses.replace(spec, parameters={key: spec.parameters[key]}) for key in spec.parameters}
        key = next((key for key in alone if not isinstance(_planned(alone[key], {}, validated), Plan)), None)
        problems.add((*place, "parameters", *([] if key is None else [key])), planned.message)
        return spec
    for key, value in _values(spec):
        at_point = _planned(spec, {**first, key: value}, validated)
        if not isinstance(at_point, Plan):
            problems.add((*place, "grid", key), at_point.message)
            return spec
    goal = spec.trained_for or _trained_for(spec, method, planned)
    return dataclasses.replace(spec, choose_by=choose_by or planned.measure, trained_for=goal)


def _planned(spec: MethodSpec, point: Mapping[str, Any], validated: bool) -> Plan | InputError:
    """The plan of a point, or what is wrong with its parameters."""
    try:
        return make_plan(spec, point, measure=None, validated=validated)
    except InputError as error:
        return error


def _values(spec: MethodSpec) -> Iterator[tuple[str, Any]]:
    listed = (
        (key, value)
        for key, values in spec.grid.items()
        for value in (values if isinstance(values, list) else (values["low"], values["high"]))
    )
    return itertools.islice(listed, _MOST_CHECKED)


def _trained_for(spec: MethodSpec, method: Method, planned: Plan) -> str | None:
    """What a method is trained for, if that is a measure."""
    if method.loss is not None:
        return str(planned.measure)
    losses = spec.parameters.get("losses", method.defaults().get("losses"))
    if losses:
        from rankwright.maxmargin.losses import parse_losses

        return " + ".join(str(loss.measure) for loss in parse_losses(losses))
    measure = getattr(planned.ranker, "measure", None)
    return None if measure is None or "measure" in spec.grid else str(parse_measure(measure))
