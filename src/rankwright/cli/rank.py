"""`rankwright rank`: score the documents of a feature file with a model, as a TREC run or plain scores."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rankwright._types import Array
from rankwright.cli.files import check_target, engine_started, naming_files, read_features, ways_to_fill
from rankwright.cli.options import (
    FILE,
    MISSING_AS_ZERO,
    device_option,
    engine_option,
    feature_options,
    missing_option,
    output_option,
)
from rankwright.cli.printing import inform, print_data
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData
    from rankwright.data.trec_table import TrecTable
    from rankwright.models.saving import SavedModel

_KINDS = {".run": "trec", ".trec": "trec", ".csv": "csv"}
_FORMAT_HELP = (
    "TREC run; a table for a spreadsheet, in rank order; or one score per line in the order of FEATURES.  "
    "[default: trec for FILE.run, csv for FILE.csv, else scores]"
)
_STDOUT = Path("-")
_LINES = 1 << 16
_ECHO = 1 << 20


@click.command("rank")
@click.argument("model", metavar="MODEL", type=FILE)
@click.argument("features", metavar="FEATURES", type=FILE)
@output_option("File to write; - for standard output.", required=False, default=_STDOUT)
@click.option("--format", "kind", type=click.Choice(["trec", "csv", "scores"]), help=_FORMAT_HELP)
@click.option("--tag", metavar="NAME", help="Last column of a TREC run.  [default: the method of the model]")
@feature_options
@missing_option
@device_option
@engine_option
def command(
    model: Path,
    features: Path,
    target: Path,
    kind: str | None,
    tag: str | None,
    device: str | None,
    engine: str | None,
    **reading: Any,
) -> None:
    """Score the documents of FEATURES with MODEL.

    FEATURES is LETOR text, CSV, Excel, JSON lines, Parquet or a Rankwright folder, with the features that the model was
    trained on; they are found by name if both have names, and further ones are ignored. A table needs no labels. FILE
    is compressed if its name ends in .gz, and appears only when it is complete.

    \b
    Example:
      rankwright rank model.rkw test.txt -o test.run
      rankwright rank model.rkw test.txt -o test.csv
      rankwright rank model.rkw test.txt -o test.scores
      rankwright evaluate test.txt test.scores -m nDCG@10
      rankwright rank model.rkw test.txt --device cuda -o test.run
      rankwright rank model.rkw big.partitions --engine processes:4 -o big.scores
    """
    from rankwright.io.detect import suffix_of
    from rankwright.models.saving import load_model

    kind = kind or _KINDS.get(suffix_of(target), "scores")
    if tag is not None and kind != "trec":
        raise InputError("--tag is for TREC runs; expected --format trec with it")
    if target != _STDOUT:
        check_target(target, (model, features))
    if device == "cuda":
        from rankwright.gpu.device import check_device

        check_device()
    saved = load_model(model)
    with engine_started(engine) as started:
        data, scores = scored(saved, features, device=device, engine=started, **reading)
    if kind == "trec":
        from rankwright.io.trec import write_run

        run = _as_run(data, scores, features)
        _write(target, lambda path: write_run(run, path, tag or saved.method))
        content = "a TREC run"
    elif kind == "csv":
        table = _table(data, scores)
        _write(target, lambda path: _write_lines([*table.values()], path, table))
        content = "a table"
    else:
        in_given_order = data.to_caller_order(scores)
        _write(target, lambda path: _write_lines([in_given_order], path))
        content = "scores"
    where = "stdout" if target == _STDOUT else target
    inform(f"wrote {where}: {content} of {data.n_queries:,} queries, {data.n_docs:,} documents")


def scored(
    saved: SavedModel, features: Path, *, missing_as_zero: bool, device: str | None = None, **reading: Any
) -> tuple[RankingData, Any]:
    """The data of a feature file, and the score of each of its rows in the order of the data.

    ``reading``: options of :func:`~rankwright.cli.files.read_features`.
    """
    from rankwright.data.dataset import MissingFeaturesError
    from rankwright.data.places import place_of
    from rankwright.models.base import MissingValueError

    reading["columns"] = saved.model.scoring_columns(reading["columns"])
    data = read_features(features, **reading)
    model: Any = saved.model
    if device == "cuda":
        from rankwright.gpu.scoring import DeviceModel

        model = DeviceModel(saved.model)
    try:
        if missing_as_zero and not place_of(data).is_partitioned:  # explanations look at the features, too
            X, names = saved.model.with_missing(data.X, data.feature_names)
            data = dataclasses.replace(data, X=X, feature_names=names)
        saved.model.check_text(data.feature_names, data.categories)
        return data, place_of(data).scores(model, missing_as_zero)
    except MissingFeaturesError as error:
        raise error.or_use(MISSING_AS_ZERO, features) from None
    except MissingValueError as error:
        ways = ways_to_fill(features, trained=True, is_labelled=data.is_labelled)
        raise InputError(f"{error.fact}; {ways}", features) from None
    except InputError as error:
        raise InputError(error.message, features) from None


def _as_run(data: RankingData, scores: Array, features: Path) -> TrecTable:
    from rankwright.data.trec_table import TrecTable

    if data.doc_ids is None:
        problem = "has no document ids, which a TREC run needs"
        raise InputError(f"{problem}; expected `# docid = …` in its lines, or --format scores", features)
    without = data.doc_ids.astype(str) == ""
    if without.any():
        problem = f"{without.sum():,} of {data.n_docs:,} documents have no id, which a TREC run needs"
        raise InputError(f"{problem}; use --format scores", features)
    with naming_files({"None": features}):
        return TrecTable.from_columns(data.qid, data.doc_ids, scores)


def _table(data: RankingData, scores: Array) -> dict[str, Array]:
    """The columns of a table in rank order: query, document (or the number of the row), rank, score, label if any."""
    from rankwright.data.order import rank_order

    order = rank_order(scores, data.indptr, data.doc_ids)
    numbers = np.arange(1, data.n_docs + 1) if data.rows is None else data.rows + 1
    documents = numbers if data.doc_ids is None else data.doc_ids
    ranks = np.arange(data.n_docs) - np.repeat(data.indptr[:-1], data.sizes) + 1
    return {
        "query_id": data.qid,
        "row" if data.doc_ids is None else "doc_id": documents[order],
        "rank": ranks,
        "score": scores[order],
        **({"label": data.labels[order]} if data.is_labelled else {}),
    }


def _write_lines(columns: Sequence[Array], path: Path, header: Iterable[str] = ()) -> None:
    """Write CSV, many lines at a time; scores alone are a column without a header."""
    import csv
    import io

    from rankwright.io.files import replace_file

    with replace_file(path) as out:
        for start in range(0, max(len(columns[0]), 1), _LINES):
            text = io.StringIO()
            lines = csv.writer(text, lineterminator="\n")
            lines.writerows([header] if header and start == 0 else [])
            lines.writerows(zip(*(values[start : start + _LINES].tolist() for values in columns), strict=True))
            out.write(text.getvalue().encode("utf-8", "replace"))


def _write(target: Path, write: Callable[[Path], None]) -> None:
    """Write the file; for stdout through a temporary one, so that nothing is printed unless all goes well."""
    if target != _STDOUT:
        write(target)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output"
        write(path)
        with open(path, encoding="utf-8", newline="") as made:
            while text := made.read(_ECHO):
                print_data(text)
