"""`rankwright index`: from documents to an index; `rankwright search`: results of a query, or a run of many."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.files import check_target, naming_missing_option, read_queries, show_documents
from rankwright.cli.options import (
    FILE,
    MISSING_AS_ZERO,
    FunctionOption,
    Integer,
    columns_option,
    given_options,
    json_option,
    output_option,
    part_option,
    threads_option,
)
from rankwright.cli.printing import counted, inform, listed, note, print_json, progress, styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.io.roles import Columns
    from rankwright.text.contents import View
    from rankwright.text.documents import DocumentFiles
    from rankwright.text.index import Index
    from rankwright.text.learned import LearnedSearch
    from rankwright.text.queries import Queries
    from rankwright.text.search import QueryWords, Scorer, Snippet

    Engine = Scorer | LearnedSearch

_FEW, _MANY = 10, 1000
_INDENT = 4
_LEAST_WIDTH, _WIDTH, _WIDTH_OF_JSON = 30, 100, 240
_ANALYZERS = ("plain", "porter", "porter+stop")
_QUERY_SUFFIXES = frozenset((".csv", ".gz", ".json", ".jsonl", ".parquet", ".topics", ".tsv", ".txt", ".xml"))
_FORMATS = click.Choice(["csv", "jsonl", "json", "tsv", "parquet", "trec", "html", "markdown", "folder"])
_FUNCTION_HELP = "{functions}, with or without parameters: 'bm25(k1=0.9,b=0.4)'.  [default: bm25]"
_MODEL_MISSING_HELP = "Take features of the model that INDEX cannot give as 0; otherwise an error."
_FIELDS_HELP = "Fields to index, in this order.  [default: all, in the order of appearance]"
_NUMBER_HELP = "Fields that hold numbers or dates (days since 1970), kept as features instead of being indexed as text."
_SET_NUMBERS_HELP = (
    "Set numbers of documents in INDEX, without DOCS: CSV, tab-separated or JSON lines, with a column id."
)
_ANALYZER_HELP = "Analyser whose terms to store; may be repeated.  [default: all three]"
_ERRORS_HELP = "What to do about bytes that are not UTF-8: stop, or replace them and count the documents affected."


@click.command("search")
@click.argument("folder", metavar="INDEX", type=FILE)
@click.argument("query", metavar="QUERY|QUERIES", nargs=-1, required=True)
@click.option("--function", cls=FunctionOption, metavar="NAME", help=_FUNCTION_HELP)
@click.option("--analyzer", metavar="NAME", help="Analyser to use.  [default: porter+stop if INDEX has it]")
@click.option("--field", metavar="NAME", help="Field to search.  [default: all]")
@click.option(
    "-k", type=Integer(1), metavar="N", help=f"Maximum number of documents.  [default: {_FEW}; for a run {_MANY:,}]"
)
@click.option("--model", type=FILE, help="Rank with a model trained on output of `rankwright features`.")
@click.option(MISSING_AS_ZERO, is_flag=True, help=_MODEL_MISSING_HELP)
@click.option("--table", type=FILE, help="With --model: features of documents, as for `rankwright features --table`.")
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
    from rankwright.text.search import Scorer, default_analyzer

    if model is not None and (function or field):
        raise click.UsageError("--model cannot be combined with --function or --field")
    if model is None and missing_as_zero:
        raise click.UsageError(f"{MISSING_AS_ZERO} is about the features of a model; expected --model with it")
    if model is None and table is not None:
        raise click.UsageError("--table holds features of a model; expected --model with it")
    file = None if target is None else _queries_file(query, target, as_json)
    chosen = parse_function(function or "bm25")
    index = Index.open(folder)
    name = analyzer or default_analyzer(index.analyzers)
    view = index.view(name, field)
    engine: Engine = Scorer(view, chosen) if model is None else _learned(index, model, missing_as_zero, table)
    ranker = {"function": str(chosen)} if model is None else {"model": str(model)}
    if file is None:
        if len(query) == 1 and _is_called_like_a_file(query[0]):
            raise InputError("is not there; expected words, or with -o RUN a file of queries", query[0])
        if len(query) == 1 and Path(query[0]).is_file():
            note(f"{query[0]} is taken as a query; to answer the queries in that file, add -o RUN")
        facts = {**ranker, "analyzer": name, "field": field}
        _answer(index, view, engine, " ".join(query), k or _FEW, facts if as_json else None, field)
    else:
        assert target is not None
        queries = read_queries(file, part, columns)
        _write_run(index, engine, queries, k or _MANY, threads, target, tag or (model or Path(chosen.name)).stem)


def _is_called_like_a_file(text: str) -> bool:
    """Whether a query for which there is no file has the name of one, such as ``queries.tsv`` or ``data/topics``."""
    path = Path(text)
    is_one_word = len(text.split()) == 1 and not path.exists()
    return is_one_word and (path.suffix.lower() in _QUERY_SUFFIXES or ("/" in text and path.parent.is_dir()))


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
        problem = f"expected one file QUERIES, found {len(arguments)} arguments"
        raise click.UsageError(f"-o writes the run of a file; {problem}")
    file = Path(arguments[0])
    check_target(target, [file])
    return file


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
            {"rank": rank, "score": score, "id": doc_id, "title": title, "snippet": snippet.text}
            for rank, score, doc_id, title, snippet in hits
        ]
        print_json({"query": text, **facts, "unknown": words.unknown, "results": results}, indent=2)
        return
    for rank, score, doc_id, title, snippet in hits:
        _print_result(rank, score, doc_id, title, snippet, width)
    _name_words(words, bool(hits))


def _print_result(rank: int, score: float, doc_id: str, title: str, snippet: Snippet, width: int) -> None:
    from rankwright.text.search import shorten

    start = f"{rank:>{_INDENT - 2}}. {score:.4f}  {doc_id}"
    room = width - len(start) - 2
    click.echo(f"{start}  {shorten(title, room)}" if title and room >= _LEAST_WIDTH // 2 else start)
    if snippet.text and snippet.text != title:
        click.echo(" " * _INDENT + snippet.marked(lambda word: styled(word, bold=True)))


def _name_words(words: QueryWords, is_found: bool) -> None:
    """Name the words of the query that did not count, if any."""
    if is_found:
        if words.unknown:
            note(f"in no document: {', '.join(words.unknown)}")
    elif words.unknown:
        inform(f"nothing found: no document contains {' or '.join(words.unknown)}")
    elif words.dropped:
        inform(f"nothing found: the analyser drops every word ({', '.join(words.dropped)})")
    else:
        inform("nothing found: the query has no words")


def _write_run(index: Index, engine: Engine, queries: Queries, k: int, threads: int, target: Path, tag: str) -> None:
    import numpy as np

    from rankwright.data.trec_table import TrecTable
    from rankwright.io.trec import write_run

    with progress("searching") as update:
        hits = engine.search_all(queries.texts, k, n_jobs=threads, progress=update)
    write_run(TrecTable(np.array(queries.ids), hits.indptr, index.doc_ids[hits.docs], hits.scores), target, tag)
    inform(f"wrote {target}: {len(queries):,} queries, {len(hits.docs):,} documents")
    nothing = [query for query, size in zip(queries.ids, np.diff(hits.indptr).tolist(), strict=True) if not size]
    if nothing:
        note(f"nothing found for {counted(len(nothing), 'query', 'queries')} ({listed(nothing)})")


@click.command("index")
@click.argument("documents", metavar="DOCS...", nargs=-1, type=FILE)
@output_option("The index folder.", metavar="INDEX")
@click.option("--add", is_flag=True, help="Add the documents to INDEX instead of replacing it.")
@click.option("--fields", metavar="NAME,NAME…", help=_FIELDS_HELP)
@click.option("--number", "numbers", multiple=True, metavar="NAME,NAME…", help=_NUMBER_HELP)
@click.option("--set-numbers", "table", type=FILE, metavar="TABLE", help=_SET_NUMBERS_HELP)
@click.option("--analyzer", "analyzers", multiple=True, type=click.Choice(_ANALYZERS), help=_ANALYZER_HELP)
@click.option("--split-identifiers", is_flag=True, help="Split camelCase and HTTPServer into two words each.")
@click.option("--field-views", is_flag=True, help="Also store the terms of each field by itself.")
@click.option("--no-text", is_flag=True, help="Do not store the texts; search then shows no snippets.")
@click.option("--format", type=_FORMATS, help="Format of DOCS.  [default: from suffix or first bytes]")
@columns_option
@click.option("--html", metavar="NAME,NAME…", help="Fields that hold HTML: their text is indexed, without tags.")
@click.option("--errors", type=click.Choice(["strict", "replace"]), default="strict", help=_ERRORS_HELP)
def index_command(
    documents: tuple[Path, ...],
    target: Path,
    add: bool,
    table: Path | None,
    columns: Columns | None,
    html: str | None,
    format: str | None,
    errors: Literal["strict", "replace"],
    **settings: Any,
) -> None:
    """Index the documents in DOCS.

    DOCS are files, plain or gzip, or folders: CSV with a header (id, title, text, ...), JSON lines or an array
    ({"id": "d1", "title": "...", "text": "..."}), Parquet, tab-separated lines (id, text; or with a first line that
    names the columns), TREC SGML (<DOC><DOCNO>...), web pages and Markdown (title, headings, text), a folder in which
    every file is a document, a BEIR folder, or ir_datasets:NAME. INDEX appears once it is complete; an existing index
    is replaced.

    \b
    Example:
      rankwright index docs.jsonl.gz -o docs.index
      rankwright index site/ -o site.index
      rankwright index products.csv -o shop.index --columns id=sku,text=blurb --html text
      rankwright index docs.tsv -o docs.index --fields title,body --analyzer porter+stop
      rankwright index more.jsonl -o docs.index --add
      rankwright index shop.jsonl -o shop.index --number price,clicks
      rankwright index --set-numbers clicks.csv -o shop.index
    """
    given = given_options().keys()
    if table is not None:
        if documents or given - {"target", "table", "errors"}:
            raise click.UsageError("--set-numbers changes an index; expected only -o INDEX with it, and no DOCS")
        _set_numbers(table, target)
        return
    if not documents:
        raise click.UsageError("Missing argument 'DOCS...'.")
    from rankwright.text.documents import DocumentFiles
    from rankwright.text.index import build_index

    files = DocumentFiles(documents, columns, () if html is None else _names(html))
    if not add:
        fields = None if settings["fields"] is None else _names(settings["fields"])
        numbers = [name for text in settings["numbers"] for name in _names(text)]
        show_documents(files, format, None if fields is None else [*fields, *numbers])
        settings |= {"fields": fields, "numbers": numbers, "analyzers": settings["analyzers"] or _ANALYZERS}
        store = not settings.pop("no_text")
        with progress(f"indexing {documents[0].name}") as update:
            index = build_index(files, target, store=store, format=format, errors=errors, progress=update, **settings)
        inform(f"wrote {target}: {_summary(index)}")
        _note_missing(index, index.numbers)
        return
    if given & settings.keys():
        expected = "no options for fields, numbers, analysers or texts"
        raise InputError(f"--add keeps the settings of the index; expected {expected}")
    show_documents(files, format, None)
    before, index = _changed(target, lambda index: _add(index, files, format=format, errors=errors))
    inform(f"added {counted(index.n_docs - before.n_docs, 'document')} to {target}: {_summary(index)}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _changed(path: Path, change: Callable[[Index], Index]) -> tuple[Index, Index]:
    """An index before and after a change."""
    from rankwright.text.index import Index, IndexChanged

    while True:
        before = Index.open(path)
        try:
            return before, change(before)
        except IndexChanged:  # by another process, meanwhile: start from what it has written
            continue


def _add(index: Index, documents: DocumentFiles, **options: Any) -> Index:
    with progress(f"indexing {documents.paths[0].name}") as update:
        return index.add(documents, progress=update, **options)


def _set_numbers(table: Path, path: Path) -> None:
    before, index = _changed(path, lambda index: index.set_numbers(table))
    changed = [name for name in index.numbers if _differ(index, before, name)]
    new = [name for name in index.numbers if name not in before.numbers]
    shown = ", ".join(f"{name} (new)" if name in new else name for name in changed) or "nothing: all are as they were"
    inform(f"set in {path}: {shown}")
    _note_missing(index, changed)


def _differ(index: Index, before: Index, name: str) -> bool:
    import numpy as np

    return name not in before.numbers or not np.array_equal(index.numbers[name], before.numbers[name], equal_nan=True)


def _note_missing(index: Index, names: Iterable[str]) -> None:
    import numpy as np

    for name in names:
        n_missing = int(np.isnan(index.numbers[name]).sum())
        if n_missing:
            has = "has" if n_missing == 1 else "have"
            note(f"{n_missing:,} of {index.n_docs:,} documents {has} no {name}")


def _summary(index: Index) -> str:
    empty = f" ({index.n_empty:,} empty)" if index.n_empty else ""
    counts = f"{index.n_docs:,} documents{empty}, {index.n_tokens:,} tokens, {index.n_terms:,} terms"
    numbers = f", numbers {', '.join(index.numbers)}" if index.numbers else ""
    size = f"{index.n_bytes / 1e3:.1f} kB" if index.n_bytes < 1_000_000 else f"{index.n_bytes / 1e6:,.1f} MB"
    return f"{counts}{numbers}, {size}"
