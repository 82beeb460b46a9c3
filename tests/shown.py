"""What a page of the documentation shows: headings, commands and pieces of Python, in the order of the page.

Commands stand in blocks, fenced or indented, and in code within a sentence. In blocks marked ``sh`` every line is a
command; in other blocks, which may show output too, those that begin with the name of a program, after ``$`` or not.
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
    """One thing that a page shows.

    Attributes
    ----------
    kind : str
        heading, command, mention (a command within a sentence) or python.
    text : str
        The heading, the command line, or the Python.
    error : str or None
        The line of complaint that a page shows below a command which is meant to fail.
    """

    kind: str
    text: str
    error: str | None = None

    @property
    def words(self) -> list[str]:
        """Of a command line."""
        return shlex.split(self.text, comments=True)


def name_of(page: Path) -> str:
    """How a page is called in tests: its path within the repository."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """The text of a page; that of the commands' reference is made when the site is built."""
    text = page.read_text(encoding="utf-8")
    return load_hook().on_page_markdown(text) if page == DOCS / "reference" / "commands.md" else text


def load_hook(name="reference"):
    """One of the programs that change pages when the site is built."""
    spec = importlib.util.spec_from_file_location(f"{name}_hook", DOCS / ".hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(text: str) -> Iterator[Shown]:
    """All that a page shows."""
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
    """Of the blocks of a page."""
    return {language for language, _ in _parts(text) if language is not None}


def _parts(text: str) -> Iterator[tuple[str | None, list[str]]]:
    """Blocks with their language (indented ones have none), and what stands between blank lines (None)."""
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
    """The commands of a block; a line that ends with a backslash goes on in the next."""
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    for line, below in zip(joined, [*joined[1:], ""], strict=True):
        command = _COMMAND.fullmatch(line.strip())
        if command is not None:
            yield Shown("command", command[1], below.strip() if below.strip().startswith("rankwright: ") else None)
        else:
            assert language != "sh" or not line.strip(), f"what program is this? {line}"
