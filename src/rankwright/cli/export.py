"""`rankwright export`: write a model for a search engine or another library, checked against the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.files import check_target, naming_files, read_features
from rankwright.cli.options import FILE, MISSING_AS_ZERO, columns_option, output_option
from rankwright.errors import InputError
from rankwright.exporting.targets import TARGETS

if TYPE_CHECKING:
    from rankwright.exporting.verify import Verification
    from rankwright.io.roles import Columns

_FORMS = "; ".join(f"{', '.join(target.forms)} for {name}" for name, target in TARGETS.items() if target.forms)


@click.command("export")
@click.argument("model", metavar="MODEL", type=FILE)
@click.option("--to", "target", required=True, type=click.Choice([*TARGETS]), help="Who reads it.")
@output_option("Folder to write.", "folder", "FOLDER")
@click.option("--form", default="auto", show_default=True, help=f"Format, where there are several: {_FORMS}.")
@click.option("--name", help="Name of the model at the engine.  [default: the name of FOLDER]")
@click.option("--feature-set", help="Name of the engine's feature set or store.  [default: NAME_features]")
@click.option(
    MISSING_AS_ZERO,
    is_flag=True,
    help="Missing values are 0, at the engine and in DATA; RankLib holds most trees only then.",
)
@click.option("--verify", "features", metavar="DATA", type=FILE, help="Feature file to compare scores on as well.")
@click.option("--group", metavar="FILE", type=FILE, help="Documents per query of DATA, for text without qid.")
@columns_option
def command(
    model: Path,
    target: str,
    folder: Path,
    form: str,
    name: str | None,
    feature_set: str | None,
    missing_as_zero: bool,
    features: Path | None,
    group: Path | None,
    columns: Columns | None,
) -> None:
    """Write MODEL for a search engine or another library.

    FOLDER gets the model in the target's format, golden rows (inputs and expected scores) to check an installation
    with, example requests for an engine, and the figures of the check in export.json. What was written is read back
    and compared with MODEL on rows made from it: on every threshold, just above, just below, missing. A model that the
    target cannot represent exactly is refused, and nothing is written.

    \b
    Example:
      rankwright export model.rkw --to opensearch -o for-opensearch
      rankwright export trees.rkw --to xgboost -o for-xgboost --verify test.txt
    """
    from rankwright.exporting.export import DATA, export_model
    from rankwright.models.saving import load_model

    if features is None and (group is not None or columns is not None):
        option = "--columns" if group is None else "--group"
        raise InputError(f"{option} is for the data of --verify; expected --verify DATA with it")
    check_target(folder, (model, features), is_folder=True)
    saved = load_model(model)
    options: dict[str, Any] = {"negative_as_zero": True, "columns": columns}
    data = None if features is None else read_features(features, group, **options)
    given = {"form": form, "name": name, "feature_set": feature_set, "missing_as_zero": missing_as_zero}
    try:
        with naming_files({DATA: features}):
            done = export_model(saved, target, folder, verify=data, **given)  # type: ignore[arg-type]
    except InputError as error:
        message = error.message.replace("missing_as_zero=True", MISSING_AS_ZERO)
        raise InputError(message, error.path or model, error.line) from None
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    _tell(done.made, "rows made from the model")
    if done.given is not None:
        _tell(done.given, f"rows of {features}")
    click.echo(f"wrote {folder}: {', '.join(done.files)}", err=True)


def _tell(found: Verification, where: str) -> None:
    size = "the same scores" if found.largest == 0 else f"largest difference {found.largest:.1e} of the largest score"
    click.echo(f"verified on {found.rows:,} {where}: {found.off:,} off their path, {size}; by {found.by}", err=True)
    if found.inexact:
        click.echo(f"warning: {found.inexact:,} rows differ by thresholds that the target cannot represent", err=True)
    if found.rounded:
        click.echo(f"warning: {found.rounded:,} rows differ by rounding alone: large terms cancel there", err=True)
    if found.moved_off:
        what = f"{found.moved:,} rows have features that the target's number type rounds"
        click.echo(f"warning: {what}, which moves {found.moved_off:,} scores of the model itself", err=True)
