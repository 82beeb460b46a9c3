"""One ``[[method]]`` entry: whether the method, its parameters and its grid are there and make sense."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.errors import InputError
from rankwright.experiments.adapt_checks import adapt_names, check_adapt
from rankwright.experiments.config import ADAPT, BEST_FEATURE, FEATURE, MethodSpec
from rankwright.experiments.finding import find
from rankwright.experiments.problems import Problems, nearest
from rankwright.experiments.toml_lines import Place
from rankwright.experiments.tuning import make_ranker
from rankwright.measures import parse_measure
from rankwright.training.methods import NAMES, Method, parse_method

__all__ = ["check_measure", "check_method"]

_KEYS = {
    "name": "a text",
    "method": "a text",
    "parameters": "a table",
    "grid": "a table",
    "random": "a table",
    "choose_by": "a text",
    "trained_for": "a text",
}
_RANGE = {"low": "a number", "high": "a number", "log": "true or false"}
# Parameters that the experiment sets, and what to write instead.
_NOT_SET = {
    "loss": "it follows from the method; svm-combo has losses",
    "C_grid": "write the values under grid, as C",
    "eval_measure": "write choose_by beside method",
    "n_jobs": "use --jobs",
    "callback": "it is for Python only",
    "warm_start": "it is for Python only",
}
_MOST_CHECKED = 1000  # points of a grid that are made on trial


def check_method(
    problems: Problems,
    table: Any,
    place: Place,
    choose_by: str | None,
    validated: bool,
    folders: Sequence[Path],
    data: Sequence[Any] = (),
) -> MethodSpec | None:
    """One entry; None, and what is wrong noted, where it cannot be used.

    Parameters
    ----------
    data : sequence of dict
        The entries [[data]] as they stand in the file: methods that adapt need their backgrounds.
    """
    before = len(problems.found)
    found = problems.table(table, place, _KEYS, "[[method]]")
    if "method" not in found:
        if not isinstance(table, dict) or "method" not in table:
            problems.add(place, "[[method]] has no method; expected a name such as svm-map")
        return None
    text = found["method"]
    spec = MethodSpec(
        name=found.get("name", text),
        method=text,
        parameters=dict(found.get("parameters", {})),
        grid=dict(found.get("grid", {})),
        random=_random(problems, found, place),
        choose_by=found.get("choose_by", choose_by or ""),
        trained_for=found.get("trained_for"),
    )
    if "choose_by" in found:
        check_measure(problems, (*place, "choose_by"), spec.choose_by)
    if text.startswith(FEATURE) or text == BEST_FEATURE:
        spec = _with(spec, choose_by=spec.choose_by or "nDCG@10")
        _check_feature(problems, found, place, validated)
    elif text.startswith(ADAPT):
        spec = _with(spec, choose_by=spec.choose_by or "nDCG@10")
        check_adapt(problems, found, place, validated, data)
    else:
        method = _parsed(problems, text, place)
        if method is None:
            return None
        _check_grid(problems, spec, place, validated)
        _check_names(problems, spec, method, place)
        spec = _with_background(problems, spec, place, folders)
        if len(problems.found) == before:
            spec = _completed(problems, spec, method, place, validated)
    if len(problems.found) > before:
        return None
    return _with(spec, choose_by=str(parse_measure(spec.choose_by)))


def _with(spec: MethodSpec, **changes: Any) -> MethodSpec:
    return MethodSpec(**{**vars(spec), **changes})


def _parsed(problems: Problems, text: str, place: Place) -> Method | None:
    try:
        return parse_method(text)
    except InputError as error:
        known = (*NAMES, BEST_FEATURE, "feature:NAME", *adapt_names())
        message = error.message if "cutoff" in error.message else f"unknown method {text!r}; {nearest(text, known)}"
        problems.add((*place, "method"), message)
        return None


def check_measure(problems: Problems, place: Place, measure: str) -> bool:
    """Whether there is such a measure; noted if there is not."""
    try:
        parse_measure(measure)
    except InputError as error:
        problems.add(place, error.message)
        return False
    return True


def _check_feature(problems: Problems, found: Mapping[str, Any], place: Place, validated: bool) -> None:
    """A single feature has nothing to set."""
    for key in ("parameters", "grid", "random"):
        if key in found:
            problems.add((*place, key), f"{key} does not go with {found['method']}; a feature is taken as it is")
    if found["method"] == FEATURE:
        problems.add((*place, "method"), "which feature? expected a name or a number after feature:")
    if found["method"] == BEST_FEATURE and not validated:
        problems.add((*place, "method"), f"{BEST_FEATURE} is chosen on validation queries, and not all data have some")


def _random(problems: Problems, found: Mapping[str, Any], place: Place) -> int | None:
    if "random" not in found:
        return None
    place = (*place, "random")
    table = problems.table(found["random"], place, {"n": "a whole number from 1"}, "random")
    if "n" not in found["random"]:
        problems.add(place, "random has no n; expected the number of points to draw")
    if "grid" not in found:
        problems.add(place, "there is nothing to draw from; expected a grid with lists or ranges")
    return table.get("n")


def _check_grid(problems: Problems, spec: MethodSpec, place: Place, validated: bool) -> None:
    """Lists that hold something, or ranges."""
    place = (*place, "grid")
    if spec.grid and not validated:
        problems.add(place, "a grid is chosen from on validation queries, and not all data have some")
    for key, values in spec.grid.items():
        here = (*place, key)
        if isinstance(values, list):
            if not values:
                problems.add(here, f"the grid of {key} is empty; expected at least one value")
        elif isinstance(values, dict):
            table = problems.table(values, here, _RANGE, f"the range of {key}")
            low, high = table.get("low"), table.get("high")
            if low is None or high is None or not low < high:
                problems.add(here, f"the range of {key} is from {low} to {high}; expected a low below a high")
            elif table.get("log") and low <= 0:
                problems.add(here, f"the range of {key} begins at {low}; expected a number above 0 for log")
            if spec.random is None:
                problems.add(here, f"the grid of {key} is a range; expected random = {{n = 20}} to draw from it")
        else:
            problems.add(here, f"the grid of {key} is {values!r}; expected a list of values, or a range")
        if key in spec.parameters:
            problems.add(here, f"{key} is among the parameters too; expected it once")


def _check_names(problems: Problems, spec: MethodSpec, method: Method, place: Place) -> None:
    """Parameters that the method has."""
    known = [key for key in method.defaults() if key not in _NOT_SET]
    for section in ("parameters", "grid"):
        for key in getattr(spec, section):
            here = (*place, section, key)
            if key in _NOT_SET and key not in known:
                problems.add(here, f"{key} cannot be set here: {_NOT_SET[key]}")
            elif key not in known:
                problems.add(here, f"{spec.method} has no parameter {key!r}; {nearest(key, sorted(known))}")
    if method.name == "svm-combo" and "losses" not in (*spec.parameters, *spec.grid):
        problems.add(place, 'svm-combo needs losses; expected parameters with losses = ["map", "mrr@10"] or others')


def _with_background(problems: Problems, spec: MethodSpec, place: Place, folders: Sequence[Path]) -> MethodSpec:
    """A background model is the path of a file."""
    if "background" in spec.grid:
        problems.add((*place, "grid", "background"), "background cannot be chosen; expected it among the parameters")
    if "background" not in spec.parameters:
        return spec
    place, value = (*place, "parameters", "background"), spec.parameters["background"]
    path = find(value, folders) if isinstance(value, str) else None
    if path is None:
        problems.add(place, f"background is {value!r}; expected a model file that is there")
        return spec
    return _with(spec, parameters={**spec.parameters, "background": str(path)})


def _completed(problems: Problems, spec: MethodSpec, method: Method, place: Place, validated: bool) -> MethodSpec:
    """The entry with what it left open; every value of the grid is tried in an estimator that is not trained."""
    wrong = _complaint(spec, {}, validated)
    if wrong is not None:
        alone = {
            key: _complaint(_with(spec, parameters={key: spec.parameters[key]}), {}, validated)
            for key in spec.parameters
        }
        key = next((key for key in spec.parameters if alone[key] is not None), None)
        problems.add((*place, "parameters", *([] if key is None else [key])), _said(wrong, key, spec.parameters))
        return spec
    for key, point in _single_changes(spec):
        wrong = _complaint(spec, point, validated)
        if wrong is not None:
            problems.add((*place, "grid", key), _said(wrong, key, point))
            return spec
    settings = {key: spec.parameters[key] for key in ("losses", "relevant_from") if key in spec.parameters}
    own = str(method.make(**settings).measure_to_choose_by())
    goal = spec.trained_for or _trained_for(spec, method, own)
    return _with(spec, choose_by=spec.choose_by or own, trained_for=goal)


def _complaint(spec: MethodSpec, point: Mapping[str, Any], validated: bool) -> Exception | None:
    """What an estimator says about its parameters."""
    try:
        make_ranker(spec, point, choose_by=spec.choose_by or "nDCG@10", tuned=validated)
    except Exception as error:  # any kind: of comparing a text with a number, for example
        return error
    return None


def _said(error: Exception, key: str | None, values: Mapping[str, Any]) -> str:
    if isinstance(error, InputError):
        return error.message
    return (
        f"{key or 'a parameter'} is {values.get(key or '')!r}, which cannot be used ({type(error).__name__}: {error})"
    )


def _single_changes(spec: MethodSpec) -> list[tuple[str, dict[str, Any]]]:
    """Each value of the grid alone, the others being the first of their lists."""
    first = {key: values[0] if isinstance(values, list) else values["low"] for key, values in spec.grid.items()}
    changes = [
        (key, {**first, key: value})
        for key, values in spec.grid.items()
        for value in (values if isinstance(values, list) else (values["low"], values["high"]))
    ]
    return list(itertools.islice(changes, _MOST_CHECKED))


def _trained_for(spec: MethodSpec, method: Method, own: str) -> str | None:
    """What a method is trained for, where that is a measure."""
    if method.loss is not None:
        return own
    if method.name == "svm-combo" and "losses" in spec.parameters:
        from rankwright.rankers.losses import parse_losses

        return " + ".join(str(loss.measure) for loss in parse_losses(spec.parameters["losses"]))
    measure = method.defaults().get("measure") if "measure" not in spec.parameters else spec.parameters["measure"]
    return None if measure is None or "measure" in spec.grid else str(parse_measure(measure))
