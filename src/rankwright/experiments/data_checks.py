"""Checks a ``[[data]]`` entry: finds its files next to the experiment file or in the data folder, and their formats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rankwright.data.cleaning import Cleaner
from rankwright.data.fusion import NORMALIZATIONS
from rankwright.errors import InputError
from rankwright.experiments.config import DataSource
from rankwright.experiments.preparing import OPEN
from rankwright.experiments.toml import (
    COLUMNS,
    COUNT,
    NUMBER,
    PATHS,
    TABLES,
    TEXT,
    TEXTS,
    TRUTH,
    TRUTH_OR_TABLE,
    Place,
    Problems,
    choice,
)
from rankwright.io.detect import FEATURE_FORMATS, detect
from rankwright.rankers.parameters import Rule

PYTHON_DOCS = "python-docs"
_SOURCES = ("features", "folds", "train", "collection", "runs")
_ANY = {
    "name": TEXT,
    "queries": TEXT,
    "part": TEXT,
    "train_queries": COUNT,
    "valid_queries": COUNT,
    "open_test": PATHS,
    "missing_as_zero": TRUTH,
    "clean": TRUTH_OR_TABLE,
    "without": COLUMNS,
    "without_best": TRUTH,
    "background": TABLES,
}
_KEYS: dict[str, dict[str, Rule]] = {
    "features": {"features": PATHS, "negative_as_zero": TRUTH},
    "folds": {"folds": PATHS, "negative_as_zero": TRUTH},
    "train": {"train": TEXT, "valid": TEXT, "test": TEXT, "negative_as_zero": TRUTH},
    "collection": {
        "collection": TEXT,
        "qrels": TEXT,
        "feature_sets": TEXTS,
        "feature_names": TEXTS,
        "per_field": TRUTH,
        "depth": COUNT,
        "candidates": choice(("union", "judged")),
    },
    "runs": {
        "runs": PATHS,
        "qrels": TEXT,
        "normalize": choice(NORMALIZATIONS),
        "documents": choice(("retrieved", "judged", "either")),
    },
}
_CLEAN = {"threshold": NUMBER, "relevant_from": NUMBER, "scaled": TRUTH}
_NO_OPTIONS = ("name", "queries", "qrels", "train_queries", "valid_queries", "open_test", "without_best", "background")
_ROLES = {"train": "train", "vali": "valid", "test": "test"}
_FOLD = re.compile(r"fold[-_ ]?\d+", re.IGNORECASE)
_PART = re.compile(r"S\d+\b.*")
_COLLECTION = ("docs", "queries", "qrels")


def check_data(problems: Problems, table: Any, place: Place, folders: Sequence[Path]) -> DataSource | None:
    """One entry; None, with the mistakes recorded, if it cannot be used."""
    if not isinstance(table, dict):
        problems.add(place, f"[[data]] is {table!r}; expected a table")
        return None
    keys_known = {key for keys in _KEYS.values() for key in keys} | set(_ANY)
    sources = [key for key in _SOURCES if key in table]
    if len(sources) != 1:
        what = f"has {' and '.join(sources)}" if sources else "names no source"
        problems.add(place, f"[[data]] {what}; expected one of {', '.join(_SOURCES)}")
        for key in (key for key in table if key not in keys_known):
            problems.table({key: None}, place, dict.fromkeys(sorted(keys_known), TEXT), "[[data]]")
        return None
    source = sources[0]
    before = len(problems)
    entries = problems.table(table, place, _ANY | _KEYS[source], f"[[data]] with {source}")
    if "name" not in table:
        problems.add(place, "[[data]] has no name; expected one for the results")
    if len(problems) > before:
        return None
    finder = Finder(problems, place, folders)
    kind, files = getattr(finder, f"of_{source}")(entries)
    if "queries" in entries:
        files |= finder.one("queries", entries["queries"])
    if "open_test" in entries:
        files |= finder.open_test(entries["open_test"], files)
    _check_texts(problems, entries, place)
    _check_clean(problems, entries, place)
    for key in ("without", "without_best"):
        if key in entries and "background" in entries:
            problems.add((*place, key), f"{key} does not go with a background; expected the same features in both")
    options = {key: value for key, value in entries.items() if key not in (*_NO_OPTIONS, *_paths(source))}
    used: dict[str, Any] = {key: entries.get(key) for key in ("train_queries", "valid_queries", "without_best")}
    return None if len(problems) > before else DataSource(entries["name"], kind, files, options, **used)


def _paths(source: str) -> tuple[str, ...]:
    """The keys of paths; ``collection`` stays an option, as it may be a name instead."""
    return {"train": ("train", "valid", "test"), "collection": ()}.get(source, (source,))


def find(text: str, folders: Sequence[Path]) -> Path | None:
    """A file or folder in the first of the folders that has it."""
    return next((folder / text for folder in folders if (folder / text).exists()), None)


class Finder:
    """Finds files, and records those that are missing or of another format."""

    def __init__(self, problems: Problems, place: Place, folders: Sequence[Path]) -> None:
        self._problems, self._place, self._folders = problems, place, folders

    def of_features(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """Feature files."""
        files = self._several("features", entries["features"])
        return "features", self._checked("features", files, FEATURE_FORMATS)

    def of_train(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """Files of a fixed split."""
        files: dict[str, Path] = {}
        for role in ("train", "valid", "test"):
            if role in entries:
                files |= self._checked(role, self.one(role, entries[role]), FEATURE_FORMATS)
            elif role == "test" and "open_test" not in entries:
                self._add("train", "no test; expected a file to test on")
        for one, other in (("train", "test"), ("valid", "test"), ("train", "valid")):
            if one in files and other in files and files[one].samefile(files[other]):
                self._add(other, f"{one} and {other} are the same file; expected different queries")
        return "fixed", files

    def of_folds(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """Folders with a fold each, or the parts S1 … S5."""
        paths = list(self._several("folds", entries["folds"]).values())
        if len(paths) < (1 if isinstance(entries["folds"], str) else len(entries["folds"])):
            return "parts", {}
        if len(paths) == 1 and paths[0].is_dir() and not (paths[0] / "rankwright.json").is_file():
            inside = sorted(paths[0].iterdir(), key=_natural)
            folds = [entry for entry in inside if entry.is_dir() and _FOLD.fullmatch(entry.name)]
            parts = [entry for entry in inside if _PART.fullmatch(entry.name)]
            paths = folds or parts or paths
        if all(path.is_dir() and not (path / "rankwright.json").is_file() for path in paths):
            files: dict[str, Path] = {}
            for number, folder in enumerate(paths, 1):
                files |= {f"{number}/{role}": path for role, path in self._fold(folder).items()}
            return "folds", self._checked("folds", files, FEATURE_FORMATS)
        if len(paths) < 3:
            what = f"folds has {len(paths)} part{'s' * (len(paths) != 1)}"
            self._add(
                "folds", f"{what}; expected at least 3, such as S1 … S5, or folders with train, vali and test files"
            )
        return "parts", self._checked("folds", {str(n): path for n, path in enumerate(paths, 1)}, FEATURE_FORMATS)

    def _fold(self, folder: Path) -> dict[str, Path]:
        files: dict[str, Path] = {}
        for start, role in _ROLES.items():
            here = sorted(path for path in folder.iterdir() if path.name.lower().startswith(start))
            if len(here) != 1:
                names = ", ".join(path.name for path in here) or "none"
                self._add("folds", f"{folder} has no single file whose name starts with {start}: {names}")
            else:
                files[role] = here[0]
        return files

    def of_collection(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """Documents, queries and judgements in a folder."""
        from rankwright.text.features import FEATURE_SETS

        for number, name in enumerate(entries.get("feature_sets", [])):
            self._problems.choice(name, (*self._place, "feature_sets", number), FEATURE_SETS, "set of features")
        if not entries.get("feature_sets", ["base"]) and not entries.get("feature_names"):
            self._add("feature_sets", "no features; expected feature_sets or feature_names")
        if entries["collection"] == PYTHON_DOCS:
            return "collection", {}
        folder = find(entries["collection"], self._folders)
        if folder is None or not folder.is_dir():
            where = " or ".join(map(str, self._folders))
            what = f"no folder {entries['collection']} in {where}"
            self._add("collection", f"{what}; expected {PYTHON_DOCS} or a folder with {', '.join(_COLLECTION)}")
            return "collection", {}
        files: dict[str, Path] = {}
        for role in _COLLECTION:
            here = sorted(path for path in folder.iterdir() if path.name.lower().startswith(role))
            if role in entries:
                files |= self.one(role, entries[role])
            elif len(here) != 1:
                names = ", ".join(path.name for path in here) or "none"
                self._add("collection", f"{folder} has no single file whose name starts with {role}: {names}")
            else:
                files[role] = here[0]
        return "collection", files

    def of_runs(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """TREC runs and judgements."""
        patterns = [entries["runs"]] if isinstance(entries["runs"], str) else entries["runs"]
        files: dict[str, Path] = {}
        for number, pattern in enumerate(patterns):
            folder = next((folder for folder in self._folders if any(folder.glob(pattern))), None)
            if folder is None:
                self._missing(("runs", number), pattern)
                continue
            for path in sorted(folder.glob(pattern), key=_natural):
                name = path.name.removesuffix(".gz").removesuffix(".run")
                if f"run {name}" in files:
                    self._add("runs", f"duplicate run name {name}; expected different names")
                files[f"run {name}"] = path
        files = self._checked("runs", files, ("run",))
        if "qrels" not in entries:
            self._add("runs", "no qrels; expected the judgements for the runs")
        else:
            files |= self._checked("qrels", self.one("qrels", entries["qrels"]), ("qrels",))
        return "runs", files

    def open_test(self, texts: str | list[str], others: Mapping[str, Path]) -> dict[str, Path]:
        """Feature files to test on, all different from the others."""
        files = self.feature_files("open_test", texts, others)
        return {f"{OPEN}{number}": path for number, path in files.items()}

    def feature_files(self, key: str, texts: str | list[str], others: Mapping[str, Path]) -> dict[str, Path]:
        """The feature files of a key by number, all different from ``others``."""
        files = self._checked(key, self._several(key, texts), FEATURE_FORMATS)
        for path in files.values():
            if any(path.samefile(other) for other in others.values()):
                self._add(key, f"{path.name} is already used by the data set; expected other data")
        return files

    def one(self, key: str, text: str) -> dict[str, Path]:
        """The file of a key, by that key; empty if it is missing."""
        path = find(text, self._folders)
        if path is None:
            self._missing((key,), text)
        return {} if path is None else {key: path}

    def _several(self, key: str, texts: str | list[str]) -> dict[str, Path]:
        files: dict[str, Path] = {}
        listed = [texts] if isinstance(texts, str) else texts
        if not listed:
            self._add(key, f"{key} is empty; expected at least one file")
        for number, text in enumerate(listed):
            path = find(text, self._folders)
            if path is None:
                self._missing((key, number), text)
            else:
                files[str(number + 1)] = path
        return files

    def _missing(self, place: Place, text: str) -> None:
        where = " or ".join(str(folder) for folder in self._folders)
        self._problems.add((*self._place, *place), f"no {text} in {where}; expected a file or folder")

    def _checked(self, key: str, files: dict[str, Path], kinds: Sequence[str]) -> dict[str, Path]:
        """Files, all checked to be of one of the formats."""
        for path in files.values():
            try:
                kind = detect(path)
            except InputError as error:
                self._add(key, f"{path}: {error.message}")
                continue
            if kind not in kinds:
                self._add(key, f"{path} contains {kind}; expected {' or '.join(kinds)}")
        return files

    def _add(self, key: str, message: str) -> None:
        self._problems.add((*self._place, key), message)


def _check_texts(problems: Problems, entries: Mapping[str, Any], place: Place) -> None:
    from rankwright.text.queries import PARTS

    for part in entries.get("part", "title").split("+"):
        problems.choice(part.strip().lower(), (*place, "part"), PARTS, "part of a topic")


def _check_clean(problems: Problems, entries: dict[str, Any], place: Place) -> None:
    """Fill in how the data is cleaned; data that is not cleaned has no such key."""
    asked = entries.pop("clean", False)
    if asked is False:
        return
    at = (*place, "clean")
    settings = problems.table({} if asked is True else asked, at, _CLEAN, "clean")
    for key, value in settings.items():
        try:
            Cleaner(**{key: value})
        except InputError as error:
            problems.add((*at, key), error.message)
            return
    entries["clean"] = asdict(Cleaner(**settings))


def _natural(path: Path) -> list[Any]:
    """Sort key that puts Fold2 before Fold10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", path.name)]
