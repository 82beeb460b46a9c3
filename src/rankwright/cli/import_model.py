"""`rankwright import`: turn a model of another library into a Rankwright model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rankwright.cli.files import check_target
from rankwright.cli.options import FILE, Whole, output_option

if TYPE_CHECKING:
    from rankwright.models.base import Model

_KINDS = ["lightgbm", "xgboost", "catboost", "ranklib", "svmrank", "liblinear"]
_FIRST = (
    "Number of the first feature in FILE: 1 for LightGBM and XGBoost if they read LETOR text.  "
    "[default: 0 for LightGBM, XGBoost and CatBoost, otherwise 1]"
)


@click.command("import")
@click.argument("source", metavar="FILE", type=FILE)
@output_option("Model to write.", metavar="MODEL")
@click.option("--from", "kind", type=click.Choice(_KINDS), help="Library of FILE.  [default: found by content]")
@click.option("--first-feature", type=Whole(0), metavar="N", help=_FIRST)
@click.option(
    "--features",
    "n_features",
    type=Whole(0),
    metavar="N",
    help="Number of features of your data.  [default: as FILE has it]",
)
@click.option("--all-trees", is_flag=True, help="XGBoost: keep the trees after the best round of early stopping.")
@click.option("--without-constant", is_flag=True, help="Leave out a bias or base score, which changes no ranking.")
def command(
    source: Path,
    target: Path,
    kind: str | None,
    first_feature: int | None,
    n_features: int | None,
    all_trees: bool,
    without_constant: bool,
) -> None:
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
    from rankwright.models.saving import save_model

    check_target(target, [source])
    saved = import_model(
        source,
        kind=kind,
        first_feature=first_feature,
        n_features=n_features,
        all_trees=all_trees,
        constant=not without_constant,
    )
    save_model(saved.model, target, method=saved.method, parameters={}, training=saved.training)
    click.echo(f"wrote {target}: {saved.training['imported from']}, {_summary(saved.model)}", err=True)


def _summary(model: Model) -> str:
    from rankwright.boosting.tree_model import TreeModel
    from rankwright.models.sum import SumModel
    from rankwright.nets.model import NetModel

    if isinstance(model, SumModel):
        return f"{_summary(model.parts[0])}, and a constant"
    features = f"{model.n_features:,} feature{'s' * (model.n_features != 1)}"
    if isinstance(model, TreeModel):
        leaves = int((model.forest.feature < 0).sum())
        trees = model.forest.n_trees
        return f"{trees:,} tree{'s' * (trees != 1)} with {leaves:,} leaves, {features}"
    return f"{'a net' if isinstance(model, NetModel) else 'linear'}, {features}"
