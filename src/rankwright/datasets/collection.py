"""Test collections: documents with fields, queries of several kinds, and graded judgements; the demo collection."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
import sysconfig
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.files import Progress, reading, replace_file
from rankwright.io.trec import write_qrels

_SHARES = (0.5, 0.2)  # of the queries for training and validation; the rest are for testing


@dataclass(frozen=True, eq=False)
class Collection:
    """Documents, queries and judgements.

    Attributes
    ----------
    name : str
        Name of the collection.
    documents : list of (str, dict)
        Id and fields, text by name, of every document, sorted by id.
    queries : dict of str
        The text of every query by its id.
    kinds : dict of str
        The kind of every query by its id.
    qrels : TrecTable
        Grades of the relevant documents, at least 1; all others are not relevant.
    """

    name: str
    documents: list[tuple[str, dict[str, str]]]
    queries: dict[str, str]
    kinds: dict[str, str]
    qrels: TrecTable

    def split(self, random_state: int = 0) -> tuple[list[str], list[str], list[str]]:
        """Query ids for training (half of every kind), validation (a fifth) and testing.

        Queries are drawn by a hash of ``random_state`` and the id: the order is the same everywhere and for any other
        queries; only the boundaries of the parts depend on their number.
        """
        parts: tuple[list[str], list[str], list[str]] = ([], [], [])
        for kind in sorted(set(self.kinds.values())):
            drawn = by_hash([query for query in self.queries if self.kinds[query] == kind], str(random_state))
            train, valid = (round(sum(_SHARES[:last]) * len(drawn)) for last in (1, 2))
            for part, ids in zip(parts, (drawn[:train], drawn[train:valid], drawn[valid:]), strict=True):
                part.extend(ids)
        place = {query: at for at, query in enumerate(self.queries)}
        train_ids, valid_ids, test_ids = (sorted(part, key=place.__getitem__) for part in parts)
        return train_ids, valid_ids, test_ids

    def write(self, folder: str | Path) -> None:
        """Write ``docs.jsonl``, ``queries.jsonl`` and ``qrels.txt`` to a folder, which is created if necessary.

        Lines of ``docs.jsonl`` have the id and the fields of a document, lines of ``queries.jsonl`` the id, text and
        kind of a query. Other files in the folder are not touched.
        """
        folder = Path(folder)
        is_new = not folder.exists()
        with reading(folder, "created"):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            with replace_file(folder / "docs.jsonl") as docs, replace_file(folder / "queries.jsonl") as queries:
                for document, fields in self.documents:
                    docs.write(_line({"id": document, **fields}))
                for query, text in self.queries.items():
                    queries.write(_line({"id": query, "text": text, "kind": self.kinds[query]}))
                write_qrels(self.qrels, folder / "qrels.txt")
        except BaseException:
            if is_new and not any(folder.iterdir()):
                folder.rmdir()
            raise

    def __repr__(self) -> str:
        counts = (f"{len(self.documents)} documents", f"{len(self.queries)} queries", f"{self.qrels.n_docs} judgements")
        return f"Collection({self.name}: {', '.join(counts)})"


def by_hash(ids: list[str], salt: str = "") -> list[str]:
    """Ids in an order that looks random but is the same everywhere; the order of two ids depends on them alone."""
    return sorted(ids, key=lambda text: (hashlib.blake2b(f"{salt}:{text}".encode(), digest_size=8).digest(), text))


def _line(entry: dict[str, str]) -> bytes:
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


# The demo collection is made of Python's own standard library, available wherever Python runs. Documents are the public
# classes, functions and methods that have a docstring. A document has the field ``name`` (the dotted name in words:
# ``difflib.SequenceMatcher.real_quick_ratio`` is "difflib sequence matcher real quick ratio"), ``text`` (the docstring
# *without its first sentence*, the summary; often empty) and ``arguments`` (the names of the parameters in words).
# Queries are made from the summaries:
#
# *navigational*
#     The summary of one object. That object has grade 2. Objects of the same kind and name have grade 1: functions and
#     classes anywhere, methods in other classes of the same package.
# *informational*
#     The summary of a module. The classes and functions of the module have grade 2, the methods of its classes grade 1;
#     those of a package include those of its modules.
#
# A query must not give its answer away. It is dropped if five consecutive words of it (or all, if it has fewer) occur
# in a field of a relevant document, if it contains the identifier sought, if the summary of another object or module is
# nearly the same, which would make it ambiguous, or if it has fewer than three content words. A navigational query
# needs an answer with at least ten words of text, an informational one between five and a hundred documents.
#
# No package has more than twelve navigational queries. Queries are drawn by hashes of ids: the same Python version
# gives the same collection, other versions a similar one.


_LEAK = 5  # consecutive words
_MIN_WORDS, _MAX_WORDS = 3, 30  # content words; all words
_ANSWER_WORDS = 10
_OBJECTS = (5, 100)
_PER_PACKAGE = 12
_ALIKE = 0.75
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_PROSE = re.compile(r"\"?[A-Z][a-z]*[^\w(.]")
_CODE = re.compile(r">>>|->|=>|==|\(.*,.*\)|\[.*\]|[{}]|\w\.\w+\(")
_NO_SUMMARY = re.compile(r"copyright|here's|here is|this will be", re.IGNORECASE)
_NO_CONTENT = """
    a an and any are as at be been being but by can case cases class classes do does doesn each else etc for from
    function functions get given gets has have if in instance instances into is isn it its itself like may method
    methods module modules more must no not object objects of on one only or other otherwise package python return
    returned returning returns same self should so some such support than that the their then there these they this
    those to true false none type types up use used using value values was when where which while will with without
    you your
"""
# Words without content in a docstring; part of the definition of the collection.
_SAYS_NOTHING = frozenset(_NO_CONTENT.split())


def python_docs(
    *,
    navigational: int = 300,
    informational: int = 150,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> Collection:
    """Make the collection of Python's standard library.

    Parameters
    ----------
    navigational, informational : int
        Maximum number of queries of each kind.
    folder : path, optional
        The sources of the library; by default those of the running Python.
    progress : callable, optional
        Called with (files read, total files).

    Examples
    --------
    >>> import rankwright
    >>> collection = rankwright.datasets.python_docs()  # doctest: +SKIP
    >>> train, valid, test = collection.split()  # doctest: +SKIP
    """
    items = standard_library(folder, progress)
    entries = [_entry(item) for item in items if item.kind != "module"]
    candidates = [*_navigational(entries), *_informational(items, entries)]
    summaries = [(entry.item.id, entry.summary) for entry in entries]
    summaries += [(item.id, summary_of_module(item)) for item in items if item.kind == "module"]
    clear = _Clear(summaries)
    runs = {entry.item.id: _runs(entry) for entry in entries}
    usable = {query.id: query for query in candidates if clear(query) and not _leaks(query, runs)}
    chosen = _drawn(usable, {"navigational": navigational, "informational": informational})
    if not chosen:
        where = None if folder is None else str(folder)
        raise InputError("too few docstrings to make queries from; expected Python's standard library", where)
    version = ".".join(map(str, sys.version_info[:3]))
    return Collection(
        f"python-docs-{version}" if folder is None else "python-docs",
        [(entry.item.id, entry.fields) for entry in entries],
        {name: query.text for name, query in chosen.items()},
        {name: query.kind for name, query in chosen.items()},
        TrecTable.from_dict({name: query.grades for name, query in chosen.items()}, "qrels"),
    )


@dataclass(frozen=True)
class _Entry:
    """A document and its summary, which is not part of it."""

    item: Documented
    summary: str
    fields: dict[str, str]


@dataclass(frozen=True)
class _Query:
    """A candidate query; ``id`` is the object or module it summarises."""

    id: str
    kind: str
    text: str
    grades: dict[str, int]


def _entry(item: Documented) -> _Entry:
    summary, rest = split_summary(item.docstring, item.name)
    fields = {
        "name": " ".join(_parts(item.id)),
        "text": " ".join(rest.split()),
        "arguments": " ".join(part for name in item.arguments for part in _parts(name)),
    }
    return _Entry(item, summary, fields)


def _parts(identifier: str) -> list[str]:
    """The words of an identifier, in lower case."""
    return [part.lower() for part in _PART.findall(identifier)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _content(text: str) -> frozenset[str]:
    """The content words of a text, with plurals reduced to singulars."""
    words = (word for word in _words(text) if word not in _SAYS_NOTHING and (len(word) > 1 or word.isdigit()))
    return frozenset(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words)


def _navigational(entries: list[_Entry]) -> Iterable[_Query]:
    namesakes = defaultdict(list)
    for entry in entries:
        namesakes[_family(entry.item)].append(entry.item.id)
    for entry in entries:
        item = entry.item
        is_prose = _PROSE.match(entry.summary) and not _CODE.search(entry.summary)
        if is_prose and len(entry.fields["text"].split()) >= _ANSWER_WORDS:
            grades = dict.fromkeys(namesakes[_family(item)], 1) | {item.id: 2}
            yield _Query(item.id, "navigational", _tidy(entry.summary), grades)


def _family(item: Documented) -> tuple[str, str, str]:
    return item.kind, item.name, item.id.partition(".")[0] if item.kind == "method" else ""


def _informational(items: list[Documented], entries: list[_Entry]) -> Iterable[_Query]:
    for module in items:
        if module.kind != "module":
            continue
        inside = [entry.item for entry in entries if f"{entry.item.module}.".startswith(f"{module.id}.")]
        if _OBJECTS[0] <= len(inside) <= _OBJECTS[1]:
            grades = {item.id: 1 if item.kind == "method" else 2 for item in inside}
            yield _Query(module.id, "informational", _tidy(summary_of_module(module)), grades)


def _tidy(summary: str) -> str:
    return summary.strip().rstrip(".:").strip()


class _Clear:
    """Whether a query has enough content and differs from all other summaries."""

    def __init__(self, summaries: list[tuple[str, str]]) -> None:
        self._content = {id_: _content(summary) for id_, summary in summaries}
        self._holders = defaultdict(list)
        for id_, words in self._content.items():
            for word in words:
                self._holders[word].append(id_)

    def __call__(self, query: _Query) -> bool:
        words = _content(query.text)
        sought = query.id.rpartition(".")[2]
        if len(words) < _MIN_WORDS or len(_words(query.text)) > _MAX_WORDS or _NO_SUMMARY.match(query.text):
            return False
        if len(_parts(sought)) > 1 and re.search(rf"\b{re.escape(sought)}\b", query.text):
            return False
        # A similar summary has all but a few of the words, so it has one of the rarest.
        rare = sorted(words, key=lambda word: (len(self._holders[word]), word))[: 1 + int(len(words) * (1 - _ALIKE))]
        others = {other for word in rare for other in self._holders[word]} - {query.id}
        contents = (self._content[other] for other in others)
        return not any(len(words & content) / len(words | content) >= _ALIKE for content in contents)


def _runs(entry: _Entry) -> str:
    """The words of all fields, separated by spaces, to look for consecutive words in."""
    return " | ".join(f" {' '.join(_words(text))} " for text in entry.fields.values())


def _leaks(query: _Query, runs: dict[str, str]) -> bool:
    words = _words(query.text)
    size = min(_LEAK, len(words))
    pieces = [f" {' '.join(words[at : at + size])} " for at in range(len(words) - size + 1)]
    return any(piece in runs[document] for document in query.grades for piece in pieces)


def _drawn(usable: dict[str, _Query], limits: dict[str, int]) -> dict[str, _Query]:
    """The queries of the collection by id, sorted by the object or module they summarise."""
    chosen: dict[str, _Query] = {}
    for kind, number in limits.items():
        of_package: Counter[str] = Counter()
        drawn = []
        for id_ in by_hash([query.id for query in usable.values() if query.kind == kind], kind):
            package = id_.partition(".")[0]
            of_package[package] += 1
            if kind != "navigational" or of_package[package] <= _PER_PACKAGE:
                drawn.append(id_)
        chosen |= {f"{kind[0]}{at:03d}": usable[id_] for at, id_ in enumerate(sorted(drawn[:number]), 1)}
    return chosen


# The docstrings of the library, read from its sources with `ast`: nothing is imported or run. Private names (with a
# leading underscore), tests, and modules that are tables or programs rather than libraries are left out. A few public
# modules have their Python code in private ones, which go by the public name here.


_SKIPPED = {
    "test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__", "lib-dynload",
    "encodings", "ensurepip", "pydoc_data", "turtledemo", "distutils",
}  # fmt: skip
_STANDS_FOR = {
    "_pyio": "io",
    "_pydecimal": "decimal",
    "_pydatetime": "datetime",
    "_collections_abc": "collections.abc",
    "concurrent.futures._base": "concurrent.futures",
    "pathlib._local": "pathlib",
}
_PROGRAMS = ("main", "test")  # functions for running the module itself
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")
_SHORT = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|resp)\.$")
_UNDERLINE = re.compile(r"[=~\-*#^]{3,}")

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Documented:
    """A module, class, function or method with a docstring.

    `id`: the dotted name, such as ``difflib.SequenceMatcher.ratio``. `module`: the module that defines it. `kind`
    ({"module", "class", "function", "method"}): what it is. `docstring`: without its indentation. `arguments`: the
    names of the parameters, without ``self`` and ``cls``.
    """

    id: str
    module: str
    kind: str
    docstring: str
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.id.rpartition(".")[2]


def standard_library(folder: str | Path | None = None, progress: Progress | None = None) -> list[Documented]:
    """Everything public with a docstring, sorted by id; a module comes before its contents."""
    root = Path(folder if folder is not None else sysconfig.get_paths()["stdlib"])
    files = sorted(_sources(root))
    documented: dict[str, Documented] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old syntax in the sources
        for done, (module, _, path) in enumerate(files, 1):
            try:
                tree = ast.parse(path.read_bytes())
            except (OSError, SyntaxError, ValueError):  # treat an unreadable source as missing
                continue
            text = ast.get_docstring(tree)
            itself = [Documented(module, module, "module", text)] if text else []
            for item in [*itself, *_inside(tree.body, module, module, "function")]:
                documented.setdefault(item.id, item)
            if progress is not None:
                progress(done, len(files))
    if not any(item.kind != "module" for item in documented.values()):
        raise InputError("contains no Python sources with docstrings; expected those of the standard library", root)
    return sorted(documented.values(), key=lambda item: item.id)


def _sources(root: Path) -> Iterator[tuple[str, bool, Path]]:
    """Name, whether it is a stand-in for that name, and file of every relevant module."""
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name.isidentifier() and name not in _SKIPPED]
        package = Path(folder).relative_to(root).parts
        for name in names:
            stem, _, suffix = name.rpartition(".")
            if suffix != "py" or not stem.isidentifier():
                continue
            dotted = ".".join(package if stem == "__init__" else (*package, stem))
            module = _STANDS_FOR.get(dotted, dotted)
            if module and not any(part.startswith("_") for part in module.split(".")):
                yield module, module != dotted, Path(folder, name)


def _inside(body: list[ast.stmt], module: str, prefix: str, kind: str) -> Iterator[Documented]:
    """The definitions in a module or class, including conditional ones."""
    for node in body:
        if isinstance(node, _Definition):
            if node.name.startswith("_") or (kind == "function" and node.name in _PROGRAMS):
                continue
            name, is_class = f"{prefix}.{node.name}", isinstance(node, ast.ClassDef)
            text = ast.get_docstring(node)
            if text:
                yield Documented(name, module, "class" if is_class else kind, text, _arguments(node))
            if is_class:
                yield from _inside(node.body, module, name, "method")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            parts = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
            parts += [handler.body for handler in getattr(node, "handlers", [])]
            for part in parts:
                yield from _inside(part, module, prefix, kind)


def _arguments(node: _Definition) -> tuple[str, ...]:
    """The parameters of a function, or of a class's constructor."""
    if isinstance(node, ast.ClassDef):
        constructors = (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
        return next((_arguments(part) for part in constructors), ())
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return tuple(arg.arg for arg in every if arg is not None and arg.arg not in ("self", "cls"))


def split_summary(docstring: str, name: str = "") -> tuple[str, str]:
    """The first sentence of a docstring on one line, and the rest; leading signatures of ``name`` are dropped."""
    lines = docstring.strip().splitlines()
    while lines and (not lines[0].strip() or (name and re.match(rf"(?:[\w.]+\.)?{name}\s*\(.*", lines[0].strip()))):
        del lines[0]
    size = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    paragraph, others = " ".join(" ".join(lines[:size]).split()), "\n".join(lines[size:]).strip()
    end = len(paragraph)
    for gap in _SENTENCE_END.finditer(paragraph):
        if not _SHORT.search(paragraph[: gap.start()]):
            end = gap.start()
            break
    rest = [paragraph[end:].strip(), others]
    return paragraph[:end], "\n\n".join(part for part in rest if part)


def summary_of_module(item: Documented) -> str:
    """The first sentence of a module's docstring without the module's own name as a title."""
    name = re.escape(item.name)
    module = rf"(?:{re.escape(item.id)}|{name})(?:\.py)?"
    lines = [line for line in item.docstring.splitlines() if not _UNDERLINE.fullmatch(line.strip())]
    while lines and (not lines[0].strip() or re.fullmatch(rf"{module}\.?", lines[0].strip(), re.IGNORECASE)):
        del lines[0]
    summary = split_summary("\n".join(lines))[0]
    end = r"(?:\s+(?:module|package))?\s*(?:(?:--?|—|:)\s+|(?=provides|helps))"
    title = rf"(?:module\s+|the\s+)?[`'\"]?{module}[`'\"]?{end}"
    return re.sub("^" + title, "", summary, flags=re.IGNORECASE)
