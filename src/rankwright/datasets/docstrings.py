"""The docstrings of Python's standard library, read from its sources with `ast`: nothing is imported or run.

Private names (with a leading underscore), tests, and modules that are tables or programs rather than libraries are left
out. A few public modules have their Python code in private ones, which go by the public name here.
"""

from __future__ import annotations

import ast
import os
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rankwright.errors import InputError

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

Progress = Callable[[int, int], None]
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
        """The last part of the id."""
        return self.id.rpartition(".")[2]


def standard_library(folder: str | Path | None = None, progress: Progress | None = None) -> list[Documented]:
    """Everything public with a docstring, sorted by id; a module comes before its contents.

    `folder`: the sources; by default those of the running Python. `progress`: called with (files read, total files).
    """
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
            for item in _documented(tree, module):
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


def _documented(tree: ast.Module, module: str) -> Iterator[Documented]:
    text = ast.get_docstring(tree)
    if text:
        yield Documented(module, module, "module", text)
    yield from _inside(tree.body, module, module, "function")


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
    """The first sentence of a docstring on one line, and the rest; leading signatures of ``name`` are dropped.

    Examples
    --------
    >>> split_summary("Return the ratio\\nof similarity.  It is slow.\\n\\nBetween 0 and 1.")
    ('Return the ratio of similarity.', 'It is slow.\\n\\nBetween 0 and 1.')
    >>> split_summary("f(a, b) -> int\\n\\nAdd them.", "f")
    ('Add them.', '')
    """
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
