"""`rankwright demo` and `rankwright collection`: the text of Python's standard library, learned on or written out."""

from __future__ import annotations

import shlex
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rankwright.cli.main import cli
from rankwright.cli.options import output_option, seed_option, threads_option
from rankwright.cli.printing import ERASE, RETURN, inform, progress, styled
from rankwright.data.dataset import RankingData
from rankwright.data.display import Tabled
from rankwright.data.order import rank_order
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Evaluation, Judgements, evaluate, evaluate_run
from rankwright.evaluation.render import draw
from rankwright.evaluation.significance import bootstrap_interval
from rankwright.io.files import reading, replace_file
from rankwright.io.trec import write_qrels, write_run

if TYPE_CHECKING:
    from rankwright.datasets import Collection
    from rankwright.text.index import Index

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
_LEARNED = "auto"
_SHOWN = 3  # documents of an example query
_WIDTH = 46  # of each of two columns
_INK, _FAINT, _GOOD, _BAD = "#1b1f24", "#8b949e", "#0072b2", "#d55e00"


@click.command("demo")
@output_option("Folder to write to.", "folder", metavar="DIRECTORY", required=False, default="demo")
@seed_option()
@threads_option(2)
def demo_command(folder: Path, seed: int, threads: int) -> None:
    """Learn to rank the documentation of Python's standard library, and compare with BM25.

    Builds a judged collection from the sources of the running Python, indexes it, computes features, trains auto (what
    `rankwright train` does by itself) and five rankers of the papers, and compares them with BM25 and the best single
    retrieval function on held-out queries. Takes about a minute, half of it compiling the first time.

    \b
    Example:
      rankwright demo -o demo
    """
    with reading(folder, "created"):
        folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    collection = _collect(folder)
    index = _index(collection, folder)
    split = _features(index, collection, folder, seed)
    models = _train(split, folder, seed, threads)
    runs = _rank(split, models, folder)
    with _step(6, "comparing on the held-out queries") as say:
        qrels = collection.qrels.select(split["test"].query_ids)
        write_qrels(qrels, folder / "qrels.txt")
        judged = Judgements(qrels)
        evaluations = [evaluate_run(judged, run, measures=_MEASURES, name=name) for name, run in runs.items()]
        plots = _write_plots(evaluations, collection.kinds, folder)
        say(f"{qrels.n_queries} queries")
    click.echo()
    args = ["compare", *(str(folder / name) for name in ("qrels.txt", *(f"{name}.run" for name in runs)))]
    args += [*(arg for measure in _MEASURES for arg in ("-m", measure)), "--test", "wilcoxon"]
    click.echo("$ rankwright " + " ".join(args))
    cli.main(args=args, prog_name="rankwright", standalone_mode=False)
    click.echo()
    click.echo(_kinds_table(evaluations, collection.kinds))
    click.echo(_example_queries(index, collection, qrels, evaluations, runs))
    click.echo(f"Everything is in {folder}/ ({time.monotonic() - began:.0f} s); plots: {', '.join(plots)}.")
    click.echo("Try next:")
    for line in _next(folder, str(split["test"].query_ids[0])):
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
def _step(number: int, title: str) -> Iterator[Callable[[str], None]]:
    """Announce a step; when it is done, say how long it took and what came of it."""
    if sys.stderr.isatty():
        click.echo(styled(f"[{number}/{_STEPS}] {title} …"), err=True, nl=False)
    began = time.monotonic()
    facts: list[str] = []
    yield facts.append
    if sys.stderr.isatty():
        click.echo(RETURN + ERASE, err=True, nl=False)
    click.echo(f"[{number}/{_STEPS}] {title}: {', '.join(facts)} ({time.monotonic() - began:.1f} s)")


def _collect(folder: Path) -> Collection:
    from rankwright.datasets import python_docs

    with _step(1, "reading the sources of Python's standard library") as say, progress("reading") as update:
        collection = python_docs(progress=update)
        collection.write(folder / "collection")
        kinds = list(collection.kinds.values())
        counts = " and ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds), key=kinds.count)[::-1])
        say(f"{len(collection.documents):,} documents, {counts} queries")
    return collection


def _index(collection: Collection, folder: Path) -> Index:
    from rankwright.text.index import build_index

    with _step(2, "indexing") as say, progress("indexing") as update:
        index = build_index(
            collection.documents, folder / "docs.index", split_identifiers=True, field_views=True, progress=update
        )
        say(f"{index.n_tokens:,} tokens, {len(index.terms):,} terms, three analysers")
    return index


def _features(index: Index, collection: Collection, folder: Path, seed: int) -> dict[str, RankingData]:
    """The data by role: train, valid and test."""
    from rankwright.io.detect import write_data
    from rankwright.text.features import feature_set, make_features

    with _step(3, "features") as say, progress("features") as update:
        names = [*feature_set("base", index.fields), *feature_set("sigir06")]
        made = make_features(
            index, collection.queries, features=names, qrels=collection.qrels, depth=_DEPTH, progress=update
        )
        data = made.data
        place = {query: at for at, query in enumerate(data.query_ids.tolist())}
        split = {}
        for name, queries in zip(("train", "valid", "test"), collection.split(seed), strict=True):
            split[name] = data.select([place[query] for query in queries if query in place])
            write_data(split[name], folder / f"{name}.rank")
        sizes = [some.n_queries for some in split.values()]
        say(f"{data.n_features} features of {data.n_docs:,} candidates")
        say(f"{sizes[0]} queries to train, {sizes[1]} to validate, {sizes[2]} to test")
    return split


def _train(split: dict[str, RankingData], folder: Path, seed: int, threads: int) -> dict[str, Any]:
    from rankwright.cli.precompile import must_compile
    from rankwright.training.train import train

    models: dict[str, Any] = {}
    summary: list[tuple[str, str]] = []
    with _step(4, "training auto and five rankers, with validation" + (", compiling first" * must_compile())) as say:
        for name, settings in _TRAINED.items():
            data = (split["train"], split["valid"])
            trained = train(name, *data, settings=settings, random_state=seed, n_jobs=threads)
            if trained.facts.interrupted:
                raise KeyboardInterrupt
            trained.save(folder / f"{name}.rkw")
            models[name] = trained.model
            say(f"{name} {trained.facts.seconds:.1f} s")
            if trained.facts.committee is not None:
                summary = trained.facts.committee.words()
    for title, line in summary:
        for at, wrapped in enumerate(textwrap.wrap(line, 104, break_on_hyphens=False)):
            click.echo(f"      {'' if at else title:<9}{wrapped}")
    return models


def _rank(split: dict[str, RankingData], models: dict[str, Any], folder: Path) -> dict[str, TrecTable]:
    test = split["test"]
    with _step(5, "ranking the held-out queries") as say:
        names = list(test.feature_names or ())
        assert test.doc_ids is not None
        best = _best_function(split)
        scores = {"bm25": test.X[:, names.index(_BM25)]}
        if best != _BM25:
            scores["best-single"] = test.X[:, names.index(best)]
        scores |= {name: model.predict(test) for name, model in models.items()}
        runs = {}
        for name, values in scores.items():
            runs[name] = TrecTable.from_columns(test.qid, test.doc_ids, values, name)
            write_run(runs[name], folder / f"{name}.run", tag=name)
        say(f"the best single function on training and validation queries is {best}")
    return runs


def _best_function(split: dict[str, RankingData]) -> str:
    seen = (split["train"], split["valid"])
    sums = {}
    for column, name in enumerate(split["train"].feature_names or ()):
        values = [evaluate(data, data.X[:, column], measures=["AP"]).values for data in seen]
        sums[name] = sum(value.sum() for value in values)
    return max(sums, key=lambda name: (sums[name], name == _BM25))


def _of_kind(evaluation: Evaluation, kinds: Mapping[str, str], kind: str) -> Any:
    chosen = [kinds[str(query)] == kind for query in evaluation.query_ids]
    return evaluation.values[np.array(chosen)]


def _sorted_kinds(evaluation: Evaluation, kinds: Mapping[str, str]) -> list[str]:
    kind_of_query = [kinds[str(query)] for query in evaluation.query_ids]
    return sorted(set(kind_of_query), key=kind_of_query.count, reverse=True)


def _gains(evaluations: Sequence[Evaluation]) -> tuple[list[str], Any]:
    """The queries, and how much better auto is than BM25 on each."""
    by_name = {system.name: system for system in evaluations}
    gains = by_name[_LEARNED].values[:, 0] - by_name["bm25"].values[:, 0]
    return [str(query) for query in by_name["bm25"].query_ids], gains


def _kinds_table(evaluations: Sequence[Evaluation], kinds: Mapping[str, str]) -> str:
    """Means of every system for each kind of query, with the best of each column marked."""
    names = _sorted_kinds(evaluations[0], kinds)
    measures = [str(measure) for measure in evaluations[0].measures]
    means = np.array([[_of_kind(system, kinds, kind).mean(axis=0) for kind in names] for system in evaluations])
    best = means.max(axis=0)
    header = ["system", *(f"{kind[:5]}. {measure}" for kind in names for measure in measures)]
    rows = []
    for system, row in zip(evaluations, means, strict=True):
        cells = [f"{value:.4f}{'*' if value == top else ' '}" for value, top in zip(row.flat, best.flat, strict=True)]
        rows.append((system.name, *cells))
    sizes = [f"{len(_of_kind(evaluations[0], kinds, kind))} {kind}" for kind in names]
    note = f"by kind of query ({' and '.join(sizes)}); * best of its column"
    return draw(Tabled(tuple(header), tuple(rows), (note,)))


def _example_queries(
    index: Index,
    collection: Collection,
    qrels: TrecTable,
    evaluations: Sequence[Evaluation],
    runs: Mapping[str, TrecTable],
) -> str:
    """Held-out queries answered by two systems: the largest gain of each kind, and the largest loss."""
    by_name = {system.name: system for system in evaluations}
    queries, gains = _gains(evaluations)
    chosen = []
    for kind in _sorted_kinds(evaluations[0], collection.kinds):
        of_kind = [at for at, query in enumerate(queries) if collection.kinds[query] == kind]
        chosen.append((max(of_kind, key=lambda at: gains[at]), f"the largest gain, {kind}"))
    chosen.append((int(np.argmin(gains)), "the largest loss"))
    lines = ["Three held-out queries, by BM25 and by auto (✓ relevant):"]
    for at, reason in chosen:
        query = queries[at]
        lines += ["", styled(f"“{collection.queries[query]}”", bold=True) + f"   {reason}"]
        good = {document.decode() for document, _ in _ranked(qrels, query, None)}
        columns = []
        for name, system in (("BM25", "bm25"), (_LEARNED, _LEARNED)):
            shown = [f"{name}, AP {by_name[system].values[at, 0]:.2f}"]
            for rank, (document, _) in enumerate(_ranked(runs[system], query, _SHOWN), 1):
                mark = "✓" if document.decode() in good else " "
                shown.append(f"{rank}. {mark} {document.decode()}"[:_WIDTH])
            columns.append(shown)
        lines += [f"  {left:<{_WIDTH}}  {right}" for left, right in zip(*columns, strict=False)]
    return "\n".join(lines) + "\n"


def _ranked(table: TrecTable, query: str, limit: int | None) -> list[tuple[bytes, float]]:
    """Documents of a query and their values, highest first."""
    q = list(map(str, table.query_ids)).index(query)
    rows = slice(table.indptr[q], table.indptr[q + 1])
    ids, values = table.doc_ids[rows], table.values[rows]
    order = rank_order(values, np.array([0, len(values)]), ids)[:limit]
    return [(ids[at], float(values[at])) for at in order]


def _write_plots(evaluations: Sequence[Evaluation], kinds: Mapping[str, str], folder: Path) -> list[str]:
    """Plot means with 95 % intervals by kind of query, and differences from BM25 by query; return the file names."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "rankwright"}
    plots = (("means.png", _draw_means, (8, 4.2)), ("differences.png", _draw_differences, (8, 3.6)))
    with rc_context(style):
        for name, draw_on, size in plots:
            figure = Figure(figsize=size, dpi=150, layout="constrained")
            draw_on(figure, evaluations, kinds)
            with replace_file(folder / name) as out:
                figure.savefig(out, format="png")
    return [name for name, _, _ in plots]


def _draw_means(figure: Any, evaluations: Sequence[Evaluation], kinds: Mapping[str, str]) -> None:
    names = _sorted_kinds(evaluations[0], kinds)
    measures = [str(measure) for measure in evaluations[0].measures]
    axes = figure.subplots(len(names), len(measures), sharey=True, sharex="row", squeeze=False)
    places = np.arange(len(evaluations))[::-1]
    for row, kind in enumerate(names):
        for column, measure in enumerate(measures):
            axis = axes[row, column]
            for place, system in zip(places, evaluations, strict=True):
                values = _of_kind(system, kinds, kind)[:, column]
                low, high = bootstrap_interval(values)
                learned = system.name not in ("bm25", "best-single")
                axis.plot([low, high], [place, place], color=_GOOD if learned else _FAINT, linewidth=2)
                axis.plot(values.mean(), place, "o" if learned else "s", color=_GOOD if learned else _INK, markersize=5)
            axis.axvline(_of_kind(evaluations[0], kinds, kind)[:, column].mean(), color=_FAINT, linewidth=0.8, zorder=0)
            axis.set_yticks(places, [system.name for system in evaluations])
            axis.set_title(f"{measure}, {kind} ({len(values)})", fontsize=9, loc="left")
    figure.supxlabel("mean over held-out queries, with its 95 % bootstrap interval; the line is BM25", fontsize=8)


def _draw_differences(figure: Any, evaluations: Sequence[Evaluation], kinds: Mapping[str, str]) -> None:
    axis = figure.subplots()
    queries, differences = _gains(evaluations)
    order = np.argsort(-differences)
    names = _sorted_kinds(evaluations[0], kinds)
    for kind, hatch in zip(names, ("", "////"), strict=False):
        at = [place for place, query in enumerate(order.tolist()) if kinds[queries[query]] == kind]
        values = differences[order][at]
        colours = [_GOOD if value > 0 else _BAD for value in values]
        axis.bar(at, values, width=0.9, color=colours, hatch=hatch, edgecolor="white", linewidth=0.2, label=kind)
    axis.axhline(0, color=_INK, linewidth=0.8)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    title = f"auto against BM25 on {len(differences)} held-out queries: {wins} better, {losses} worse"
    axis.set_title(title, loc="left")
    axis.set_ylabel("difference of AP")
    axis.set_xlabel("queries, sorted; hatched: informational" if len(names) > 1 else "queries, sorted")
    axis.set_xticks([])


@click.command("collection")
@click.argument("name", metavar="NAME", type=click.Choice(["python-docs"]))
@output_option("Folder for docs.jsonl, queries.jsonl and qrels.txt; other files in it are kept.", metavar="FOLDER")
def collection_command(name: str, target: Path) -> None:
    """Write the documents, queries and judgements of the collection NAME to a folder.

    python-docs consists of the docstrings of Python's standard library, read from its sources: documents are classes,
    functions and methods without the first sentence of their docstrings; queries are those first sentences, of objects
    (navigational) and of modules (informational). The same Python version gives the same collection.

    \b
    Example:
      rankwright collection python-docs -o python-docs
    """
    if target.exists() and not target.is_dir():
        raise InputError("is a file; expected a folder, or a new name", target)
    from rankwright.datasets import python_docs

    with progress("reading the standard library") as update:
        collection = python_docs(progress=update)
    collection.write(target)
    kinds = Counter(collection.kinds.values())
    queries = " and ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    facts = f"{len(collection.documents):,} documents, {queries} queries, {collection.qrels.n_docs:,} judgements"
    inform(f"wrote {target}: {facts}")
