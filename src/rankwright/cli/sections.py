"""Help with the options of a command in sections, for commands that have many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

__all__ = ["Sectioned"]


class Sectioned(click.Command):
    """A command whose help lists its options in sections.

    Parameters
    ----------
    sections : mapping
        Title of each section, and the names of its parameters; options that are in none are listed last.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {str(option.name): option.get_help_record(ctx) for option in options}
        placed = {name for names in self._sections.values() for name in names}
        rest = [name for name in records if name not in placed]
        for title, names in {**self._sections, "Other options": rest}.items():
            shown = [record for name in names if (record := records.get(name)) is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
