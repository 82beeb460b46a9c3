"""`rankwright adapt`: rankers trained on rich domains, adapted to one with few judgements."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.adaptation.ways import BOOSTING, IN_DOMAIN, METHODS, Adapted, Candidate, adapt, boosting_parameters
from rankwright.cli.files import check_target, clean_data, cleaner_alone, read_features
from rankwright.cli.options import (
    FILE,
    MISSING_AS_ZERO,
    Integer,
    assigned,
    clean_options,
    integers,
    json_option,
    label_options,
    measure_option,
    missing_option,
    numbers,
    output_option,
    seed_option,
    threads_option,
)
from rankwright.cli.precompile import noting_compilation
from rankwright.cli.printing import inform, print_json, progress, warn
from rankwright.data.dataset import MissingFeaturesError, RankingData, add_missing
from rankwright.data.display import Tabled
from rankwright.data.overlap import Fingerprints
from rankwright.errors import InputError
from rankwright.io.roles import Columns
from rankwright.measures import parse_measure
from rankwright.models.saving import SavedModel, load_model
from rankwright.training.methods import LISTED, parse_method

if TYPE_CHECKING:
    from rankwright.adaptation.robustness import RobustnessReport
    from rankwright.data.cleaning import Cleaner

_TESTS = {"closed": "test", "open": "open test"}
_OTHERS = {"train": "training", "valid": "validation", "rich": "background"}
_NOT_SET = ("background", "cv", "random_state")  # and what Python alone, or the command, sets
_METHOD_HELP = "auto tries all and prefers the simplest that is not significantly worse than the best."
_WEIGHTS_HELP = "How weights of interpolations are found: by exact line search, or by a linear LambdaRank."
_SET_HELP = (
    "A parameter of what is trained: of the --in-domain method, such as hidden=15, or of LambdaMART and LambdaBoost, "
    "such as gain=squared; an unknown name lists them all."
)
_VALID_HELP = "In-domain validation data, to choose by; without it, cross-validation over the queries of FEATURES."
_LEAVES_HELP = "Leaves of LambdaMART's trees; several, such as 2,4,10,20: the best on --valid, or held-out queries."
_RATE_HELP = (
    "Shrinkage of LambdaBoost and LambdaMART; several, such as 0.1,0.5: the best, as for --leaves.  "
    "[default: 0.5 and 0.1]"
)
_TREES_HELP = "Most trees, or rounds of LambdaBoost; how many are kept is chosen.  [default: 300, 500 rounds]"


@click.command("adapt")
@click.argument("backgrounds", metavar="MODEL...", type=FILE, nargs=-1, required=True)
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--valid", type=FILE, help=_VALID_HELP)
@click.option("--cv", type=Integer(2), metavar="K", help="Without --valid: folds of queries.  [default: 5]")
@click.option("--background-data", type=FILE, multiple=True, help="Data of a rich domain, for augment; repeatable.")
@click.option("--method", type=click.Choice(["auto", *METHODS]), default="auto", help=_METHOD_HELP)
@click.option("--in-domain", default=IN_DOMAIN, metavar="METHOD", help=f"What to train on FEATURES: {LISTED}.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=_SET_HELP)
@click.option("--weights", type=click.Choice(["powell", "lambdarank"]), default="powell", help=_WEIGHTS_HELP)
@output_option("Model file, such as m.rkw.")
@measure_option("Measure to optimise and to choose by.", default="nDCG@10")
@click.option("--test", "closed", type=FILE, help="Closed test: data like the in-domain data.")
@click.option("--open-test", "later", type=FILE, help="Open test: later, or different, data.")
@click.option("--harm", type=click.FloatRange(0), default=0.05, help="A query harmed: a drop of more than this.")
@click.option("--curve", metavar="10,20,50", help="Learning curve on --test, by number of in-domain queries.")
@click.option("--repeats", type=Integer(1), default=5, help="Samples of each size.")
@click.option("--plot", type=FILE, help="Draw the learning curve (.png or .svg).")
@click.option("--leaves", default="10", metavar="2,4,10", callback=integers, help=_LEAVES_HELP)
@click.option("--rate", metavar="0.1,0.5", callback=numbers, help=_RATE_HELP)
@click.option("--trees", type=Integer(1), metavar="NUMBER", help=_TREES_HELP)
@label_options
@clean_options
@missing_option
@seed_option()
@threads_option()
@json_option("Print the outcome as one JSON object.")
def command(
    backgrounds: tuple[Path, ...],
    features: Path,
    valid: Path | None,
    cv: int | None,
    background_data: tuple[Path, ...],
    method: str,
    target: Path,
    closed: Path | None,
    later: Path | None,
    harm: float,
    curve: str | None,
    repeats: int,
    plot: Path | None,
    columns: Columns | None,
    missing_as_zero: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Adapt the ranker in MODEL to a domain with few judgements, those in FEATURES.

    Tries MODEL unchanged, a ranker trained on FEATURES alone, their interpolation, boosting from MODEL and, with
    --background-data, in-domain data augmented by its neighbours; compares them on the validation data; and writes the
    one to use, which contains everything it needs. Without --valid they are compared on the queries of FEATURES, by
    models that were trained without them. --clean applies to FEATURES and --valid, not to tests and backgrounds.

    With several MODELs, interpolations have each of them as a component, and boosting starts from the interpolation of
    all of them.

    \b
    Example:
      rankwright adapt web.rkw train.txt --method interpolate -o adapted.rkw
      rankwright adapt web.rkw train.txt --valid valid.txt -o adapted.rkw
      rankwright adapt web.rkw news.rkw train.txt --valid valid.txt --in-domain lambdarank --set hidden=10 \\
          --leaves 2,4,10 --rate 0.1,0.5 -o adapted.rkw
      rankwright adapt web.rkw train.txt --method lambdamart --set gain=squared --set background_spread=none \\
          -o adapted.rkw
      rankwright adapt web.rkw train.txt --valid valid.txt --test test.txt --open-test later.txt \\
          --curve 10,20,50,100 --plot curve.png -o adapted.rkw
    """
    from rankwright.adaptation.robustness import learning_curve, robustness, write_curve

    sizes = _sizes(curve, plot, closed)
    if cv is not None and valid is not None:
        raise InputError("--cv chooses without validation data; expected either --cv or --valid")
    cleaner = cleaner_alone(options)
    shared = _shared(method, **options) | ({} if cv is None else {"cv": cv})
    rich = {f"rich {number}": path for number, path in enumerate(background_data, 1)}
    inputs = {"train": features, "valid": valid, **rich, "closed": closed, "open": later}
    written = [path for path in (target, plot) if path is not None]
    for path in written:
        check_target(path, [*backgrounds, *inputs.values()])
    _check_different("--background-data", background_data)
    saved = _load(backgrounds)
    data = _read(inputs, saved, missing_as_zero, columns, cleaner, options["threads"])
    neighbours = [data[name] for name in rich]
    with noting_compilation(), progress("adapting") as update:
        given = (saved, data["train"], data.get("valid"))
        adapted = adapt(*given, background_data=neighbours, method=method, progress=update, **shared)
    tests: dict[str, Any] = {name: data[name] for name in ("closed", "open") if name in data}
    report = robustness(adapted, tests, harm_from=harm) if tests else None
    if report is not None and sizes:
        with progress("learning curve") as update:
            points = learning_curve(*given, data["closed"], sizes=sizes, repeats=repeats, progress=update, **shared)
        report = dataclasses.replace(report, curve=points)
        if plot is not None:
            write_curve(points, report.measure, plot)
    adapted.save(target)
    if as_json:
        print_json(_facts(adapted, report, target))
        return
    _show(adapted, valid or features)
    if report is not None:
        click.echo("\n" + report.text().rstrip())
    for path in written:
        inform(f"wrote {path}")


def _shared(
    method: str, settings: Sequence[str], measure: str, seed: int, threads: int, **others: Any
) -> dict[str, Any]:
    """The options that are settings of every adaptation; the command itself sets the others of what is trained."""
    in_domain = others["in_domain"]
    parameters = parse_method(in_domain).parameters()
    settable = [name for name, value in parameters.items() if name not in _NOT_SET and not value.instead]
    settable = [] if method in (*BOOSTING, "background") else settable
    boosting = boosting_parameters((), [name for name in BOOSTING if method in ("auto", name)])
    assignments = assigned(settings, [*settable, *(name for name in boosting if name not in settable)])
    boosted = {name: assignments.pop(name) for name in list(assignments) if name not in settable}
    if isinstance(assignments.get("losses"), str):
        assignments["losses"] = [loss.strip() for loss in assignments["losses"].split(",")]
    further = {"measure": parse_measure(measure), "random_state": seed, "n_jobs": threads}
    return {**others, **further, "in_domain_settings": assignments, "boosting_settings": boosted}


def _load(paths: Sequence[Path]) -> dict[str, SavedModel]:
    """The background models by file name, or by path where names are the same."""
    _check_different("MODEL", paths)
    unique = len({path.name for path in paths}) == len(paths)
    return {path.name if unique else str(path): load_model(path) for path in paths}


def _check_different(role: str, paths: Sequence[Path]) -> None:
    for number, path in enumerate(paths):
        if path.exists() and any(other.exists() and path.samefile(other) for other in paths[:number]):
            raise InputError(f"is given twice as {role}; expected different files", path)


def _read(
    inputs: Mapping[str, Path | None],
    saved: Mapping[str, SavedModel],
    missing_as_zero: bool,
    columns: Columns | None,
    cleaner: Cleaner | None,
    threads: int,
) -> dict[str, RankingData]:
    """The data by role; test queries that are also in other data are reported.

    What is trained and chosen on is cleaned, if there is a cleaner.
    """
    data: dict[str, RankingData] = {}
    for name, path in inputs.items():
        if path is not None:
            read = read_features(path, columns=columns)
            if name in ("train", "valid"):
                read, _ = clean_data(cleaner, read, path, threads)
            data[name] = _fitting(read, name, data.get("train", read), saved, path, missing_as_zero)
    tests = {name: words for name, words in _TESTS.items() if name in data}
    fingerprints: dict[str, list[Fingerprints]] = {}
    for name, given in data.items() if tests else ():
        fingerprints.setdefault(name.partition(" ")[0], []).append(Fingerprints.of(given))
    for name, words in tests.items():
        for other, whose in _OTHERS.items():
            if other in fingerprints:
                joined = Fingerprints.join(fingerprints[other])
                shared = fingerprints[name][0].shared_with(joined, words, whose)
                if shared is not None:
                    warn(shared.text)
    return data


def _fitting(
    data: RankingData, name: str, train: RankingData, saved: Mapping[str, SavedModel], path: Path, missing_as_zero: bool
) -> RankingData:
    """Data with the features of the background models, or those of the new domain; an error if it lacks some."""
    role = name.partition(" ")[0]
    if missing_as_zero:
        X, names = data.X, data.feature_names
        for background in saved.values():
            X, names = background.model.with_missing(X, names)
        if name != "train":
            X, names = add_missing(X, names, train.n_features, train.feature_names)
        data = dataclasses.replace(data, X=X, feature_names=names)
    which = ""
    try:
        if role in ("valid", "rich"):
            domain = "the in-domain data" if role == "rich" else "the training data"
            return data.matched_to(train.n_features, train.feature_names, what=domain, zeros_left_out=role == "valid")
        for title, background in saved.items():
            which = f" {title}" if len(saved) > 1 else ""
            background.model.score(data.X[:1], data.feature_names)
    except InputError as error:
        message = error.message.replace("the model", f"the model{which}")
        if isinstance(error, MissingFeaturesError):
            raise MissingFeaturesError(message).or_use(MISSING_AS_ZERO, path) from None
        raise InputError(message, path) from None
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


def _show(adapted: Adapted, judged: Path) -> None:
    from rankwright.evaluation.render import draw

    measure = str(adapted.chosen.evaluation.measures[0])
    rows = []
    for candidate in adapted.candidates:
        mark = "→" if candidate is adapted.chosen else " "
        cells = ["", "", ""]
        if candidate.name != "background":
            difference, (low, high), p = adapted.differences(candidate.name)
            cells = [f"{difference:+.4f}", f"[{low:+.4f}, {high:+.4f}]", f"{p:.3f}"]
        rows.append((f"{mark} {candidate.name}", f"{candidate.value:.4f}", *cells, f"{candidate.seconds:.1f} s"))
    several = any(candidate.name.startswith("background (") for candidate in adapted.candidates)
    start = "the interpolated backgrounds" if several else "the background ranker"
    where = judged.name if adapted.folds is None else f"{judged.name}, {adapted.folds.words}"
    notes = [f"on {where}: {len(adapted.chosen.evaluation.query_ids):,} queries; differences from {start}"]
    notes += [_tuned(candidate, measure, where) for candidate in adapted.candidates if candidate.tried]
    notes += [f"{name} could not be used: {reason}" for name, reason in adapted.failures.items()]
    notes.append(f"chosen: {adapted.reason}")
    if "weights" in adapted.chosen.details:
        weights = [f"{weight:.3g} {name}" for name, weight in adapted.chosen.details["weights"].items()]
        notes.append(f"weights of scaled scores: {' + '.join(weights).replace('+ -', '- ')}")
    header = ("method", measure, "diff", "95% interval", "p t-test", "time")
    click.echo(draw(Tabled(header, tuple(rows), tuple(notes))).rstrip())


def _tuned(candidate: Candidate, measure: str, where: str) -> str:
    settings = [f"{name} {value}" for name, value in candidate.details.items()]
    if candidate.training is not None and candidate.training.rounds is not None:
        settings.append(f"{candidate.training.rounds.kept} {candidate.training.rounds.unit}")
    many = f"the best of {len(candidate.tried)} settings by {measure} on {where}"
    return f"{candidate.name}: {', '.join(settings)}, {many} ({candidate.value:.4f})"


def _facts(adapted: Adapted, report: RobustnessReport | None, target: Path) -> dict[str, Any]:
    candidates: dict[str, Any] = {}
    for candidate in adapted.candidates:
        facts = {"value": candidate.value, "seconds": candidate.seconds, **candidate.facts}
        if candidate.tried:
            facts["tried"] = [{**point, "value": value} for point, value in candidate.tried]
        candidates[candidate.name] = facts
    return {
        "model": str(target),
        "chosen": adapted.chosen.name,
        "folds": None if adapted.folds is None else adapted.folds.n_folds,
        "reason": adapted.reason,
        "candidates": candidates,
        "failures": adapted.failures,
        "tests": None if report is None else [dataclasses.asdict(row) for row in report.rows],
        "curve": None if report is None else [dataclasses.asdict(point) for point in report.curve],
    }
