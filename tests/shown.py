"""Extracts what a documentation page shows: headings, commands and pieces of Python, in page order.

Commands appear in blocks, fenced or indented, and as code within a sentence. In blocks marked ``sh`` every line is a
command. Other blocks may also show output; there, a command is a line that starts with the name of a program, with or
without ``$``.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FILES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
PAGES = sorted(path for path in DOCS.rglob("*.md") if ".hooks" not in path.parts)
LANGUAGES = ("", "sh", "python", "text", "toml", "formula")  # of blocks
PROGRAMS = ("rankwright", "python", "make", "pip", "git")
_FENCE = re.compile(r"( *)```(\w*)$")
_HEADING = re.compile(r"#{1,6} (.+)$")
_SPAN = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(rf"(?:\$ )?((?:{'|'.join(PROGRAMS)}) .+)")


@dataclass(frozen=True)
class Shown:
    """One item that a page shows.

    Attributes
    ----------
    kind : str
        heading, command, mention (a command within a sentence) or python.
    text : str
        The heading, the command line, or the Python.
    error : str or None
        The error line shown below a command that is meant to fail.
    """

    kind: str
    text: str
    error: str | None = None

    @property
    def words(self) -> list[str]:
        """The words of a command line."""
        return shlex.split(self.text, comments=True)


def name_of(page: Path) -> str:
    """Return the name of a page in tests: its path within the repository."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """Return the text of a page; the command reference is generated as in the site."""
    text = page.read_text(encoding="utf-8")
    return load_hook().on_page_markdown(text) if page == DOCS / "reference" / "commands.md" else text


def load_hook(name="reference"):
    """Load one of the hooks that change pages when the site is built."""
    spec = importlib.util.spec_from_file_location(f"{name}_hook", DOCS / ".hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(text: str) -> Iterator[Shown]:
    """Yield everything that a page shows."""
    for language, lines in _parts(text):
        if language is None:
            heading = _HEADING.fullmatch(lines[0])
            if heading is not None:
                yield Shown("heading", heading[1])
            for span in _SPAN.findall(" ".join(lines)):
                if _COMMAND.fullmatch(span):
                    yield Shown("mention", span)
        elif language == "python":
            yield Shown("python", "\n".join(lines) + "\n")
        else:
            yield from _commands(language, lines)


def languages(text: str) -> set[str]:
    """Return the languages of a page's blocks."""
    return {language for language, _ in _parts(text) if language is not None}


def _parts(text: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield blocks with their language (empty for indented blocks), and paragraphs with None."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        start = at
        if fence is not None:
            at = next(end for end in range(at + 1, len(lines)) if lines[end] == f"{fence[1]}```")
            yield fence[2], lines[start + 1 : at]
            at += 1
        elif lines[at].startswith("    "):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield "", lines[start:at]
        elif not lines[at].strip():
            at += 1
        else:
            while at < len(lines) and lines[at].strip() and _FENCE.fullmatch(lines[at]) is None:
                at += 1
            yield None, lines[start:at]


def _commands(language: str, lines: list[str]) -> Iterator[Shown]:
    """Yield the commands of a block; a line that ends with a backslash continues on the next."""
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    for line, below in zip(joined, [*joined[1:], ""], strict=True):
        command = _COMMAND.fullmatch(line.strip())
        if command is not None:
            yield Shown("command", command[1], below.strip() if below.strip().startswith("rankwright: ") else None)
        else:
            assert language != "sh" or not line.strip(), f"unknown program: {line}"
