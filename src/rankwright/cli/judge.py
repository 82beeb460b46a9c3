"""`rankwright judge`: a page to judge documents with, and files that hold every judgement; `rankwright agreement`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.files import naming_missing_option, read_judgements, read_queries
from rankwright.cli.options import (
    FILE,
    Integer,
    analyzer_option,
    columns_option,
    depth_option,
    index_missing_option,
    json_option,
    label_options,
    output_option,
    part_option,
    port_option,
    seed_option,
)
from rankwright.cli.precompile import COMPILING_SEARCH, noting_compilation
from rankwright.cli.printing import counted, inform, note, print_json
from rankwright.cli.serve import check_installed
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.io.roles import Columns
    from rankwright.judging.app import Texts
    from rankwright.judging.session import JudgingPlan, Session
    from rankwright.serving.service import Service
    from rankwright.text.queries import Queries

_FUNCTIONS = ("bm25", "dirichlet", "tfidf")
_POOLED_HELP = (
    f"Retrieval function whose top is pooled; may be repeated.  [default: {', '.join(_FUNCTIONS)}; none with --run]"
)
_ORDER_HELP = (
    "depth: the whole pool of one query after the other, best with --compare. disagreement: a few documents of every "
    "query, first those on which rankers disagree most, to see something of all queries soon."
)
_COMPARE_HELP = "Pool these two rankers only, and stop once one is better by nDCG@k, k being --depth."
_LATE = "--compare needs whole pools to decide; --order depth gets there with fewer judgements than disagreement"
_TOKEN_BYTES = 18
_SECONDS = 30.0


@click.command("judge")
@click.argument("index", metavar="INDEX", type=FILE)
@click.argument("queries", metavar="QUERIES", type=FILE)
@output_option("Where judgements are kept.", "folder", metavar="FOLDER")
@click.option("--judge", default="judge", metavar="NAME", help="Your name; each has a file.")
@click.option("--function", "functions", multiple=True, metavar="NAME", help=_POOLED_HELP)
@click.option("--model", "models", multiple=True, type=FILE, help="Model to pool; may be repeated.")
@click.option("--run", "runs", multiple=True, type=FILE, help="TREC run to pool; may be repeated.")
@depth_option(10, "Documents from the top of each ranker.")
@click.option("--order", type=click.Choice(["depth", "disagreement"]), default="depth", help=_ORDER_HELP)
@click.option("--compare", nargs=2, metavar="A B", help=_COMPARE_HELP)
@seed_option("Of the random order of what is shown.")
@analyzer_option
@index_missing_option
@part_option
@columns_option
@port_option(0)
@click.option("--try", "only_try", is_flag=True, help="Read everything, pool, say what there is to judge, and end.")
def command(
    index: Path,
    queries: Path,
    folder: Path,
    judge: str,
    functions: tuple[str, ...],
    models: tuple[Path, ...],
    analyzer: str | None,
    missing_as_zero: bool,
    part: str,
    columns: Columns | None,
    port: int,
    only_try: bool,
    **planning: Any,
) -> None:
    """Judge documents of INDEX for QUERIES on a local page, by keyboard: grades from 0 to 3.

    The first documents of several rankers are pooled and shown one at a time, without saying who found them. FOLDER
    gets a file per judge, NAME.jsonl, to which every judgement is added before the next document is shown, and
    qrels.txt, which is always up to date. The same command goes on where it ended. The page is at 127.0.0.1 only, under
    an address that nobody can guess.

    --compare names two of the rankers: a function as it is written, a model or a run by the stem of its file. Looking
    after every judgement is allowed for: where they are equal, one is called better in at most 5 of 100 comparisons.

    \b
    Example:
      rankwright judge docs.index queries.jsonl -o judgements
      rankwright judge docs.index queries.jsonl -o judgements --judge ann --model model.rkw --order disagreement
      rankwright judge docs.index queries.jsonl -o judgements --run bm25.run --run mine.run --compare bm25 mine
    """
    check_installed("judge")
    from rankwright.judging.app import Texts
    from rankwright.judging.pool import read_needs
    from rankwright.judging.records import check_judge
    from rankwright.judging.session import Session
    from rankwright.serving.service import Service

    check_judge(judge)
    if folder.resolve() == index.resolve():
        raise InputError("is the index; expected another folder for -o", folder)
    topics = read_queries(queries, part, columns)
    pooled = functions or (() if planning["runs"] else _FUNCTIONS)
    with naming_missing_option():
        service = Service(index, models, pooled, analyzer=analyzer, missing_as_zero=missing_as_zero)
    plan = _plan(service, topics, **planning)
    if only_try:
        return
    texts = Texts(service.state, dict(topics), read_needs(queries))
    session = Session(folder, judge, plan)
    if session.cut:
        note("removed half a line at the end of the file; the last action had not been kept")
    _judge(session, texts, port)


def _plan(
    service: Service,
    queries: Queries,
    *,
    runs: tuple[Path, ...],
    depth: int,
    order: str,
    compare: tuple[str, str] | None,
    seed: int,
) -> JudgingPlan:
    from rankwright.judging.pool import make_pool, read_runs
    from rankwright.judging.session import JudgingPlan

    state = service.state
    assert state.index is not None
    with noting_compilation(COMPILING_SEARCH):
        pool = make_pool(state.index, queries, state.rankers, read_runs(runs), depth)
    if compare is not None:
        for name in compare:
            if name not in pool.tops:
                raise InputError(f"--compare names {name!r}; expected two of {', '.join(pool.tops)}")
        if compare[0] == compare[1]:
            raise InputError(f"--compare names {compare[0]!r} twice; expected two different rankers")
        pool = pool.only(compare)
        if order == "disagreement":
            note(_LATE)
    if order == "disagreement" and len(pool.tops) < 2:
        raise InputError(f"--order disagreement is about several rankers; found {', '.join(pool.tops)} alone")
    n_pairs = sum(len(pool.documents(query)) for query in pool.queries)
    if not n_pairs:
        raise InputError("the rankers find nothing for these queries; expected queries about what is in the index")
    size = f"{n_pairs:,} documents of {counted(len(pool.queries), 'query', 'queries')}"
    inform(f"to judge: {size}, the first {depth} of {', '.join(pool.tops)}")
    empty = len(queries) - len(pool.queries)
    if empty:
        note(f"nothing found for {empty:,} of {len(queries):,} queries")
    if pool.absent:
        note(f"{pool.absent:,} documents of runs are not in the index and cannot be shown")
    if not state.index.has_text:
        note("the index holds no texts; the page can show ids only")
    return JudgingPlan(pool, order, seed, compare, depth)


def _judge(session: Session, texts: Texts, port: int) -> None:
    import secrets

    from rankwright.judging.app import make_judging_app
    from rankwright.serving.http import bind, json_lines, local_names, serve

    token, host, notify = secrets.token_urlsafe(_TOKEN_BYTES), "127.0.0.1", json_lines(quiet=True)

    def ready(address: str) -> None:
        click.echo(f"judge at {address}{token}/")
        inform("Ctrl-C ends; every judgement is kept at once")

    with bind(host, port) as bound, closing(session):
        app = make_judging_app(session, texts, token, notify=notify, hosts=local_names(host))
        serve(app, None, bound, notify, ready=ready, seconds=_SECONDS)
    judged, folder = session.judged, session.folder
    inform(f"{len(judged.grades):,} grades by {session.judge}; qrels: {folder / 'qrels.txt'}")


@click.command("agreement")
@click.argument("sources", metavar="FOLDER|FILE...", nargs=-1, required=True, type=FILE)
@click.option("--show", type=Integer(0), default=20, help="Documents to list, widest apart first.")
@label_options
@json_option("Print one JSON object, with all documents that differ.")
def agreement_command(sources: tuple[Path, ...], show: int, columns: Columns | None, as_json: bool) -> None:
    """Show how far judges agree: Cohen's kappa of every two, Fleiss' kappa of all, and where grades differ.

    FOLDER is one that `rankwright judge` fills, with a file per judge. A FILE is such a file, or judgements in
    any other form (TREC, CSV, JSON): of another judge, of clicks, of a language model.

    \b
    Example:
      rankwright agreement judgements
      rankwright agreement qrels.txt others.qrels
    """
    from rankwright.evaluation.agreement import agreement
    from rankwright.evaluation.render import plain
    from rankwright.judging.records import grades_of

    read = partial(read_judgements, columns=columns)
    grades: dict[str, Mapping[tuple[str, str], float]] = {}
    for source in sources:
        for judge, given in grades_of(source, read).items():
            name = judge if judge not in grades else str(source)
            if name in grades:
                raise InputError("is given twice; expected different judges", source)
            grades[name] = given
    agreed = agreement(grades)
    if as_json:
        print_json(plain(dataclasses.asdict(agreed)), indent=2)
        return
    for name, count in agreed.judges.items():
        click.echo(f"{name}: {count:,} documents")
    width = max((len(" – ".join(pair.judges)) for pair in agreed.pairs), default=0)
    head = f"{'':{width}}  documents   same  kappa  linear  quadratic"
    click.echo(f"\n{head if agreed.pairs else 'no document was graded by two of them'}")
    for pair in agreed.pairs:
        kappas = f"{_two(pair.kappa):>5}  {_two(pair.linear):>6}  {_two(pair.quadratic):>9}"
        click.echo(f"{' – '.join(pair.judges):{width}}  {pair.documents:>9,}  {pair.same:>5.0%}  {kappas}")
    if len(grades) > 2:
        click.echo(f"\nFleiss' kappa: {_two(agreed.fleiss)} on {agreed.documents:,} documents that all have graded")
    apart = agreed.disagreements if show else ()
    if apart:
        some = f", {show} of them" if len(apart) > show else ""
        click.echo(f"\ndifferent grades: {len(apart):,} documents{some}:")
    for query, document, graded in apart[:show]:
        click.echo(f"  {query}  {document}  {', '.join(f'{name} {grade:g}' for name, grade in graded.items())}")


def _two(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"
