"""`rankwright demo`: a judged sample made from a seed, evaluated and compared as a user would do it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from rankwright.cli.main import cli
from rankwright.data.trec import TrecTable, write_qrels, write_run
from rankwright.errors import InputError

__all__ = ["command", "sample"]

_NOISE = {"bm25": 1.1, "dirichlet": 1.15, "tuned": 0.95, "fusion": 0.8}
_QUERIES, _CANDIDATES, _RETRIEVED = 50, 200, 100


@click.command("demo")
@click.option(
    "--out", type=click.Path(file_okay=False), default="demo", show_default=True, help="Folder for the files."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sample.")
def command(out: str, seed: int) -> None:
    """Make a small judged sample with four rankings, evaluate and compare them.

    \b
    Example:
      rankwright demo --out demo
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", out) from None
    qrels, runs = sample(seed)
    write_qrels(qrels, folder / "qrels.txt")
    for name, run in runs.items():
        write_run(run, folder / f"{name}.run", tag=name)
    click.echo(f"{qrels.n_queries} queries with {qrels.n_docs} judgements and {len(runs)} runs written to {folder}/\n")
    files = [str(folder / f"{name}.run") for name in runs]
    _run(["evaluate", str(folder / "qrels.txt"), *files])
    _run(["compare", str(folder / "qrels.txt"), *files, "-m", "AP", "-m", "nDCG@10"])
    click.echo(f"Next: rankwright evaluate {folder / 'qrels.txt'} {files[0]} -q     (every query)")
    click.echo("      rankwright compare --help                        (tests, corrections, LaTeX, JSON)")


def _run(args: list[str]) -> None:
    click.echo("$ rankwright " + " ".join(args))
    cli.main(args=args, prog_name="rankwright", standalone_mode=False)
    click.echo()


def sample(seed: int) -> tuple[TrecTable, dict[str, TrecTable]]:
    """Judgements and runs: documents have a hidden relevance, every system sees it through noise of its own."""
    rng = np.random.default_rng(seed)
    documents = np.array([f"doc{number:05d}" for number in rng.permutation(20_000)])
    qid = np.repeat(np.arange(1, _QUERIES + 1), _CANDIDATES)
    candidates = np.concatenate([rng.choice(documents, _CANDIDATES, replace=False) for _ in range(_QUERIES)])
    hidden = rng.normal(size=len(qid)) + np.repeat(rng.normal(scale=0.3, size=_QUERIES), _CANDIDATES)
    labels = np.digitize(hidden, [1.3, 2.0, 2.7])
    judged = rng.random(len(qid)) < np.where(hidden > 0.5, 0.9, 0.3)
    runs = {}
    for name, noise in _NOISE.items():
        scores = np.round(10 + 3 * (hidden + rng.normal(scale=noise, size=len(qid))), 4)
        ranks = np.argsort(np.argsort(-scores.reshape(_QUERIES, -1), axis=1), axis=1).reshape(-1)
        kept = ranks < _RETRIEVED
        runs[name] = TrecTable.from_columns(qid[kept], candidates[kept], scores[kept], name)
    qrels = TrecTable.from_columns(qid[judged], candidates[judged], labels[judged], "qrels")
    return qrels, runs
