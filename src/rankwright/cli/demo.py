"""`rankwright demo`: from the text of Python's standard library to learned rankers, compared with BM25."""

from __future__ import annotations

import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.main import cli
from rankwright.cli.options import seed_option, threads_option
from rankwright.cli.printing import ERASE, RETURN, styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.data.trec import TrecTable
    from rankwright.datasets import Collection
    from rankwright.evaluation.table import Evaluation
    from rankwright.text.index.index import Index

__all__ = ["command"]

_BM25 = "bm25[porter+stop]"
_DEPTH = 100  # candidates per retrieval function
_MEASURES = ("AP", "nDCG@10", "RR")
_STEPS = 6
_TRAINED: dict[str, dict[str, Any]] = {  # methods, and their settings
    "auto": {},
    "svm-map": {},
    "svm-mrr": {},
    "svm-ndcg": {},
    "svm-combo": {"losses": ["map", "ndcg@10", "mrr@10"]},
    "lambdamart": {"n_trees": 100, "learning_rate": 0.2, "max_leaves": 8, "patience": 20},
}


@dataclass(eq=False)
class _Parts:
    """The data of training, validation and test queries."""

    train: RankingData
    valid: RankingData
    test: RankingData


@click.command("demo")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo",
    show_default=True,
    help="Folder to write to.",
)
@seed_option
@threads_option(2)
def command(folder: Path, seed: int, threads: int) -> None:
    """Learn to rank the documentation of Python's standard library, and compare with BM25.

    Builds a judged collection from the sources of the running Python, indexes it, computes features, trains auto (what
    `rankwright train` does by itself) and five rankers of the papers, and compares them with BM25 and the best single
    retrieval function on held-out queries. Takes about a minute, half of it compiling the first time.

    \b
    Example:
      rankwright demo -o demo
    """
    from rankwright.cli.demo_report import example_queries, kinds_table, write_plots

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror}", folder) from None
    began = time.monotonic()
    collection = _collect(folder)
    index = _index(collection, folder)
    parts = _features(index, collection, folder, seed)
    models = _train(parts, folder, seed, threads)
    runs = _rank(parts, models, folder)
    with _step(6, "comparing on the held-out queries") as say:
        qrels = _judgements_of(collection, parts.test, folder)
        evaluations = _evaluate(qrels, runs)
        plots = write_plots(evaluations, collection.kinds, folder)
        say(f"{qrels.n_queries} queries")
    click.echo()
    _run(["compare", *(str(folder / name) for name in ("qrels.txt", *(f"{name}.run" for name in runs)))])
    click.echo(kinds_table(evaluations, collection.kinds))
    click.echo(example_queries(index, collection, qrels, evaluations, runs))
    click.echo(f"Everything is in {folder}/ ({time.monotonic() - began:.0f} s); plots: {', '.join(plots)}.")
    click.echo("Try next:")
    for line in _next(folder, str(parts.test.query_ids[0])):
        click.echo(f"  {line}")


def _next(folder: Path, query: str) -> list[str]:
    return [
        f'rankwright search {folder}/docs.index "read a file line by line" --model {folder}/auto.rkw',
        f"rankwright explain {folder}/auto.rkw {folder}/test.rank --query {shlex.quote(query)}",
        f"rankwright info {folder}/auto.rkw",
        f"rankwright train {folder}/train.rank --explainable -o weights.rkw",
        f"rankwright fuse {folder}/bm25.run {folder}/auto.run -o fused.run",
        "rankwright index YOUR_DOCUMENTS.jsonl -o your.index       (your own text, see docs/text.md)",
    ]


@contextmanager
def _step(number: int, what: str) -> Iterator[Callable[[str], None]]:
    """Announce a step; when it is done, say how long it took and what came of it."""
    if sys.stderr.isatty():
        click.echo(styled(f"[{number}/{_STEPS}] {what} …"), err=True, nl=False)
    began = time.monotonic()
    facts: list[str] = []
    yield facts.append
    if sys.stderr.isatty():
        click.echo(RETURN + ERASE, err=True, nl=False)
    click.echo(f"[{number}/{_STEPS}] {what}: {', '.join(facts)} ({time.monotonic() - began:.1f} s)")


def _collect(folder: Path) -> Collection:
    from rankwright.cli.progress import progress
    from rankwright.datasets import python_docs

    with _step(1, "reading the sources of Python's standard library") as say:
        with progress("reading") as update:
            collection = python_docs(progress=update)
        collection.write(folder / "collection")
        kinds = list(collection.kinds.values())
        counts = " and ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds), key=kinds.count)[::-1])
        say(f"{len(collection.documents):,} documents, {counts} queries")
    return collection


def _index(collection: Collection, folder: Path) -> Index:
    from rankwright.cli.progress import progress
    from rankwright.text.index.index import build_index

    with _step(2, "indexing") as say:
        with progress("indexing") as update:
            index = build_index(
                collection.documents, folder / "docs.index", split_identifiers=True, field_views=True, progress=update
            )
        say(f"{index.n_tokens:,} tokens, {len(index.terms):,} terms, three analysers")
    return index


def _features(index: Index, collection: Collection, folder: Path, seed: int) -> _Parts:
    from rankwright.cli.progress import progress
    from rankwright.data.formats import write_data
    from rankwright.text.search.columns import feature_set
    from rankwright.text.search.features import make_features

    with _step(3, "features") as say:
        names = [*feature_set("base", index.fields), *feature_set("sigir06")]
        with progress("features") as update:
            data = make_features(
                index, collection.queries, features=names, qrels=collection.qrels, depth=_DEPTH, progress=update
            ).data
        place = {query: at for at, query in enumerate(data.query_ids.tolist())}
        some = [[place[query] for query in part if query in place] for part in collection.split(seed)]
        parts = _Parts(*(data.select(queries) for queries in some))
        for name in ("train", "valid", "test"):
            write_data(getattr(parts, name), folder / f"{name}.rank")
        sizes = [part.n_queries for part in (parts.train, parts.valid, parts.test)]
        say(f"{data.n_features} features of {data.n_docs:,} candidates")
        say(f"{sizes[0]} queries to train, {sizes[1]} to validate, {sizes[2]} to test")
    return parts


def _train(parts: _Parts, folder: Path, seed: int, threads: int) -> dict[str, Any]:
    from rankwright.cli.training import must_compile
    from rankwright.training.train import train

    models: dict[str, Any] = {}
    summary: list[tuple[str, str]] = []
    with _step(4, "training auto and five rankers, with validation" + (", compiling first" * must_compile())) as say:
        for name, settings in _TRAINED.items():
            trained = train(name, parts.train, parts.valid, settings=settings, random_state=seed, n_jobs=threads)
            if trained.facts.interrupted:
                raise KeyboardInterrupt
            trained.save(folder / f"{name}.rkw")
            models[name] = trained.model
            say(f"{name} {trained.facts.seconds:.1f} s")
            if trained.facts.committee is not None:
                summary = trained.facts.committee.words()
    for title, line in summary:
        for at, part in enumerate(textwrap.wrap(line, 104, break_on_hyphens=False)):
            click.echo(f"      {'' if at else title:<9}{part}")
    return models


def _rank(parts: _Parts, models: dict[str, Any], folder: Path) -> dict[str, TrecTable]:
    from rankwright.data.trec import TrecTable, write_run

    with _step(5, "ranking the held-out queries") as say:
        names = list(parts.test.feature_names or ())
        assert parts.test.doc_ids is not None
        best = _best_function(parts)
        scores = {"bm25": parts.test.X[:, names.index(_BM25)]}
        if best != _BM25:
            scores["best-single"] = parts.test.X[:, names.index(best)]
        scores |= {name: model.predict(parts.test) for name, model in models.items()}
        runs = {}
        for name, values in scores.items():
            runs[name] = TrecTable.from_columns(parts.test.qid, parts.test.doc_ids, values, name)
            write_run(runs[name], folder / f"{name}.run", tag=name)
        say(f"the best single function on training and validation queries is {best}")
    return runs


def _best_function(parts: _Parts) -> str:
    """The feature with the highest mean AP on the training and validation queries."""
    from rankwright.evaluation.table import evaluate

    names = parts.train.feature_names or ()
    found = {}
    for column, name in enumerate(names):
        values = [evaluate(part, part.X[:, column], measures=["AP"]).values for part in (parts.train, parts.valid)]
        found[name] = sum(value.sum() for value in values)
    return max(found, key=lambda name: (found[name], name == _BM25))


def _judgements_of(collection: Collection, test: RankingData, folder: Path) -> TrecTable:
    from rankwright.data.trec import write_qrels

    held_out = collection.qrels.select(test.query_ids)
    write_qrels(held_out, folder / "qrels.txt")
    return held_out


def _evaluate(qrels: TrecTable, runs: dict[str, TrecTable]) -> list[Evaluation]:
    from rankwright.evaluation.runs import Judgements, evaluate_run

    judged = Judgements(qrels)
    return [evaluate_run(judged, run, measures=_MEASURES, name=name) for name, run in runs.items()]


def _run(args: list[str]) -> None:
    args = [*args, *(part for measure in _MEASURES for part in ("-m", measure)), "--test", "wilcoxon"]
    click.echo("$ rankwright " + " ".join(args))
    cli.main(args=args, prog_name="rankwright", standalone_mode=False)
    click.echo()
