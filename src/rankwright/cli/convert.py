"""`rankwright convert`: convert between file formats, into partitions of whole queries, and back from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import click

from rankwright.cli.files import check_missing, clean_data, cleaner_alone, filled, read_judgements, show_layout
from rankwright.cli.options import (
    FILE,
    Integer,
    clean_options,
    group_option,
    label_options,
    negative_option,
    output_option,
)
from rankwright.cli.printing import inform, note, partition_sizes, progress, reading
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.cleaning import Cleaner
    from rankwright.io.detect import Detected
    from rankwright.io.roles import Columns

_RUN_COLUMNS = ("query", "Q0", "document", "rank", "score", "tag")
_TREC_SUFFIXES = {"run": (".run", ".trec", ".txt"), "qrels": (".qrels", ".txt")}
_PARTITIONS = ".partitions"
_MOST_PARTITIONS = 100_000
_DTYPE_HELP = "Type of the features.  [default: float64 for text, otherwise unchanged]"
_BY_QUERY_HELP = "Write whole queries into N partitions: OUTPUT is a folder that ends in .partitions."
_FILL_HELP = "Put this number where a feature is missing; do the same to all data of a ranker."
_SCALES = click.Choice(["minmax", "percentile", "zscore"])


@click.command("convert")
@click.argument("sources", metavar="INPUT...", nargs=-1, required=True, type=FILE)
@output_option("File or folder to write.", metavar="OUTPUT")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help=_DTYPE_HELP)
@group_option
@negative_option
@click.option("--sparse/--dense", default=None, help="Store the features sparse or dense.  [default: unchanged]")
@click.option("--scale", type=_SCALES, help="Scale every feature within each query.")
@click.option("--by-query", "n_partitions", type=Integer(1), metavar="N", help=_BY_QUERY_HELP)
@click.option("--fill", type=float, metavar="NUMBER", help=_FILL_HELP)
@label_options
@clean_options
def command(
    sources: tuple[Path, ...],
    target: Path,
    negative_as_zero: bool,
    scale: str | None,
    n_partitions: int | None,
    fill: float | None,
    **options: Any,
) -> None:
    """Convert INPUT to the format given by the suffix of OUTPUT.

    The format of INPUT is detected from its content: LETOR text, CSV with a header, Parquet (a file or a folder), a
    Rankwright folder, judgements in any form, or a TREC run. OUTPUT appears only when it is complete, and may be INPUT
    itself. Tables that are written as tables need no labels.

    \b
      .txt .letor .svm .dat .libsvm   LETOR text (also with .gz)
      .parquet .csv .tsv              a table: qid, docid, label and one column per feature (text also with .gz)
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
    from rankwright.io.detect import FEATURE_FORMATS, detected, keeps_unlabelled
    from rankwright.io.roles import for_scoring

    cleaner = cleaner_alone(options)
    changes = {"--scale": scale, "--fill": fill, "--clean": cleaner}
    given = {
        "--dtype": options["dtype"],
        "--group": options["group"],
        "--sparse or --dense": options["sparse"],
        **changes,
    }
    used = [name for name, value in given.items() if value is not None]
    options["negative"] = "zero" if negative_as_zero else "error"  # what is left are the settings of reading
    if n_partitions is not None:
        unfit = [name for name in used if name in changes]
        if unfit:
            raise InputError(f"{unfit[0]} is not for --by-query; convert without it")
        inform(f"wrote {target}: {_partition(sources, target, n_partitions, **options)}")
        return
    if len(sources) > 1:
        raise InputError(f"{len(sources)} inputs; expected one, or --by-query N for partitions of all of them")
    source = sources[0]
    if keeps_unlabelled(target):
        options["columns"] = for_scoring(options["columns"])
    with detected(source, options["columns"]) as file:
        if file.kind in ("model", "scores"):
            content = "is a model" if file.kind == "model" else "contains one score per line"
            raise InputError(f"{content}, which no other format can hold; nothing to convert", source)
        if file.kind == "partitions":
            write = _join(source, target, used)
        elif file.kind in FEATURE_FORMATS:
            write = _features(file, target, scale, fill, cleaner, **options)
        else:
            if used:
                raise InputError(f"{used[0]} is for feature data, which this is not", source)
            write = _trec(file, target, negative_as_zero, options["columns"])
    inform(f"wrote {target}: {write()}")  # once INPUT is closed: it may be OUTPUT


def _features(
    file: Detected, target: Path, scale: str | None, fill: float | None, cleaner: Cleaner | None, **options: Any
) -> Callable[[], str]:
    """Read features, with options of `read_data`; the result writes them and returns a summary."""
    from rankwright.io.detect import FORMATS, check_suffix, read_data, suffix_of, write_data

    check_suffix(target)
    if options["dtype"] is None and FORMATS[file.kind].is_text:
        options["dtype"] = "float64"
    show_layout(file, options["columns"], or_judgements=True)
    with reading(file.path) as update:
        data = read_data(file, progress=update, **options)
    if fill is not None:
        data = filled(data, fill)
    check_missing(data, target, ", or --fill NUMBER")
    if scale is not None:
        from rankwright.data.scaling import QueryScaler

        data = QueryScaler(scale).transform(data)
    data, _ = clean_data(cleaner, data, Path(file.path))

    def write() -> str:
        write_data(data, target)
        rows = f"documents, {data.n_features:,} {'sparse' if data.is_sparse else 'dense'} {data.X.dtype} features"
        if suffix_of(target) == ".qrels":
            rows = "judgements"
        return f"{data.n_queries:,} queries, {data.n_docs:,} {rows}"

    return write


def _trec(file: Detected, target: Path, negative_as_zero: bool, columns: Columns | None) -> Callable[[], str]:
    """Read judgements or a run; the result writes them and returns a summary."""
    from rankwright.io.detect import suffix_of
    from rankwright.io.tables import read_fields
    from rankwright.io.trec import read_run, write_qrels, write_run

    is_run = file.kind == "run"
    if suffix_of(target) not in _TREC_SUFFIXES[file.kind]:
        content = "a TREC run" if is_run else "TREC judgements"
        expected = ", ".join(_TREC_SUFFIXES[file.kind])
        raise InputError(f"{file.path} is {content}; expected the output to end in {expected} (also with .gz)", target)
    if is_run:
        with reading(file.path) as update:
            table = read_run(file.source, update, columns=columns)
    else:
        table = read_judgements(file.source, columns)
    tag = b"rankwright"
    if is_run and not table.layout:  # not a table with a header
        tag = b"_".join(next(read_fields(file.source, _RUN_COLUMNS, ("tag",))).fields["tag"][0].split())
    if negative_as_zero and not is_run:
        table = replace(table, values=table.values.clip(0))

    def write() -> str:
        if is_run:
            write_run(table, target, tag=tag.decode("utf-8", "replace"))
        else:
            write_qrels(table, target)
        return f"{table.n_queries:,} queries, {table.n_docs:,} {'documents' if is_run else 'judgements'}"

    return write


def _partition(
    sources: Sequence[Path],
    target: Path,
    n_partitions: int,
    *,
    dtype: str | None,
    group: Path | None,
    negative: Literal["error", "zero"],
    sparse: bool | None,
    columns: Columns | None,
) -> str:
    """Write the queries of all inputs into partitions; a summary."""
    import numpy as np

    from rankwright.io.detect import detected
    from rankwright.io.partitions_write import InputSettings, LetorInput, ParquetInput, inputs_of, write_partitions

    if n_partitions > _MOST_PARTITIONS:
        raise InputError(f"--by-query {n_partitions:,}; expected at most {_MOST_PARTITIONS:,} partitions")
    if target.suffix != _PARTITIONS:
        expected = target.with_suffix(_PARTITIONS)
        raise InputError(f"a folder of partitions ends in {_PARTITIONS}; expected {expected}", target)
    for source in sources:
        if source.is_file():
            with detected(source, columns) as file:
                show_layout(file, columns, or_judgements=True)
    inputs = [data for source in sources for data in inputs_of(source, columns)]
    if group is not None and (len(inputs) > 1 or not isinstance(inputs[0], LetorInput)):
        raise InputError("--group is for one file of LETOR text without qid")
    left_out = sorted({name for data in inputs if isinstance(data, ParquetInput) for name in data.table.left_out})
    if left_out:
        note(f"not features, as folders are named by them: {', '.join(left_out)}")
    types = [data.dtype or np.float64 for data in inputs] if dtype is None else [dtype]  # text has no type
    with progress(f"reading {sources[0].name}" + (" …" if len(sources) > 1 else "")) as update:
        settings = InputSettings(np.result_type(*types), group, negative, is_only=len(inputs) == 1)
        manifest = write_partitions(inputs, n_partitions, target, settings, is_sparse=sparse, progress=update)
    header, sizes = manifest.header, [partition.documents for partition in manifest.partitions]
    if len(sizes) < n_partitions:
        without = n_partitions - len(sizes)
        note(f"{without:,} of {n_partitions:,} partitions would have no query and are left out")
    kind = f"{manifest.n_features:,} {header['kind']} {header['dtype']} features"
    return f"{manifest.n_queries:,} queries, {manifest.n_docs:,} documents, {kind}, in {partition_sizes(sizes)}"


def _join(source: Path, target: Path, options: Sequence[str]) -> Callable[[], str]:
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
            with TemporaryDirectory(prefix=".joined-", dir=target.absolute().parent) as folder:
                join_partitions(manifest, Path(folder) / "whole.rank")
                data = load_folder(Path(folder) / "whole.rank")
                check_missing(data, target)
                write_data(data, target)
        sizes = f"{manifest.n_queries:,} queries, {manifest.n_docs:,} documents"
        return f"{sizes}, {len(manifest.partitions):,} partitions joined"

    return write
