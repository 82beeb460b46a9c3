"""`rankwright explain`: why a model puts A above B, feature by feature.

For a linear model score(A) − score(B) = Σ_j coef_j · (A_j − B_j); the terms of that sum are shown, largest first. If
the model scales features within each query, A_j and B_j are the scaled values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rankwright.cli.options import missing_option
from rankwright.cli.printing import bar, escape, new_console
from rankwright.cli.whole import Whole
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from rankwright.data.dataset import RankingData

__all__ = ["command"]

_BAR = 20
_NAMED = 5  # ids named in an error


@click.command("explain")
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("features", metavar="FEATURES", type=click.Path(path_type=Path))
@click.option("--query", required=True, metavar="Q", help="Id of the query.")
@click.option(
    "--documents",
    nargs=2,
    metavar="A B",
    help="Two documents, by id or by rank (#1 #2).  [default: the two at the top]",
)
@click.option(
    "-n",
    "shown",
    type=Whole(1),
    default=10,
    show_default=True,
    help="Number of documents and features shown.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all documents and features.")
@click.option(
    "--group",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents per query, for text without qid.",
)
@click.option("--negative-as-zero", is_flag=True, help="Read labels below 0 as 0 instead of reporting an error.")
@missing_option
def command(
    model: Path,
    features: Path,
    query: str,
    documents: tuple[str, str] | None,
    shown: int,
    as_json: bool,
    group: Path | None,
    negative_as_zero: bool,
    missing_as_zero: bool,
) -> None:
    """Show how MODEL ranks the documents of one query, and why it puts document A above document B.

    In a linear model the contribution of a feature is its weight times the difference of its values; the contributions
    add up to the difference of the scores. For a model that scales features within each query, the values are scaled.

    \b
    Example:
      rankwright explain model.rkw test.txt --query 17
      rankwright explain model.rkw test.txt --query 17 --documents d12 d40
      rankwright explain model.rkw test.txt --query 17 --documents '#1' '#5' --json
    """
    from rankwright.cli.rank import scored
    from rankwright.models.saving import load_model

    saved = load_model(model)
    data, scores = scored(saved, features, group, negative_as_zero=negative_as_zero, missing_as_zero=missing_as_zero)
    ranking = _ranking(data, scores, query, features)
    pair = _pair(ranking, documents, query, features)
    terms = None if pair is None else _terms(saved.model, data, ranking, pair)
    head = {"model": str(model), "method": saved.method, "features": str(features), "query": query}
    scaling = saved.model.query_scaling
    if as_json:
        facts = {"query_scaling": scaling} | _as_dict(ranking, pair, terms)
        click.echo(json.dumps(head | facts, ensure_ascii=False))
        return
    out = new_console()
    _show(out, head, ranking, pair, terms, shown)
    if terms is not None and scaling is not None:
        out.print(f"\nA and B are not the values in the file: the model scales them within the query ({scaling}).")


@dataclass(frozen=True)
class _Document:
    """A document of the query; ``row`` is its row in the data."""

    rank: int
    id: str | None
    score: float
    label: float
    row: int

    @property
    def name(self) -> str:
        return f"#{self.rank}" if self.id is None else self.id


@dataclass(frozen=True)
class _Term:
    """The contribution of one feature to the difference of the scores."""

    feature: str
    weight: float | None
    a: float
    b: float
    contribution: float


def _ranking(data: RankingData, scores: Any, query: str, features: Path) -> list[_Document]:
    """The documents of the query in rank order."""
    from rankwright.data.order import rank_order

    ids = [str(name) for name in data.query_ids]
    if query not in ids:
        raise InputError(f"has no query {query!r}; it has {len(ids):,}, such as {_some(ids)}", features)
    at = ids.index(query)
    start, stop = data.indptr[at : at + 2].tolist()
    names = None if data.doc_ids is None else data.doc_ids[start:stop].astype(str)
    order = rank_order(scores[start:stop], np.array([0, stop - start]), names)
    return [
        _Document(
            rank,
            None if names is None or not names[place] else str(names[place]),
            float(scores[start + place]),
            float(data.labels[start + place]),
            start + place,
        )
        for rank, place in enumerate(order.tolist(), 1)
    ]


def _pair(
    ranking: list[_Document], wanted: tuple[str, str] | None, query: str, features: Path
) -> tuple[_Document, _Document] | None:
    """The two documents to compare; None if the query has only one and none were asked for."""
    if wanted is None:
        return (ranking[0], ranking[1]) if len(ranking) > 1 else None
    first, second = (_find(ranking, name, query, features) for name in wanted)
    if first is second:
        raise InputError(
            f"{wanted[0]} and {wanted[1]} are the same document of query {query!r}; expected two", features
        )
    return first, second


def _find(ranking: list[_Document], wanted: str, query: str, features: Path) -> _Document:
    for document in ranking:
        if document.id == wanted:
            return document
    number = wanted.removeprefix("#")
    if wanted.startswith("#") and number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(ranking):
        return ranking[int(number[:9]) - 1]
    names = [document.id for document in ranking if document.id is not None]
    expected = f"a rank from #1 to #{len(ranking)}" + (f" or an id such as {_some(names)}" if names else "")
    raise InputError(f"query {query!r} has no document {wanted!r}; expected {expected}", features)


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_NAMED])


def _terms(model: Any, data: RankingData, ranking: list[_Document], pair: tuple[_Document, _Document]) -> list[_Term]:
    """All features, the largest contribution first."""
    scales = model.query_scaling is not None
    rows = sorted(document.row for document in (ranking if scales else pair))  # scaling needs the whole query
    query, (at_a, at_b) = data.X[rows], (rows.index(document.row) for document in pair)
    a, b = model.aligned(query, data.feature_names)[[at_a, at_b]]
    contributions = model.contributions(query[[at_a]], query[[at_b]], data.feature_names, query)
    order = np.argsort(-np.abs(contributions), kind="stable").tolist()
    columns = (a.tolist(), b.tolist(), contributions.tolist())
    coef = getattr(model, "coef", None)
    weights = [None] * len(order) if coef is None else coef.tolist()
    names = model.names
    return [_Term(names[at], weights[at], *(column[at] for column in columns)) for at in order]


def _as_dict(ranking: list[_Document], pair: Any, terms: list[_Term] | None) -> dict[str, Any]:
    documents = [
        {"rank": document.rank, "document": document.id, "score": document.score, "label": document.label}
        for document in ranking
    ]
    if pair is None or terms is None:
        return {"documents": documents, "a": None, "b": None, "difference": None, "contributions": []}
    return {
        "documents": documents,
        "a": documents[pair[0].rank - 1],
        "b": documents[pair[1].rank - 1],
        "difference": pair[0].score - pair[1].score,
        "contributions": [
            {
                "feature": term.feature,
                "weight": term.weight,
                "a": term.a,
                "b": term.b,
                "contribution": term.contribution,
            }
            for term in terms
        ],
    }


def _show(
    console: Console, head: dict[str, str], ranking: list[_Document], pair: Any, terms: list[_Term] | None, shown: int
) -> None:
    title, about = f"query {head['query']}", f"{head['features']}, ranked by {head['model']} ({head['method']})"
    console.print(f"[bold]{escape(title)}[/]  [dim]{escape(about)}[/]\n")
    chosen = {} if pair is None else {pair[0].rank: "A", pair[1].rank: "B"}
    listed = [document for document in ranking if document.rank <= shown or document.rank in chosen]
    rows = {
        "rank": [f"#{document.rank}" for document in listed],
        "document": [document.id or "" for document in listed],
        "score": _decimals([document.score for document in listed], 6),
        "label": [f"{document.label:g}" for document in listed],
        "": [chosen.get(document.rank, "") for document in listed],
    }
    if not any(rows["document"]):
        del rows["document"]
    _print_columns(console, rows, left=("document", ""))
    if len(listed) < len(ranking):
        console.print(f"  [dim]and {len(ranking) - len(listed):,} more[/]")
    if pair is None or terms is None:
        console.print("\nThe query has only one document, so there is nothing to compare.")
        return
    a, b = pair
    relation = "above" if a.rank < b.rank else "below"
    console.print(f"\nWhy [bold]{escape(a.name)}[/] (A) is {relation} [bold]{escape(b.name)}[/] (B)\n")
    _show_terms(console, a.score - b.score, terms, shown)
    if a.score == b.score:
        rule = "the order of the file" if a.id is None or b.id is None else "the document id, descending,"
        console.print(f"\nThe scores are equal; {rule} decides.")


def _show_terms(console: Console, difference: float, terms: list[_Term], shown: int) -> None:
    listed = [term for term in terms[:shown] if term.contribution]
    rest = terms[len(listed) :]
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    most = max((abs(term.contribution) for term in listed), default=1.0)
    others = f"{len(rest):,} other{'s' if len(rest) > 1 else ''}"
    tail = [(others, sum(term.contribution for term in rest))] if rest else []
    tail += [("score difference", difference)]
    blank = [""] * len(tail)
    linear = all(term.weight is not None for term in listed)
    weights = {"weight": [*(f"{term.weight:.4g}" for term in listed), *blank]} if linear else {}
    rows = {
        "feature": [*(term.feature for term in listed), *(name for name, _ in tail)],
        **weights,
        "A": [*(f"{term.a:.4g}" for term in listed), *blank],
        "B": [*(f"{term.b:.4g}" for term in listed), *blank],
        "weight × (A − B)" if linear else "adds": _decimals(
            [*(term.contribution for term in listed), *(sum_ for _, sum_ in tail)], 4, "+"
        ),
        "": [*(bar(abs(term.contribution) / most, _BAR, block) for term in listed), *blank],
    }
    colours = ["cyan" if term.contribution > 0 else "magenta" for term in listed]
    _print_columns(console, rows, left=("feature", ""), colours=[*colours, *blank])


def _decimals(numbers: list[float], digits: int, sign: str = "") -> list[str]:
    """The numbers of a column, all with as many decimals as give the largest ``digits`` digits."""
    most = max(map(abs, numbers))
    if most and not 1e-6 <= most < 1e9:
        return [f"{number:{sign}.{digits}g}" for number in numbers]
    places = max(0, digits - 1 - math.floor(math.log10(most))) if most else 1
    return [f"{number:{sign}.{places}f}" for number in numbers]


def _print_columns(
    console: Console, columns: dict[str, list[str]], left: tuple[str, ...], colours: list[str] | None = None
) -> None:
    """Print an aligned table; ``colours`` are those of the last column."""
    widths = {head: max(len(text) for text in [head, *cells]) for head, cells in columns.items()}
    heads = {head: [head] for head in columns}
    for title, table in ((True, heads), (False, columns)):
        for number, row in enumerate(zip(*table.values(), strict=True)):
            cells = [
                f"{text:<{width}}" if head in left else f"{text:>{width}}"
                for (head, width), text in zip(widths.items(), row, strict=True)
            ]
            body, last = escape("  " + "  ".join(cells[:-1])), escape(row[-1])
            colour = colours[number] if colours and not title else ""
            line = f"{body}  [{colour}]{last}[/]" if colour else f"{body}  {last}".rstrip()
            console.print(f"[dim]{line}[/]" if title else line)
