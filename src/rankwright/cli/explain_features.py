"""`rankwright explain` without a query: what each feature of a model adds on many documents, and its importance."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rankwright.cli.printing import bar, decimals, escape, new_console, print_columns
from rankwright.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from rankwright.data.dataset import RankingData
    from rankwright.evaluation.importance import PermutationImportance
    from rankwright.models.base import Model

__all__ = ["explain_features"]

Array = Any
_SAMPLE = 5000  # documents explained, in whole queries
_AT_ONCE = 200  # documents between two steps of the progress bar
_BAR = 20
_KINDS = {
    "gain": "share of what all splits gained in training",
    "importance": "in the model alone, whatever the data; of a sum, the mean share in its parts",
}


@dataclass(frozen=True)
class _Feature:
    """What is said of a feature."""

    feature: str
    contribution: float
    correlation: float | None
    importance: float
    drop: float | None
    error: float | None


def explain_features(
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

    Parameters
    ----------
    model, data
        What to explain, on which documents.
    head : dict
        Model, method and file, for titles.
    measure, repeats, seed
        Of permutation importance; none if repeats is 0. The seed draws the sample, too.
    threads, shown, as_json, plot
        As the options of the command.
    """
    from rankwright.evaluation.importance import permutation_importance
    from rankwright.models.terms import categorical

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
        from rankwright.evaluation.contribution_plot import plot_contributions

        plot_contributions(plot, contributions, values, model.names, n=shown)
        click.echo(f"wrote {plot}", err=True)
    facts = {"documents": data.n_docs, "explained": sample.n_docs}
    if as_json:
        told = None if drops is None else {"measure": str(drops.measure), "value": drops.value, "repeats": repeats}
        click.echo(json.dumps(head | facts | {"permutation": told, "importance": [vars(one) for one in features]}))
        return
    _show(new_console(), head, facts, features, drops, shown, _kind(model))


def _kind(model: Model) -> str:
    """What the importance of a feature is in a model without data."""
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
    from rankwright.data.blocks import query_chunks

    found = np.zeros((data.n_docs, model.n_features))
    with progress("explaining documents") as update:
        for first, last in query_chunks(data.indptr, _AT_ONCE * threads):
            part = data.select(np.arange(first, last))
            rows = slice(data.indptr[first], data.indptr[last])
            found[rows] = model.predict_contributions(part, n_jobs=threads)[:, :-1]
            update(int(data.indptr[last]), data.n_docs)
    return found


def _features(model: Model, contributions: Array, values: Array, drops: PermutationImportance | None) -> list[_Feature]:
    """All features, the most important first."""
    sizes, own = np.abs(contributions).mean(axis=0), model.importance()
    order = np.argsort(-sizes if drops is None else -drops.drop, kind="stable").tolist()
    return [
        _Feature(
            model.names[at],
            float(sizes[at]),
            _correlation(values[:, at], contributions[:, at]),
            float(own[at]),
            None if drops is None else float(drops.drop[at]),
            None if drops is None or np.isnan(drops.error[at]) else float(drops.error[at]),
        )
        for at in order
    ]


def _correlation(values: Array, contributions: Array) -> float | None:
    """Spearman's rank correlation of a feature's values and contributions; None if one of them does not vary."""
    known = ~np.isnan(values)
    pair = [np.unique(column[known], return_inverse=True, return_counts=True) for column in (values, contributions)]
    if any(len(found[0]) < 2 for found in pair):
        return None
    ranks = [(np.cumsum(counts) - (counts - 1) / 2)[codes] for _, codes, counts in pair]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _show(
    console: Console, head: dict[str, str], facts: dict[str, int], features: list[_Feature],
    drops: PermutationImportance | None, shown: int, kind: str,
) -> None:  # fmt: skip
    listed = [one for one in features[:shown] if one.contribution or one.drop]
    some = "" if facts["explained"] == facts["documents"] else f"{facts['explained']:,} of "
    about = f"({head['method']}) on {some}{facts['documents']:,} documents of {head['features']}"
    console.print(f"[bold]{escape(head['model'])}[/]  [dim]{escape(about)}[/]\n")
    if not listed:
        console.print("No feature changes the order of any query.")
        return
    sizes = [one.contribution if drops is None else max(one.drop or 0.0, 0.0) for one in listed]
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    correlations = ["" if one.correlation is None else f"{one.correlation:+.2f}" for one in listed]
    rows = {
        "feature": [one.feature for one in listed],
        kind: [f"{one.importance:.4g}" for one in listed],
        "adds": decimals([one.contribution for one in listed], 4),
        "with value": correlations,
    }
    if drops is not None:
        errors = ["" if one.error is None else f"± {one.error:.4f}" for one in listed]
        rows["drop"] = [f"{one.drop:+.4f} {error}".rstrip() for one, error in zip(listed, errors, strict=True)]
    rows[""] = [bar(size / (max(sizes) or 1.0), _BAR, block) if size > 0 else "" for size in sizes]
    print_columns(console, rows, left=("feature", ""), colours=["cyan"] * len(listed))
    rest = sum(1 for one in features if one.contribution or one.drop) - len(listed)
    if rest:
        console.print(f"  [dim]and {rest:,} more (--json lists all)[/]")
    console.print("\nadds: mean absolute contribution to the score, relative to the documents of the same query")
    console.print("with value: rank correlation of the feature's values with its contributions")
    if kind in _KINDS:
        console.print(f"{kind}: {_KINDS[kind]}")
    if drops is not None:
        what = f"drop: in {drops.measure} ({drops.value:.4f}), shuffled {drops.repeats} times within queries"
        console.print(escape(f"{what}, ± standard error"))
