"""`rankwright serve`: rankers over HTTP, and a page that compares two of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click

from rankwright.cli.files import naming_missing_option
from rankwright.cli.options import (
    FILE,
    MISSING_AS_ZERO,
    FunctionOption,
    Integer,
    analyzer_option,
    index_missing_option,
    number,
    port_option,
    threads_option,
)
from rankwright.cli.precompile import COMPILING_SEARCH, noting_compilation
from rankwright.cli.printing import inform, note
from rankwright.errors import InputError

_NEEDED = ("starlette", "uvicorn")
_MODEL_HELP = "Model file; may be repeated. Requests name it by its stem."
_SERVED_HELP = "Retrieval function to serve beside the models: {functions}; may be repeated.  [default: bm25]"
_ALLOW_HELP = "Further name that requests may use for this machine, such as that of a reverse proxy; may be repeated."
_RELOAD_HELP = "How often to look for new files of the same names; 0 for only at SIGHUP."


@click.command("serve")
@click.argument("index", metavar="[INDEX]", required=False, type=FILE)
@click.option("--model", "models", multiple=True, type=FILE, help=_MODEL_HELP)
@click.option("--function", "functions", cls=FunctionOption, multiple=True, metavar="NAME", help=_SERVED_HELP)
@analyzer_option
@index_missing_option
@click.option("--host", default="127.0.0.1", metavar="NAME", help="Address to listen at.")
@port_option(8080)
@click.option("--allow-host", "further", multiple=True, metavar="NAME", help=_ALLOW_HELP)
@threads_option(2, "Requests computed at a time.")
@click.option("--waiting", type=Integer(0), default=32, help="Requests that may wait for a thread.")
@click.option("--seconds", default="10", metavar="N", callback=number, help="Time for a request, waiting included.")
@click.option("--most-documents", "documents", type=Integer(1), default=10_000, help="Documents of one request.")
@click.option("--most-results", "k", type=Integer(1), default=1_000, help="Results of one search.")
@click.option("--most-bytes", "body", type=Integer(1), default=8 << 20, help="Bytes of a request's body.")
@click.option("--reload", "every", type=Integer(0), default=2, metavar="SECONDS", help=_RELOAD_HELP)
@click.option("--quiet", is_flag=True, help="Do not log requests that succeed.")
@click.option("--try", "only_try", is_flag=True, help="Load everything, answer one request of each kind, and end.")
def command(
    index: Path | None,
    models: tuple[Path, ...],
    functions: tuple[str, ...],
    analyzer: str | None,
    missing_as_zero: bool,
    host: str,
    port: int,
    further: tuple[str, ...],
    every: int,
    quiet: bool,
    only_try: bool,
    **limits: Any,
) -> None:
    """Serve models and retrieval functions over HTTP: POST /rank, GET /search, GET /explain, and a search page.

    Without INDEX, only features can be ranked. A new file under the name of a model, or of the index, is loaded and
    checked beside the old one and then takes its place; a broken one is logged, and the old one stays. The log is one
    line of JSON per request on standard error.

    \b
    Example:
      rankwright serve docs.index --model model.rkw
      rankwright serve docs.index --function bm25 --function dirichlet --port 8081
      rankwright serve --model model.rkw --quiet
    """
    check_installed("serve")
    from rankwright.serving.app import make_app
    from rankwright.serving.http import bind, json_lines, local_names, serve
    from rankwright.serving.requests import Limits
    from rankwright.serving.service import Service

    if index is None and (functions or analyzer or missing_as_zero):
        raise click.UsageError(f"--function, --analyzer and {MISSING_AS_ZERO} are about an index; expected INDEX")
    if index is None and not models:
        raise click.UsageError("nothing to serve; expected INDEX, --model, or both")
    notify = json_lines(quiet)
    chosen = functions or (("bm25",) if index is not None else ())
    with naming_missing_option():
        service = Service(index, models, chosen, analyzer=analyzer, missing_as_zero=missing_as_zero, notify=notify)
    with bind(host, port) as bound:
        names = local_names(host, further)
        with noting_compilation(COMPILING_SEARCH):
            took = service.warm_up()
        inform(f"ready after {took:.1f} s: {', '.join(service.state.rankers)}")
        if names is None:
            note("anybody who can reach this machine can use the service; it asks for no password")
        if only_try:
            return
        service.watch(every or None)
        app = make_app(service, Limits(**limits), notify=notify, hosts=names)
        seconds = limits["seconds"]
        serve(app, service, bound, notify, ready=lambda at: click.echo(f"listening at {at}"), seconds=seconds)
        service.close()
    inform("ended")


def check_installed(name: str) -> None:
    """Reject a command whose packages are not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{name} needs {' and '.join(missing)}; expected: pip install 'rankwright[serve]'")
