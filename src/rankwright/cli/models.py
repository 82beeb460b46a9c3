"""`rankwright export` and `rankwright import`: models for other programs, checked against ours, and theirs as ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.boosting.tree_model import TreeModel
from rankwright.cli.files import check_target, naming_files, read_features
from rankwright.cli.options import FILE, MISSING_AS_ZERO, Integer, label_options, output_option
from rankwright.cli.printing import counted, inform, note, warn
from rankwright.errors import InputError
from rankwright.exporting.targets import TARGETS
from rankwright.io.roles import Columns
from rankwright.models.base import Model
from rankwright.models.saving import load_model, save_model
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel

if TYPE_CHECKING:
    from rankwright.exporting.verify import Verification

_FORMS = "; ".join(f"{', '.join(target.forms)} for {name}" for name, target in TARGETS.items() if target.forms)
_MISSING_HELP = "Missing values are 0, at the engine and in DATA; RankLib holds most trees only then."
_N_FEATURES_HELP = "Number of features of your data.  [default: as FILE has it]"
_KINDS = ["lightgbm", "xgboost", "catboost", "ranklib", "svmrank", "liblinear"]
_FIRST = (
    "Number of the first feature in FILE: 1 for LightGBM and XGBoost if they read LETOR text.  "
    "[default: 0 for LightGBM, XGBoost and CatBoost, otherwise 1]"
)


@click.command("export")
@click.argument("model", metavar="MODEL", type=FILE)
@click.option("--to", "target", required=True, type=click.Choice([*TARGETS]), help="Who reads it.")
@output_option("Folder to write.", "folder", metavar="FOLDER")
@click.option("--form", default="auto", help=f"Format, where there are several: {_FORMS}.")
@click.option("--name", help="Name of the model at the engine.  [default: the name of FOLDER]")
@click.option("--feature-set", help="Name of the engine's feature set or store.  [default: NAME_features]")
@click.option(MISSING_AS_ZERO, is_flag=True, help=_MISSING_HELP)
@click.option("--verify", "features", metavar="DATA", type=FILE, help="Feature file to compare scores on as well.")
@click.option("--group", type=FILE, help="Documents per query of DATA, for text without qid.")
@label_options
def export_command(
    model: Path,
    target: str,
    folder: Path,
    features: Path | None,
    group: Path | None,
    columns: Columns | None,
    **settings: Any,
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

    if features is None and (group is not None or columns is not None):
        option = "--columns" if group is None else "--group"
        raise InputError(f"{option} is for the data of --verify; expected --verify DATA with it")
    check_target(folder, (model, features), is_folder=True)
    saved = load_model(model)
    data = None if features is None else read_features(features, group, negative_as_zero=True, columns=columns)
    try:
        with naming_files({DATA: features}):
            done = export_model(saved, target, folder, verify=data, **settings)
    except InputError as error:
        message = error.message.replace("missing_as_zero=True", MISSING_AS_ZERO)
        raise InputError(message, error.path or model, error.line) from None
    for text in done.notes:
        note(text)
    _show_check(done.made, "rows made from the model")
    if done.given is not None:
        _show_check(done.given, f"rows of {features}")
    inform(f"wrote {folder}: {', '.join(done.files)}")


def _show_check(verified: Verification, where: str) -> None:
    size = f"largest difference {verified.largest:.1e} of the largest score" if verified.largest else "the same scores"
    inform(f"verified on {verified.rows:,} {where}: {verified.off:,} off their path, {size}; by {verified.by}")
    if verified.inexact:
        warn(f"{verified.inexact:,} rows differ by thresholds that the target cannot represent")
    if verified.rounded:
        warn(f"{verified.rounded:,} rows differ by rounding alone: large terms cancel there")
    if verified.moved_off:
        rounded = f"{verified.moved:,} rows have features that the target's number type rounds"
        warn(f"{rounded}, which moves {verified.moved_off:,} scores of the model itself")


@click.command("import")
@click.argument("source", metavar="FILE", type=FILE)
@output_option("Model to write.", metavar="MODEL")
@click.option("--from", "kind", type=click.Choice(_KINDS), help="Library of FILE.  [default: found by content]")
@click.option("--first-feature", type=Integer(0), metavar="N", help=_FIRST)
@click.option("--features", "n_features", type=Integer(0), metavar="N", help=_N_FEATURES_HELP)
@click.option("--all-trees", is_flag=True, help="XGBoost: keep the trees after the best round of early stopping.")
@click.option("--without-constant", is_flag=True, help="Leave out a bias or base score, which changes no ranking.")
def import_command(source: Path, target: Path, without_constant: bool, **settings: Any) -> None:
    """Turn FILE, a model of another library, into a Rankwright model: to rank, explain, compare, adapt and export.

    FILE is a model of LightGBM (text or JSON), XGBoost (JSON, UBJSON or a JSON dump), CatBoost (JSON, numeric
    features), RankLib, SVMrank, SVMlight or liblinear; its format is found by content. The library is not needed, and
    nothing in FILE is run. Scores are those of the library; what cannot be held exactly is refused.

    \b
    Example:
      rankwright import lightgbm.txt -o model.rkw
      rankwright rank model.rkw test.txt -o test.run
      rankwright import ranklib.txt -o linear.rkw --features 46
    """
    from rankwright.importing.importer import import_model

    check_target(target, [source])
    saved = import_model(source, constant=not without_constant, **settings)
    save_model(saved.model, target, method=saved.method, parameters={}, training=saved.training)
    inform(f"wrote {target}: {saved.training['imported from']}, {_summary(saved.model)}")


def _summary(model: Model) -> str:
    if isinstance(model, SumModel):
        return f"{_summary(model.parts[0])}, and a constant"
    features = counted(model.n_features, "feature")
    if isinstance(model, TreeModel):
        leaves = int((model.forest.feature < 0).sum())
        return f"{counted(model.forest.n_trees, 'tree')} with {leaves:,} leaves, {features}"
    return f"{'a net' if isinstance(model, NetModel) else 'linear'}, {features}"
