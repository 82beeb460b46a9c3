"""Whole numbers as options: numbers that no array could be indexed by are refused, not passed on."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Whole"]

_MOST = 2**31 - 1


class Whole(click.IntRange):
    """A whole number from ``least``, as ``click.IntRange``, up to what 32 bits hold."""

    def __init__(self, least: int) -> None:
        super().__init__(least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of a text."""
        found = super().convert(value, param, ctx)
        if found > _MOST:
            self.fail(f"{found} is not in the range {self._describe_range()} up to {_MOST}.", param, ctx)
        return found
