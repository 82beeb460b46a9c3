"""`rankwright convert`: convert between file formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.files import (
    check_missing,
    clean_data,
    cleaner_alone,
    filled,
    read_judgements,
    show_doubt,
    show_layout,
)
from rankwright.cli.options import (
    FILE,
    Integer,
    clean_options,
    columns_option,
    group_option,
    negative_option,
    output_option,
    relevant_option,
)
from rankwright.cli.partitions import joined, partition
from rankwright.cli.printing import reading
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.cleaning import Cleaner
    from rankwright.io.detect import Detected
    from rankwright.io.roles import Columns

_RUN_COLUMNS = ("query", "Q0", "document", "rank", "score", "tag")
_TREC_SUFFIXES = {"run": (".run", ".trec", ".txt"), "qrels": (".qrels", ".txt")}
_FILL_HELP = "Put this number where a feature is missing; do the same to all data of a ranker."


@click.command("convert")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=FILE)
@output_option("File or folder to write.", metavar="OUTPUT")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Type of the features.  [default: float64 for text, otherwise unchanged]",
)
@group_option
@negative_option
@click.option("--sparse/--dense", default=None, help="Store the features sparse or dense.  [default: unchanged]")
@click.option(
    "--scale",
    type=click.Choice(["minmax", "percentile", "zscore"]),
    help="Scale every feature within each query.",
)
@click.option(
    "--by-query",
    "n_partitions",
    type=Integer(1),
    metavar="N",
    help="Write whole queries into N partitions: OUTPUT is a folder that ends in .partitions.",
)
@click.option("--fill", type=float, metavar="NUMBER", help=_FILL_HELP)
@columns_option
@clean_options
@relevant_option
def command(
    sources: tuple[Path, ...],
    target: Path,
    dtype: str | None,
    group: Path | None,
    negative_as_zero: bool,
    sparse: bool | None,
    scale: str | None,
    n_partitions: int | None,
    fill: float | None,
    columns: Columns | None,
    **options: Any,
) -> None:
    """Convert INPUT to the format given by the suffix of OUTPUT.

    The format of INPUT is detected from its content: LETOR text, CSV with a header, Parquet (a file or a folder), a
    Rankwright folder, judgements in any form, or a TREC run. OUTPUT appears only when it is complete, and may be INPUT
    itself.

    \b
      .txt .letor .svm .dat .libsvm   LETOR text (also with .gz)
      .parquet                        a table: qid, docid, label and one column per feature
      .rank                           a folder that is mapped into memory and opens instantly
      .qrels                          the labels as TREC judgements (also with .gz)
      .run                            a TREC run, from a TREC run (also with .gz)
      .partitions                     with --by-query: partitions of whole queries, of one or more INPUTs of any size

    With --fill, missing values are filled before anything else. With --scale and --clean, features are scaled first.
    Results on clean data are not comparable with results on all of it.

    \b
    Example:
      rankwright convert train.txt.gz -o train.rank
      rankwright convert shop.csv -o shop.rank --columns qid=search,label=stars,skip=name
      rankwright convert train.rank -o train.parquet --scale minmax
      rankwright convert shop.csv -o filled.rank --columns qid=search,label=stars,skip=name --fill 0
      rankwright convert train.txt.gz -o clean.txt --clean --clean-scaled
      rankwright convert rank.train -o train.rank --group rank.train.query
      rankwright convert big/*.parquet --by-query 64 -o big.partitions
      rankwright convert big.partitions -o big.rank
    """
    from rankwright.io.detect import FEATURE_FORMATS, detected

    cleaner = cleaner_alone(options)
    negative: Literal["error", "zero"] = "zero" if negative_as_zero else "error"
    if n_partitions is not None:
        unfit = [
            name for name, value in {"--scale": scale, "--fill": fill, "--clean": cleaner}.items() if value is not None
        ]
        if unfit:
            raise InputError(f"{unfit[0]} is not for --by-query; convert without it")
        summary = partition(sources, target, n_partitions, dtype, group, negative, sparse, columns)
        click.echo(f"wrote {target}: {summary}", err=True)
        return
    if len(sources) > 1:
        raise InputError(f"{len(sources)} inputs; expected one, or --by-query N for partitions of all of them")
    source = sources[0]
    given: dict[str, object] = {"--dtype": dtype, "--group": group, "--sparse or --dense": sparse, "--scale": scale}
    used = [name for name, value in {**given, "--fill": fill, "--clean": cleaner}.items() if value is not None]
    with detected(source, columns) as file:
        if file.kind in ("model", "scores"):
            what = "is a model" if file.kind == "model" else "contains one score per line"
            raise InputError(f"{what}, which no other format can hold; nothing to convert", source)
        if file.kind == "partitions":
            write = joined(source, target, used)
        elif file.kind in FEATURE_FORMATS:
            write = _features(file, target, dtype, group, negative, sparse, scale, fill, cleaner, columns)
        else:
            if used:
                raise InputError(f"{used[0]} is for feature data, which this is not", source)
            write = _trec(file, target, negative_as_zero, columns)
    click.echo(f"wrote {target}: {write()}", err=True)  # once INPUT is closed: it may be OUTPUT


def _features(
    file: Detected,
    target: Path,
    dtype: str | None,
    group: Path | None,
    negative: Literal["error", "zero"],
    sparse: bool | None,
    scale: str | None,
    fill: float | None,
    cleaner: Cleaner | None,
    columns: Columns | None,
) -> Callable[[], str]:
    """Read features; the result writes them and returns a summary."""
    from rankwright.io.detect import FORMATS, check_suffix, read_data, suffix_of, write_data

    check_suffix(target)
    if dtype is None and FORMATS[file.kind].is_text:
        dtype = "float64"
    show_layout(file, columns)
    show_doubt(file)
    options: dict[str, Any] = {"dtype": dtype, "group": group, "sparse": sparse, "negative": negative}
    with reading(file.path) as progress:
        data = read_data(file, columns=columns, progress=progress, **options)
    if fill is not None:
        data = filled(data, fill)
    check_missing(data, target, ", or --fill NUMBER")
    if scale is not None:
        from rankwright.data.scaling import QueryScaler

        data = QueryScaler(scale).transform(data)
    data, _ = clean_data(cleaner, data, Path(file.path))

    def write() -> str:
        write_data(data, target)
        what = f"documents, {data.n_features:,} {'sparse' if data.is_sparse else 'dense'} {data.X.dtype} features"
        if suffix_of(target) == ".qrels":
            what = "judgements"
        return f"{data.n_queries:,} queries, {data.n_docs:,} {what}"

    return write


def _trec(file: Detected, target: Path, negative_as_zero: bool, columns: Columns | None) -> Callable[[], str]:
    """Read judgements or a run; the result writes them and returns a summary."""
    from rankwright.io.detect import suffix_of
    from rankwright.io.fields import read_fields
    from rankwright.io.trec import read_run, write_qrels, write_run

    is_run = file.kind == "run"
    if suffix_of(target) not in _TREC_SUFFIXES[file.kind]:
        what = "a TREC run" if is_run else "TREC judgements"
        expected = ", ".join(_TREC_SUFFIXES[file.kind])
        raise InputError(f"{file.path} is {what}; expected the output to end in {expected} (also with .gz)", target)
    if is_run:
        with reading(file.path) as progress:
            table = read_run(file.source, progress, columns=columns)
    else:
        table = read_judgements(file.source, columns)
    tag = b"rankwright"
    if is_run and not table.layout:  # not a table with a header
        tag = next(read_fields(file.source, _RUN_COLUMNS, ("tag",))).fields["tag"][0]
    if negative_as_zero and not is_run:
        table = replace(table, values=table.values.clip(0))

    def write() -> str:
        if is_run:
            write_run(table, target, tag=tag.decode("utf-8", "replace"))
        else:
            write_qrels(table, target)
        return f"{table.n_queries:,} queries, {table.n_docs:,} {'documents' if is_run else 'judgements'}"

    return write
