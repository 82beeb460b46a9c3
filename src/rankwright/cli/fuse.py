"""`rankwright fuse`: combine the runs of several systems, by rank or by normalised score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rankwright.cli.files import check_target, read_judgements
from rankwright.cli.options import FILE, Integer, normalize_option, output_option
from rankwright.cli.printing import counted, reading
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.trec_table import TrecTable

_CHOOSE_HELP = "For rrf: choose k by these judgements, of other queries than those to test on."


@click.command("fuse")
@click.argument("sources", metavar="RUN...", nargs=-1, required=True, type=FILE)
@output_option("Run to write.")
@click.option(
    "--method",
    type=click.Choice(["rrf", "isr", "logisr", "rbc", "borda", "condorcet", "combsum", "combmnz"]),
    default="rrf",
    show_default=True,
    help="How to combine ranks or, for combsum and combmnz, scores.",
)
@click.option(
    "-k", "k", type=click.FloatRange(0), help="For rrf: the larger, the less the first ranks stand out.  [default: 60]"
)
@click.option("--choose-k", "qrels", type=FILE, metavar="QRELS", help=_CHOOSE_HELP)
@click.option("-m", "--measure", metavar="NAME", help="What --choose-k chooses by.  [default: nDCG@10]")
@click.option("--phi", type=click.FloatRange(0, 1), default=0.8, show_default=True, help="For rbc: patience of a user.")
@normalize_option("For combsum and combmnz: how scores are normalised within a query.")
@click.option("--depth", type=Integer(1), default=1000, show_default=True, help="Maximum documents per query.")
def command(
    sources: tuple[Path, ...],
    target: Path,
    method: str,
    k: float | None,
    qrels: Path | None,
    measure: str | None,
    phi: float,
    normalize: str,
    depth: int,
) -> None:
    """Combine TREC runs into one, for `evaluate` and `compare`.

    With n runs that have a document: rrf is the sum of 1 / (k + rank); isr n times the sum of 1 / rank², logisr ln(n)
    times it; rbc the sum of (1 − φ) φ^(rank − 1); borda counts the documents below; condorcet lets the runs vote on
    pairs; combsum is the sum of scores, combmnz n times it.

    The result is the baseline for a learned combination of the same runs. FILE is compressed if its name ends in .gz,
    and appears only when it is complete.

    \b
    Example:
      rankwright fuse bm25.run dirichlet.run -o rrf.run
      rankwright fuse bm25.run dirichlet.run -o rrf.run --choose-k valid.qrels
      rankwright fuse bm25.run dirichlet.run -o combmnz.run --method combmnz
      rankwright compare qrels.txt bm25.run rrf.run combmnz.run
    """
    from rankwright.data.fusion import fuse
    from rankwright.io.trec import read_run, write_run

    _check(method, k, qrels, measure)
    check_target(target, [*sources, *([] if qrels is None else [qrels])])
    tables = []
    for source in sources:
        with reading(source) as progress:
            tables.append(read_run(source, progress))
    if qrels is not None:
        k = _chosen(tables, qrels, measure)
    fused = fuse(tables, method, k=60.0 if k is None else k, phi=phi, normalize=normalize, depth=depth)
    write_run(fused, target, tag=method)
    facts = f"{fused.n_queries:,} queries, {fused.n_docs:,} documents of {len(tables):,} runs"
    click.echo(f"wrote {target}: {facts}", err=True)


def _check(method: str, k: float | None, qrels: Path | None, measure: str | None) -> None:
    if qrels is not None and method != "rrf":
        raise InputError(f"--choose-k is for rrf, not {method}; expected --method rrf with it")
    if qrels is not None and k is not None:
        raise InputError("-k and --choose-k exclude each other; expected one of them")
    if measure is not None and qrels is None:
        raise InputError("--measure is what --choose-k chooses by; expected --choose-k QRELS with it")


def _chosen(tables: list[TrecTable], path: Path, measure: str | None) -> float:
    from rankwright.evaluation.evaluate import choose_k

    choice = choose_k(tables, read_judgements(path), measure or "nDCG@10")
    means = ", ".join(f"{k:g}: {mean:.4f}" for k, mean in choice.means.items())
    queries = counted(choice.queries, "query", "queries")
    click.echo(f"k is {choice.k:g}, by {choice.measure} of {queries} ({means})", err=True)
    return choice.k
