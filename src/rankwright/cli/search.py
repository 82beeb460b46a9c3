"""`rankwright search`: documents of an index for one query, to read, or for a file of queries, as a TREC run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.index.index import Index
    from rankwright.text.index.view import View
    from rankwright.text.search.scorer import Hits
    from rankwright.text.search.snippets import QueryWords, Snippet

__all__ = ["Engine", "command"]

_FEW, _MANY = 10, 1000
_INDENT = 4
_LEAST_WIDTH, _WIDTH, _WIDTH_OF_JSON = 30, 100, 240
_TITLE = "title"
_NAMED = 5


class Engine(Protocol):
    """What finds documents: a retrieval function over a view is one."""

    def search(self, text: str, k: int = ...) -> tuple[Any, Any]:
        """Numbers and scores of the best k documents, best first."""

    def search_all(
        self,
        texts: Sequence[str],
        k: int = ...,
        *,
        threads: int = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> Hits:
        """The same for many queries."""


@click.command("search")
@click.argument("folder", metavar="INDEX", type=click.Path(path_type=Path))
@click.argument("words", metavar="[QUERY]", nargs=-1)
@click.option(
    "--function",
    metavar="NAME",
    help="bm25, tfidf, cosine, dirichlet or jm; with parameters: 'bm25(k1=0.9,b=0.4)'.  [default: bm25]",
)
@click.option("--analyzer", metavar="NAME", help="How words become terms.  [default: porter+stop if INDEX has it]")
@click.option("--field", metavar="NAME", help="Search one field.  [default: all]")
@click.option(
    "-k", type=click.IntRange(1), metavar="N", help=f"Documents at most.  [default: {_FEW}; for a file {_MANY:,}]"
)
@click.option(
    "--model", type=click.Path(path_type=Path), metavar="FILE", help="Rank by a model trained on `rankwright features`."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--queries", type=click.Path(path_type=Path), metavar="FILE", help="Answer the queries of a file.")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), metavar="FILE", help="Where the run goes.")
@click.option(
    "--part",
    default="title",
    show_default=True,
    metavar="NAME",
    help="Of TREC topics: title, description, narrative, or several joined by +.",
)
@click.option("--tag", metavar="NAME", help="Last column of the run.  [default: the function]")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="The run does not depend on it.")
def command(
    folder: Path,
    words: tuple[str, ...],
    function: str | None,
    analyzer: str | None,
    field: str | None,
    k: int | None,
    model: Path | None,
    as_json: bool,
    queries: Path | None,
    target: Path | None,
    part: str,
    tag: str | None,
    threads: int,
) -> None:
    """Find documents of INDEX for a QUERY, or for all queries of a file.

    A file of queries is JSON lines with id and text, lines of id, tab and text, or TREC topics. Its run is written to
    the file that -o names, which appears when it is complete. Documents without a term of the query are never found.

    \b
    Example:
      rankwright search docs.index lift of a wing
      rankwright search docs.index "lift of a wing" --function dirichlet --analyzer porter -k 3
      rankwright search docs.index "lift of a wing" --model model.rkw
      rankwright search docs.index --queries queries.jsonl -o bm25.run
      rankwright evaluate qrels.txt bm25.run
    """
    from rankwright.text.index.index import Index
    from rankwright.text.search.functions import parse_function
    from rankwright.text.search.scorer import Scorer, default_analyzer

    _check_usage(words, queries, target, as_json)
    if model is not None and (function or field):
        raise click.UsageError("--model ranks by itself; expected neither --function nor --field with it")
    chosen = parse_function(function or "bm25")
    index = Index.open(folder)
    name = analyzer or default_analyzer(index.analyzers)
    view = index.view(name, field)
    engine: Engine = Scorer(view, chosen) if model is None else _learned(index, model)
    what = {"function": str(chosen)} if model is None else {"model": str(model)}
    if queries is None:
        facts = {**what, "analyzer": name, "field": field}
        _answer(index, view, engine, " ".join(words), k or _FEW, facts if as_json else None, field)
    else:
        assert target is not None
        _write_run(index, engine, queries, part, k or _MANY, threads, target, tag or (model or Path(chosen.name)).stem)


def _learned(index: Index, model: Path) -> Engine:
    from rankwright.models.saving import load_model
    from rankwright.text.search.learned import LearnedSearch

    saved = load_model(model)
    try:
        return LearnedSearch(index, saved)
    except InputError as error:
        raise InputError(error.message, model) from None


def _check_usage(words: tuple[str, ...], queries: Path | None, target: Path | None, as_json: bool) -> None:
    if (queries is None) == (not words):
        raise click.UsageError("expected a QUERY or --queries FILE" + (", not both" if words else ""))
    if queries is None:
        if target is not None:
            raise click.UsageError("-o is for the run of --queries FILE")
        return
    if as_json:
        raise click.UsageError("--json is for one QUERY")
    if target is None:
        raise click.UsageError("expected -o FILE for the run of --queries")
    if target.is_dir():
        raise InputError("is a folder; expected a file name to write to", target)
    if not target.parent.is_dir():
        raise InputError("cannot be written: No such file or directory", target)
    if target.exists() and queries.exists() and target.samefile(queries):
        raise InputError("is what is being read; expected another name for the output", target)


def _answer(
    index: Index, view: View, engine: Engine, text: str, k: int, facts: dict[str, Any] | None, field: str | None
) -> None:
    """Print what is found for one query: for people, or as JSON with some facts before it."""
    from rankwright.text.search.snippets import query_words

    words = query_words(view, text)
    docs, scores = engine.search(text, k)
    width = max(shutil.get_terminal_size((_WIDTH, 24)).columns, _LEAST_WIDTH) if facts is None else _WIDTH_OF_JSON
    found = [
        (rank, score, index.doc_id(doc), *_shown(index, view, doc, words.weights, field, width - _INDENT))
        for rank, (doc, score) in enumerate(zip(docs.tolist(), scores.tolist(), strict=True), 1)
    ]
    if facts is not None:
        results = [
            {"rank": rank, "score": score, "id": doc_id, "title": title, "snippet": part.text}
            for rank, score, doc_id, title, part in found
        ]
        answer = {"query": text, **facts, "unknown": words.unknown, "results": results}
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    for rank, score, doc_id, title, part in found:
        _print_result(rank, score, doc_id, title, part, width)
    _tell_words(words, bool(found))


def _shown(
    index: Index, view: View, doc: int, weights: dict[str, float], field: str | None, width: int
) -> tuple[str, Snippet]:
    """The title of a document and its snippet; both empty where the index has no texts."""
    from rankwright.text.search.snippets import Snippet, shorten, snippet

    if not index.has_text:
        return "", Snippet("")
    others = [name for name in index.fields if name != _TITLE] or list(index.fields)
    body = " ".join(index.text(doc, name) for name in ([field] if field else others))
    title = " ".join(index.text(doc, _TITLE).split()) if _TITLE in index.fields else ""
    return title or shorten(body or index.text(doc), width), snippet(body, weights, view.analyze, width)


def _print_result(rank: int, score: float, doc_id: str, title: str, part: Snippet, width: int) -> None:
    from rankwright.text.search.snippets import shorten

    start = f"{rank:>{_INDENT - 2}}. {score:.4f}  {doc_id}"
    room = width - len(start) - 2
    click.echo(f"{start}  {shorten(title, room)}" if title and room >= _LEAST_WIDTH // 2 else start)
    if part.text and part.text != title:
        click.echo(" " * _INDENT + part.marked(lambda word: click.style(word, bold=True)))


def _tell_words(words: QueryWords, is_found: bool) -> None:
    """Say which words of the query did not count, if there are any."""
    if is_found:
        if words.unknown:
            click.echo(f"note: in no document: {', '.join(words.unknown)}", err=True)
    elif words.unknown:
        click.echo(f"nothing found: no document holds {' or '.join(words.unknown)}", err=True)
    elif words.dropped:
        click.echo(f"nothing found: the analyser drops every word ({', '.join(words.dropped)})", err=True)
    else:
        click.echo("nothing found: there is no word in the query", err=True)


def _write_run(
    index: Index, engine: Engine, queries: Path, part: str, k: int, threads: int, target: Path, tag: str
) -> None:
    import numpy as np

    from rankwright.cli.progress import progress, reading
    from rankwright.data.trec import TrecTable, write_run
    from rankwright.text.reading.queries import read_queries

    with reading(queries) as update:
        asked = read_queries(queries, part=part, progress=update)
    with progress("searching") as update:
        hits = engine.search_all(asked.texts, k, threads=threads, progress=update)
    write_run(TrecTable(np.array(asked.ids), hits.indptr, index.doc_ids[hits.docs], hits.scores), target, tag)
    click.echo(f"wrote {target}: {len(asked):,} queries, {len(hits.docs):,} documents", err=True)
    nothing = [query for query, size in zip(asked.ids, np.diff(hits.indptr).tolist(), strict=True) if not size]
    if nothing:
        named = ", ".join(nothing[:_NAMED]) + (", …" if len(nothing) > _NAMED else "")
        which = "1 query" if len(nothing) == 1 else f"{len(nothing):,} queries"
        click.echo(f"note: nothing found for {which} ({named})", err=True)
