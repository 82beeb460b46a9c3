"""`rankwright compare`: systems against a baseline, with significance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rankwright.cli.files import check_plots
from rankwright.cli.options import FILE
from rankwright.cli.printing import print_data
from rankwright.cli.progress import progress
from rankwright.cli.systems import evaluate_files, measure_options
from rankwright.cli.whole import Whole
from rankwright.errors import InputError
from rankwright.evaluation.comparison import compare
from rankwright.evaluation.curves import curve_measures, query_curves
from rankwright.evaluation.render import render
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.evaluation.table import DEFAULT_MEASURES, Evaluation
from rankwright.measures import parse_measure

__all__ = ["command"]

_PLOT_HELP = "Plot the systems by depth of the ranking and by query into a .png or .svg file; may be repeated."
_POWER_HELP = "Show how many queries would be needed to see each difference with this probability, such as 0.8."
_RBO_HELP = "Show how alike each run is to the baseline: rank-biased overlap, for example with P 0.9."
_QUERY_HELP = "Draw the curves of this query, too; may be repeated, up to 12 queries."


@click.command("compare")
@click.argument("judgements", metavar="QRELS|FEATURES", type=click.Path())
@click.argument("baseline", metavar="BASELINE", type=click.Path())
@click.argument("systems", metavar="RUN|SCORES...", nargs=-1, required=True, type=click.Path())
@measure_options
@click.option(
    "--test",
    "tests",
    multiple=True,
    type=click.Choice(list(TESTS)),
    help="Significance test; repeat for several.  [default: all]",
)
@click.option(
    "--correction",
    type=click.Choice(CORRECTIONS),
    default="holm",
    show_default=True,
    help="Correction for the number of systems compared on a measure.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence level of the bootstrap intervals.",
)
@click.option(
    "--resamples",
    type=Whole(1),
    default=9999,
    show_default=True,
    help="Resamples of the randomisation test and the bootstrap.",
)
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Random seed.")
@click.option("--power", type=click.FloatRange(0.05, 1, min_open=True, max_open=True), metavar="P", help=_POWER_HELP)
@click.option("-q", "--per-query", is_flag=True, help="Show every query, too: all values, and differences.")
@click.option("--rbo", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="P", help=_RBO_HELP)
@click.option("--plot", "plots", multiple=True, type=FILE, metavar="FILE", help=_PLOT_HELP)
@click.option("--plot-query", "queries", multiple=True, metavar="ID", help=_QUERY_HELP)
def command(
    judgements: str,
    baseline: str,
    systems: tuple[str, ...],
    tests: tuple[str, ...],
    correction: str,
    confidence: float,
    resamples: int,
    seed: int,
    power: float | None,
    plots: tuple[Path, ...],
    queries: tuple[str, ...],
    per_query: bool,
    rbo: float | None,
    kind: str,
    as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Compare runs or score files with a baseline: differences, wins and losses, intervals, significance.

    \b
    Examples:
      rankwright compare qrels.txt bm25.run mine.run yours.run -m nDCG@10
      rankwright compare test.txt old.scores new.scores --test wilcoxon --format latex
      rankwright compare test.txt old.scores new.scores -m nDCG@10 --plot curves.png --plot-query 12

    Queries are matched by id. p-values are two-tailed and corrected for the number of systems. --plot draws the first
    measure with a cutoff (or else nDCG@10): its mean by cutoff, and its difference from the baseline on every query.
    """
    if queries and not plots:
        raise InputError("--plot-query adds a query to the plot; expected --plot FILE with it")
    if rbo is not None and not all(Path(path).is_file() for path in (baseline, *systems)):
        raise InputError("--rbo reads the runs twice; expected files, not pipes")
    check_plots(plots, plots, [Path(path) for path in (judgements, baseline, *systems)])
    asked = [parse_measure(measure) for measure in options.pop("measures") or DEFAULT_MEASURES]
    drawn = next((measure for measure in asked if measure.cutoff is not None), parse_measure("nDCG@10"))
    measures = dict.fromkeys([*asked, *(curve_measures(drawn) if plots else ())])
    evaluations = evaluate_files(judgements, (baseline, *systems), measures=list(measures), **options)
    curves = query_curves(evaluations, drawn) if plots else None
    if curves is not None:
        curves.places(queries)  # unknown ones are rejected before anything is computed
    evaluations = [evaluation.only(asked) for evaluation in evaluations]
    with progress("comparing") as moved:
        result = compare(
            evaluations,
            tests=tests or tuple(TESTS),
            correction=correction,
            confidence=confidence,
            n_resamples=resamples,
            random_state=seed,
            power=power,
            progress=moved,
        )
    if rbo is not None:
        result = replace(result, notes=(*result.notes, *_overlaps(baseline, systems, rbo, evaluations)))
    if curves is not None:
        for plot in plots:
            curves.plot(plot, queries)
    text = render(result, "json" if as_json else kind, compared=evaluations if per_query else ())
    if kind == "csv" and not as_json:
        print_data(text)
    else:
        click.echo(text, nl=False)
    for plot in plots:
        click.echo(f"wrote {plot}", err=True)


def _overlaps(baseline: str, systems: Sequence[str], p: float, evaluations: Sequence[Evaluation]) -> list[str]:
    """A note for each run on how alike it is to the baseline."""
    from rankwright.data.trec import read_run
    from rankwright.evaluation.overlap import rank_biased_overlap

    base, notes = read_run(baseline), []
    for system, evaluation in zip(systems, evaluations[1:], strict=True):
        found = rank_biased_overlap(read_run(system), base, p=p)
        queries = "1 query" if len(found.values) == 1 else f"{len(found.values):,} queries"
        what = f"RBO of {evaluation.name} with {evaluations[0].name}: {found.mean:.4f}"
        notes.append(f"{what} (p {p:g}, extrapolated, mean of {queries})")
    return notes
