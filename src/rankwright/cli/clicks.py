"""`rankwright clicks`: judgements from a log of impressions and clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.files import check_targets, naming_files, read_features
from rankwright.cli.options import FILE, Integer, output_option
from rankwright.cli.printing import inform, listed, reading, warn
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.clicks.log import ClickLog, ClickPages
    from rankwright.clicks.models import ClickEstimates

_MODEL_HELP = (
    "pbm: position-based; coec: clicks over expected clicks; cascade, sdbn, dbn: users who read from the top, which "
    "needs sessions."
)
_COLUMNS_HELP = (
    "Columns by name, such as query=term,document=url,clicked=ok; others: position, count, session, user, page."
)
_QUANTILES_HELP = "Cut the estimates into grades at these quantiles.  [default: 0.5,0.75,0.9]"
_CAUTIOUS_HELP = "Grade by the lower end of the interval, so that what was seen rarely gets a low grade."
_PROPENSITIES_HELP = "CSV with position and propensity: take these, instead of estimating them.  [pbm]"
_NUMBER_HELP = "Write the queries as `number TAB text` and number them in FILE; needed where queries are texts."
_PAGES_HELP = (
    "Write every page with its features, positions and clicks, to train on with --position: .rank, .parquet or LETOR "
    "text."
)
_SHARE_HELP = "Drop sessions with 10 or more impressions that clicked more than this share of them."


def _parts(_: click.Context, param: click.Parameter, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{param.opts[0]} is {text!r}; expected numbers, separated by commas") from None


def _columns(_: click.Context, param: click.Parameter, text: str | None) -> dict[str, str]:
    from rankwright.io.roles import CLICKS, parse_columns

    return parse_columns(text, CLICKS) or {}


@click.command("clicks")
@click.argument("log", metavar="LOG", type=FILE)
@output_option("Judgements to write.")
@click.option("--model", type=click.Choice(["pbm", "coec", "cascade", "sdbn", "dbn"]), default="pbm", help=_MODEL_HELP)
@click.option("--columns", callback=_columns, metavar="NAME=COLUMN,…", help=_COLUMNS_HELP)
@click.option("--ubi-queries", type=FILE, help="ubi_queries as JSON lines, if LOG is ubi_events.")
@click.option("--min-impressions", type=Integer(1), default=10, help="Fewest of a judged document.")
@click.option("--quantiles", callback=_parts, metavar="NUMBERS", help=_QUANTILES_HELP)
@click.option("--thresholds", callback=_parts, metavar="NUMBERS", help="Cut the estimates at these values instead.")
@click.option("--cautious", is_flag=True, help=_CAUTIOUS_HELP)
@click.option("--propensities", type=FILE, help=_PROPENSITIES_HELP)
@click.option("--max-clicks", type=Integer(1), default=50, help="Drop sessions with more.")
@click.option("--max-impressions", type=Integer(1), default=2000, help="Drop sessions with more.")
@click.option("--max-share", type=click.FloatRange(0, 1), default=0.9, help=_SHARE_HELP)
@click.option("--write-estimates", "estimates", type=FILE, help="Write all estimates as CSV.")
@click.option("--write-propensities", "looks", type=FILE, help="Write those of positions as CSV.")
@click.option("--features", type=FILE, help="With --write-pages: features of queries and documents, with their ids.")
@click.option("--write-pages", "pages", type=FILE, help=_PAGES_HELP)
@click.option("--write-queries", "numbered", type=FILE, help=_NUMBER_HELP)
def command(log: Path, target: Path, **options: Any) -> None:
    """Turn impressions and clicks into judgements, with users' habit of looking at the top taken out.

    LOG has a row for every result that was shown: query, document, position, clicked (0 or 1), and if possible session.
    It is CSV or tab-separated text with a header line, JSON lines or Parquet, or ubi_events of OpenSearch. FILE gets a
    grade from 0 for every query and document with enough impressions, as qrels. Files appear only when complete.

    \b
    Example:
      rankwright clicks log.csv -o qrels.txt
      rankwright clicks log.csv -o qrels.txt --model dbn --write-estimates estimates.csv
      rankwright clicks log.csv -o qrels.txt --features f.rank --write-pages pages.rank --write-propensities p.csv
      rankwright train pages.rank --method lambdamart --position position --pair pair --propensities p.csv -o m.rkw
    """
    from rankwright.clicks.log import drop_sessions, read_clicks
    from rankwright.clicks.models import click_model, read_propensities
    from rankwright.io.trec import write_qrels

    targets = [target, *(options[name] for name in ("estimates", "looks", "pages", "numbered") if options[name])]
    sources = (log, options["ubi_queries"], options["propensities"], options["features"])
    check_targets(targets, sources, options["pages"])
    _check_pages(options)
    if options["quantiles"] is not None and options["thresholds"] is not None:
        raise InputError("--quantiles and --thresholds are both given; expected one of them")
    propensities = None if options["propensities"] is None else read_propensities(options["propensities"])
    with reading(log) as progress:
        clicks = read_clicks(log, columns=options["columns"], queries=options["ubi_queries"], progress=progress)
    filtered = drop_sessions(clicks, **{name: options[name] for name in ("max_clicks", "max_impressions", "max_share")})
    names = _names(filtered, options["numbered"])
    with naming_files({"None": log}):
        shown = options["min_impressions"]
        result = click_model(filtered, options["model"], min_impressions=shown, propensities=propensities)
    how = {name: options[name] for name in ("quantiles", "thresholds", "cautious")}
    qrels = result.qrels(**how, query_ids=names)
    if not qrels.n_docs:
        problem = f"no document has {shown:,} impressions"
        raise InputError(f"{problem}; expected more of them, or --min-impressions", log)
    pages = None if options["pages"] is None else _pages(log, filtered, names, options["features"])
    write_qrels(qrels, target)
    if options["estimates"] is not None:
        result.write(options["estimates"], result.grades(**how))
    if options["looks"] is not None:
        result.propensities.write(options["looks"])
    summary = None if pages is None else _write_pages(pages, options["pages"])
    if options["numbered"] is not None:
        _write_queries(filtered, names, options["numbered"])
    _report(clicks, filtered, result, how, targets)
    if summary is not None:
        inform(summary)


def _names(log: ClickLog, numbered: Path | None) -> list[str]:
    """The ids of queries: numbers, if they are to be numbered."""
    if numbered is not None:
        return [str(number) for number in range(1, len(log.query_ids) + 1)]
    text = next((query for query in log.query_ids if len(query.split()) != 1 or query != query.strip()), None)
    if text is not None:
        problem = f"the query {text[:60]!r} is text, and qrels need ids of one word"
        raise InputError(f"{problem}; expected --write-queries FILE, which numbers the queries")
    return list(log.query_ids)


def _check_pages(options: dict[str, Any]) -> None:
    """Reject one of --features and --write-pages without the other, and a file that cannot be written."""
    if (options["features"] is None) != (options["pages"] is None):
        names = ("--features", "--write-pages")
        present, missing = names if options["pages"] is None else names[::-1]
        raise InputError(f"{present} is given without {missing}; expected both")
    if options["pages"] is not None:
        from rankwright.io.detect import check_suffix

        check_suffix(options["pages"])


def _pages(path: Path, log: ClickLog, names: list[str], features: Path) -> ClickPages:
    from rankwright.clicks.log import click_pages

    data = read_features(features, negative_as_zero=True)
    try:
        return click_pages(log, data, names)
    except InputError as error:
        raise InputError(error.message, features if "features" in error.message else path) from None


def _write_pages(pages: ClickPages, path: Path) -> str:
    from rankwright.io.detect import write_data

    data, table = pages.data, pages.table
    write_data(table, path)
    left = pages.n_impressions - data.n_docs
    without = f"; {left:,} impressions have no features, or are alone on their page" if left else ""
    first = data.n_features + 1
    where = "" if table.feature_names else f", position and pair as features {first} and {first + 1}"
    return f"{path} has {data.n_queries:,} pages with {data.n_docs:,} impressions{without}{where}"


def _write_queries(log: ClickLog, names: list[str], path: Path) -> None:
    from rankwright.io.files import replace_file

    with replace_file(path) as out:
        for name, query in zip(names, log.query_ids, strict=True):
            out.write(f"{name}\t{' '.join(query.split())}\n".encode("utf-8", "replace"))


def _report(clicks: ClickLog, log: ClickLog, result: ClickEstimates, how: dict[str, Any], targets: list[Path]) -> None:
    import numpy as np

    for note in log.notes:
        inform(note)
    counts = f"{log.n_impressions:,} impressions, {log.n_clicks:,} clicks, {len(log.query_ids):,} queries"
    inform(f"read {counts}, {clicks.n_pairs:,} pairs of a query and a document")
    looks = result.propensities
    if result.model != "coec":
        shares = [f"{at} {value:.2f}" for at, value in zip(looks.position, looks.value, strict=True)]
        inform(f"looked at, by position: {listed(shares, 10)}")
    unknown = looks.position[np.isnan(looks.value)]
    if len(unknown):
        at = ", ".join(map(str, unknown[:10].tolist()))
        reason = "no document links them to the others, so their impressions do not count"
        warn(f"propensities of positions {at} are not known: {reason}")
    if not result.converged:
        warn(f"EM did not come to rest in {len(result.history) - 1:,} steps")
    few = int((~result.kept & (np.bincount(log.pair, minlength=log.n_pairs) > 0)).sum())
    if few:
        unit = "looked at" if result.model in ("cascade", "sdbn", "dbn") else "impressions"
        inform(f"left out {few:,} pairs with fewer than {result.min_impressions:,} {unit}")
    grades = result.grades(**how)
    counts = ", ".join(f"{grade}: {int((grades == grade).sum()):,}" for grade in range(int(grades.max()) + 1))
    inform(f"wrote {', '.join(map(str, targets))}: grades {counts}")
