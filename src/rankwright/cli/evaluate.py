"""`rankwright evaluate`: means of measures, or the values of every query."""

from __future__ import annotations

from typing import Any

import click

from rankwright.cli.engines import engine_option, engine_started
from rankwright.cli.printing import print_data
from rankwright.cli.systems import evaluate_files, measure_options
from rankwright.evaluation.render import render

__all__ = ["command"]


@click.command("evaluate")
@click.argument("judgements", metavar="QRELS|FEATURES", type=click.Path())
@click.argument("systems", metavar="RUN|SCORES...", nargs=-1, required=True, type=click.Path())
@measure_options
@engine_option
@click.option("-q", "--per-query", is_flag=True, help="Show every query, not just the means.")
def command(
    judgements: str,
    systems: tuple[str, ...],
    per_query: bool,
    kind: str,
    as_json: bool,
    engine: str | None,
    **options: Any,
) -> None:
    """Evaluate runs against judgements, or score files against a feature file.

    \b
    Examples:
      rankwright evaluate qrels.txt bm25.run mine.run.gz -m AP -m nDCG@10
      rankwright evaluate test.txt scores.txt -m ndcg@10 -q
      rankwright evaluate big.parts big.scores --engine processes

    Equal scores are ordered by document id, descending, as in trec_eval. The table ends with the definition of every
    measure.
    """
    with engine_started(engine) as started:
        evaluations = evaluate_files(judgements, systems, engine=started, **options)
    text = render(evaluations, "json" if as_json else kind, per_query=per_query)
    if kind == "csv" and not as_json:
        print_data(text)
    else:
        click.echo(text, nl=False)
