"""Checks a ``[[data]]`` entry: finds its files next to the experiment file or in the data folder, and their formats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rankwright.data.cleaning import Cleaner
from rankwright.data.fusion import NORMALIZATIONS
from rankwright.data.scaling import QUERY_SCALES
from rankwright.errors import InputError
from rankwright.experiments import toml
from rankwright.experiments.config import DataSource
from rankwright.experiments.preparing import OPEN
from rankwright.experiments.toml import Problems
from rankwright.io.detect import FEATURE_FORMATS, detect
from rankwright.rankers.parameters import Rule

PYTHON_DOCS = "python-docs"
_SOURCES = ("features", "folds", "train", "collection", "runs")
_ANY = {
    "name": toml.TEXT,
    "queries": toml.TEXT,
    "part": toml.TEXT,
    "train_queries": toml.COUNT,
    "valid_queries": toml.COUNT,
    "open_test": toml.PATHS,
    "missing_as_zero": toml.TRUTH,
    "scale": toml.choice(QUERY_SCALES),
    "clean": toml.TRUTH_OR_TABLE,
    "names": toml.TABLE,
    "without": toml.COLUMNS,
    "without_best": toml.TRUTH,
    "background": toml.TABLES,
}
_KEYS: dict[str, dict[str, Rule]] = {
    "features": {"features": toml.PATHS, "negative_as_zero": toml.TRUTH},
    "folds": {"folds": toml.PATHS, "negative_as_zero": toml.TRUTH},
    "train": {"train": toml.TEXT, "valid": toml.TEXT, "test": toml.TEXT, "negative_as_zero": toml.TRUTH},
    "collection": {
        "collection": toml.TEXT,
        "qrels": toml.TEXT,
        "feature_sets": toml.TEXTS,
        "feature_names": toml.TEXTS,
        "per_field": toml.TRUTH,
        "depth": toml.COUNT,
        "candidates": toml.choice(("union", "judged")),
    },
    "runs": {
        "runs": toml.PATHS,
        "qrels": toml.TEXT,
        "normalize": toml.choice(NORMALIZATIONS),
        "documents": toml.choice(("retrieved", "judged", "either")),
    },
}
_CLEAN = {"threshold": toml.NUMBER, "relevant_from": toml.NUMBER, "scaled": toml.TRUTH}
_NO_OPTIONS = ("name", "queries", "qrels", "train_queries", "valid_queries", "open_test", "without_best", "background")
_ROLES = {"train": "train", "vali": "valid", "test": "test"}
_FOLD = re.compile(r"fold[-_ ]?\d+", re.IGNORECASE)
_PART = re.compile(r"S\d+\b.*")
_COLLECTION = ("docs", "queries", "qrels")


def check_data(problems: Problems, table: Any, folders: Sequence[Path]) -> DataSource | None:
    """One entry; None, with the mistakes recorded, if it cannot be used."""
    from rankwright.text.queries import PARTS

    if not isinstance(table, dict):
        problems.add(f"[[data]] is {table!r}; expected a table")
        return None
    sources = [key for key in _SOURCES if key in table]
    if len(sources) != 1:
        given = f"has {' and '.join(sources)}" if sources else "names no source"
        problems.add(f"[[data]] {given}; expected one of {', '.join(_SOURCES)}")
        known = {key for keys in _KEYS.values() for key in keys} | set(_ANY)
        for key in (key for key in table if key not in known):
            problems.table({key: None}, dict.fromkeys(sorted(known), toml.TEXT), "[[data]]")
        return None
    source = sources[0]
    before = len(problems)
    entries = problems.table(table, _ANY | _KEYS[source], f"[[data]] with {source}")
    if "name" not in table:
        problems.add("[[data]] has no name; expected one for the results")
    if len(problems) > before:
        return None
    finder = Finder(problems, folders)
    kind, files = getattr(finder, f"of_{source}")(entries)
    if "queries" in entries:
        files |= finder.file("queries", entries["queries"])
    if "open_test" in entries:
        opened = finder.feature_files("open_test", entries["open_test"], files)
        files |= {f"{OPEN}{number}": path for number, path in opened.items()}
    for part in entries.get("part", "title").split("+"):
        problems.choice(part.strip().lower(), PARTS, "part of a topic", "part")
    _check_clean(problems.at("clean"), entries)
    _check_feature_names(problems.at("names"), entries.get("names", {}))
    for key in ("scale", "names", "without", "without_best"):
        if key in entries and "background" in entries:
            problems.add(f"{key} does not go with a background; expected the same features in both", key)
    # The keys of paths are no options, but collection is one, as it may be a name.
    paths = {"train": ("train", "valid", "test"), "collection": ()}.get(source, (source,))
    options = {key: value for key, value in entries.items() if key not in (*_NO_OPTIONS, *paths)}
    used: dict[str, Any] = {key: entries.get(key) for key in ("train_queries", "valid_queries", "without_best")}
    return None if len(problems) > before else DataSource(entries["name"], kind, files, options, **used)


def find(text: str, folders: Sequence[Path]) -> Path | None:
    """A file or folder in the first of the folders that has it."""
    return next((folder / text for folder in folders if (folder / text).exists()), None)


class Finder:
    """Finds the files of a table, and records those that are missing or of another format."""

    def __init__(self, problems: Problems, folders: Sequence[Path]) -> None:
        self._problems, self._folders = problems, folders

    def of_features(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        files = self._several("features", entries["features"])
        return "features", self._checked("features", files, FEATURE_FORMATS)

    def of_train(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        files: dict[str, Path] = {}
        for role in ("train", "valid", "test"):
            if role in entries:
                files |= self._checked(role, self.file(role, entries[role]), FEATURE_FORMATS)
            elif role == "test" and "open_test" not in entries:
                self._problems.add("no test; expected a file to test on", "train")
        for role, other in (("train", "test"), ("valid", "test"), ("train", "valid")):
            if role in files and other in files and files[role].samefile(files[other]):
                self._problems.add(f"{role} and {other} are the same file; expected different queries", other)
        return "fixed", files

    def of_folds(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """Folders with a fold each, or the parts S1 … S5."""
        paths = list(self._several("folds", entries["folds"]).values())
        if len(paths) < (1 if isinstance(entries["folds"], str) else len(entries["folds"])):
            return "parts", {}
        if len(paths) == 1 and _is_plain_folder(paths[0]):
            inside = sorted(paths[0].iterdir(), key=_natural)
            folds = [entry for entry in inside if entry.is_dir() and _FOLD.fullmatch(entry.name)]
            parts = [entry for entry in inside if _PART.fullmatch(entry.name)]
            paths = folds or parts or paths
        if all(map(_is_plain_folder, paths)):
            files: dict[str, Path] = {}
            for number, folder in enumerate(paths, 1):
                for start, role in _ROLES.items():
                    files |= self._single("folds", folder, start, f"{number}/{role}")
            return "folds", self._checked("folds", files, FEATURE_FORMATS)
        if len(paths) < 3:
            count = f"{len(paths)} part{'s' * (len(paths) != 1)}"
            expected = "expected at least 3, such as S1 … S5, or folders with train, vali and test files"
            self._problems.add(f"folds has {count}; {expected}", "folds")
        return "parts", self._checked("folds", {str(n): path for n, path in enumerate(paths, 1)}, FEATURE_FORMATS)

    def _single(self, key: str, folder: Path, start: str, role: str) -> dict[str, Path]:
        """The only file of a folder whose name starts so, by its role."""
        paths = sorted(path for path in folder.iterdir() if path.name.lower().startswith(start))
        if len(paths) == 1:
            return {role: paths[0]}
        names = ", ".join(path.name for path in paths) or "none"
        self._problems.add(f"{folder} has no single file whose name starts with {start}: {names}", key)
        return {}

    def of_collection(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """Documents, queries and judgements in a folder."""
        from rankwright.text.features import FEATURE_SETS

        for number, name in enumerate(entries.get("feature_sets", [])):
            self._problems.choice(name, FEATURE_SETS, "set of features", "feature_sets", number)
        if not entries.get("feature_sets", ["base"]) and not entries.get("feature_names"):
            self._problems.add("no features; expected feature_sets or feature_names", "feature_sets")
        if entries["collection"] == PYTHON_DOCS:
            return "collection", {}
        folder = find(entries["collection"], self._folders)
        if folder is None or not folder.is_dir():
            where = " or ".join(map(str, self._folders))
            expected = f"expected {PYTHON_DOCS} or a folder with {', '.join(_COLLECTION)}"
            self._problems.add(f"no folder {entries['collection']} in {where}; {expected}", "collection")
            return "collection", {}
        files: dict[str, Path] = {}
        for role in _COLLECTION:
            if role in entries:
                files |= self.file(role, entries[role])
            else:
                files |= self._single("collection", folder, role, role)
        return "collection", files

    def of_runs(self, entries: Mapping[str, Any]) -> tuple[str, dict[str, Path]]:
        """TREC runs and judgements."""
        patterns = [entries["runs"]] if isinstance(entries["runs"], str) else entries["runs"]
        files: dict[str, Path] = {}
        for number, pattern in enumerate(patterns):
            folder = next((folder for folder in self._folders if any(folder.glob(pattern))), None)
            if folder is None:
                self._missing(pattern, "runs", number)
                continue
            for path in sorted(folder.glob(pattern), key=_natural):
                name = path.name.removesuffix(".gz").removesuffix(".run")
                if f"run {name}" in files:
                    self._problems.add(f"duplicate run name {name}; expected different names", "runs")
                files[f"run {name}"] = path
        files = self._checked("runs", files, ("run",))
        if "qrels" not in entries:
            self._problems.add("no qrels; expected the judgements for the runs", "runs")
        else:
            files |= self._checked("qrels", self.file("qrels", entries["qrels"]), ("qrels",))
        return "runs", files

    def feature_files(self, key: str, texts: str | list[str], others: Mapping[str, Path]) -> dict[str, Path]:
        """The feature files of a key by number, all different from ``others``."""
        files = self._checked(key, self._several(key, texts), FEATURE_FORMATS)
        for path in files.values():
            if any(path.samefile(other) for other in others.values()):
                self._problems.add(f"{path.name} is already used by the data set; expected other data", key)
        return files

    def file(self, key: str, text: str) -> dict[str, Path]:
        """The file of a key, by that key; empty if it is missing."""
        path = find(text, self._folders)
        if path is None:
            self._missing(text, key)
        return {} if path is None else {key: path}

    def _several(self, key: str, texts: str | list[str]) -> dict[str, Path]:
        files: dict[str, Path] = {}
        listed = [texts] if isinstance(texts, str) else texts
        if not listed:
            self._problems.add(f"{key} is empty; expected at least one file", key)
        for number, text in enumerate(listed):
            path = find(text, self._folders)
            if path is None:
                self._missing(text, key, number)
            else:
                files[str(number + 1)] = path
        return files

    def _missing(self, text: str, *keys: str | int) -> None:
        where = " or ".join(map(str, self._folders))
        self._problems.add(f"no {text} in {where}; expected a file or folder", *keys)

    def _checked(self, key: str, files: dict[str, Path], formats: Sequence[str]) -> dict[str, Path]:
        """Files, all checked to be of one of the formats."""
        for path in files.values():
            try:
                format = detect(path)
            except InputError as error:
                self._problems.add(f"{path}: {error.message}", key)
                continue
            if format not in formats:
                self._problems.add(f"{path} contains {format}; expected {' or '.join(formats)}", key)
        return files


def _check_clean(problems: Problems, entries: dict[str, Any]) -> None:
    """Fill in how the data is cleaned; data that is not cleaned has no such key."""
    clean = entries.pop("clean", False)
    if clean is False:
        return
    settings = problems.table({} if clean is True else clean, _CLEAN, "clean")
    for key, value in settings.items():
        try:
            Cleaner(**{key: value})
        except InputError as error:
            problems.add(error.message, key)
            return
    entries["clean"] = asdict(Cleaner(**settings))


def _check_feature_names(problems: Problems, names: Mapping[str, Any]) -> None:
    for name, feature in names.items():
        if not toml.COLUMNS.accepts([feature]):
            problems.add(f"{name} is {feature!r}; expected the name of a feature, or its number from 1", name)


def _is_plain_folder(path: Path) -> bool:
    """Whether this is a folder, and not data in the format of a folder."""
    return path.is_dir() and not (path / "rankwright.json").is_file()


def _natural(path: Path) -> list[Any]:
    """Sort key that puts Fold2 before Fold10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", path.name)]
