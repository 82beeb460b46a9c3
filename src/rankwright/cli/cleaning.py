"""Data cleaned as ``--clean`` and what belongs to it say, and missing values filled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.cleaning import Cleaner, Cleaning
    from rankwright.data.dataset import RankingData


def cleaner_alone(options: dict[str, Any]) -> Cleaner | None:
    """As :func:`cleaner_of`, where ``--relevant-from`` is for cleaning only."""
    cleaner = cleaner_of(options)
    if options.pop("relevant_from", None) is not None:
        raise InputError("--relevant-from is for --clean, which is not given")
    return cleaner


def cleaner_of(options: dict[str, Any], *, for_training: bool = False) -> Cleaner | None:
    """What the options ask for, taken out of them; None without ``--clean``.

    ``--relevant-from`` stays among the options if it is for training too.
    """
    clean, above, scaled = (options.pop(name) for name in ("clean", "clean_above", "clean_scaled"))
    if not clean:
        used = "--clean-above" if above is not None else "--clean-scaled" if scaled else None
        if used is not None:
            raise InputError(f"{used} is for --clean, which is not given")
        return None
    relevant_from = options["relevant_from"] if for_training else options.pop("relevant_from")
    from rankwright.data.cleaning import Cleaner

    if above is not None and not 0 < above < 1:
        raise InputError(f"--clean-above is {above:g}; expected a cosine between 0 and 1")
    if relevant_from is not None and not 0 < relevant_from < float("inf"):
        raise InputError(f"--relevant-from is {relevant_from:g}; expected a number above 0")
    default = Cleaner()
    return Cleaner(
        default.threshold if above is None else above,
        default.relevant_from if relevant_from is None else relevant_from,
        scaled,
    )


def clean_data(
    cleaner: Cleaner | None, data: RankingData, path: Path, threads: int = 1
) -> tuple[RankingData, Cleaning | None]:
    """The clean data of a file and what was dropped, which is also printed, on stderr."""
    if cleaner is None:
        return data, None
    try:
        clean, found = cleaner.clean(data, n_jobs=threads)
    except InputError as error:
        raise InputError(error.message, path) from None
    click.echo(f"cleaned {path}: dropped {found.text}", err=True)
    advice = cleaner.advice(data, found)
    if advice:
        click.echo(f"warning: {path}: {advice} by --clean-scaled", err=True)
    return clean, found


def filled(data: RankingData, number: float) -> RankingData:
    """The data with a number where a feature is missing; how many there were is printed, on stderr."""
    import numpy as np

    if not np.isfinite(number):
        raise InputError(f"--fill is {number:g}; expected a finite number")
    X = data.X.copy()
    values = X.data if data.is_sparse else X
    missing = np.isnan(values)
    values[missing] = number
    click.echo(f"filled {int(missing.sum()):,} missing values with {number:g}", err=True)
    return data.with_features(X)
