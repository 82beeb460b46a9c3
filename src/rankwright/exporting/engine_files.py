"""What an engine needs beside a model: names that it allows, a feature set, and requests to log and to search with."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from rankwright.exporting.counterparts import FeatureSet
from rankwright.exporting.feature_sets import engine_features, engine_names
from rankwright.exporting.form import Form
from rankwright.exporting.target import Options, Scorer, Target, Written

__all__ = ["features_of", "with_features"]

_NAMES, _REPORT = "feature_names.json", "features.txt"
_IN_THE_MODEL = "feature_extractors.json"


def features_of(engine: str, form: Form, options: Options) -> FeatureSet:
    """The features that a form uses, in an engine; all of them where features go by number."""
    used = None if options.form == "ranklib" else form.used.tolist()
    return engine_features(engine, form.names, used=used, model=options.name, feature_set=options.feature_set)


def with_features(target: Target) -> Target:
    """A target for an engine, with names that the engine allows, and files that define the features there.

    The target's own example request is replaced by one that asks the fields of the features.
    """

    def renamed(form: Form) -> Form:
        called = engine_names(target.name, form.names)
        return dataclasses.replace(form, names=tuple(called[name] for name in form.names))

    def write(form: Form, options: Options) -> Written:
        written = target.write(renamed(form), options)
        said = None if written.said is None else dataclasses.replace(written.said, names=form.names)
        made = features_of(target.name, form, options)
        note = f"{made.summary()}; see {_REPORT}"
        return dataclasses.replace(written, notes=(*written.notes, note), said=said)

    def read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
        called = engine_names(target.name, names)
        return target.read(files, tuple(called[name] for name in names))

    def request(form: Form, options: Options, row: Mapping[str, Any]) -> dict[str, bytes]:
        made = features_of(target.name, form, options)
        files = {name: text for name, text in made.files.items() if name != _IN_THE_MODEL}
        called = engine_names(target.name, form.names)
        changed = {name: called[name] for name in (one.name for one in made.counterparts) if called[name] != name}
        if changed:
            files[_NAMES] = json.dumps(changed, indent=1, ensure_ascii=False) + "\n"
        files[_REPORT] = made.report()
        return {name: text.encode() for name, text in files.items()}

    def refusal(form: Form, options: Options) -> str | None:
        return target.refusal(renamed(form), options)

    return dataclasses.replace(target, refusal=refusal, write=write, read=read, request=request)
