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

_NAMES = re.compile(r"^\[\[names((?: rankwright\.[\w.]+)+)((?: \w+)*)\]\]$", re.MULTILINE)
_FILE = re.compile(r"^\[\[file (\w+\.md)\]\]$", re.MULTILINE)
_COMMANDS = "[[commands]]"
_LISTED = re.compile(r"\]\(#rankwright-(\w+)\)")
_ROOT = Path(__file__).parent.parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    markdown = _NAMES.sub(lambda names: _directives(names[1].split(), names[2].split()), markdown)
    markdown = _FILE.sub(lambda file: _beside_docs(file[1]), markdown)
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


def homes(packages: Sequence[str], first: Sequence[str] = ()) -> list[str]:
    """Return the full paths of the public names of packages or modules: the first as given, the others sorted."""
    paths: dict[str, str] = {}
    for package in packages:
        module = importlib.import_module(package)
        listed = getattr(module, "_HOME_OF", None) or dict.fromkeys(getattr(module, "__all__", ()))
        paths |= {name: home or getattr(module, name).__module__ for name, home in listed.items()}
        paths |= {name: home for name, home in rankwright._HOME_OF.items() if f"{home}.".startswith(f"{package}.")}
        kinds = measure_classes().items()
        paths |= {name: kind.__module__ for name, kind in kinds if kind.__module__.startswith(f"{package}.")}
    others = sorted(paths.keys() - first, key=str.lower)
    return [f"{paths[name]}.{name}" for name in (*first, *others)]


def _directives(packages: Sequence[str], first: Sequence[str]) -> str:
    return "\n\n".join(f"::: {home}" for home in homes(packages, first) if callable(_object(home)))


def _object(home: str) -> Any:
    module, _, name = home.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _helps(command: click.Command, name: str, first: Sequence[str] = ()) -> Iterator[str]:
    """Yield the help of a command and its subcommands: the first ones as given, then the others."""
    context = click.Context(command, info_name=name, terminal_width=100, **cli.context_settings)
    yield f"## {name}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for child in dict.fromkeys((*first, *command.list_commands(context))):
            subcommand = command.get_command(context, child)
            if subcommand is not None:
                yield from _helps(subcommand, f"{name} {child}")
