"""Which files are served, and what becomes of new ones: loaded and checked aside, then put in place in one step.

Index, rankers and problems are one immutable value, replaced by one assignment. A request takes it once and keeps it:
nothing is locked while requests are answered, and those in flight finish with the models they began with.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import rankwright
from rankwright.data.dataset import MissingFeaturesError
from rankwright.errors import InputError, shown
from rankwright.models.saving import load_model
from rankwright.serving.rankers import FunctionRanker, ModelRanker, ServedRanker
from rankwright.serving.requests import RankRequest
from rankwright.text.contents import INDEX, View
from rankwright.text.index import Index
from rankwright.text.search import default_analyzer

Stamp = tuple[int, int, int]
_INDEX = "the index"  # among the names of models; they are stems, so one of this name would only share its place
_PROBLEMS = (InputError, OSError, MemoryError)
_ATTEMPTS = 3
_WORDS = 1 << 15  # words whose terms are remembered


@dataclass(frozen=True, eq=False)
class State:
    """What requests are answered with; replaced as a whole.

    `index`: the documents. `view`: the view that finds words to mark in snippets. `rankers`: the rankers by name, in
    the order in which they were given. `analyze`: maps a word to its terms, as the view does; it remembers words.
    `problems`: files on disk that could not be loaded; what was loaded before stays in use.
    """

    index: Index | None
    view: View | None
    rankers: Mapping[str, ServedRanker]
    analyze: Callable[[str], list[str]] = str.split
    problems: Mapping[str, str] = field(default_factory=dict)


class Service:
    """An index, models and retrieval functions, kept up to date with their files.

    `index`: an index; without it only features can be ranked. `models`: model files; a model is named by the stem of
    its file. `functions`: retrieval functions, named as they are written. `analyzer`: analyser of the retrieval
    functions and snippets. `missing_as_zero`: whether features of a model that the index cannot give are 0; otherwise
    they are an error. `notify`: called with a mapping for each event: a model was loaded, a file is broken.
    """

    def __init__(
        self,
        index: str | Path | None = None,
        models: Sequence[str | Path] = (),
        functions: Sequence[str] = (),
        *,
        analyzer: str | None = None,
        missing_as_zero: bool = False,
        notify: Callable[[dict[str, Any]], None] = lambda event: None,
    ) -> None:
        self._folder = None if index is None else Path(index)
        self._models = _named(models)
        self._functions, self._analyzer, self._missing_as_zero = tuple(functions), analyzer, missing_as_zero
        self._notify = notify
        self._stamps: dict[str, Stamp | None] = {}
        self._loading = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()
        if self._folder is None and self._functions:
            raise InputError("retrieval functions need an index")
        if not self._models and self._folder is None:
            raise InputError("nothing to serve; expected an index, a model, or both")
        self.state = self._first()

    def reload(self, *, force: bool = False) -> None:
        """Load the files that changed since they were last looked at; with ``force``, models that did not, too."""
        with self._loading:
            changed = [name for name, path in self._models.items() if self._is_new(name, path, force)]
            index = self._new_index()
            if changed or index is not None:
                self._renew(index, changed)

    def watch(self, seconds: float | None) -> None:
        """Look for new files every so often, in a thread of its own, until :meth:`close`; None: only when asked to."""

        def look() -> None:
            while not self._ended.is_set():
                forced = self._wake.wait(seconds)
                self._wake.clear()
                if self._ended.is_set():
                    return
                try:
                    self.reload(force=forced)
                except Exception as error:  # a bug must not end the thread: the next file may be a good one
                    self._notify({"event": "not loaded", "error": f"{type(error).__name__}: {error}"})

        threading.Thread(target=look, name="rankwright-reload", daemon=True).start()

    def look_now(self) -> None:
        """Have all files loaded again soon; may be called by the handler of a signal."""
        self._wake.set()

    def close(self) -> None:
        self._ended.set()
        self._wake.set()

    def warm_up(self) -> float:
        """Answer a request of every kind, so that code is compiled before the first one; returns the seconds."""
        began = time.monotonic()
        if self.state.index is not None:
            self.state.index.find("")  # makes the table of ids
        for ranker in self.state.rankers.values():
            _try_out(ranker, self.state.index)
        return time.monotonic() - began

    def version(self) -> dict[str, Any]:
        index = self.state.index
        facts: dict[str, Any] = {"version": rankwright.__version__}
        facts["rankers"] = [ranker.facts() for ranker in self.state.rankers.values()]
        facts["index"] = None
        if index is not None:
            facts["index"] = {"name": index.path.name, "documents": index.n_docs, "tokens": index.n_tokens}
            facts["index"] |= {"fields": index.fields, "numbers": list(index.numbers), "bytes": index.n_bytes}
        return facts

    def health(self) -> dict[str, Any]:
        """What ``/health`` says: ``ok``, or ``stale`` if a file on disk cannot be loaded."""
        problems = self.state.problems
        return {"status": "stale" if problems else "ok", "problems": dict(problems)}

    def _first(self) -> State:
        index = None
        if self._folder is not None:
            self._is_new(_INDEX, self._folder / INDEX.header, True)
            index = Index.open(self._folder)
        rankers: dict[str, ServedRanker] = {}
        for name, path in self._models.items():
            self._is_new(name, path, True)
            rankers[name] = self._loaded(name, path, index)
        return self._state(index, rankers, {})

    def _state(self, index: Index | None, models: dict[str, ServedRanker], problems: dict[str, str]) -> State:
        """A state with these models, and the rankers that need no file."""
        if index is None:
            return State(None, None, models, problems=problems)
        rankers = dict(models)
        for text in self._functions:
            ranker = FunctionRanker(index, text, self._analyzer)
            if ranker.name in rankers:
                raise InputError(f"two rankers have the name {ranker.name!r}; expected different ones")
            rankers[ranker.name] = ranker
        view = index.view(self._analyzer or default_analyzer(index.analyzers))
        return State(index, view, rankers, lru_cache(_WORDS)(view.analyze), problems)

    def _is_new(self, name: str, path: Path, force: bool) -> bool:
        """Whether a file has changed since it was last looked at."""
        stamp = _stamp(path)
        if not force and self._stamps.get(name) == stamp:
            return False
        self._stamps[name] = stamp
        return True

    def _new_index(self) -> Index | None:
        """The index on disk, if it has changed and can be used."""
        if self._folder is None or not self._is_new(_INDEX, self._folder / INDEX.header, False):
            return None
        try:
            return Index.open(self._folder)
        except _PROBLEMS as error:
            self._keep(_INDEX, self._folder, error)
            return None

    def _renew(self, index: Index | None, changed: Sequence[str]) -> None:
        """Put new models and a new index in place, if there is one; a broken model is replaced by what it was."""
        began, old, problems = time.monotonic(), self.state, dict(self.state.problems)
        used = old.index if index is None else index
        models: dict[str, ServedRanker] = {}
        for name, path in self._models.items():
            before = old.rankers[name]
            assert isinstance(before, ModelRanker)
            try:
                models[name] = before if index is None else before.with_index(index)
            except InputError as error:  # the model that is served cannot be used with the new index
                if name not in changed:
                    self._keep(_INDEX, path, error)
                    return
            if name in changed:
                try:
                    models[name] = self._loaded(name, path, used)
                    _try_out(models[name], used)
                    problems.pop(name, None)
                except _PROBLEMS as error:
                    problems = self._keep(name, path, error)
                    if name not in models:
                        return
        if index is not None:
            problems.pop(_INDEX, None)
            try:
                state = self._state(index, models, problems)
                for ranker in state.rankers.values():
                    _try_out(ranker, index)
            except _PROBLEMS as error:
                self._keep(_INDEX, index.path, error)
                return
            self.state = state
        else:
            self.state = replace(old, rankers={**old.rankers, **models}, problems=problems)
        loaded = [name for name in changed if name not in problems]
        if loaded or index is not None:
            event = {"event": "loaded", "rankers": loaded, "index": index is not None}
            self._notify({**event, "ms": round(1000 * (time.monotonic() - began), 1)})

    def _keep(self, name: str, path: Path, error: BaseException) -> dict[str, str]:
        """Keep serving what is loaded, and record why; returns all problems."""
        reason = error.message if isinstance(error, InputError) else getattr(error, "strerror", None)
        problems = {**self.state.problems, name: " ".join((reason or "not enough memory").split())}
        self.state = replace(self.state, problems=problems)
        self._notify({"event": "not loaded", "name": name, "file": path.name, "error": problems[name]})
        return problems

    def _loaded(self, name: str, path: Path, index: Index | None) -> ModelRanker:
        """The ranker of a model file; its hash is that of the bytes that were loaded."""
        for _ in range(_ATTEMPTS):
            before = _stamp(path)
            saved = load_model(path)
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if _stamp(path) == before:
                break
        facts = {"file": path.name, "sha256": digest, "loaded": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            return ModelRanker(name, saved, index, facts, missing_as_zero=self._missing_as_zero)
        except InputError as error:
            kind = MissingFeaturesError if isinstance(error, MissingFeaturesError) else InputError
            raise kind(error.message, path) from None


def _named(models: Sequence[str | Path]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for path in map(Path, models):
        if path.stem in paths:
            raise InputError(f"two models have the name {shown(path.stem)}; expected files of different names", path)
        paths[path.stem] = path
    return paths


def _stamp(path: Path) -> Stamp | None:
    """Time, number and size of a file, one of which changes when the file does; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _try_out(ranker: ServedRanker, index: Index | None) -> None:
    """Use a ranker as requests do: its code is compiled afterwards, and a model that cannot score is noticed."""
    if index is None or not ranker.can_search:
        row = [0.0] * int(ranker.facts()["features"])
        ranker.score_rows(RankRequest(ranker.name, None, [row, row], None, None, False))
        return
    text = _some_words(index)
    docs, _ = ranker.search(text, 10)
    if len(docs):
        ranker.score_documents(text, docs)
        ranker.explain(text, int(docs[0]), int(docs[1]) if len(docs) > 1 else None)
        ranker.explain(text, int(docs[0]), None)


def _some_words(index: Index) -> str:
    """A query that finds something: words from the middle of the vocabulary."""
    if not len(index.terms):
        return "nothing"
    places = np.linspace(0, len(index.terms) - 1, 7).astype(int)[1:-1]
    return " ".join(index.terms.word(int(at)) for at in places)
