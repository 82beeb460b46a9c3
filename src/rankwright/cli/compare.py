"""`rankwright compare`: systems against a baseline, with significance."""

from __future__ import annotations

from typing import Any

import click

from rankwright.cli.printing import print_data
from rankwright.cli.progress import progress
from rankwright.cli.systems import evaluate_files, measure_options
from rankwright.cli.whole import Whole
from rankwright.evaluation.comparison import compare
from rankwright.evaluation.render import render
from rankwright.evaluation.significance import CORRECTIONS, TESTS

__all__ = ["command"]


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
def command(
    judgements: str,
    baseline: str,
    systems: tuple[str, ...],
    tests: tuple[str, ...],
    correction: str,
    confidence: float,
    resamples: int,
    seed: int,
    kind: str,
    as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Compare runs or score files with a baseline: differences, wins and losses, intervals, significance.

    \b
    Examples:
      rankwright compare qrels.txt bm25.run mine.run yours.run -m nDCG@10
      rankwright compare test.txt old.scores new.scores --test wilcoxon --format latex

    Queries are matched by id. p-values are two-tailed and corrected for the number of systems.
    """
    evaluations = evaluate_files(judgements, (baseline, *systems), **options)
    with progress("comparing") as moved:
        result = compare(
            evaluations,
            tests=tests or tuple(TESTS),
            correction=correction,
            confidence=confidence,
            n_resamples=resamples,
            random_state=seed,
            progress=moved,
        )
    text = render(result, "json" if as_json else kind)
    if kind == "csv" and not as_json:
        print_data(text)
    else:
        click.echo(text, nl=False)
