"""`rankwright convert`: from any format to any format, whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from rankwright.errors import InputError

__all__ = ["command"]

_RUN_COLUMNS = ("query", "Q0", "document", "rank", "score", "tag")
_TREC_SUFFIXES = {"run": (".run", ".trec", ".txt"), "qrels": (".qrels", ".txt")}


@click.command("convert")
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUTPUT", type=click.Path(path_type=Path))
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Type of the features. Unless given, nothing is lost: text is read as float64, the rest keeps its type.",
)
@click.option(
    "--group", type=click.Path(path_type=Path), metavar="FILE", help="Documents per query, for text without qid."
)
@click.option("--negative-as-zero", is_flag=True, help="Take labels below 0 as not relevant instead of as an error.")
@click.option("--sparse/--dense", default=None, help="Store the features sparse or dense, whatever they were.")
@click.option(
    "--scale",
    type=click.Choice(["minmax", "percentile", "zscore"]),
    help="Scale every feature within each query.",
)
def command(
    source: Path,
    target: Path,
    dtype: str | None,
    group: Path | None,
    negative_as_zero: bool,
    sparse: bool | None,
    scale: str | None,
) -> None:
    """Convert INPUT to the format that the suffix of OUTPUT names.

    What INPUT is, is told by what is in it: LETOR text, Parquet, a Rankwright folder, TREC qrels or a TREC run. OUTPUT
    appears only when it is complete, and may be INPUT itself.

    \b
      .txt .letor .svm .dat .libsvm   LETOR text (also with .gz)
      .parquet                        a table: qid, docid, label and one column per feature
      .rank                           a folder that is mapped into memory and opens at once
      .qrels                          the labels as TREC judgements (also with .gz)
      .run                            a TREC run, from a TREC run (also with .gz)

    \b
    Example:
      rankwright convert train.txt.gz train.rank
      rankwright convert train.rank train.parquet --scale minmax
      rankwright convert rank.train train.rank --group rank.train.query
    """
    from rankwright.data.formats import FEATURE_FORMATS, detect

    kind = detect(source)
    if kind == "model":
        raise InputError("is a model, which no other format can hold; nothing to convert", source)
    if kind not in FEATURE_FORMATS:
        given = {"--dtype": dtype, "--group": group, "--sparse or --dense": sparse, "--scale": scale}
        used = [option for option, value in given.items() if value is not None]
        if used:
            raise InputError(f"{used[0]} is for feature data, and this holds none", source)
        _convert_trec(kind, source, target, negative_as_zero)
        return
    _convert_features(kind, source, target, dtype, group, "zero" if negative_as_zero else "error", sparse, scale)


def _convert_features(
    kind: str,
    source: Path,
    target: Path,
    dtype: str | None,
    group: Path | None,
    negative: Literal["error", "zero"],
    sparse: bool | None,
    scale: str | None,
) -> None:
    from rankwright.cli.progress import reading
    from rankwright.data.formats import check_suffix, read_data, suffix_of, write_data

    check_suffix(target)
    if dtype is None and kind == "letor":
        dtype = "float64"
    with reading(source) as progress:
        data = read_data(source, dtype=dtype, group=group, sparse=sparse, negative=negative, progress=progress)
    if scale is not None:
        from rankwright.data.scaling import QueryScaler

        data = QueryScaler(scale).transform(data)
    write_data(data, target)
    what = f"documents, {data.n_features:,} {'sparse' if data.is_sparse else 'dense'} {data.X.dtype} features"
    if suffix_of(target) == ".qrels":
        what = "judgements"
    click.echo(f"wrote {target}: {data.n_queries:,} queries, {data.n_docs:,} {what}", err=True)


def _convert_trec(kind: str, source: Path, target: Path, negative_as_zero: bool) -> None:
    from rankwright.cli.progress import reading
    from rankwright.data.columns import read_columns
    from rankwright.data.formats import suffix_of
    from rankwright.data.trec import read_qrels, read_run, write_qrels, write_run

    if kind == "scores":
        raise InputError("holds one score per line, which no other format can hold; nothing to convert", source)
    if suffix_of(target) not in _TREC_SUFFIXES[kind]:
        what = "a TREC run" if kind == "run" else "TREC judgements"
        expected = ", ".join(_TREC_SUFFIXES[kind])
        raise InputError(f"{source} is {what}; expected the output to end in {expected} (also with .gz)", target)
    with reading(source) as progress:
        table = (read_run if kind == "run" else read_qrels)(source, progress)
    if kind == "run":
        first = next(read_columns(source, _RUN_COLUMNS, ("tag",)))
        write_run(table, target, tag=first.fields["tag"][0].decode("utf-8", "replace"))
    else:
        if negative_as_zero:
            table = replace(table, values=table.values.clip(0))
        write_qrels(table, target)
    what = "documents" if kind == "run" else "judgements"
    click.echo(f"wrote {target}: {table.n_queries:,} queries, {table.n_docs:,} {what}", err=True)
