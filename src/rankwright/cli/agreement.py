"""`rankwright agreement`: how far judges agree, and on what they do not."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from rankwright.cli.options import FILE
from rankwright.cli.tables import columns_option, read_judgements
from rankwright.cli.whole import Whole
from rankwright.data.roles import Columns
from rankwright.errors import InputError

__all__ = ["command"]


@click.command("agreement")
@click.argument("sources", metavar="FOLDER|FILE...", nargs=-1, required=True, type=FILE)
@click.option("--show", type=Whole(0), default=20, show_default=True, help="Documents to list, widest apart first.")
@columns_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all documents that differ.")
def command(sources: tuple[Path, ...], show: int, columns: Columns | None, as_json: bool) -> None:
    """Show how far judges agree: Cohen's kappa of every two, Fleiss' kappa of all, and where grades differ.

    FOLDER is one that `rankwright judge` fills, with a file per judge. A FILE is such a file, or judgements in
    any other form (TREC, CSV, JSON): of another judge, of clicks, of a language model.

    \b
    Example:
      rankwright agreement judgements
      rankwright agreement qrels.txt others.qrels
    """
    from rankwright.evaluation.agreement import agreement
    from rankwright.judging.folder import grades_of

    read = partial(read_judgements, columns=columns)
    grades: dict[str, Mapping[tuple[str, str], float]] = {}
    for source in sources:
        for name, one in grades_of(source, read).items():
            key = name if name not in grades else str(source)
            if key in grades:
                raise InputError("is given twice; expected different judges", source)
            grades[key] = one
    found = agreement(grades)
    if as_json:
        click.echo(json.dumps(_plain(dataclasses.asdict(found)), indent=2, ensure_ascii=False))
        return
    for name, count in found.judges.items():
        click.echo(f"{name}: {count:,} documents")
    width = max((len(" – ".join(pair.judges)) for pair in found.pairs), default=0)
    if found.pairs:
        click.echo(f"\n{'':{width}}  documents   same  kappa  linear  quadratic")
    for pair in found.pairs:
        kappas = f"{_two(pair.kappa):>5}  {_two(pair.linear):>6}  {_two(pair.quadratic):>9}"
        click.echo(f"{' – '.join(pair.judges):{width}}  {pair.documents:>9,}  {pair.same:>5.0%}  {kappas}")
    if not found.pairs:
        click.echo("\nno document was graded by two of them")
    if len(grades) > 2:
        click.echo(f"\nFleiss' kappa: {_two(found.fleiss)} on {found.documents:,} documents that all have graded")
    _list(found.disagreements, show)


def _list(apart: tuple[tuple[str, str, dict[str, float]], ...], show: int) -> None:
    """The documents on which grades differ most."""
    if not apart or not show:
        return
    click.echo(f"\ndifferent grades: {len(apart):,} documents" + (f", {show} of them:" if len(apart) > show else ":"))
    for query, document, given in apart[:show]:
        told = ", ".join(f"{name} {grade:g}" for name, grade in given.items())
        click.echo(f"  {query}  {document}  {told}")


def _two(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _plain(value: Any) -> Any:
    """Values of JSON: no nan."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
