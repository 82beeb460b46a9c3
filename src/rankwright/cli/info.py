"""`rankwright info`: summarise a file, for people or (``--json``) for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np

from rankwright.cli.files import check_plots, read_judgements, show_layout
from rankwright.cli.options import FILE, feature_options, json_option
from rankwright.cli.printing import (
    bar,
    counted,
    escape,
    inform,
    listed,
    new_console,
    partition_sizes,
    print_json,
    reading,
    styled,
)
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from rankwright.data.dataset import RankingData
    from rankwright.data.summary import FeatureSummary, PairSummary, QrelsSummary, RunSummary, ScoresSummary, Spread
    from rankwright.data.trec_table import TrecTable
    from rankwright.io.detect import Detected
    from rankwright.io.partitions import Manifest
    from rankwright.io.roles import Columns
    from rankwright.models.saving import SavedModel

    Summary = FeatureSummary | QrelsSummary | RunSummary | ScoresSummary

_MARGIN = 17
_BAR = 30
_SHOWN = 12  # names or partitions listed; --json lists all
_SHOWN_EQUAL = 4
_SHOWN_LABELS = 12
_SHOWN_WEIGHTS = 10
_SHOWN_CATEGORIES = 8
_MUCH = 0.5  # of the documents
_RESOLVED = ("eval_measure", "measure")  # noted for every method; its values name the measure
_PAIRS_HELP = "Features and judgements: count the pairs of documents with different labels, by labels and by query."
_PLOT_HELP = "Plot the pairs into a .png or .svg file; may be repeated."


@click.command("info")
@click.argument("path", metavar="FILE", type=FILE)
@json_option()
@feature_options
@click.option("--verify", is_flag=True, help="Partitions and data folders: read everything and compare all checksums.")
@click.option("--pairs", "with_pairs", is_flag=True, help=_PAIRS_HELP)
@click.option("--plot", "plots", multiple=True, type=FILE, help=_PLOT_HELP)
def command(
    path: Path,
    as_json: bool,
    group: Path | None,
    negative_as_zero: bool,
    columns: Columns | None,
    verify: bool,
    with_pairs: bool,
    plots: tuple[Path, ...],
) -> None:
    """Summarise FILE: features, judgements, a TREC run, scores, an index or a trained model.

    For features this includes common problems: constant features, duplicate features, repeated rows, and queries
    without an order to learn because all or none of their documents are relevant. A feature that alone orders the
    labels (nearly) perfectly is called a probable leak, first. It also says what --clean of convert and train would
    drop. For a model it shows how it was trained, the values it reached and its largest weights. For an index it
    verifies all checksums. --pairs counts the pairs of documents that rankers of pairs learn from, by labels and by
    query; --plot draws these counts.

    \b
    Example:
      rankwright info train.txt.gz
      rankwright info qrels.txt --json
      rankwright info train.txt.gz --pairs --plot pairs.png
      rankwright info model.rkw
    """
    from rankwright.io.detect import detected, read_data
    from rankwright.io.partitions import is_partitions

    check_plots(plots, plots, [path])
    wants_pairs = with_pairs or bool(plots)
    pairs: PairSummary | None = None
    if is_partitions(path):
        pairs = _pairs(read_data(path), True) if wants_pairs else None
        _show_partitions(path, as_json, verify, pairs)
        _finish(pairs, plots, as_json)
        return
    if (path / "index.json").is_file():
        _refuse_pairs(wants_pairs, path, "an index")
        _show_index(path, as_json)
        return
    summary: Summary | SavedModel
    with detected(path, columns) as file:
        kind = file.kind
        if verify:
            _verify_folder(file)
        if kind in ("model", "run", "scores"):
            _refuse_pairs(wants_pairs, path, {"model": "a model", "run": "a run", "scores": "scores"}[kind])
        if kind == "model":
            from rankwright.models.saving import load_model

            summary = load_model(file.source)
        else:
            show_layout(file, columns, or_judgements=True)
            summary, pairs = _summary(file, group, "zero" if negative_as_zero else "error", columns, wants_pairs)
    if as_json:
        from rankwright.models.saving import SavedModel

        as_dict = _model_dict(summary) if isinstance(summary, SavedModel) else summary.to_dict()
        counted = {} if pairs is None else {"pairs": pairs.to_dict()}
        print_json({"path": str(path), "format": kind, **as_dict, **counted})
    else:
        _show(new_console(), path, kind, summary)
    _finish(pairs, plots, as_json)


def _finish(pairs: PairSummary | None, plots: Sequence[Path], as_json: bool) -> None:
    """Show pairs, unless JSON has them, and plot them."""
    if pairs is None:
        return
    if not as_json:
        _show_pairs(new_console(), pairs)
    for plot in plots:
        pairs.plot(plot)
        if not as_json:
            inform(f"wrote {plot}")


def _refuse_pairs(asked: bool, path: Path, content: str) -> None:
    if asked:
        raise InputError(f"is {content}, without labels; expected features or judgements with --pairs and --plot", path)


def _summary(
    file: Detected, group: Path | None, negative: Literal["error", "zero"], columns: Columns | None, with_pairs: bool
) -> tuple[Summary, PairSummary | None]:
    from rankwright.data import summary as summaries
    from rankwright.io.detect import FORMATS, read_data
    from rankwright.io.tables import read_fields
    from rankwright.io.trec import read_run

    if file.kind == "qrels":
        table = read_judgements(file.source, columns)
        return summaries.summarize_qrels(table), _pairs(table, with_pairs)
    with reading(file.path) as progress:
        if file.kind == "run":
            return summaries.summarize_run(read_run(file.source, progress, columns=columns)), None
        if file.kind == "scores":
            chunks = [part.numbers("score") for part in read_fields(file.source, ("score",), ("score",), progress)]
            return summaries.summarize_scores(np.concatenate(chunks)), None
        # Text is read as float64: float32 could make two features or two values look the same.
        dtype = "float64" if FORMATS[file.kind].is_text else None
        data = read_data(file, dtype=dtype, group=group, negative=negative, columns=columns, progress=progress)
    return summaries.summarize(data), _pairs(data, with_pairs)


def _pairs(data: RankingData | TrecTable, wanted: bool) -> PairSummary | None:
    if not wanted:
        return None
    from rankwright.data.summary import pair_summary

    return pair_summary(data)


def _show(console: Console, path: Path, kind: str, summary: Summary | SavedModel) -> None:
    from rankwright.data.summary import FeatureSummary, QrelsSummary, RunSummary, ScoresSummary
    from rankwright.io.detect import FORMATS
    from rankwright.models.saving import SavedModel

    console.print(f"[bold]{escape(str(path))}[/]  [dim]{FORMATS[kind].title}[/]\n")
    for text in getattr(summary, "warnings", ()):
        _line(console, "warning", text)
    if isinstance(summary, SavedModel):
        _show_model(console, summary)
        return
    if isinstance(summary, ScoresSummary):
        _line(console, "scores", f"{summary.documents:,}, {summary.distinct:,} of them distinct")
        _line(console, "values", _spread(summary.scores))
        return
    _line(console, "queries", f"{summary.queries:,}")
    _line(console, "judgements" if isinstance(summary, QrelsSummary) else "documents", f"{summary.documents:,}")
    _line(console, "per query", _spread(summary.documents_per_query))
    if isinstance(summary, RunSummary):
        _line(console, "scores", f"{_number(summary.score_min)} to {_number(summary.score_max)}")
        _line(console, "tied scores", f"{summary.tied_share:.1%} of the documents share their score with another")
        return
    if isinstance(summary, FeatureSummary):
        _show_features(console, summary, None if kind == "letor" else summary.dtype)
    _show_counts(console, "labels", _label_rows(summary.labels))
    _line(console, "no relevant", _share(summary.queries_without_relevant, summary.queries))
    _line(console, "all relevant", _share(summary.queries_without_non_relevant, summary.queries))


def _show_features(console: Console, summary: FeatureSummary, dtype: str | None) -> None:
    _line(console, "document ids", "yes" if summary.document_ids else "none")
    stored = summary.kind if dtype is None else f"{summary.kind} {dtype}"
    _line(console, "features", f"{summary.features:,} {stored}, {summary.density:.1%} of the values not 0")
    _line(console, "values", f"{_number(summary.feature_min)} to {_number(summary.feature_max)}")
    if summary.missing:
        _line(console, "missing", f"{summary.missing:.1%} of the values")
    if summary.categorical_features:
        _line(console, "categorical", _listed(summary.categorical_features))
    _line(console, "constant", _listed(summary.constant_features))
    _line(console, "duplicates", _listed([_equation(group) for group in summary.duplicate_features]))
    option = "--clean" if summary.cleaning_scaled is None else "--clean --clean-scaled"
    cleaning = summary.cleaning_scaled or summary.cleaning
    if cleaning.dropped > _MUCH * cleaning.documents:
        _line(console, "cleaning", f"not with {option}: most documents look alike to it")
    elif cleaning.dropped:
        share = f"{cleaning.dropped / cleaning.documents:.1%} of the documents"
        _line(console, "cleaning", f"{option} would drop {share}, all-zero or contradicting each other")


def _show_counts(console: Console, title: str, rows: Sequence[tuple[str, int]]) -> None:
    total, largest = max(1, sum(count for _, count in rows)), max(1, *(count for _, count in rows))
    width, digits = max(len(text) for text, _ in rows), len(f"{largest:,}")
    room = max(10, min(_BAR, console.width - _MARGIN - width - digits - 12))
    texts = [f"{text:>{width}}  {count:>{digits},}  {count / total:>6.1%}" for text, count in rows]
    _show_bars(console, title, texts, [count / largest for _, count in rows], room)


def _show_bars(console: Console, title: str, texts: Sequence[str], shares: Sequence[float], room: int) -> None:
    """Rows with a bar each; ``shares`` are those of the largest value, with its sign."""
    for at, (text, share) in enumerate(zip(texts, shares, strict=True)):
        head = f"{title if at == 0 else '':<{_MARGIN - 2}}"
        drawn = f"  [{'cyan' if share > 0 else 'magenta'}]{bar(console, abs(share), room)}[/]" if share else ""
        console.print(f"  [dim]{head}[/]{escape(text)}{drawn}")


def _show_pairs(console: Console, pairs: PairSummary) -> None:
    _line(console, "pairs", f"{pairs.pairs:,} of documents of one query with different labels")
    _line(console, "pairs/query", _spread(pairs.pairs_per_query))
    _line(console, "most pairs", f"the tenth of the queries with most pairs has {pairs.top_share:.1%} of them")
    if pairs.rank_pairs:
        rows = [(f"{_number(pair.higher)} over {_number(pair.lower)}", pair.pairs) for pair in pairs.rank_pairs]
        _show_counts(console, "by labels", rows)
    else:
        _line(console, "by labels", "too many different labels to list" if pairs.pairs else "none")
    ranges = [
        (f"{part.low:,} to {part.high:,} pairs" if part.high > part.low else f"{part.low:,} pairs", part.queries)
        for part in pairs.ranges
    ]
    _show_counts(console, "by query", ranges)


def _label_rows(labels: Sequence[tuple[float, int]]) -> list[tuple[str, int]]:
    """Labels with their counts; many different ones are grouped into ranges."""
    if len(labels) <= _SHOWN_LABELS:
        return [(_number(label), count) for label, count in labels]
    values, counts = np.array(labels).T
    sums, edges = np.histogram(values, bins=10, weights=counts)
    ranges = [f"{_number(low)} to {_number(high)}" for low, high in pairwise(edges)]
    return list(zip(ranges, sums.astype(int).tolist(), strict=True))


def _model_dict(saved: SavedModel) -> dict[str, Any]:
    kept = ("kind", "method", "parameters", "training", "measures", "rankwright")
    weights = [{"feature": name, "weight": weight} for name, weight in _weights(saved)]
    facts = {key: saved.header.get(key) for key in kept}
    scaling = saved.model.query_scaling
    return facts | {"features": saved.model.n_features, "query_scaling": scaling, "weights": weights}


def _show_model(console: Console, saved: SavedModel) -> None:
    from rankwright.data.categories import shown_category

    useless = saved.training.get("no_better_than_zero")
    if useless:
        _line(console, "warning", str(useless))
    _line(console, "method", f"{saved.method} ({saved.header['kind']})")
    training = {key: value for key, value in saved.training.items() if key != "no_better_than_zero"}
    summary = training.pop("summary", [])  # of a committee: says in words what further facts say in numbers
    training = {key: value for key, value in training.items() if not summary or key.startswith("queries")}
    settings = _settings(saved)
    if settings:
        changed = ", ".join(f"{key} {_fact(value)}" for key, value in settings.items())
        _line(console, "settings", f"{changed} (the others are the defaults: --json)")
    queries, skipped = training.pop("queries", None), training.pop("queries_skipped", 0)
    if queries is not None:
        idle = f"; {skipped:,} more {'has' if skipped == 1 else 'have'} nothing to order" if skipped else ""
        _line(console, "trained on", f"{counted(queries, 'query', 'queries')}{idle}")
    if "proved" in training:
        training["proved"] = f"{training.pop('of', '')} ≥ {_fact(training['proved'])}"
        training.pop("training", None)
    for name, facts in (("training", training), ("measures", saved.measures)):
        if facts:
            _line(console, name, _words(facts))
    for line in summary if isinstance(summary, list) else ():
        _line(console, *str(line).partition("\t")[::2])
    parts = zip(saved.header.get("parts", ()), getattr(saved.model, "weights", ()), strict=False)
    if saved.header["kind"] == "sum":
        _line(console, "parts", ", ".join(f"{weight:.4g} × {part['kind']}" for part, weight in parts))
    without = int((saved.model.importance() == 0).sum())
    unused = "of weight 0" if hasattr(saved.model, "coef") else "not used"
    _line(console, "features", f"{saved.model.n_features:,}" + (f", {without:,} {unused}" if without else ""))
    if saved.model.query_scaling is not None:
        _line(console, "scaling", f"{saved.model.query_scaling} within each query, before the weights")
    for j, values in getattr(saved.model, "categories", {}).items():
        shown = [shown_category(value) for value in values[:_SHOWN_CATEGORIES]]
        more = [f"… {len(values):,} in all"] if len(values) > len(shown) else []
        _line(console, "categories", f"{saved.model.names[j]} ∈ {{{', '.join(shown + more)}}}")
    weights = [(name, weight) for name, weight in _weights(saved)[:_SHOWN_WEIGHTS] if weight]
    if weights:
        width, largest = max(len(name) for name, _ in weights), abs(weights[0][1])
        texts = [f"{name:<{width}}  {f'{weight:+.4g}':>10}" for name, weight in weights]
        title = "weights" if hasattr(saved.model, "coef") else "importance"
        _show_bars(console, title, texts, [weight / largest for _, weight in weights], _BAR)
    rest = saved.model.n_features - without - len(weights)
    if rest:
        _line(console, "", f"and {rest:,} smaller (--json lists all)")
    _line(console, "written by", f"Rankwright {saved.header.get('rankwright')}")


def _settings(saved: SavedModel) -> dict[str, Any]:
    """The parameters that differ from the defaults of the method; of other programs' models, those that are set."""
    from rankwright.training.methods import parse_method

    given = {key: value for key, value in saved.parameters.items() if value is not None and key not in _RESOLVED}
    try:
        defaults = parse_method(saved.method).defaults()
    except InputError:  # imported, or adapted
        return given
    return {key: value for key, value in given.items() if key in defaults and not _alike(value, defaults[key])}


def _alike(value: Any, default: Any) -> bool:
    return bool(value == (list(default) if isinstance(default, tuple) else default))


def _words(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {_fact(value)}" for key, value in facts.items())


def _weights(saved: SavedModel) -> list[tuple[str, float]]:
    values = saved.model.importance()
    order = np.argsort(-np.abs(values), kind="stable").tolist()
    names = saved.model.names
    return [(names[at], float(values[at])) for at in order]


def _size(n_bytes: Any) -> str:
    return f"{n_bytes / 1e3:.1f} kB" if n_bytes < 1_000_000 else f"{n_bytes / 1e6:,.1f} MB"


def _fact(value: Any) -> str:
    """A value of the header for people; long ones are counted."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, list | dict):
        short = isinstance(value, list) and len(value) <= _SHOWN_EQUAL
        return "/".join(_fact(entry) for entry in value) if short else f"({len(value):,} entries)"
    return str(value)


def _line(console: Console, name: str, text: str) -> None:
    """One entry; on a terminal long ones are wrapped and indented, in a pipe they stay on one line."""
    width = max(40, console.width - _MARGIN) if console.is_terminal else 10**9
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    body = f"\n{' ' * _MARGIN}".join(lines)
    console.print(f"  [dim]{name:<{_MARGIN - 2}}[/]{escape(body)}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) < 1e15 and value == int(value) else f"{value:,.4g}"


def _spread(spread: Spread) -> str:
    names: dict[str, Any] = {"mean": spread.mean, "median": spread.median, "min": spread.min, "max": spread.max}
    return ", ".join(f"{name} {_number(value)}" for name, value in names.items())


def _share(count: int, total: int) -> str:
    return f"{count:,} of {total:,} queries ({count / total:.1%})" if count else "0 queries"


def _equation(group: Sequence[str]) -> str:
    if len(group) <= _SHOWN_EQUAL:
        return " = ".join(group)
    return f"{' = '.join(group[: _SHOWN_EQUAL - 1])} = {len(group) - _SHOWN_EQUAL + 1} others"


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - _SHOWN:,} more (--json lists all)" if len(names) > _SHOWN else ""
    return f"{len(names):,}: {', '.join(names[:_SHOWN])}{more}"


def _print_facts(path: Path, title: str, facts: Iterable[tuple[str, str]]) -> None:
    click.echo(f"{styled(str(path), bold=True)}  {title}\n")
    for name, text in facts:
        click.echo(f"  {name:<{_MARGIN - 2}}{text}")


def _show_index(path: Path, as_json: bool) -> None:
    """Describe an index, all of which is read."""
    from rankwright.text.index import Index

    index = Index.open(path)
    index.verify()
    facts = {
        "documents": index.n_docs,
        "tokens": index.n_tokens,
        "terms": len(index.terms),
        "fields": list(index.fields),
        **({"numbers": list(index.numbers)} if index.numbers else {}),
        "analysers": list(index.analyzers),
        "texts kept": index.has_text,
        "bytes": index.n_bytes,
    }
    if as_json:
        print_json({"path": str(path), "format": "index", **facts})
        return
    facts["size"] = _size(facts.pop("bytes"))
    texts = [(name, ", ".join(value) if isinstance(value, list) else _fact(value)) for name, value in facts.items()]
    _print_facts(path, "Rankwright index", texts)


def _verify_folder(file: Detected) -> None:
    from rankwright.io.container import Container
    from rankwright.io.folder import FOLDER

    if file.kind != "folder":
        raise InputError("has no checksums; expected partitions or a data folder with --verify", file.path)
    Container.open(Path(file.path), FOLDER).verify()


def _show_partitions(path: Path, as_json: bool, verify: bool, pairs: PairSummary | None) -> None:
    """What the manifest says; features are not read, but with ``verify`` all checksums are compared."""
    from rankwright.io.partitions import read_manifest

    manifest = read_manifest(path)
    if verify:
        manifest.verify()
    if as_json:
        print_json({**_partitions_dict(manifest, verify), **({} if pairs is None else {"pairs": pairs.to_dict()})})
    else:
        _print_facts(path, "folder of partitions", _partition_lines(manifest, verify))


def _partition_lines(manifest: Manifest, verified: bool) -> list[tuple[str, str]]:
    header, partitions = manifest.header, manifest.partitions
    lines = [
        ("partitions", partition_sizes([partition.documents for partition in partitions])),
        ("queries", f"{manifest.n_queries:,}"),
        ("documents", f"{manifest.n_docs:,}"),
        ("document ids", "yes" if header.get("document_ids") else "none"),
        ("features", f"{manifest.n_features:,} {header.get('kind')} {header.get('dtype')}"),
        ("size", _size(manifest.n_bytes)),
    ]
    labels = _partition_labels(manifest)
    if labels is not None:
        total = max(1, manifest.n_docs)
        lines.append(("labels", listed([f"{label:g}: {n:,} ({n / total:.1%})" for label, n in labels], _SHOWN)))
    missing = sum(int(of_partition.missing.sum()) for of_partition in manifest.statistics)
    if missing:
        lines.append(("missing", f"{missing / (manifest.n_docs * manifest.n_features):.1%} of the values"))
    lines += [("checksums", "all compared: no difference")] if verified else []
    for at, partition in enumerate(partitions[:_SHOWN]):
        size = f"{partition.queries:,} queries, {partition.documents:,} documents, {_size(partition.bytes)}"
        lines.append(("" if at else "by partition", f"{partition.name}  {size}"))
    if len(partitions) > _SHOWN:
        lines.append(("", f"and {len(partitions) - _SHOWN:,} more (--json lists all)"))
    return lines


def _partition_labels(manifest: Manifest) -> list[tuple[float, int]] | None:
    counts: dict[float, int] = {}
    for partition in manifest.partitions:
        if partition.labels is None:
            return None
        for label, count in partition.labels:
            counts[label] = counts.get(label, 0) + int(count)
    return sorted(counts.items())


def _partitions_dict(manifest: Manifest, verified: bool) -> dict[str, Any]:
    from rankwright.data.dataset import default_names

    names = manifest.names or default_names(manifest.n_features)
    facts = {key: manifest.header.get(key) for key in ("kind", "dtype", "document_ids", "categorical")}
    return {
        "path": str(manifest.path),
        "format": "partitions",
        "queries": manifest.n_queries,
        "documents": manifest.n_docs,
        "features": manifest.n_features,
        **facts,
        "bytes": manifest.n_bytes,
        "labels": _partition_labels(manifest),
        "verified": verified,
        "partitions": [vars(partition) for partition in manifest.partitions],
        "statistics": [{"feature": name, **row} for name, row in zip(names, _statistics(manifest), strict=True)],
    }


def _statistics(manifest: Manifest) -> list[dict[str, float | int | None]]:
    """The statistics of every feature over all partitions; None where no value is there, and of categories."""
    from rankwright.data.statistics import Statistics

    total = reduce(Statistics.merge, manifest.statistics)
    columns = {"least": total.low, "largest": total.high, "mean": total.means, "deviation": total.deviations}
    unknown = total.missing == total.n_rows
    unknown[manifest.header["categorical"]] = True
    rows = []
    for at, missing in enumerate(total.missing.tolist()):
        values = {name: None if unknown[at] else float(column[at]) for name, column in columns.items()}
        rows.append(values | {"missing": missing})
    return rows
