"""`rankwright explain`: what makes a model rank as it does, feature by feature.

For a model: what its features add on many documents. For a query: why A is above B, or what sets one document apart
from the others; contributions are Shapley values (`models/base.py`), which sum to the difference of the scores.
If the model scales features within each query, the values shown are the scaled ones.
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

from rankwright._types import Arguments, Array
from rankwright.cli.files import check_plots, naming_files
from rankwright.cli.options import (
    FILE,
    Integer,
    feature_options,
    json_option,
    measure_option,
    missing_option,
    seed_option,
    threads_option,
)
from rankwright.cli.printing import (
    bar,
    counted,
    decimals,
    escape,
    inform,
    new_console,
    print_columns,
    print_json,
    progress,
)
from rankwright.data.order import query_chunks, rank_order
from rankwright.errors import InputError
from rankwright.measures import parse_measure

if TYPE_CHECKING:
    from rich.console import Console

    from rankwright.data.dataset import RankingData
    from rankwright.evaluation.importance import PermutationImportance
    from rankwright.models.base import Model, Term

_BAR = 20
_NAMED = 5  # ids named in an error
_MEASURE = "nDCG@10"
_QUERY_HELP = "Explain the ranking of this query.  [default: the model, on all of FEATURES]"
_PAIR_HELP = "Two documents, by id or by rank (#1 #2).  [default: the two at the top]"
_PERMUTE_HELP = "Shuffle every feature N times within queries, and show how much the measure drops."
_SAMPLE = 5000  # documents explained, in whole queries
_AT_ONCE = 200  # documents between two steps of the progress bar
_KINDS = {
    "gain": "share of what all splits gained in training",
    "importance": "in the model alone, whatever the data; of a sum, the mean share in its parts",
}


@click.command("explain")
@click.argument("model", metavar="MODEL", type=FILE)
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--query", metavar="Q", help=_QUERY_HELP)
@click.option("--documents", nargs=2, metavar="A B", help=_PAIR_HELP)
@click.option("--document", metavar="A", help="One document, by id or by rank: what sets it apart from the others.")
@click.option("--permute", "repeats", type=Integer(1), metavar="N", help=_PERMUTE_HELP)
@measure_option("Measure of --permute.  [default: nDCG@10]")
@click.option("--plot", type=FILE, help="Draw what is shown: a swarm of documents, or bars (.png, .svg).")
@click.option("-n", "shown", type=Integer(1), default=10, help="Number of documents and features shown.")
@json_option("Print one JSON object, with all documents and features.")
@feature_options
@missing_option
@seed_option()
@threads_option()
def command(
    model: Path,
    features: Path,
    query: str | None,
    documents: tuple[str, str] | None,
    document: str | None,
    repeats: int | None,
    measure: str | None,
    plot: Path | None,
    shown: int,
    as_json: bool,
    seed: int,
    threads: int,
    **reading: Any,
) -> None:
    """Show which features make MODEL rank FEATURES as it does.

    Without --query: how much each feature adds to the scores of documents, relative to the others of their query, and
    with --permute how much a measure drops when it is shuffled. With --query: how the documents are ranked, and why
    document A is above document B, or what sets document A apart from the rest.

    Contributions are Shapley values: a feature's share in the difference of the scores, averaged over all orders in
    which features could turn from one document's values into the other's. They add up to the difference. In a linear
    model a feature's contribution is its weight times the difference of its values.

    \b
    Example:
      rankwright explain model.rkw test.txt
      rankwright explain model.rkw test.txt --permute 5 -m nDCG@10 --plot features.png
      rankwright explain model.rkw test.txt --query 17
      rankwright explain model.rkw test.txt --query 17 --document d12 --plot d12.svg
      rankwright explain model.rkw test.txt --query 17 --documents d12 d40
      rankwright explain model.rkw test.txt --query 17 --documents '#1' '#5' --json
    """
    from rankwright.cli.rank import scored
    from rankwright.models.saving import load_model

    _check_options(query, documents, document, repeats, measure)
    if plot is not None:
        check_plots([plot], [plot], [model, features, reading["group"]])
    if measure is not None:
        parse_measure(measure)
    saved = load_model(model)
    data, scores = scored(saved, features, **reading)
    if repeats and not data.is_labelled:
        raise InputError("has no labels, by which --permute measures; expected a column of them", features)
    head = {"model": str(model), "method": saved.method, "features": str(features)}
    if query is None:
        how: dict[str, Any] = {"measure": measure or _MEASURE, "repeats": repeats or 0, "seed": seed}
        with naming_files({"None": features}):
            _explain_features(saved.model, data, head, **how, threads=threads, shown=shown, as_json=as_json, plot=plot)
        return
    ranking = _ranking(data, scores, query, features)
    names = (document,) if document is not None else documents or ()
    chosen = [_find(ranking, name, query, features) for name in names]
    if len(chosen) == 2 and chosen[0] is chosen[1]:
        problem = f"{' and '.join(names)} are the same document of query {query!r}"
        raise InputError(f"{problem}; expected two", features)
    compared = _compared(saved.model, data, ranking, chosen)
    if plot is not None:
        _draw(plot, compared, query, shown)
        inform(f"wrote {plot}")
    head["query"] = query
    scaling = saved.model.query_scaling
    if as_json:
        print_json(head | {"query_scaling": scaling} | _as_dict(ranking, compared))
        return
    out = new_console()
    _show(out, head, ranking, compared, shown)
    if compared is not None and scaling is not None:
        values = "A is" if compared.b is None else "A and B are"
        out.print(f"\n{values} not the values in the file: the model scales them within the query ({scaling}).")


def _check_options(
    query: str | None, documents: Arguments | None, document: str | None, repeats: int | None, measure: str | None
) -> None:
    if query is None and (documents or document):
        raise InputError(f"--document{'s' if documents else ''} names documents of a query; expected --query with it")
    if documents and document:
        raise InputError("--document and --documents are both given; expected one of them")
    if query is not None and repeats:
        raise InputError("--permute is about all queries; expected no --query with it")
    if measure is not None and not repeats:
        raise InputError("--measure is that of --permute; expected --permute N with it")


@dataclass(frozen=True)
class _Document:
    """A document of the query; ``row`` is its row in the data."""

    rank: int
    id: str | None
    score: float
    label: float | None
    row: int

    @property
    def name(self) -> str:
        return f"#{self.rank}" if self.id is None else self.id


def _ranking(data: RankingData, scores: Array, query: str, features: Path) -> list[_Document]:
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
            float(data.labels[start + place]) if data.is_labelled else None,
            start + place,
        )
        for rank, place in enumerate(order.tolist(), 1)
    ]


@dataclass(frozen=True)
class _Comparison:
    """Why document A is above or below B or, without a B, what sets it apart from the mean of its query.

    `terms`: the contributions. `difference`: what they add up to.
    """

    a: _Document
    b: _Document | None
    terms: list[Term]
    difference: float


def _compared(
    model: Model, data: RankingData, ranking: list[_Document], chosen: Sequence[_Document]
) -> _Comparison | None:
    """Compare two documents, those at the top unless some are chosen; None if the query has only one."""
    from rankwright.models.base import explained_terms

    if not chosen and len(ranking) < 2:
        return None
    a, *others = chosen or ranking[:2]
    b = others[0] if others else None
    terms = explained_terms(model, data, int(data.query_of_row()[a.row]), a.row, None if b is None else b.row)
    other = math.fsum(document.score / len(ranking) for document in ranking) if b is None else b.score
    return _Comparison(a, b, terms, a.score - other)


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


def _value(value: float | str | None) -> str:
    return value if isinstance(value, str) else "–" if value is None else f"{value:.4g}"


def _draw(plot: Path, compared: _Comparison | None, query: str, shown: int) -> None:
    from rankwright.evaluation.importance import write_bars

    if compared is None:
        raise InputError(f"query {query!r} has only one document, so there is nothing to draw")
    a, b, terms = compared.a, compared.b, compared.terms
    title = f"Query {query}: what sets {a.name}, #{a.rank}, apart from the mean of the query"
    if b is not None:
        title = f"Query {query}: why {a.name} is {'above' if a.rank < b.rank else 'below'} {b.name}"
    listed, rest = terms[:shown], terms[shown:]
    labels = [f"{term.feature}: {_value(term.a)} against {_value(term.b)}" for term in listed]
    labels += [counted(len(rest), "other")] if rest else []
    numbers = [term.contribution for term in listed] + ([sum(term.contribution for term in rest)] if rest else [])
    write_bars(plot, labels, numbers, title)


def _as_dict(ranking: list[_Document], compared: _Comparison | None) -> dict[str, Any]:
    documents = [
        {"rank": document.rank, "document": document.id, "score": document.score, "label": document.label}
        for document in ranking
    ]
    if compared is None:
        return {"documents": documents, "a": None, "b": None, "difference": None, "contributions": []}
    return {
        "documents": documents,
        "a": documents[compared.a.rank - 1],
        "b": None if compared.b is None else documents[compared.b.rank - 1],
        "difference": compared.difference,
        "contributions": [
            {
                "feature": term.feature,
                "weight": term.weight,
                "a": term.a,
                "mean" if compared.b is None else "b": term.b,
                "contribution": term.contribution,
            }
            for term in compared.terms
        ],
    }


def _show(
    console: Console, head: dict[str, str], ranking: list[_Document], compared: _Comparison | None, shown: int
) -> None:
    title, about = f"query {head['query']}", f"{head['features']}, ranked by {head['model']} ({head['method']})"
    console.print(f"[bold]{escape(title)}[/]  [dim]{escape(about)}[/]\n")
    pair = () if compared is None else (compared.a, compared.b)
    chosen = {document.rank: name for document, name in zip(pair, "AB", strict=False) if document is not None}
    listed = [document for document in ranking if document.rank <= shown or document.rank in chosen]
    rows = {
        "rank": [f"#{document.rank}" for document in listed],
        "document": [document.id or "" for document in listed],
        "score": decimals([document.score for document in listed], 6),
        "label": ["" if document.label is None else f"{document.label:g}" for document in listed],
        "": [chosen.get(document.rank, "") for document in listed],
    }
    for column in ("document", "label"):
        if not any(rows[column]):
            del rows[column]
    print_columns(console, rows, left=("document", ""))
    if len(listed) < len(ranking):
        console.print(f"  [dim]and {len(ranking) - len(listed):,} more[/]")
    if compared is None:
        console.print("\nThe query has only one document, so there is nothing to compare.")
        return
    a, b = compared.a, compared.b
    if b is None:
        place = f"#{a.rank} of {len(ranking):,}"
        console.print(f"\nWhat sets [bold]{escape(a.name)}[/] (A), {place}, apart from the mean of the query\n")
    else:
        relation = "above" if a.rank < b.rank else "below"
        console.print(f"\nWhy [bold]{escape(a.name)}[/] (A) is {relation} [bold]{escape(b.name)}[/] (B)\n")
    _show_terms(console, compared, shown)
    if b is not None and a.score == b.score:
        rule = "the order of the file" if a.id is None or b.id is None else "the document id, descending,"
        console.print(f"\nThe scores are equal; {rule} decides.")


def _show_terms(console: Console, compared: _Comparison, shown: int) -> None:
    terms, other = compared.terms, "mean" if compared.b is None else "B"
    listed = [term for term in terms[:shown] if term.contribution]
    rest = terms[len(listed) :]
    largest = max((abs(term.contribution) for term in listed), default=1.0)
    others = counted(len(rest), "other")
    tail = [(others, sum(term.contribution for term in rest))] if rest else []
    tail += [("score difference" if other == "B" else "score − mean score", compared.difference)]
    blank = [""] * len(tail)
    linear = all(term.weight is not None for term in listed)
    weights = {"weight": [*(f"{term.weight:.4g}" for term in listed), *blank]} if linear else {}
    rows = {
        "feature": [*(term.feature for term in listed), *(name for name, _ in tail)],
        **weights,
        "A": [*(_value(term.a) for term in listed), *blank],
        other: [*(_value(term.b) for term in listed), *blank],
        f"weight × (A − {other})" if linear else "adds": decimals(
            [*(term.contribution for term in listed), *(sum_ for _, sum_ in tail)], 4, "+"
        ),
        "": [*(bar(console, abs(term.contribution) / largest, _BAR) for term in listed), *blank],
    }
    colours = ["cyan" if term.contribution > 0 else "magenta" for term in listed]
    print_columns(console, rows, left=("feature", ""), colours=[*colours, *blank])


@dataclass(frozen=True)
class _Feature:
    feature: str
    contribution: float
    correlation: float | None
    importance: float
    drop: float | None
    error: float | None


def _explain_features(
    model: Model,
    data: RankingData,
    head: dict[str, str],
    *,
    measure: str,
    repeats: int,
    seed: int,
    threads: int,
    shown: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Print a table of features, the largest mean contribution first, or the largest drop if features are shuffled.

    `head`: model, method and file, for titles. `repeats`: 0 for no permutation importance.
    """
    from rankwright.evaluation.importance import permutation_importance, plot_contributions
    from rankwright.models.base import categorical

    sample = _sample(data, seed)
    contributions = _contributions(model, sample, threads)
    values = model.aligned(sample.X, sample.feature_names, sample.indptr)
    values[:, [*categorical(model, sample)]] = np.nan  # they have no order
    drops = None
    if repeats:
        with progress("shuffling features") as update:
            settings = {"repeats": repeats, "random_state": seed, "n_jobs": threads, "progress": update}
            drops = permutation_importance(model, data, measure, **settings)
    features = _features(model, contributions, values, drops)
    if plot is not None:
        plot_contributions(plot, contributions, values, model.names, n=shown)
        inform(f"wrote {plot}")
    facts = {"documents": data.n_docs, "explained": sample.n_docs}
    if as_json:
        permutation = None
        if drops is not None:
            permutation = {"measure": str(drops.measure), "value": drops.value, "repeats": repeats}
        importance = [vars(feature) for feature in features]
        click.echo(json.dumps(head | facts | {"permutation": permutation, "importance": importance}))
        return
    _show_features(new_console(), head, facts, features, drops, shown, _kind(model))


def _kind(model: Model) -> str:
    return "weight" if hasattr(model, "coef") else "gain" if hasattr(model, "n_inputs") else "importance"


def _sample(data: RankingData, seed: int) -> RankingData:
    """Whole queries with about as many documents as are explained, drawn without regard to their order."""
    if data.n_docs <= _SAMPLE:
        return data
    by_name = np.argsort([str(query) for query in data.query_ids], kind="stable")
    drawn = by_name[np.random.default_rng(seed).permutation(data.n_queries)]
    enough = int(np.searchsorted(np.cumsum(data.sizes[drawn]), _SAMPLE)) + 1
    return data.select(np.sort(drawn[:enough]))


def _contributions(model: Model, data: RankingData, threads: int) -> Array:
    """The contributions of all documents, some queries at a time, in the order of the data."""
    contributions = np.zeros((data.n_docs, model.n_features))
    with progress("explaining documents") as update:
        for first, last in query_chunks(data.indptr, _AT_ONCE * threads):
            some = data.select(np.arange(first, last))
            rows = slice(data.indptr[first], data.indptr[last])
            contributions[rows] = model.predict_contributions(some, n_jobs=threads)[:, :-1]
            update(int(data.indptr[last]), data.n_docs)
    return contributions


def _features(model: Model, contributions: Array, values: Array, drops: PermutationImportance | None) -> list[_Feature]:
    sizes, importances = np.abs(contributions).mean(axis=0), model.importance()
    order = np.argsort(-sizes if drops is None else -drops.drop, kind="stable").tolist()
    return [
        _Feature(
            model.names[at],
            float(sizes[at]),
            _correlation(values[:, at], contributions[:, at]),
            float(importances[at]),
            None if drops is None else float(drops.drop[at]),
            None if drops is None or np.isnan(drops.error[at]) else float(drops.error[at]),
        )
        for at in order
    ]


def _correlation(values: Array, contributions: Array) -> float | None:
    """Spearman's rank correlation of a feature's values and contributions; None if one of them does not vary."""
    present = ~np.isnan(values)
    pair = [np.unique(column[present], return_inverse=True, return_counts=True) for column in (values, contributions)]
    if any(len(values) < 2 for values, _, _ in pair):
        return None
    ranks = [(np.cumsum(counts) - (counts - 1) / 2)[codes] for _, codes, counts in pair]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _show_features(
    console: Console, head: dict[str, str], facts: dict[str, int], features: list[_Feature],
    drops: PermutationImportance | None, shown: int, kind: str,
) -> None:  # fmt: skip
    listed = [feature for feature in features[:shown] if feature.contribution or feature.drop]
    some = "" if facts["explained"] == facts["documents"] else f"{facts['explained']:,} of "
    about = f"({head['method']}) on {some}{facts['documents']:,} documents of {head['features']}"
    console.print(f"[bold]{escape(head['model'])}[/]  [dim]{escape(about)}[/]\n")
    if not listed:
        console.print("No feature changes the order of any query.")
        return
    sizes = [row.contribution if drops is None else max(row.drop or 0.0, 0.0) for row in listed]
    rows = {
        "feature": [row.feature for row in listed],
        kind: [f"{row.importance:.4g}" for row in listed],
        "adds": decimals([row.contribution for row in listed], 4),
        "with value": ["" if row.correlation is None else f"{row.correlation:+.2f}" for row in listed],
    }
    if drops is not None:
        errors = ["" if row.error is None else f"± {row.error:.4f}" for row in listed]
        rows["drop"] = [f"{row.drop:+.4f} {error}".rstrip() for row, error in zip(listed, errors, strict=True)]
    rows[""] = [bar(console, size / (max(sizes) or 1.0), _BAR) if size > 0 else "" for size in sizes]
    print_columns(console, rows, left=("feature", ""), colours=["cyan"] * len(listed))
    rest = sum(1 for feature in features if feature.contribution or feature.drop) - len(listed)
    if rest:
        console.print(f"  [dim]and {rest:,} more (--json lists all)[/]")
    console.print("\nadds: mean absolute contribution to the score, relative to the documents of the same query")
    console.print("with value: rank correlation of the feature's values with its contributions")
    if kind in _KINDS:
        console.print(f"{kind}: {_KINDS[kind]}")
    if drops is not None:
        drop = f"drop: in {drops.measure} ({drops.value:.4f}), shuffled {drops.repeats} times within queries"
        console.print(escape(f"{drop}, ± standard error"))
