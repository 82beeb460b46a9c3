"""Fills in pages when the site is built: public names by package, the help of every command, files from the root.

The search index is also written as a script, because pages opened from disk cannot load other data.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import rankwright
from rankwright.cli.main import cli
from rankwright.measures import measure_classes

_NAMES = re.compile(r"^\[\[names ([\w.]+)((?: \w+)*)\]\]$", re.MULTILINE)
_FILE = re.compile(r"^\[\[file (\w+\.md)\]\]$", re.MULTILINE)
_COMMANDS = "[[commands]]"
_LISTED = re.compile(r"\]\(#rankwright-(\w+)\)")
_ROOT = Path(__file__).parent.parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    markdown = _NAMES.sub(lambda found: _directives(found[1], found[2].split()), markdown)
    markdown = _FILE.sub(lambda found: _beside_docs(found[1]), markdown)
    if _COMMANDS not in markdown:
        return markdown
    return markdown.replace(_COMMANDS, "\n\n".join(_helps(cli, "rankwright", _LISTED.findall(markdown))))


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs when the site has been written."""
    index = Path(config["site_dir"]) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")


def _beside_docs(name: str) -> str:
    """Return a file from the repository's root, with links for a page one folder below docs/."""
    return (_ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](../")


def homes(package: str, first: Sequence[str] = ()) -> list[str]:
    """Return the full paths of a package's public names: the first ones as given, the others sorted by name."""
    module = importlib.import_module(package)
    own = getattr(module, "_HOME_OF", None) or dict.fromkeys(getattr(module, "__all__", ()))
    found = {name: home or getattr(module, name).__module__ for name, home in own.items()}
    found |= {name: home for name, home in rankwright._HOME_OF.items() if home.startswith(package + ".")}
    found |= {name: kind.__module__ for name, kind in measure_classes().items() if kind.__module__.startswith(package)}
    others = sorted(found.keys() - first, key=str.lower)
    return [f"{found[name]}.{name}" for name in (*first, *others)]


def _directives(package: str, first: Sequence[str]) -> str:
    return "\n\n".join(f"::: {home}" for home in homes(package, first) if callable(_object(home)))


def _object(home: str) -> Any:
    module, _, name = home.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _helps(command: click.Command, name: str, first: Sequence[str] = ()) -> Iterator[str]:
    """Yield the help of a command and its subcommands: the first ones as given, then the others."""
    context = click.Context(command, info_name=name, terminal_width=100)
    yield f"## {name}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for child in dict.fromkeys((*first, *command.list_commands(context))):
            found = command.get_command(context, child)
            if found is not None:
                yield from _helps(found, f"{name} {child}")
