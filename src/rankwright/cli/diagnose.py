"""`rankwright diagnose`: how training for several losses fares as C grows, as a table, a plot and a CSV file."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.files import check_plots, cleaner_alone, naming_files, read_clean
from rankwright.cli.options import (
    FILE,
    clean_options,
    given_options,
    json_option,
    measure_option,
    numbers,
    parameter_options,
    training_data_options,
)
from rankwright.cli.precompile import COMPILING, must_compile
from rankwright.cli.printing import inform, progress
from rankwright.errors import InputError
from rankwright.maxmargin.structured_svm import StructuredSVM

if TYPE_CHECKING:
    from rankwright.io.roles import Columns
    from rankwright.training.health import TrainingHealth
    from rankwright.training.pair_models import PairModels

_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")
_DEFAULT_LOSSES = "map,ndcg@10,mrr@10,auc,pairs"
_LOSSES_HELP = (
    "Losses to train for: map, auc, ndcg, ndcg@10, mrr@10, dorm@10, …; pairs is RankingSVM, map+auc both at once."
)
_GRID_HELP = "Values of C.  [default: 0.0001, 0.001, … 1000]"
_PAIRS_HELP = (
    "Compare Ranking SVM with models of some of its pairs alone, by labels and by query; takes one C  [default: 0.01] "
    "and none of --losses, --valid and --measure."
)
_QUERY_HELP = "With --pairs: the two queries to draw.  [default: those at the quartiles of the number of pairs]"
_PARAMETERS = ("standardize", "tol", "max_passes")  # of every fit, declared by the estimator


@click.command("diagnose")
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--losses", default=_DEFAULT_LOSSES, metavar="LIST", help=_LOSSES_HELP)
@click.option("--C-grid", "C_grid", metavar="0.01,0.1,1", callback=numbers, help=_GRID_HELP)
@click.option("--valid", type=FILE, help="Validation data, to evaluate on.")
@measure_option("Measure to evaluate besides each loss's own; may be repeated.", "measures", multiple=True)
@click.option("-o", "--output", "plots", multiple=True, type=FILE, help="Plot to write, .png or .svg; may be repeated.")
@click.option("--csv", "csv_file", type=FILE, help="Write the table with all digits.")
@parameter_options(StructuredSVM, *_PARAMETERS)
@training_data_options
@clean_options
@json_option("Print the table and the findings as one JSON object.")
@click.option("--pairs", is_flag=True, help=_PAIRS_HELP)
@click.option("--query", "queries", multiple=True, metavar="ID", help=_QUERY_HELP)
def command(
    features: Path,
    valid: Path | None,
    plots: tuple[Path, ...],
    csv_file: Path | None,
    as_json: bool,
    losses: str,
    C_grid: list[float] | None,
    measures: tuple[str, ...],
    group: Path | None,
    valid_group: Path | None,
    negative_as_zero: bool,
    columns: Columns | None,
    pairs: bool,
    queries: tuple[str, ...],
    **options: Any,
) -> None:
    """Train on FEATURES for every loss and C, and show whether training is healthy.

    For each, the table shows the average slack, the objective relative to that at weights of 0, the norm of the
    weights, passes over the data, the proved gap, seconds and how they split, and the loss's own measure. Findings
    below the table say what is certain: a loss whose objective stays at 1 for every C cannot be reduced on this data.
    --clean applies to FEATURES and --valid.

    --pairs asks another question: whose pairs decide what Ranking SVM learns? It is trained on the pairs of every two
    labels and of every query alone, and the table shows how well the model of all pairs, and that of Ranking SVM for
    IR, agree with each. The plot shows two queries in the plane of their first two principal components.

    \b
    Example:
      rankwright diagnose train.txt
      rankwright diagnose train.txt --losses map,ndcg,pairs --valid vali.txt -m nDCG@10 -o health.png -o health.svg
      rankwright diagnose train.txt --pairs --query 12 --query 50 -o pairs.png
    """
    from rankwright.io.files import replace_file
    from rankwright.maxmargin.cost import DEFAULT_GRID
    from rankwright.measures import parse_measure
    from rankwright.training.health import check_losses, training_health
    from rankwright.training.pair_models import pair_models
    from rankwright.training.train import TRAINING, VALIDATION

    targets = [*plots, *([] if csv_file is None else [csv_file])]
    check_plots(plots, targets, [features, valid])
    _check_pairs(pairs, C_grid, queries)
    chosen, parsed = _losses(losses), [parse_measure(measure) for measure in measures]
    settings = {name: value for name in _PARAMETERS if (value := options.pop(name)) is not None}
    check_losses(chosen, **settings)
    cleaner = cleaner_alone(options)
    read = partial(read_clean, cleaner=cleaner, negative_as_zero=negative_as_zero, columns=columns)
    data, _ = read(features, group)
    held_out = None if valid is None else read(valid, valid_group)[0]
    if must_compile():
        inform(COMPILING)
    health: TrainingHealth | PairModels
    with naming_files({TRAINING: features, VALIDATION: valid}), progress("training") as update:
        if pairs:
            health = pair_models(data, *(C_grid or ()), queries=queries, progress=update, **settings)
        else:
            health = training_health(
                data, chosen, C_grid or DEFAULT_GRID, eval_set=held_out, measures=parsed, progress=update, **settings
            )
    text = health.render("json" if as_json else "text")
    for plot in plots:
        health.plot(plot)
    if csv_file is not None:
        with replace_file(csv_file) as out:
            out.write(health.render("csv").encode())
    click.echo(text, nl=False)
    for target in targets:
        inform(f"wrote {target}")


def _check_pairs(pairs: bool, C_grid: list[float] | None, queries: tuple[str, ...]) -> None:
    """Reject options that mean nothing to --pairs, or without it."""
    if queries and not pairs:
        raise InputError("--query names a query to draw with --pairs; expected --pairs with it")
    if not pairs:
        return
    given = given_options()
    for name in ("losses", "valid", "measures"):
        if name in given:
            raise InputError(f"{given[name]} does not go with --pairs")
    if C_grid is not None and len(C_grid) != 1:
        raise InputError(f"--C-grid has {len(C_grid)} values; expected one with --pairs")
    if queries and len(set(queries)) != 2:
        raise InputError("--query is given for the two queries to draw; expected two different ones, or none")


def _losses(text: str) -> list[Any]:
    chosen: list[Any] = []
    for part in _OUTSIDE_BRACKETS.split(text):
        names = [name.strip() for name in part.split("+")]
        if not all(names):
            raise InputError(f"--losses is {text!r}; expected names separated by commas, such as map,pairs")
        chosen.append(names[0] if len(names) == 1 else names)
    return chosen
