"""`rankwright fuse`: combine the runs of several systems, by rank or by normalised score."""

from __future__ import annotations

from pathlib import Path

import click

from rankwright.cli.files import check_target
from rankwright.cli.whole import Whole

__all__ = ["command"]


@click.command("fuse")
@click.argument("sources", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "target", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Run to write."
)
@click.option(
    "--method",
    type=click.Choice(["rrf", "combsum", "combmnz"]),
    default="rrf",
    show_default=True,
    help="Sum of 1 / (k + rank); sum of scores; that sum times the number of runs with the document.",
)
@click.option("-k", "k", type=click.FloatRange(0), default=60.0, show_default=True, help="For rrf.")
@click.option(
    "--normalize",
    type=click.Choice(["minmax", "zscore", "sum", "none"]),
    default="minmax",
    show_default=True,
    help="For combsum and combmnz: how scores are normalised within a query.",
)
@click.option("--depth", type=Whole(1), default=1000, show_default=True, help="Maximum number of documents per query.")
def command(sources: tuple[Path, ...], target: Path, method: str, k: float, normalize: str, depth: int) -> None:
    """Combine TREC runs into one, for `evaluate` and `compare`.

    The result is the baseline for a learned combination of the same runs. FILE is compressed if its name ends in .gz,
    and appears only when it is complete.

    \b
    Example:
      rankwright fuse bm25.run dirichlet.run -o rrf.run
      rankwright fuse bm25.run dirichlet.run -o combmnz.run --method combmnz
      rankwright compare qrels.txt bm25.run rrf.run combmnz.run
    """
    from rankwright.cli.progress import reading
    from rankwright.data.fusion import fuse
    from rankwright.data.trec import read_run, write_run

    check_target(target, sources)
    tables = []
    for source in sources:
        with reading(source) as progress:
            tables.append(read_run(source, progress))
    fused = fuse(tables, method, k=k, normalize=normalize, depth=depth)
    write_run(fused, target, tag=method)
    facts = f"{fused.n_queries:,} queries, {fused.n_docs:,} documents of {len(tables):,} runs"
    click.echo(f"wrote {target}: {facts}", err=True)
