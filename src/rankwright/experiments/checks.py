"""Reads and checks an experiment file: finds every mistake that can be found before anything runs, with its line."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.adaptation.ways import BOOSTING, IN_DOMAIN, METHODS, NEED_DATA, boosting_parameters
from rankwright.errors import InputError, shown
from rankwright.evaluation.evaluate import CONVENTIONS, DEFAULT_MEASURES
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.experiments import toml
from rankwright.experiments.config import (
    ADAPT,
    BACKGROUND,
    BACKGROUNDS,
    BEST_FEATURE,
    FEATURE,
    HINDSIGHT,
    SCORES,
    BackgroundSource,
    DataSource,
    Experiment,
    MethodSpec,
    Protocol,
)
from rankwright.experiments.data_checks import Finder, check_data, find
from rankwright.experiments.own_code import allowed_code, check_scores
from rankwright.experiments.toml import Problems, nearest, parse_toml
from rankwright.experiments.tuning import make_plan
from rankwright.io.files import open_plain
from rankwright.measures import Measure, parse_goal, parse_measure, parse_reported
from rankwright.rankers.parameters import Rule, hint
from rankwright.training.methods import NAMES, Method, counterpart, parse_method, set_elsewhere
from rankwright.training.train import Plan

_DATA_VARIABLE = "RANKWRIGHT_DATA"
_SECTIONS = ("experiment", "protocol", "data", "method")
_EXPERIMENT = {
    "name": toml.TEXT,
    "seed": toml.NOT_NEGATIVE,
    "seeds": toml.SEEDS,
    "measures": toml.TEXTS,
    "baseline": toml.TEXT,
    "tests": toml.choices(TESTS),
    "correction": toml.choice(CORRECTIONS),
    "output": toml.TEXT,
    "save_models": toml.TRUTH,
    "convention": toml.choice(CONVENTIONS),
    "empty": toml.EMPTY,
    "choose_by": toml.TEXT,
    "plugins": toml.TEXTS,
}
_PROTOCOL: dict[str, dict[str, Rule]] = {
    "trials": {"trials": toml.SPLITS, "train": toml.SIZE, "valid": toml.SIZE, "test": toml.SIZE},
    "folds": {"folds": toml.SPLITS, "valid_folds": toml.NOT_NEGATIVE},
    "fixed": {"train": toml.SIZE, "valid": toml.SIZE, "test": toml.SIZE},
}
_OWN_SPLIT = ("parts", "folds", "fixed")
_BACKGROUND = "[data.background]"
_BACKGROUNDS = "[[data.background]]"
_BACKGROUND_KEYS = {
    "name": toml.TEXT,
    "features": toml.PATHS,
    "valid": toml.PATHS,
    "model": toml.TEXT,
    "method": toml.TEXT,
    "parameters": toml.TABLE,
}
# Keys that exclude a model file, and why.
_TRAINING = {
    "method": "the model is used unchanged",
    "parameters": "the model is used unchanged",
    "valid": "there is nothing to choose; data for neighbours go under features",
}

_ADAPT_NAMES = [ADAPT + name for name in (*METHODS, "auto")]
_KEYS = {
    "name": toml.TEXT,
    "method": toml.TEXT,
    "scores": toml.TEXT,
    "parameters": toml.TABLE,
    "grid": toml.TABLE,
    "random": toml.TABLE,
    "choose_by": toml.TEXT,
    "trained_for": toml.TEXT,
}
_RANGE = {"low": toml.NUMBER, "high": toml.NUMBER, "log": toml.TRUTH}
_MOST_CHECKED = 1000  # points of a grid whose parameters are checked
_BOOSTING_RULES = {
    "leaves": toml.integer("an integer of at least 2", 2),
    "rate": toml.ABOVE_0,
    "trees": toml.COUNT,
    "randomize_nodes": toml.TRUTH,
}
_IN_DOMAIN_TOO = ("in-domain", "interpolate", "augment", "interpolate-3")
# Parameters of adaptations, and the adaptations that have them besides auto.
_ADAPT_PARAMETERS: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "leaves": (_BOOSTING_RULES["leaves"], ("lambdamart",)),
    "rate": (_BOOSTING_RULES["rate"], ("lambdamart", "lambdaboost")),
    "trees": (_BOOSTING_RULES["trees"], ("lambdamart", "lambdaboost")),
    "randomize_nodes": (_BOOSTING_RULES["randomize_nodes"], ("lambdamart",)),
    BACKGROUNDS: (toml.PATHS, ("background", "interpolate", "augment", "interpolate-3", "lambdaboost", "lambdamart")),
    "boosting_settings": (toml.TABLE, BOOSTING),
    "in_domain": (toml.TEXT, _IN_DOMAIN_TOO),
    "in_domain_settings": (toml.TABLE, _IN_DOMAIN_TOO),
    "weights": (
        toml.choice(("powell", "lambdarank")),
        ("background", "interpolate", "interpolate-3", "lambdaboost", "lambdamart"),
    ),
}


def load_experiment(path: str | Path, *, data: str | Path | None = None, plugins: bool = False) -> Experiment:
    """Read an experiment file; raise the first mistake in it.

    Parameters
    ----------
    path : path
        The TOML file. Its paths are relative to its folder.
    data : path, optional
        Folder for data files that are not found there. Default: the environment variable RANKWRIGHT_DATA.
    plugins : bool
        Whether Python code that the file names may be run; otherwise it is an error to name some.

    Examples
    --------
    >>> experiment = load_experiment("exp.toml")  # doctest: +SKIP
    """
    experiment, problems = check_text(read_text(path), path, data=data, plugins=plugins)
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
    text: str, path: str | Path, *, data: str | Path | None = None, plugins: bool = False
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
    plugins : bool
        Whether Python code that the file names may be run.

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
        problems.choice(key, _SECTIONS, "section", key)
    # Files are searched next to the experiment file, then in the data folder.
    more = data if data is not None else os.environ.get(_DATA_VARIABLE)
    folders = [Path(path).parent, *([Path(more)] if more else [])]
    loaded = allowed_code(problems, tables, folders, plugins)
    if loaded is None:  # own measures and rankers would be unknown
        return None, problems.found
    common, choose_by = _common(problems.at("experiment"), tables.get("experiment", {}))
    entries = _entries(problems, tables, "data")
    sources = [_data(problems.at("data", number), entry, choose_by, folders) for number, entry in enumerate(entries)]
    protocol = _protocol(problems, tables, sources)
    validated = _all_validated(problems.at("data"), sources, protocol)
    methods = [
        check_method(problems.at("method", number), entry, choose_by, validated, folders, entries)
        for number, entry in enumerate(_entries(problems, tables, "method"))
    ]
    methods = [
        check_scores(problems.at("method", number), spec, sources, protocol, folders)
        if spec is not None and spec.method.startswith(SCORES)
        else spec
        for number, spec in enumerate(methods)
    ]
    _check_names(problems.at("data"), sources)
    _check_names(problems.at("method"), methods)
    names = [method.name for method in methods if method is not None]
    if "baseline" in common and None not in methods:
        problems.choice(common["baseline"], names, "method for the baseline", "experiment", "baseline")
    if len(problems):
        return None, problems.found
    stem = Path(path).stem
    common = {
        "name": stem,
        "seed": 0,
        "measures": map(parse_measure, DEFAULT_MEASURES),
        "baseline": names[0],
        "tests": ["wilcoxon"],
        "correction": "holm",
        "output": f"{stem}-results",
        **common,
    }
    common |= {"measures": tuple(common["measures"]), "tests": tuple(common["tests"]), "plugins": loaded}
    common["seeds"] = tuple(common.get("seeds", ()))
    common["output"] = Path(path).parent / common["output"]
    experiment = Experiment(
        data=tuple(source for source in sources if source is not None),
        methods=tuple(method for method in methods if method is not None),
        protocol=protocol,
        text=text,
        **common,
    )
    return experiment, []


def _common(problems: Problems, table: Any) -> tuple[dict[str, Any], Measure | None]:
    """The settings in [experiment], and the measure that chooses in the whole experiment."""
    common = problems.table(table, _EXPERIMENT, "[experiment]", {"tests": "test"})
    if "measures" in common:
        common["measures"] = [
            _measure(problems.at("measures", number), name, parse_reported)
            for number, name in enumerate(common["measures"])
        ]
    for key, such_as in (("measures", "such as nDCG@10"), ("tests", f"of {', '.join(TESTS)}")):
        if common.get(key) == []:
            problems.add(f"{key} is empty; expected at least one, {such_as}", key)
    choose_by = common.pop("choose_by", None)
    return common, None if choose_by is None else _measure(problems.at("choose_by"), choose_by, parse_goal)


def _measure(problems: Problems, name: str, parse: Callable[[str], Measure]) -> Measure | None:
    """The measure of a name; None, with the mistake recorded, if there is none."""
    try:
        return parse(name)
    except InputError as error:
        problems.add(error.message)
        return None


def _entries(problems: Problems, tables: dict[str, Any], section: str) -> list[Any]:
    entries = tables.get(section, [])
    if isinstance(entries, dict):
        problems.add(f"[{section}] is a single table; expected a list of tables, [[{section}]]", section)
        return []
    if not isinstance(entries, list) or not entries:
        problems.add(f"no [[{section}]]; expected at least one", section)
        return []
    return entries


def _check_names(problems: Problems, entries: Sequence[DataSource | MethodSpec | None]) -> None:
    names: set[str] = set()
    for number, entry in enumerate(entries):
        if entry is not None:
            if entry.name in names:
                problems.add(f"duplicate name {entry.name!r}; expected different names", number, "name")
            names.add(entry.name)


def _data(problems: Problems, table: Any, choose_by: Measure | None, folders: Sequence[Path]) -> DataSource | None:
    source = check_data(problems, table, folders)
    listed = table.get(BACKGROUND) if isinstance(table, dict) else None
    files = {} if source is None else source.files
    problems = problems.at(BACKGROUND)
    backgrounds: list[BackgroundSource | None] = []
    if isinstance(listed, dict):
        backgrounds = [_background(problems, listed, files, choose_by, folders)]
    elif isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed):
        backgrounds = [
            _background(problems.at(number), entry, files, choose_by, folders) for number, entry in enumerate(listed)
        ]
        _check_different(problems, listed, backgrounds)
    usable = tuple(background for background in backgrounds if background is not None)
    return None if source is None else dataclasses.replace(source, backgrounds=usable)


def _check_different(
    problems: Problems, tables: Sequence[dict[str, Any]], backgrounds: Sequence[BackgroundSource | None]
) -> None:
    """Several backgrounds have names, and no two are the same."""
    for number, table in enumerate(tables):
        name = table.get("name")
        if "name" not in table:
            problems.add(f"one of several {_BACKGROUNDS} has no name; expected one for methods to refer to", number)
        elif name in [other.get("name") for other in tables[:number]]:
            problems.add(f"duplicate name {shown(name)}; expected different names", number, "name")
        elif name in list(METHODS):
            problems.add(f"{shown(name)} is a way to adapt; expected another name", number, "name")
    for number, background in enumerate(backgrounds):
        for other in backgrounds[:number]:
            if background is not None and other is not None and _same(background, other):
                names = f"the backgrounds {other.name} and {background.name}"
                problems.add(f"{names} are the same; expected other files or another method", number)


def _same(first: BackgroundSource, second: BackgroundSource) -> bool:
    """Whether two backgrounds are trained on the same files in the same way, or are the same model file."""
    if first.spec is None or second.spec is None:
        models = (first.files.get("model"), second.files.get("model"))
        return models[0] is not None and models[1] is not None and models[0].samefile(models[1])
    return dict(first.files) == dict(second.files) and first.spec.settings() == second.spec.settings()


def _background(
    problems: Problems,
    table: dict[str, Any],
    data_files: Mapping[str, Path],
    choose_by: Measure | None,
    folders: Sequence[Path],
) -> BackgroundSource | None:
    """The table [data.background]; None if it has mistakes. It cannot use the files of the data set itself."""
    before = len(problems)
    entries = problems.table(table, _BACKGROUND_KEYS, _BACKGROUND)
    if "model" in entries:
        for key in (key for key in _TRAINING if key in entries):
            problems.add(f"{_BACKGROUND} has model and {key}: {_TRAINING[key]}; expected one of them", key)
    elif "features" not in entries and len(problems) == before:
        expected = "expected features to train on, or a model file"
        problems.add(f"{_BACKGROUND} has neither features nor model; {expected}")
    if len(problems) > before:
        return None
    files = _background_files(problems, entries, data_files, folders)
    spec = None
    if "model" not in entries:
        entry = {"method": "lambdamart"} | {key: entries[key] for key in ("method", "parameters") if key in entries}
        if entry["method"].startswith(ADAPT):
            problems.add("a background cannot be adapted itself; expected a method to train it by", "method")
            return None
        spec = check_method(problems, entry, choose_by, "valid" in entries, folders)
    return None if len(problems) > before else BackgroundSource(entries.get("name", BACKGROUND), files, spec)


def _background_files(
    problems: Problems, entries: dict[str, Any], data_files: Mapping[str, Path], folders: Sequence[Path]
) -> dict[str, Path]:
    """The files by role; no file is used for both training and validation."""
    from rankwright.models.saving import load_model

    finder = Finder(problems, folders)
    files: dict[str, Path] = {}
    for key in ("features", "valid"):
        if key in entries:
            listed = finder.feature_files(key, entries[key], {**data_files, **files})
            files |= {f"{key} {number}": path for number, path in listed.items()}
    if "model" in entries:
        model = finder.file("model", entries["model"])
        files |= model
        try:
            for path in model.values():
                load_model(path)
        except InputError as error:
            problems.add(f"{entries['model']}: {error.message}", "model")
    return files


def _protocol(problems: Problems, tables: dict[str, Any], sources: Sequence[DataSource | None]) -> Protocol | None:
    """The section [protocol]; None if it is left out and no data set needs one."""
    if "protocol" not in tables:
        for number, source in enumerate(sources):
            if source is not None and source.kind not in _OWN_SPLIT:
                problems.add(f"{source.name} has no split of its own; expected a section [protocol]", "data", number)
                break
        return None
    table, problems = tables["protocol"], problems.at("protocol")
    if not isinstance(table, dict) or "kind" not in table:
        problems.add(f"[protocol] has no kind; expected one of {', '.join(_PROTOCOL)}")
        return None
    kind = table["kind"]
    if not problems.choice(kind, _PROTOCOL, "kind of protocol", "kind"):
        return None
    entries = problems.table(table, _PROTOCOL[kind] | {"kind": toml.TEXT}, f"[protocol] of kind {kind}")
    if kind == "trials" and "train" not in table:
        problems.add("[protocol] has no train; expected the number of training queries of a trial")
    protocol = Protocol(**entries)
    if kind == "folds" and not 0 <= protocol.valid_folds <= protocol.folds - 2:
        taken = f"{protocol.folds} folds, {protocol.valid_folds} of them for validation, leave none to train on"
        problems.add(f"{taken}; expected at least {protocol.valid_folds + 2}", "folds")
    if kind != "folds" and protocol.train == 0:
        problems.add("train is 0; expected queries to train on", "train")
    return protocol


def _all_validated(problems: Problems, sources: Sequence[DataSource | None], protocol: Protocol | None) -> bool:
    """Whether every data set has validation queries; a valid_queries without them is a mistake."""
    everywhere = True
    for number, source in enumerate(sources):
        if source is None:  # what is wrong with it was said; most likely the protocol splits it
            everywhere &= protocol is None or protocol.has_validation
            continue
        if source.kind in _OWN_SPLIT:
            validated = source.kind != "fixed" or "valid" in source.files
        else:
            validated = protocol is None or protocol.has_validation
        if source.valid_queries is not None and not validated:
            message = f"{source.name} has no validation queries; expected some, or no valid_queries"
            problems.add(message, number, "valid_queries")
        everywhere &= validated
    return everywhere


def check_method(
    problems: Problems,
    table: Any,
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
    entries = problems.table(table, _KEYS, "[[method]]")
    if "scores" in entries:
        return _check_scores(problems, entries)
    if "method" not in entries:
        if not isinstance(table, dict) or "method" not in table:
            problems.add("[[method]] has no method; expected a name such as svm-map, or scores")
        return None
    text = entries["method"]
    if "choose_by" in entries:
        choose_by = _measure(problems.at("choose_by"), entries["choose_by"], parse_goal)
    spec = MethodSpec(
        name=entries.get("name", text),
        method=text,
        parameters=dict(entries.get("parameters", {})),
        grid=dict(entries.get("grid", {})),
        random=_random(problems.at("random"), entries),
        trained_for=entries.get("trained_for"),
        **({} if choose_by is None else {"choose_by": choose_by}),
    )
    if spec.is_feature:
        _check_feature(problems, entries, validated)
    elif text.startswith(ADAPT):
        _check_adapt(problems, spec, validated, data)
    else:
        names = (*NAMES, BEST_FEATURE, HINDSIGHT, "feature:NAME", *_ADAPT_NAMES)
        method = _parsed(problems.at("method"), text, names)
        if method is None:
            return None
        _check_grid(problems.at("grid"), spec, validated)
        not_set = set_elsewhere() | {"C_grid": "write the values under grid, as C"}
        for section in ("parameters", "grid"):
            _check_parameters(problems.at(section), getattr(spec, section), text, method, not_set)
        spec = _with_background(problems, spec, folders)
        if len(problems) == before:
            spec = _completed(problems, spec, method, choose_by, validated)
    return None if len(problems) > before else spec


def _check_scores(problems: Problems, entries: Mapping[str, Any]) -> MethodSpec | None:
    """Scores of another system, with nothing to train; whether its files are there is checked later."""
    others = [key for key in entries if key not in ("name", "scores", "trained_for")]
    for key in others:
        problems.add(f"[[method]] has scores and {key}; scores are used unchanged", key)
    text = entries["scores"]
    named = {"name": entries.get("name", text), "trained_for": entries.get("trained_for")}
    return None if others else MethodSpec(method=f"{SCORES}{text}", **named)


def _parsed(problems: Problems, text: str, names: Sequence[str]) -> Method | None:
    """The method of a name; None, with the mistake recorded, if there is none among the known."""
    try:
        return parse_method(text)
    except InputError as error:
        meant = counterpart(text) or nearest(text, names)
        problems.add(error.message if "cutoff" in error.message else f"unknown method {text!r}; {meant}")
        return None


def _check_feature(problems: Problems, entries: Mapping[str, Any], validated: bool) -> None:
    for key in ("parameters", "grid", "random"):
        if key in entries:
            problems.add(f"{entries['method']} does not take {key}; a feature is used unchanged", key)
    if entries["method"] == FEATURE:
        problems.add("which feature? expected a name or a number after feature:", "method")
    if entries["method"] == BEST_FEATURE and not validated:
        problems.add(f"{BEST_FEATURE} is chosen on validation queries; not every data set has some", "method")


def _check_adapt(problems: Problems, spec: MethodSpec, validated: bool, data: Sequence[Any]) -> None:
    """An adaptation needs a background in every data set."""
    text, name = spec.method, spec.method.removeprefix(ADAPT)
    if not problems.choice(text, _ADAPT_NAMES, "method", "method"):
        return
    rules = {key: rule for key, (rule, ways) in _ADAPT_PARAMETERS.items() if name in ("auto", *ways)}
    parameters = problems.at("parameters").table(
        spec.parameters, rules, f"the parameters of {text}", {"weights": "kind of weights"}
    )
    _check_in_domain(problems.at("parameters"), parameters)
    _check_boosting(problems.at("parameters", "boosting_settings"), parameters.get("boosting_settings", {}), name)
    _check_adapt_grid(problems, spec, validated, [key for key in _BOOSTING_RULES if key in rules and key != "trees"])
    if not validated:
        problems.add(f"{text} chooses on validation queries; not every data set has some", "method")
    for entry in (entry for entry in data if isinstance(entry, dict)):
        _check_backgrounds(problems, spec, entry)


def _check_backgrounds(problems: Problems, spec: MethodSpec, entry: Mapping[str, Any]) -> None:
    """A data set has the backgrounds that an adaptation uses."""
    text, called = spec.method, entry.get("name", "[[data]]")
    listed = entry.get(BACKGROUND)
    tables = [table for table in (listed if isinstance(listed, list) else [listed]) if isinstance(table, dict)]
    if not listed:
        problems.add(f"{text} adapts a background ranker; {called} has none, expected [data.background]", "method")
        return
    names = [table["name"] for table in tables if isinstance(table.get("name"), str)]
    names += [BACKGROUND] * any("name" not in table for table in tables)
    wanted = spec.parameters.get(BACKGROUNDS, [])
    for name in [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []:
        if isinstance(name, str) and name not in names:
            message = f"{called} has no background {name!r}; {nearest(name, names)}"
            problems.add(message, "parameters", BACKGROUNDS)
    if wanted == [] and BACKGROUNDS in spec.parameters:
        problems.add("backgrounds is empty; expected at least one name", "parameters", BACKGROUNDS)
    used = [table for table in tables if spec.adapts(str(table.get("name", BACKGROUND)))]
    if text.removeprefix(ADAPT) in NEED_DATA and used and not any("features" in table for table in used):
        reason = f"the background of {called} has no features"
        problems.add(f"{text} takes neighbours from the background data; {reason}", "method")


def _check_in_domain(problems: Problems, parameters: Mapping[str, Any]) -> None:
    text, settings = parameters.get("in_domain", IN_DOMAIN), parameters.get("in_domain_settings", {})
    before = len(problems)
    method = _parsed(problems.at("in_domain"), text, NAMES)
    if method is None:
        return
    problems = problems.at("in_domain_settings")
    not_set = set_elsewhere() | {"background": "it is trained on the in-domain data alone"}
    _check_parameters(problems, settings, text, method, not_set)
    if len(problems) == before:
        planned = _planned(MethodSpec(text, text, settings), {}, validated=True)
        if not isinstance(planned, Plan):
            problems.add(planned.message)


def _check_boosting(problems: Problems, settings: Mapping[str, Any], way: str) -> None:
    """Further parameters of boosting: each way takes those that it has."""
    ways = BOOSTING if way == "auto" else (way,)
    if not settings:
        return
    try:
        boosting_parameters(settings, ways)
    except InputError as error:
        problems.add(error.message)
        return
    for method in ways:
        known = parse_method(method).defaults()
        settings_of_it = {name: value for name, value in settings.items() if name in known}
        planned = _planned(MethodSpec(method, method, settings_of_it), {}, validated=True)
        if not isinstance(planned, Plan):
            problems.add(planned.message)
            return


def _check_adapt_grid(problems: Problems, spec: MethodSpec, validated: bool, settings: Sequence[str]) -> None:
    """A grid of an adaptation has lists of the settings of boosting."""
    if spec.random is not None:
        problems.add(f"{spec.method} does not take random; it tries every point of its grid", "random")
    problems = problems.at("grid")
    if spec.grid and not settings:
        problems.add(f"{spec.method} does not take grid; it chooses on validation queries by itself")
        return
    _check_grid(problems, spec, validated)
    for key, values in spec.grid.items():
        if key not in settings:
            problems.add(f"{spec.method} chooses no {key!r}; expected one of {', '.join(settings)}", key)
        elif isinstance(values, list):
            for value in values:
                problems.table({key: value}, _BOOSTING_RULES, f"the grid of {spec.method}")


def _random(problems: Problems, entries: Mapping[str, Any]) -> int | None:
    if "random" not in entries:
        return None
    table = problems.table(entries["random"], {"n": toml.COUNT}, "random")
    if "n" not in entries["random"]:
        problems.add("random has no n; expected the number of points to draw")
    if "grid" not in entries:
        problems.add("nothing to draw from; expected a grid with lists or ranges")
    return table.get("n")


def _check_grid(problems: Problems, spec: MethodSpec, validated: bool) -> None:
    if spec.grid and not validated:
        problems.add("a grid needs validation queries to choose on; not every data set has some")
    for key, values in spec.grid.items():
        if isinstance(values, list):
            if not values:
                problems.add(f"the grid of {key} is empty; expected at least one value", key)
        elif isinstance(values, dict):
            table = problems.at(key).table(values, _RANGE, f"the range of {key}")
            low, high = table.get("low"), table.get("high")
            if low is None or high is None or not low < high:
                problems.add(f"the range of {key} is from {low} to {high}; expected low below high", key)
            elif table.get("log") and low <= 0:
                problems.add(f"the range of {key} starts at {low}; expected a number above 0 for log", key)
            if spec.random is None:
                problems.add(f"the grid of {key} is a range; expected random = {{n = 20}} to draw from it", key)
        else:
            problems.add(f"the grid of {key} is {values!r}; expected a list of values, or a range", key)
        if key in spec.parameters:
            problems.add(f"{key} is also among the parameters; expected it once", key)


def _check_parameters(
    problems: Problems, names: Iterable[str], text: str, method: Method, not_set: Mapping[str, str]
) -> None:
    settable = [name for name in method.defaults() if name not in not_set]
    for name in names:
        if name in not_set:
            problems.add(f"{name} cannot be set here: {not_set[name]}", name)
        elif name not in settable and not method.is_open:
            meant = hint(name, settable) or nearest(name, sorted(settable))
            problems.add(f"{text} has no parameter {name!r}; {meant}", name)


def _with_background(problems: Problems, spec: MethodSpec, folders: Sequence[Path]) -> MethodSpec:
    """The parameter background is the path of a model file."""
    if "background" in spec.grid:
        problems.add("background cannot be chosen; expected it among the parameters", "grid", "background")
    if "background" not in spec.parameters:
        return spec
    value = spec.parameters["background"]
    path = find(value, folders) if isinstance(value, str) else None
    if path is None:
        problems.add(f"background is {value!r}; expected an existing model file", "parameters", "background")
        return spec
    return dataclasses.replace(spec, parameters={**spec.parameters, "background": str(path)})


def _completed(
    problems: Problems, spec: MethodSpec, method: Method, choose_by: Measure | None, validated: bool
) -> MethodSpec:
    """The entry with its defaults filled in, after every value of its grid was checked."""
    first = {key: values[0] if isinstance(values, list) else values["low"] for key, values in spec.grid.items()}
    planned = _planned(spec, {}, validated)
    if not isinstance(planned, Plan):
        alone = {key: dataclasses.replace(spec, parameters={key: spec.parameters[key]}) for key in spec.parameters}
        key = next((key for key in alone if not isinstance(_planned(alone[key], {}, validated), Plan)), None)
        problems.add(planned.message, "parameters", *([] if key is None else [key]))
        return spec
    listed = (
        (key, value)
        for key, values in spec.grid.items()
        for value in (values if isinstance(values, list) else (values["low"], values["high"]))
    )
    for key, value in itertools.islice(listed, _MOST_CHECKED):
        at_point = _planned(spec, {**first, key: value}, validated)
        if not isinstance(at_point, Plan):
            problems.add(at_point.message, "grid", key)
            return spec
    goal = spec.trained_for or _trained_for(spec, method, planned)
    return dataclasses.replace(spec, choose_by=choose_by or planned.measure, trained_for=goal)


def _planned(spec: MethodSpec, point: Mapping[str, Any], validated: bool) -> Plan | InputError:
    """The plan of a point, or what is wrong with its parameters."""
    try:
        return make_plan(spec, point, measure=None, validated=validated)
    except InputError as error:
        return error


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
