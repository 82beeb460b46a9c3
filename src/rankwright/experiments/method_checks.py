"""Checks a ``[[method]]`` entry: the method, its parameters, its grid, and the backgrounds that adaptations need."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.adaptation.methods import IN_DOMAIN, METHODS, NEED_DATA
from rankwright.errors import InputError
from rankwright.experiments.config import ADAPT, BACKGROUND, BACKGROUNDS, BEST_FEATURE, FEATURE, HINDSIGHT, MethodSpec
from rankwright.experiments.data_checks import find
from rankwright.experiments.toml import Place, Problems, nearest
from rankwright.experiments.tuning import make_plan
from rankwright.measures import Measure, parse_goal, parse_measure
from rankwright.rankers.other_names import hint
from rankwright.training.methods import NAMES, Method, parse_method
from rankwright.training.other_methods import counterpart
from rankwright.training.train import Plan

__all__ = ["check_measure", "check_method"]

_KEYS = {
    "name": "a string",
    "method": "a string",
    "parameters": "a table",
    "grid": "a table",
    "random": "a table",
    "choose_by": "a string",
    "trained_for": "a string",
}
_RANGE = {"low": "a number", "high": "a number", "log": "true or false"}
# Parameters that the experiment sets, and what to write instead.
_NOT_SET = {
    "loss": "it follows from the method; svm-combo has losses",
    "C_grid": "write the values under grid, as C",
    "eval_measure": "write choose_by next to method",
    "n_jobs": "use --threads",
    "callback": "it is for Python only",
    "warm_start": "it is for Python only",
}
_MOST_CHECKED = 1000  # points of a grid whose parameters are checked
# Parameters of adaptations, and the adaptations that have them besides auto.
_BOOSTING = {
    "leaves": "an integer of at least 2",
    "rate": "a number above 0",
    "trees": "a positive integer",
    "randomize_nodes": "true or false",
}
_ADAPT_PARAMETERS = _BOOSTING | {
    BACKGROUNDS: "a string or a list of strings",
    "in_domain": "a string",
    "in_domain_settings": "a table",
    "weights": "a string",
}
_TRAIN_OWN = ("in-domain", "interpolate", "augment", "interpolate-3")
_HAVE = {
    "leaves": ("lambdamart",),
    "rate": ("lambdamart", "lambdaboost"),
    "trees": ("lambdamart", "lambdaboost"),
    "randomize_nodes": ("lambdamart",),
    BACKGROUNDS: ("background", "interpolate", "augment", "interpolate-3", "lambdaboost", "lambdamart"),
    "in_domain": _TRAIN_OWN,
    "in_domain_settings": _TRAIN_OWN,
    "weights": ("background", "interpolate", "interpolate-3", "lambdaboost", "lambdamart"),
}


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

    Parameters
    ----------
    choose_by : Measure or None
        The measure that chooses in the whole experiment.
    validated : bool
        Whether every data set has validation queries.
    folders : sequence of Path
        Where files are searched.
    data : sequence of dict
        The [[data]] entries of the file, whose backgrounds are adapted.
    """
    before = len(problems)
    found = problems.table(table, place, _KEYS, "[[method]]")
    if "method" not in found:
        if not isinstance(table, dict) or "method" not in table:
            problems.add(place, "[[method]] has no method; expected a name such as svm-map")
        return None
    text = found["method"]
    if "choose_by" in found:
        choose_by = check_measure(problems, (*place, "choose_by"), found["choose_by"], parse_goal)
    spec = MethodSpec(
        name=found.get("name", text),
        method=text,
        parameters=dict(found.get("parameters", {})),
        grid=dict(found.get("grid", {})),
        random=_random(problems, found, place),
        trained_for=found.get("trained_for"),
        **({} if choose_by is None else {"choose_by": choose_by}),
    )
    if spec.is_feature:
        _check_feature(problems, found, place, validated)
    elif text.startswith(ADAPT):
        _check_adapt(problems, spec, place, validated, data)
    else:
        method = _parsed(problems, text, place)
        if method is None:
            return None
        _check_grid(problems, spec, place, validated)
        _check_names(problems, spec, method, place)
        spec = _with_background(problems, spec, place, folders)
        if len(problems) == before:
            spec = _completed(problems, spec, method, place, choose_by, validated)
    return None if len(problems) > before else spec


def _parsed(problems: Problems, text: str, place: Place) -> Method | None:
    try:
        return parse_method(text)
    except InputError as error:
        known = (*NAMES, BEST_FEATURE, HINDSIGHT, "feature:NAME", *_adapt_names())
        meant = counterpart(text) or nearest(text, known)
        message = error.message if "cutoff" in error.message else f"unknown method {text!r}; {meant}"
        problems.add((*place, "method"), message)
        return None


def _check_feature(problems: Problems, found: Mapping[str, Any], place: Place, validated: bool) -> None:
    """A single feature has no settings."""
    for key in ("parameters", "grid", "random"):
        if key in found:
            problems.add((*place, key), f"{found['method']} does not take {key}; a feature is used unchanged")
    if found["method"] == FEATURE:
        problems.add((*place, "method"), "which feature? expected a name or a number after feature:")
    if found["method"] == BEST_FEATURE and not validated:
        problems.add((*place, "method"), f"{BEST_FEATURE} is chosen on validation queries; not every data set has some")


def _adapt_names() -> list[str]:
    """The adaptations, and auto, as methods of an experiment."""
    return [ADAPT + name for name in (*METHODS, "auto")]


def _check_adapt(problems: Problems, spec: MethodSpec, place: Place, validated: bool, data: Sequence[Any]) -> None:
    """An adaptation needs a background in every data set."""
    text, name = spec.method, spec.method.removeprefix(ADAPT)
    here = (*place, "method")
    if not problems.choice(text, here, _adapt_names(), "method"):
        return
    known = {key: kind for key, kind in _ADAPT_PARAMETERS.items() if name == "auto" or name in _HAVE[key]}
    given = problems.table(spec.parameters, (*place, "parameters"), known, f"the parameters of {text}")
    _check_in_domain(problems, given, (*place, "parameters"))
    if "weights" in given:
        problems.choice(
            given["weights"], (*place, "parameters", "weights"), ("powell", "lambdarank"), "kind of weights"
        )
    _check_adapt_grid(problems, spec, place, validated, [key for key in _BOOSTING if key in known and key != "trees"])
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
    """The method of the in-domain ranker, and its parameters."""
    text, settings = given.get("in_domain", IN_DOMAIN), given.get("in_domain_settings", {})
    before = len(problems)
    try:
        method = parse_method(text)
    except InputError as error:
        meant = counterpart(text) or nearest(text, NAMES)
        message = error.message if "cutoff" in error.message else f"unknown method {text!r}; {meant}"
        problems.add((*place, "in_domain"), message)
        return
    place = (*place, "in_domain_settings")
    not_set = _NOT_SET | {"background": "it is trained on the in-domain data alone"}
    del not_set["C_grid"]
    known = [key for key in method.defaults() if key not in not_set]
    for key in settings:
        if key in not_set:
            problems.add((*place, key), f"{key} cannot be set here: {not_set[key]}")
        elif key not in known:
            problems.add(
                (*place, key), f"{text} has no parameter {key!r}; {hint(key, known) or nearest(key, sorted(known))}"
            )
    if len(problems) == before:
        try:
            make_plan(MethodSpec(text, text, settings), {}, measure=None, validated=True)
        except InputError as error:
            problems.add(place, error.message)


def _check_adapt_grid(
    problems: Problems, spec: MethodSpec, place: Place, validated: bool, known: Sequence[str]
) -> None:
    """A grid of an adaptation has lists of the settings of boosting."""
    if spec.random is not None:
        problems.add((*place, "random"), f"{spec.method} does not take random; it tries every point of its grid")
    if spec.grid and not known:
        what = f"{spec.method} does not take grid; it chooses on validation queries by itself"
        problems.add((*place, "grid"), what)
        return
    _check_grid(problems, spec, place, validated)
    for key, values in spec.grid.items():
        here = (*place, "grid")
        if key not in known:
            problems.add((*here, key), f"{spec.method} chooses no {key!r}; expected one of {', '.join(known)}")
        elif isinstance(values, list):
            for value in values:
                problems.table({key: value}, here, _BOOSTING, f"the grid of {spec.method}")


def _random(problems: Problems, found: Mapping[str, Any], place: Place) -> int | None:
    if "random" not in found:
        return None
    place = (*place, "random")
    table = problems.table(found["random"], place, {"n": "a positive integer"}, "random")
    if "n" not in found["random"]:
        problems.add(place, "random has no n; expected the number of points to draw")
    if "grid" not in found:
        problems.add(place, "nothing to draw from; expected a grid with lists or ranges")
    return table.get("n")


def _check_grid(problems: Problems, spec: MethodSpec, place: Place, validated: bool) -> None:
    """A grid consists of non-empty lists, or ranges."""
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


def _check_names(problems: Problems, spec: MethodSpec, method: Method, place: Place) -> None:
    """Every parameter exists."""
    known = [key for key in method.defaults() if key not in _NOT_SET]
    for section in ("parameters", "grid"):
        for key in getattr(spec, section):
            here = (*place, section, key)
            if key in _NOT_SET:
                problems.add(here, f"{key} cannot be set here: {_NOT_SET[key]}")
            elif key not in known:
                problems.add(
                    here, f"{spec.method} has no parameter {key!r}; {hint(key, known) or nearest(key, sorted(known))}"
                )


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
        found = _planned(spec, {**first, key: value}, validated)
        if not isinstance(found, Plan):
            problems.add((*place, "grid", key), found.message)
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
    """The values of the grid, by parameter; the ends of a range."""
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
        from rankwright.rankers.losses import parse_losses

        return " + ".join(str(loss.measure) for loss in parse_losses(losses))
    measure = getattr(planned.ranker, "measure", None)
    return None if measure is None or "measure" in spec.grid else str(parse_measure(measure))
