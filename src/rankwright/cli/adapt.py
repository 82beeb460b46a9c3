"""`rankwright adapt`: a ranker trained on a rich domain, adapted to one with few judgements."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.adaptation.methods import METHODS
from rankwright.cli.files import check_target, read_features
from rankwright.cli.options import FILE, MISSING_AS_ZERO, missing_option, seed_option, threads_option
from rankwright.cli.progress import progress
from rankwright.cli.whole import Whole
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.adaptation.choice import Adapted
    from rankwright.adaptation.robustness import RobustnessReport
    from rankwright.data.dataset import RankingData
    from rankwright.models.saving import SavedModel

__all__ = ["command"]

_TESTS = {"closed": "test", "open": "open test"}
_OTHERS = {"train": "training", "valid": "validation", "rich": "background"}


@click.command("adapt")
@click.argument("background", metavar="MODEL", type=FILE)
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--valid", required=True, type=FILE, metavar="FILE", help="In-domain validation data, to choose by.")
@click.option("--background-data", type=FILE, metavar="FILE", help="Data of the rich domain, for augment.")
@click.option(
    "--method",
    type=click.Choice(["auto", *METHODS]),
    default="auto",
    show_default=True,
    help="auto tries all and prefers the simplest that is not significantly worse than the best.",
)
@click.option("-o", "--output", "target", required=True, type=FILE, metavar="FILE", help="Model file, such as m.rkw.")
@click.option(
    "-m",
    "--measure",
    default="nDCG@10",
    show_default=True,
    metavar="NAME",
    help="Measure to optimise and to choose by.",
)
@click.option("--test", "closed", type=FILE, metavar="FILE", help="Closed test: data like the in-domain data.")
@click.option("--open-test", "later", type=FILE, metavar="FILE", help="Open test: later, or different, data.")
@click.option(
    "--harm",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    help="A query harmed: a drop of more than this.",
)
@click.option("--curve", metavar="10,20,50", help="Learning curve on --test, by number of in-domain queries.")
@click.option("--repeats", type=Whole(1), default=5, show_default=True, help="Samples of each size.")
@click.option("--plot", type=FILE, metavar="FILE", help="Draw the learning curve (.png or .svg).")
@click.option("--leaves", type=Whole(2), default=10, show_default=True, help="Leaves of LambdaMART's trees.")
@missing_option
@seed_option
@threads_option()
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
def command(
    background: Path,
    features: Path,
    valid: Path,
    background_data: Path | None,
    method: str,
    target: Path,
    measure: str,
    closed: Path | None,
    later: Path | None,
    harm: float,
    curve: str | None,
    repeats: int,
    plot: Path | None,
    leaves: int,
    missing_as_zero: bool,
    seed: int,
    threads: int,
    as_json: bool,
) -> None:
    """Adapt the ranker in MODEL to a domain with few judgements, those in FEATURES.

    Tries MODEL unchanged, a ranker trained on FEATURES alone, their interpolation, boosting from MODEL and, with
    --background-data, in-domain data augmented by its neighbours; compares them on the validation data; and writes the
    one to use, which contains everything it needs.

    \b
    Example:
      rankwright adapt web.rkw train.txt --valid valid.txt -o adapted.rkw
      rankwright adapt web.rkw train.txt --valid valid.txt --test test.txt --open-test later.txt \\
          --curve 10,20,50,100 --plot curve.png -o adapted.rkw
    """
    from rankwright.adaptation.choice import adapt
    from rankwright.adaptation.robustness import learning_curve, robustness, write_curve
    from rankwright.measures import parse_measure
    from rankwright.models.saving import load_model

    wanted = parse_measure(measure)
    sizes = _sizes(curve, plot, closed)
    inputs = {"train": features, "valid": valid, "rich": background_data, "closed": closed, "open": later}
    for written in (target, plot):
        if written is not None:
            check_target(written, [background, *inputs.values()])
    saved = load_model(background)
    data = _read(inputs, saved, missing_as_zero)
    shared: dict[str, Any] = {"measure": wanted, "random_state": seed, "n_jobs": threads}
    with progress("adapting") as update:
        found = adapt(
            saved, data["train"], data["valid"], background_data=data.get("rich"), method=method, leaves=leaves,
            progress=update, **shared,
        )  # fmt: skip
    tests: dict[str, Any] = {name: data[name] for name in ("closed", "open") if name in data}
    report = robustness(found, tests, harm_from=harm) if tests else None
    if report is not None and sizes:
        with progress("learning curve") as update:
            points = learning_curve(
                saved, data["train"], data["valid"], data["closed"], sizes=sizes, repeats=repeats, progress=update,
                **shared,
            )  # fmt: skip
        report = dataclasses.replace(report, curve=points)
        if plot is not None:
            write_curve(points, report.measure, plot)
    found.save(target)
    if as_json:
        click.echo(json.dumps(_facts(found, report, target), ensure_ascii=False))
        return
    _show(found, valid)
    if report is not None:
        click.echo("\n" + report.text().rstrip())
    for path in (target, plot):
        if path is not None:
            click.echo(f"wrote {path}", err=True)


def _read(inputs: dict[str, Path | None], saved: SavedModel, missing_as_zero: bool) -> dict[str, RankingData]:
    """The data by role; test queries that are also in other data are reported."""
    from rankwright.data.overlap import Fingerprints

    data: dict[str, RankingData] = {}
    for name, path in inputs.items():
        if path is not None:
            read = read_features(path)
            data[name] = _fitting(read, name, data.get("train", read), saved, path, missing_as_zero)
    tests = {name: words for name, words in _TESTS.items() if name in data}
    known = {name: Fingerprints.of(one) for name, one in data.items()} if tests else {}
    for name, words in tests.items():
        for other, whose in _OTHERS.items():
            found = known[name].shared_with(known[other], words, whose) if other in known else None
            if found is not None:
                click.echo(f"warning: {found.text}", err=True)
    return data


def _fitting(
    data: RankingData, name: str, train: RankingData, saved: SavedModel, path: Path, missing_as_zero: bool
) -> RankingData:
    """Data with the features of the background model, or those of the new domain; an error if it lacks some."""
    from rankwright.data.matching import MissingFeaturesError, add_missing

    if missing_as_zero:
        X, names = saved.model.with_missing(data.X, data.feature_names)
        if name != "train":
            X, names = add_missing(X, names, train.n_features, train.feature_names)
        data = dataclasses.replace(data, X=X, feature_names=names)
    try:
        if name in ("valid", "rich"):
            what = "the in-domain data" if name == "rich" else "the training data"
            return data.matched_to(train.n_features, train.feature_names, what=what, zeros_left_out=name == "valid")
        saved.model.score(data.X[:1], data.feature_names)
    except MissingFeaturesError as error:
        raise error.or_use(MISSING_AS_ZERO, path) from None
    except InputError as error:
        raise InputError(error.message, path) from None
    return data


def _sizes(curve: str | None, plot: Path | None, closed: Path | None) -> list[int]:
    if curve is None:
        if plot is not None:
            raise InputError("--plot draws the learning curve; expected --curve too")
        return []
    if closed is None:
        raise InputError("--curve needs a test set; expected --test")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise InputError("the plot has another format; expected a name that ends in .png or .svg", plot)
    try:
        sizes = [int(size) for size in curve.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise InputError(f"--curve is {curve!r}; expected numbers of queries, such as 10,20,50")
    return sizes


def _show(found: Adapted, valid: Path) -> None:
    from rankwright.evaluation.render import Table, draw

    measure = str(found.chosen.evaluation.measures[0])
    rows = []
    for one in found.candidates:
        mark = "→" if one is found.chosen else " "
        cells = ["", "", ""]
        if one.name != "background":
            apart, (low, high), p = found.differences(one.name)
            cells = [f"{apart:+.4f}", f"[{low:+.4f}, {high:+.4f}]", f"{p:.3f}"]
        rows.append((f"{mark} {one.name}", f"{one.value:.4f}", *cells, f"{one.seconds:.1f} s"))
    notes = [
        f"on {valid.name}: {len(found.chosen.evaluation.query_ids):,} queries; differences from the background ranker"
    ]
    notes += [f"{name} could not be used: {why}" for name, why in found.failures.items()]
    notes.append(f"chosen: {found.reason}")
    header = ("method", measure, "diff", "95% interval", "p t-test", "time")
    click.echo(draw(Table(header, tuple(rows), tuple(notes))).rstrip())


def _facts(found: Adapted, report: RobustnessReport | None, target: Path) -> dict[str, Any]:
    candidates = {one.name: {"value": one.value, "seconds": one.seconds, **one.facts} for one in found.candidates}
    return {
        "model": str(target),
        "chosen": found.chosen.name,
        "reason": found.reason,
        "candidates": candidates,
        "failures": found.failures,
        "tests": None if report is None else [dataclasses.asdict(row) for row in report.rows],
        "curve": None if report is None else [dataclasses.asdict(point) for point in report.curve],
    }
