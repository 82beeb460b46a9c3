"""`rankwright diagnose`: how training for several losses fares as C grows, as a table, a plot and a CSV file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.progress import progress, reading
from rankwright.cli.training import must_compile
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

__all__ = ["command"]

_FILE = click.Path(path_type=Path)
_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")
_DEFAULT_LOSSES = "map,ndcg@10,mrr@10,auc,pairs"
_LOSSES_HELP = (
    "What to train for: map, auc, ndcg, ndcg@10, mrr@10, dorm@10, …; pairs is RankingSVM, map+auc both at once."
)
_GRID_HELP = "Values of C.  [default: 0.0001, 0.001, … 1000]"
_MEASURE_HELP = "Evaluate this too, besides the measure of each loss; repeat for several."
_OUTPUT_HELP = "Draw into this file, .png or .svg; repeat for several."
_TOL_HELP = "Train until the objective is proved to be this close to the best possible (0.001 is 0.1 %)."


@click.command("diagnose")
@click.argument("features", metavar="FEATURES", type=_FILE)
@click.option("--losses", default=_DEFAULT_LOSSES, show_default=True, metavar="LIST", help=_LOSSES_HELP)
@click.option("--C-grid", "grid", metavar="0.01,0.1,1", help=_GRID_HELP)
@click.option("--valid", type=_FILE, metavar="FILE", help="Validation data, to evaluate on.")
@click.option("-m", "--measure", "measures", multiple=True, metavar="NAME", help=_MEASURE_HELP)
@click.option("-o", "--output", "plots", multiple=True, type=_FILE, metavar="FILE", help=_OUTPUT_HELP)
@click.option("--csv", "csv_file", type=_FILE, metavar="FILE", help="Write the table with all digits.")
@click.option("--no-standardize", is_flag=True, help="Train on the features as they are, as the papers do.")
@click.option("--tol", type=float, default=1e-3, show_default=True, help=_TOL_HELP)
@click.option(
    "--max-passes", type=click.IntRange(1), default=200, show_default=True, help="Passes over the data, per fit."
)
@click.option("--group", type=_FILE, metavar="FILE", help="Documents per query, for text without qid.")
@click.option("--valid-group", type=_FILE, metavar="FILE", help="The same for the validation data.")
@click.option("--negative-as-zero", is_flag=True, help="Take labels below 0 as not relevant instead of as an error.")
@click.option("--json", "as_json", is_flag=True, help="Print the table and what it says as one JSON object.")
def command(
    features: Path,
    valid: Path | None,
    plots: tuple[Path, ...],
    csv_file: Path | None,
    as_json: bool,
    losses: str,
    grid: str | None,
    measures: tuple[str, ...],
    **options: Any,
) -> None:
    """Train on FEATURES for every loss and C, and show whether training is well.

    For each: the average slack, the objective relative to that at weights of 0, the length of the weights, passes over
    the data, the gap that was proved, seconds and how they split, and the loss's own measure. What is certain is
    said in words under the table: a loss whose objective stays at 1 for every C cannot be reduced on this data.

    \b
    Example:
      rankwright diagnose train.txt
      rankwright diagnose train.txt --losses map,ndcg,pairs --valid vali.txt -m nDCG@10 -o health.png -o health.svg
    """
    from rankwright.measures import parse_measure

    targets = [*plots, *([] if csv_file is None else [csv_file])]
    _check_targets(plots, targets, [features, *([] if valid is None else [valid])])
    settings: dict[str, Any] = {"measures": [parse_measure(measure) for measure in measures]}
    if grid is not None:
        settings["C_grid"] = _numbers(grid)
    settings |= {"standardize": not options["no_standardize"], "tol": options["tol"]}
    chosen = _chosen(losses, options["tol"])
    negative: Literal["error", "zero"] = "zero" if options["negative_as_zero"] else "error"
    data = _read(features, options["group"], negative)
    if valid is not None:
        settings["eval_set"] = _read(valid, options["valid_group"], negative)
    files = {"training data": features, "validation data": valid}
    health = _trained(data, chosen, files, settings | {"max_passes": options["max_passes"]})
    text = health.render("json" if as_json else "text")
    for plot in plots:
        health.plot(plot)
    if csv_file is not None:
        _write(csv_file, health.render("csv"))
    click.echo(text, nl=False)
    for target in targets:
        click.echo(f"wrote {target}", err=True)


def _chosen(text: str, tol: float) -> list[Any]:
    """The losses of a list, checked before anything is read."""
    from rankwright.training.health import check_losses

    chosen: list[Any] = []
    for part in _OUTSIDE_BRACKETS.split(text):
        names = [name.strip() for name in part.split("+")]
        if not all(names):
            raise InputError(f"--losses is given {text!r}; expected names with commas between them, such as map,pairs")
        chosen.append(names[0] if len(names) == 1 else names)
    check_losses(chosen, tol=tol)
    return chosen


def _numbers(text: str) -> list[float]:
    values = []
    for part in text.split(","):
        try:
            value = float(part)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise InputError(f"--C-grid is given {part.strip()!r}; expected numbers above 0 with commas between them")
        values.append(value)
    return values


def _check_targets(plots: Sequence[Path], targets: Sequence[Path], sources: Sequence[Path]) -> None:
    """Refuse before the training what cannot be written after it."""
    from rankwright.training.health_plot import check_plot_name

    for plot in plots:
        check_plot_name(plot)
    for number, target in enumerate(targets):
        if target.is_dir():
            raise InputError("is a folder; expected a file name to write to", target)
        if not target.parent.is_dir():
            raise InputError("cannot be written: No such file or directory", target)
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise InputError("cannot be written: Permission denied", target)
        if any(target.exists() and source.exists() and target.samefile(source) for source in sources):
            raise InputError("is what is being read; expected another name to write to", target)
        if target in targets[:number]:
            raise InputError("is named twice; expected different files to write to", target)


def _read(path: Path, group: Path | None, negative: Literal["error", "zero"]) -> RankingData:
    from rankwright.data.formats import read_data

    with reading(path) as moved:
        return read_data(path, group=group, negative=negative, progress=moved)


def _trained(data: RankingData, losses: Sequence[Any], files: dict[str, Path | None], settings: dict[str, Any]) -> Any:
    """The table; what is wrong with the data is said with the file's name."""
    from rankwright.training.health import training_health

    if must_compile():
        click.echo("compiling the training code, once on this machine: about 15 seconds …", err=True)
    try:
        with progress("training") as moved:
            return training_health(data, losses, progress=moved, **settings)
    except InputError as error:
        raise InputError(error.message, files.get(str(error.path))) from None


def _write(path: Path, text: str) -> None:
    from rankwright.data.files import replace_file

    with replace_file(path) as out:
        out.write(text.encode())
