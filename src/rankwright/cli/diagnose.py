"""`rankwright diagnose`: how training for several losses fares as C grows, as a table, a plot and a CSV file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from rankwright.cli.files import check_target, naming_files, read_features
from rankwright.cli.options import FILE, numbers
from rankwright.cli.progress import progress
from rankwright.cli.training import COMPILING, must_compile
from rankwright.cli.whole import Whole
from rankwright.errors import InputError

__all__ = ["command"]

_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")
_DEFAULT_LOSSES = "map,ndcg@10,mrr@10,auc,pairs"
_LOSSES_HELP = (
    "Losses to train for: map, auc, ndcg, ndcg@10, mrr@10, dorm@10, …; pairs is RankingSVM, map+auc both at once."
)
_GRID_HELP = "Values of C.  [default: 0.0001, 0.001, … 1000]"
_MEASURE_HELP = "Measure to evaluate besides each loss's own; may be repeated."
_OUTPUT_HELP = "Plot to write, .png or .svg; may be repeated."
_TOL_HELP = "Train until the objective is proved to be this close to the optimum (0.001 is 0.1 %)."


@click.command("diagnose")
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--losses", default=_DEFAULT_LOSSES, show_default=True, metavar="LIST", help=_LOSSES_HELP)
@click.option("--C-grid", "C_grid", metavar="0.01,0.1,1", callback=numbers, help=_GRID_HELP)
@click.option("--valid", type=FILE, metavar="FILE", help="Validation data, to evaluate on.")
@click.option("-m", "--measure", "measures", multiple=True, metavar="NAME", help=_MEASURE_HELP)
@click.option("-o", "--output", "plots", multiple=True, type=FILE, metavar="FILE", help=_OUTPUT_HELP)
@click.option("--csv", "csv_file", type=FILE, metavar="FILE", help="Write the table with all digits.")
@click.option("--no-standardize", is_flag=True, help="Train on the raw features, as the papers do.")
@click.option("--tol", type=float, default=1e-3, show_default=True, help=_TOL_HELP)
@click.option("--max-passes", type=Whole(1), default=200, show_default=True, help="Passes over the data, per fit.")
@click.option("--group", type=FILE, metavar="FILE", help="Documents per query, for text without qid.")
@click.option("--valid-group", type=FILE, metavar="FILE", help="The same for the validation data.")
@click.option("--negative-as-zero", is_flag=True, help="Treat labels below 0 as not relevant; otherwise an error.")
@click.option("--json", "as_json", is_flag=True, help="Print the table and the findings as one JSON object.")
def command(
    features: Path,
    valid: Path | None,
    plots: tuple[Path, ...],
    csv_file: Path | None,
    as_json: bool,
    losses: str,
    C_grid: list[float] | None,
    measures: tuple[str, ...],
    no_standardize: bool,
    tol: float,
    max_passes: int,
    group: Path | None,
    valid_group: Path | None,
    negative_as_zero: bool,
) -> None:
    """Train on FEATURES for every loss and C, and show whether training is healthy.

    For each, the table shows the average slack, the objective relative to that at weights of 0, the norm of the
    weights, passes over the data, the proved gap, seconds and how they split, and the loss's own measure. Findings
    below the table say what is certain: a loss whose objective stays at 1 for every C cannot be reduced on this data.

    \b
    Example:
      rankwright diagnose train.txt
      rankwright diagnose train.txt --losses map,ndcg,pairs --valid vali.txt -m nDCG@10 -o health.png -o health.svg
    """
    from rankwright.measures import parse_measure
    from rankwright.rankers.cost import DEFAULT_GRID
    from rankwright.training.health import check_losses, training_health
    from rankwright.training.train import TRAINING, VALIDATION

    targets = [*plots, *([] if csv_file is None else [csv_file])]
    _check_targets(plots, targets, [features, valid])
    asked = [parse_measure(measure) for measure in measures]
    chosen = _losses(losses)
    settings: dict[str, Any] = {"standardize": not no_standardize, "tol": tol, "max_passes": max_passes}
    check_losses(chosen, **settings)
    data = read_features(features, group, negative_as_zero=negative_as_zero)
    held_out = None if valid is None else read_features(valid, valid_group, negative_as_zero=negative_as_zero)
    if must_compile():
        click.echo(COMPILING, err=True)
    with naming_files({TRAINING: features, VALIDATION: valid}), progress("training") as update:
        health = training_health(
            data, chosen, C_grid or DEFAULT_GRID, eval_set=held_out, measures=asked, progress=update, **settings
        )
    text = health.render("json" if as_json else "text")
    for plot in plots:
        health.plot(plot)
    if csv_file is not None:
        _write(csv_file, health.render("csv"))
    click.echo(text, nl=False)
    for target in targets:
        click.echo(f"wrote {target}", err=True)


def _losses(text: str) -> list[Any]:
    """The losses of a list."""
    chosen: list[Any] = []
    for part in _OUTSIDE_BRACKETS.split(text):
        names = [name.strip() for name in part.split("+")]
        if not all(names):
            raise InputError(f"--losses is {text!r}; expected names separated by commas, such as map,pairs")
        chosen.append(names[0] if len(names) == 1 else names)
    return chosen


def _check_targets(plots: tuple[Path, ...], targets: list[Path], sources: list[Path | None]) -> None:
    """Reject, before training, files that could not be written after it."""
    from rankwright.training.health_plot import check_plot_name

    for plot in plots:
        check_plot_name(plot)
    for number, target in enumerate(targets):
        check_target(target, sources)
        if target in targets[:number]:
            raise InputError("is given twice; expected different files to write to", target)


def _write(path: Path, text: str) -> None:
    from rankwright.data.files import replace_file

    with replace_file(path) as out:
        out.write(text.encode())
