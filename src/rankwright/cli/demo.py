"""`rankwright demo`: from the text of Python's standard library to learned rankers, compared with BM25."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.main import cli
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.data.trec import TrecTable
    from rankwright.datasets import Collection
    from rankwright.evaluation.table import Evaluation
    from rankwright.text.index.index import Index

__all__ = ["command"]

_BM25 = "bm25[porter+stop]"
_DEPTH = 100  # candidates of every retrieval function
_MEASURES = ("AP", "nDCG@10", "RR")
_STEPS = 6


@dataclass(eq=False)
class _Parts:
    """The queries in three parts."""

    train: RankingData
    valid: RankingData
    test: RankingData


@click.command("demo")
@click.option(
    "--out", type=click.Path(file_okay=False), default="demo", show_default=True, help="Folder for the files."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the split of the queries.")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, help="Results do not depend on it.")
def command(out: str, seed: int, threads: int) -> None:
    """Learn to rank the documentation of Python's standard library, and compare with BM25.

    Makes a judged collection from the sources of the Python that runs this, indexes it, makes features, trains five
    rankers, and compares them with BM25 and the best single retrieval function on held-out queries. Takes about a
    minute; the first time half of it is compiling.

    \b
    Example:
      rankwright demo --out demo
    """
    from rankwright.cli.demo_report import example_queries, kinds_table, write_plots

    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", out) from None
    began = time.monotonic()
    collection = _collect(folder)
    index = _index(collection, folder)
    parts = _features(index, collection, folder, seed)
    rankers = _train(parts, folder, threads)
    runs = _rank(parts, rankers, folder)
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
    click.echo("What to try next:")
    for line in _next(folder, str(parts.test.query_ids[0])):
        click.echo(f"  {line}")


def _next(folder: Path, query: str) -> list[str]:
    return [
        f'rankwright search {folder}/docs.index "read a file line by line" --model {folder}/svm-map.rkw',
        f"rankwright explain {folder}/svm-map.rkw {folder}/test.rank --query {shlex.quote(query)}",
        f"rankwright info {folder}/lambdamart.rkw",
        f"rankwright train {folder}/train.rank --method lambdarank --valid {folder}/valid.rank -o net.rkw",
        f"rankwright fuse {folder}/bm25.run {folder}/svm-map.run -o fused.run",
        "rankwright index YOUR_DOCUMENTS.jsonl -o your.index       (your own text: see docs/text.md)",
    ]


@contextmanager
def _step(number: int, what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done, and when it is, how long it took and what came of it."""
    if sys.stderr.isatty():
        click.echo(click.style(f"[{number}/{_STEPS}] {what} …", dim=True), err=True, nl=False)
    began = time.monotonic()
    facts: list[str] = []
    yield facts.append
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
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


def _train(parts: _Parts, folder: Path, threads: int) -> dict[str, Any]:
    from rankwright import LambdaMART, StructuredSVM
    from rankwright.cli.training import must_compile

    rankers: dict[str, Any] = {
        "svm-map": StructuredSVM("map", C="auto", n_jobs=threads),
        "svm-mrr": StructuredSVM("mrr@10", C="auto", n_jobs=threads),
        "svm-ndcg": StructuredSVM("ndcg@10", C="auto", n_jobs=threads),
        "svm-combo": StructuredSVM(["map", "ndcg@10", "mrr@10"], C="auto", n_jobs=threads),
        "lambdamart": LambdaMART(100, 0.2, 8, eval_measure="nDCG@10", patience=20, n_jobs=threads),
    }
    with _step(4, "training five rankers, with validation" + (", compiling first" * must_compile())) as say:
        for name, ranker in rankers.items():
            began = time.monotonic()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                ranker.fit(parts.train, eval_set=parts.valid)
            ranker.save(folder / f"{name}.rkw")
            say(f"{name} {time.monotonic() - began:.1f} s")
    return rankers


def _rank(parts: _Parts, rankers: dict[str, Any], folder: Path) -> dict[str, TrecTable]:
    from rankwright.data.trec import TrecTable, write_run

    with _step(5, "ranking the held-out queries") as say:
        names = list(parts.test.feature_names or ())
        assert parts.test.doc_ids is not None
        best = _best_function(parts)
        scores = {"bm25": parts.test.X[:, names.index(_BM25)]}
        if best != _BM25:
            scores["best-single"] = parts.test.X[:, names.index(best)]
        scores |= {name: ranker.predict(parts.test) for name, ranker in rankers.items()}
        runs = {}
        for name, values in scores.items():
            runs[name] = TrecTable.from_columns(parts.test.qid, parts.test.doc_ids, values, name)
            write_run(runs[name], folder / f"{name}.run", tag=name)
        say(f"the best single function on the other queries is {best}")
    return runs


def _best_function(parts: _Parts) -> str:
    """The feature with the highest mean AP on the queries that are not held out."""
    from rankwright.evaluation.table import evaluate

    names = parts.train.feature_names or ()
    found = {}
    for column, name in enumerate(names):
        values = [evaluate(part, part.X[:, column], measures=["AP"]).values for part in (parts.train, parts.valid)]
        found[name] = sum(value.sum() for value in values)
    return max(found, key=lambda name: (found[name], name == _BM25))


def _judgements_of(collection: Collection, test: RankingData, folder: Path) -> TrecTable:
    import numpy as np

    from rankwright.data.trec import TrecTable, write_qrels

    qrels = collection.qrels
    queries = np.repeat(qrels.query_ids, np.diff(qrels.indptr))
    kept = np.isin(queries, test.query_ids.astype(str))
    documents = np.char.decode(qrels.doc_ids[kept], "utf-8")
    held_out = TrecTable.from_columns(queries[kept], documents, qrels.values[kept], "qrels.txt")
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
