"""`rankwright adapt`: a ranker of a rich domain, brought to one with few judgements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.adaptation.choice import Adapted
    from rankwright.adaptation.robustness import RobustnessReport

__all__ = ["command"]

_FILE = click.Path(path_type=Path)
_METHODS = ("auto", "interpolate", "lambdaboost", "lambdamart", "augment", "in-domain", "interpolate-3", "background")


@click.command("adapt")
@click.option("--background", required=True, type=_FILE, metavar="MODEL", help="The ranker of the rich domain.")
@click.option("--train", required=True, type=_FILE, metavar="FEATURES", help="In-domain data to train on.")
@click.option("--valid", required=True, type=_FILE, metavar="FEATURES", help="In-domain data to choose by.")
@click.option("--background-data", type=_FILE, metavar="FEATURES", help="Data of the rich domain, for augment.")
@click.option(
    "--method",
    type=click.Choice(_METHODS),
    default="auto",
    show_default=True,
    help="auto tries all, and prefers the simplest that is not significantly worse than the best.",
)
@click.option("-o", "--output", "target", required=True, type=_FILE, metavar="FILE", help="The model, such as m.rkw.")
@click.option("--measure", default="nDCG@10", show_default=True, metavar="NAME", help="What to rise and to choose by.")
@click.option("--test", "closed", type=_FILE, metavar="FEATURES", help="Closed test: like the in-domain data.")
@click.option("--open-test", "later", type=_FILE, metavar="FEATURES", help="Open test: later, or different, data.")
@click.option("--harm", type=click.FloatRange(0), default=0.05, show_default=True, help="A fall beyond this is harm.")
@click.option("--curve", metavar="10,20,50", help="Learning curve on --test over so many in-domain queries.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Samples of each size.")
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw the learning curve (.png or .svg).")
@click.option("--leaves", type=click.IntRange(2), default=10, show_default=True, help="Of LambdaMART's trees.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all that is drawn.")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="The model does not depend on it."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object.")
def command(
    background: Path,
    train: Path,
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
    seed: int,
    threads: int,
    as_json: bool,
) -> None:
    """Adapt a ranker to a domain with few judgements.

    Tries the background ranker as it is, a ranker of the in-domain data alone, their interpolation, boosting from the
    background, and, with --background-data, in-domain data augmented by its neighbours; compares them on the validation
    data; and writes the one to use, which contains all that it needs.

    \b
    Example:
      rankwright adapt --background web.rkw --train train.txt --valid valid.txt -o adapted.rkw
      rankwright adapt --background web.rkw --train train.txt --valid valid.txt --test test.txt --open-test later.txt \\
          --curve 10,20,50,100 --plot curve.png -o adapted.rkw
    """
    from rankwright.adaptation.choice import adapt
    from rankwright.adaptation.robustness import RobustnessReport, learning_curve, robustness, write_curve
    from rankwright.cli.progress import progress, reading
    from rankwright.data.formats import read_data
    from rankwright.models.saving import load_model

    sizes = _sizes(curve, plot, closed)
    if target.is_dir() or not target.parent.is_dir():
        raise InputError("cannot be written; expected a file name in a folder that is there", target)
    saved = load_model(background)
    data: dict[str, Any] = {}
    for name, path in (
        ("train", train),
        ("valid", valid),
        ("data", background_data),
        ("closed", closed),
        ("open", later),
    ):
        if path is not None:
            with reading(path) as update:
                data[name] = read_data(path, progress=update)
    with progress("adapting") as update:
        found = adapt(
            saved, data["train"], data["valid"], background_data=data.get("data"), method=method, measure=measure,
            leaves=leaves, random_state=seed, n_jobs=threads, progress=update,
        )  # fmt: skip
    tests: dict[str, Any] = {name: data[name] for name in ("closed", "open") if name in data}
    report = robustness(found, tests, harm_from=harm) if tests else None
    if sizes and report is not None:
        with progress("learning curve") as update:
            points = learning_curve(
                saved, data["train"], data["valid"], data["closed"], sizes=sizes, repeats=repeats, measure=measure,
                random_state=seed, n_jobs=threads, progress=update,
            )  # fmt: skip
        report = RobustnessReport(report.measure, report.harm_from, report.rows, points)
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


def _sizes(curve: str | None, plot: Path | None, closed: Path | None) -> list[int]:
    if curve is None:
        if plot is not None:
            raise InputError("--plot draws the learning curve; expected --curve with it")
        return []
    if closed is None:
        raise InputError("--curve needs a test set; expected --test")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise InputError("expected a name that ends in .png or .svg for the plot", plot)
    try:
        sizes = [int(size) for size in curve.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise InputError(f"--curve is {curve!r}; expected numbers of queries such as 10,20,50")
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
    notes = [f"on {valid.name}: {len(found.chosen.evaluation.query_ids):,} queries; against the background ranker"]
    notes += [f"{name} could not be used: {why}" for name, why in found.failures.items()]
    notes.append(f"chosen: {found.reason}")
    header = ("method", measure, "diff", "95% interval", "p t-test", "time")
    click.echo(draw(Table(header, tuple(rows), tuple(notes))).rstrip())


def _facts(found: Adapted, report: RobustnessReport | None, target: Path) -> dict[str, Any]:
    from dataclasses import asdict

    candidates = {one.name: {"value": one.value, "seconds": one.seconds, **one.facts} for one in found.candidates}
    return {
        "model": str(target),
        "chosen": found.chosen.name,
        "reason": found.reason,
        "candidates": candidates,
        "failures": found.failures,
        "tests": None if report is None else [asdict(row) for row in report.rows],
        "curve": None if report is None else [asdict(point) for point in report.curve],
    }
