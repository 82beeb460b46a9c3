"""`rankwright search`: results of one query to read, or a TREC run of a file of queries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from rankwright.cli.files import check_target, naming_missing_option, show_queries
from rankwright.cli.options import (
    FILE,
    MISSING_AS_ZERO,
    FunctionOption,
    Integer,
    columns_option,
    json_option,
    output_option,
    part_option,
    threads_option,
)
from rankwright.cli.printing import counted, progress, reading, styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.io.roles import Columns
    from rankwright.text.contents import View
    from rankwright.text.index import Index
    from rankwright.text.queries import Queries
    from rankwright.text.search import Hits, QueryWords, Snippet

_FEW, _MANY = 10, 1000
_INDENT = 4
_LEAST_WIDTH, _WIDTH, _WIDTH_OF_JSON = 30, 100, 240
_NAMED = 5


class Engine(Protocol):
    """Anything that finds documents, such as a retrieval function over a view."""

    def search(self, text: str, k: int = ...) -> tuple[Any, Any]:
        """Numbers and scores of the top k documents, best first."""

    def search_all(
        self,
        texts: Sequence[str],
        k: int = ...,
        *,
        n_jobs: int | None = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> Hits:
        """The same for many queries."""


@click.command("search")
@click.argument("folder", metavar="INDEX", type=FILE)
@click.argument("query", metavar="QUERY|QUERIES", nargs=-1, required=True)
@click.option(
    "--function",
    cls=FunctionOption,
    metavar="NAME",
    help="{functions}, with or without parameters: 'bm25(k1=0.9,b=0.4)'.  [default: bm25]",
)
@click.option("--analyzer", metavar="NAME", help="Analyser to use.  [default: porter+stop if INDEX has it]")
@click.option("--field", metavar="NAME", help="Field to search.  [default: all]")
@click.option(
    "-k",
    type=Integer(1),
    metavar="N",
    help=f"Maximum number of documents.  [default: {_FEW}; for a run {_MANY:,}]",
)
@click.option(
    "--model",
    type=FILE,
    metavar="FILE",
    help="Rank with a model trained on output of `rankwright features`.",
)
@click.option(
    MISSING_AS_ZERO, is_flag=True, help="Take features of the model that INDEX cannot give as 0; otherwise an error."
)
@click.option(
    "--table",
    type=FILE,
    metavar="FILE",
    help="With --model: features of documents, as for `rankwright features --table`.",
)
@json_option()
@output_option("Write a run of the file QUERIES.", metavar="RUN", required=False)
@part_option
@columns_option
@click.option("--tag", metavar="NAME", help="Last column of the run.  [default: the function or model]")
@threads_option(1, "Does not affect the run.")
def command(
    folder: Path,
    query: tuple[str, ...],
    function: str | None,
    analyzer: str | None,
    field: str | None,
    k: int | None,
    model: Path | None,
    missing_as_zero: bool,
    table: Path | None,
    as_json: bool,
    target: Path | None,
    part: str,
    columns: Columns | None,
    tag: str | None,
    threads: int,
) -> None:
    """Search INDEX for a QUERY or, with -o, for all queries of the file QUERIES.

    QUERIES holds CSV or JSON with id and text, lines of id, tab and text, TREC topics, or judgements that name queries
    by their text. RUN appears once it is complete. Documents that share no term with the query are never returned. A
    feature of the model that is called like a number of the documents (`rankwright index --number`) is that number.

    \b
    Example:
      rankwright search docs.index lift of a wing
      rankwright search docs.index "lift of a wing" --function dirichlet --analyzer porter -k 3
      rankwright search docs.index "lift of a wing" --model model.rkw
      rankwright search docs.index queries.jsonl -o bm25.run
      rankwright evaluate qrels.txt bm25.run
    """
    from rankwright.text.functions import parse_function
    from rankwright.text.index import Index
    from rankwright.text.queries import read_queries
    from rankwright.text.search import Scorer, default_analyzer

    if model is not None and (function or field):
        raise click.UsageError("--model cannot be combined with --function or --field")
    if model is None and missing_as_zero:
        raise click.UsageError(f"{MISSING_AS_ZERO} is about the features of a model; expected --model with it")
    if model is None and table is not None:
        raise click.UsageError("--table holds features of a model; expected --model with it")
    queries = None if target is None else _queries_file(query, target, as_json)
    chosen = parse_function(function or "bm25")
    index = Index.open(folder)
    name = analyzer or default_analyzer(index.analyzers)
    view = index.view(name, field)
    engine: Engine = Scorer(view, chosen) if model is None else _learned(index, model, missing_as_zero, table)
    what = {"function": str(chosen)} if model is None else {"model": str(model)}
    if queries is None:
        if len(query) == 1 and Path(query[0]).is_file():
            click.echo(
                f"note: {query[0]} is taken as a query; to answer the queries in that file, add -o RUN", err=True
            )
        facts = {**what, "analyzer": name, "field": field}
        _answer(index, view, engine, " ".join(query), k or _FEW, facts if as_json else None, field)
    else:
        assert target is not None
        with reading(queries) as update:
            asked = read_queries(queries, part=part, columns=columns, progress=update)
        show_queries(asked, queries)
        _write_run(index, engine, asked, k or _MANY, threads, target, tag or (model or Path(chosen.name)).stem)


def _learned(index: Index, model: Path, missing_as_zero: bool, table: Path | None) -> Engine:
    from rankwright.models.saving import load_model
    from rankwright.text.features import read_document_table
    from rankwright.text.learned import LearnedSearch

    saved = load_model(model)
    numbers = None if table is None else read_document_table(table, index)
    try:
        with naming_missing_option():
            return LearnedSearch(index, saved, missing_as_zero=missing_as_zero, numbers=numbers)
    except InputError as error:
        raise InputError(error.message, model) from None


def _queries_file(arguments: tuple[str, ...], target: Path, as_json: bool) -> Path:
    if as_json:
        raise click.UsageError("--json prints the results of one QUERY; expected no -o with it")
    if len(arguments) != 1:
        raise click.UsageError(
            f"-o writes the run of a file; expected one file QUERIES, found {len(arguments)} arguments"
        )
    queries = Path(arguments[0])
    check_target(target, [queries])
    return queries


def _answer(
    index: Index, view: View, engine: Engine, text: str, k: int, facts: dict[str, Any] | None, field: str | None
) -> None:
    """Print the results of one query: for people or, given facts to go before them, as JSON."""
    from rankwright.text.search import query_words, title_and_snippet

    words = query_words(view, text)
    docs, scores = engine.search(text, k)
    width = max(shutil.get_terminal_size((_WIDTH, 24)).columns, _LEAST_WIDTH) if facts is None else _WIDTH_OF_JSON
    room = width - _INDENT
    hits = [
        (rank, score, index.doc_id(doc), *title_and_snippet(index, doc, words.weights, view.analyze, room, field))
        for rank, (doc, score) in enumerate(zip(docs.tolist(), scores.tolist(), strict=True), 1)
    ]
    if facts is not None:
        results = [
            {"rank": rank, "score": score, "id": doc_id, "title": title, "snippet": part.text}
            for rank, score, doc_id, title, part in hits
        ]
        answer = {"query": text, **facts, "unknown": words.unknown, "results": results}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    for rank, score, doc_id, title, part in hits:
        _print_result(rank, score, doc_id, title, part, width)
    _tell_words(words, bool(hits))


def _print_result(rank: int, score: float, doc_id: str, title: str, part: Snippet, width: int) -> None:
    from rankwright.text.search import shorten

    start = f"{rank:>{_INDENT - 2}}. {score:.4f}  {doc_id}"
    room = width - len(start) - 2
    click.echo(f"{start}  {shorten(title, room)}" if title and room >= _LEAST_WIDTH // 2 else start)
    if part.text and part.text != title:
        click.echo(" " * _INDENT + part.marked(lambda word: styled(word, bold=True)))


def _tell_words(words: QueryWords, is_found: bool) -> None:
    """Name the words of the query that did not count, if any."""
    if is_found:
        if words.unknown:
            click.echo(f"note: in no document: {', '.join(words.unknown)}", err=True)
    elif words.unknown:
        click.echo(f"nothing found: no document contains {' or '.join(words.unknown)}", err=True)
    elif words.dropped:
        click.echo(f"nothing found: the analyser drops every word ({', '.join(words.dropped)})", err=True)
    else:
        click.echo("nothing found: the query has no words", err=True)


def _write_run(index: Index, engine: Engine, asked: Queries, k: int, threads: int, target: Path, tag: str) -> None:
    import numpy as np

    from rankwright.data.trec_table import TrecTable
    from rankwright.io.trec import write_run

    with progress("searching") as update:
        hits = engine.search_all(asked.texts, k, n_jobs=threads, progress=update)
    write_run(TrecTable(np.array(asked.ids), hits.indptr, index.doc_ids[hits.docs], hits.scores), target, tag)
    click.echo(f"wrote {target}: {len(asked):,} queries, {len(hits.docs):,} documents", err=True)
    nothing = [query for query, size in zip(asked.ids, np.diff(hits.indptr).tolist(), strict=True) if not size]
    if nothing:
        named = ", ".join(nothing[:_NAMED]) + (", …" if len(nothing) > _NAMED else "")
        click.echo(f"note: nothing found for {counted(len(nothing), 'query', 'queries')} ({named})", err=True)
