"""Partitions: `convert --by-query` writes them, `convert` of them joins them, `info` describes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np

from rankwright.cli.files import show_doubt, show_layout
from rankwright.cli.printing import counted, progress, styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.io.partitions import Manifest
    from rankwright.io.roles import Columns

_SUFFIX = ".partitions"
_MOST_PARTITIONS = 100_000
_SHOWN = 12  # partitions and features listed; --json lists all
_TEXT = np.dtype(np.float64)  # of numbers in text, as of all conversions


def partition(
    sources: Sequence[Path],
    target: Path,
    n_partitions: int,
    dtype: str | None,
    group: Path | None,
    negative: Literal["error", "zero"],
    is_sparse: bool | None,
    columns: Columns | None,
) -> str:
    """Write the queries of all inputs into partitions; a summary."""
    from rankwright.io.detect import detected
    from rankwright.io.partitions_write import InputSettings, LetorInput, ParquetInput, inputs_of, write_partitions

    if n_partitions > _MOST_PARTITIONS:
        raise InputError(f"--by-query {n_partitions:,}; expected at most {_MOST_PARTITIONS:,} partitions")
    if target.suffix != _SUFFIX:
        raise InputError(f"a folder of partitions ends in {_SUFFIX}; expected {target.with_suffix(_SUFFIX)}", target)
    for source in sources:
        if source.is_file():
            with detected(source, columns) as file:
                show_layout(file, columns)
                show_doubt(file)
    inputs = [one for source in sources for one in inputs_of(source, columns)]
    if group is not None and (len(inputs) > 1 or not isinstance(inputs[0], LetorInput)):
        raise InputError("--group is for one file of LETOR text without qid")
    left_out = sorted({name for one in inputs if isinstance(one, ParquetInput) for name in one.table.left_out})
    if left_out:
        click.echo(f"note: not features, as folders are named by them: {', '.join(left_out)}", err=True)
    wanted = np.result_type(*(one.dtype or _TEXT for one in inputs)) if dtype is None else np.dtype(dtype)
    with progress(f"reading {sources[0].name}" + (" …" if len(sources) > 1 else "")) as update:
        settings = InputSettings(wanted, group, negative, is_only=len(inputs) == 1)
        written = write_partitions(inputs, n_partitions, target, settings, is_sparse=is_sparse, progress=update)
    form, partitions = written.form, written.partitions
    sizes = [partition.documents for partition in partitions]
    if len(partitions) < n_partitions:
        without = n_partitions - len(partitions)
        click.echo(f"note: {without:,} of {n_partitions:,} partitions would have no query and are left out", err=True)
    kind = f"{form.n_features:,} {'sparse' if form.is_sparse else 'dense'} {form.dtype} features"
    return f"{written.n_queries:,} queries, {written.n_docs:,} documents, {kind}, in {_partitions(sizes)}"


def joined(source: Path, target: Path, options: Sequence[str]) -> Callable[[], str]:
    """Join partitions; the result writes them and returns a summary."""
    from rankwright.io.detect import check_suffix, suffix_of, write_data
    from rankwright.io.folder import load_folder
    from rankwright.io.partitions import join_partitions, read_manifest

    check_suffix(target)
    if options:
        raise InputError(f"{options[0]} is not for partitions; join them first, then convert the result", source)
    manifest = read_manifest(source)

    def write() -> str:
        if suffix_of(target) == ".rank":
            join_partitions(manifest, target)
        else:
            from tempfile import TemporaryDirectory

            from rankwright.cli.files import check_missing

            with TemporaryDirectory(prefix=".joined-", dir=target.absolute().parent) as folder:
                join_partitions(manifest, Path(folder) / "whole.rank")
                data = load_folder(Path(folder) / "whole.rank")
                check_missing(data, target)
                write_data(data, target)
        sizes = f"{manifest.n_queries:,} queries, {manifest.n_docs:,} documents"
        return f"{sizes}, {len(manifest.partitions):,} partitions joined"

    return write


def show_partitions(path: Path, as_json: bool, verify: bool, more: Mapping[str, Any]) -> None:
    """What the manifest says; features are not read, but with ``verify`` all checksums are compared.

    ``more`` is added to the JSON.
    """
    from rankwright.io.partitions import read_manifest

    manifest = read_manifest(path)
    if verify:
        manifest.verify()
    if as_json:
        click.echo(json.dumps({**_as_dict(manifest, verify), **more}, ensure_ascii=False))
        return
    click.echo(f"{styled(str(path), bold=True)}  folder of partitions\n")
    for name, text in _lines(manifest, verify):
        click.echo(f"  {name:<15}{text}")


def _lines(manifest: Manifest, verified: bool) -> list[tuple[str, str]]:
    header, partitions = manifest.header, manifest.partitions
    sizes = [partition.documents for partition in partitions]
    lines = [
        ("partitions", _partitions(sizes)),
        ("queries", f"{manifest.n_queries:,}"),
        ("documents", f"{manifest.n_docs:,}"),
        ("document ids", "yes" if header.get("document_ids") else "none"),
        ("features", f"{manifest.n_features:,} {header.get('kind')} {header.get('dtype')}"),
        ("bytes", f"{manifest.n_bytes:,}"),
    ]
    labels = _labels(manifest)
    if labels is not None:
        total = max(1, manifest.n_docs)
        shown = [f"{label:g}: {count:,} ({count / total:.1%})" for label, count in labels[:_SHOWN]]
        lines.append(("labels", ", ".join(shown) + (", …" if len(labels) > _SHOWN else "")))
    missing = sum(int(of_partition.missing.sum()) for of_partition in manifest.statistics)
    if missing:
        lines.append(("missing", f"{missing / (manifest.n_docs * manifest.n_features):.1%} of the values"))
    lines += [("checksums", "all compared: no difference")] if verified else []
    for at, partition in enumerate(partitions[:_SHOWN]):
        size = f"{partition.queries:,} queries, {partition.documents:,} documents, {partition.bytes:,} bytes"
        lines.append(("" if at else "by partition", f"{partition.name}  {size}"))
    if len(partitions) > _SHOWN:
        lines.append(("", f"and {len(partitions) - _SHOWN:,} more (--json lists all)"))
    return lines


def _partitions(sizes: Sequence[int]) -> str:
    each = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    return f"{counted(len(sizes), 'partition')} of {each} documents"


def _labels(manifest: Manifest) -> list[tuple[float, int]] | None:
    counts: dict[float, int] = {}
    for partition in manifest.partitions:
        if partition.labels is None:
            return None
        for label, count in partition.labels:
            counts[label] = counts.get(label, 0) + int(count)
    return sorted(counts.items())


def _as_dict(manifest: Manifest, verified: bool) -> dict[str, Any]:
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
        "labels": _labels(manifest),
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
