"""`rankwright train`: a ranker trained on a feature file, with the proof of how good it is, saved as one model file.

What is known after the training is one dictionary of facts: ``--json`` prints it, people get it in words. Ctrl-C ends
the training after the current pass, and the best model so far is saved.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.ahead import compiling_ahead
from rankwright.cli.cleaning import clean_data, clean_options, cleaner_of
from rankwright.cli.compiling import announce
from rankwright.cli.completion import complete_measure, complete_method
from rankwright.cli.engines import engine_option, engine_started, resume_option, tell_of_copies, training_course
from rankwright.cli.files import check_target, naming_files, read_features
from rankwright.cli.options import FILE, device_option, numbers, positive, seed_option, settings_of, threads_option
from rankwright.cli.positions import Shown, position_options
from rankwright.cli.sections import Sectioned
from rankwright.cli.tables import columns_option
from rankwright.cli.whole import Whole
from rankwright.errors import InputError
from rankwright.training.methods import parse_method

if TYPE_CHECKING:
    from rankwright.cli.engines import Course
    from rankwright.data.cleaning import Cleaner
    from rankwright.data.dataset import RankingData
    from rankwright.data.roles import Columns
    from rankwright.engines.fleet import Transport
    from rankwright.models.saving import SavedModel
    from rankwright.training.train import Plan

__all__ = ["command"]

_METHOD_HELP = "What to train, one of those above.  [default: auto]"
_EXPLAINABLE_HELP = "Linear members only, so that the model is one weight per feature."
_MINUTES_HELP = "Stop after about so many minutes, with the members finished by then."
_C_HELP = (
    "Weight of ranking errors against large weights; auto: the value of --C-grid that is best on --valid, or by "
    "cross-validation.  [default: auto; with --cv 0 and no --valid 1]"
)
_CV_HELP = (
    "Without --valid: choose C, or the number of rounds, by cross-validation with K folds of queries, then train on "
    "all; 0: choose nothing.  [default: 5 where anything is open, one of them held out from 500 queries on]"
)
_GRID_HELP = "Values of C that auto tries.  [default: 0.0001, 0.001, … 1000; with the ramp bound 0.1, 1, 10]"
_BOUND_HELP = (
    "hinge: the papers' convex problem; ramp: closer to the measure, from the weights of svm-map on.  "
    "[default: hinge for svm-map, svm-auc and svm-ndcg-nc, ramp for the others]"
)
_MEASURE_HELP = (
    "Measure to choose by on --valid, and to report.  [default: what the method is trained for, for svm-combo its "
    "first loss; AP for svm-acc; nDCG@10 for the others]"
)
_MAP_HELP = (
    "Feature map of a ranking: po or mrr for svm-mrr; dorm:log2, dorm:sqrt, dorm:sqrt@30 … for dorm; for svm-combo one "
    "per loss, - for the default."
)
_LOSSES_HELP = "svm-combo: the losses to train for at once.  [default: map,mrr@10,ndcg@10]"
_SET_HELP = "Any other parameter of the method, such as n_trees=500 or hidden=15; an unknown name lists them all."
_RANK_WEIGHTS_HELP = "Weight of a pair by its labels: ndcg@K, the loss of swapping them, or none.  [rsvm-ir: ndcg@1]"
_QUERY_WEIGHTS_HELP = "Weight of a query: pairs, one over its number of pairs, or none.  [rsvm-ir: pairs]"
_TOL_HELP = "Stop when the objective is proved to be this close to the optimum (0.001 is 0.1 %).  [default: 0.001]"
_CONTINUE_HELP = "Start from the weights of a saved model, and its C unless --C or --valid is given."
_BINS_HELP = (
    "Cut every feature into up to N 0/1 features, value ≥ threshold, as SIGIR'07 did with 50; linear methods only."
)
_SOLVER_HELP = (
    "bundle and one-slack-cutting-plane find the same model; n-slack-cutting-plane is Algorithm 1 of SIGIR'07, which "
    "stops by --epsilon; gd, for rank-svm and rsvm-ir, is gradient descent.  [default: bundle]"
)
_RATE_HELP = (
    "Learning rate of trees and nets; with --solver gd the η of SIGIR'06: steps are η times the gradient of "
    "λ‖w‖² + Σ hinges.  [default: the method's own; gd: line search]"
)
_CATEGORICAL_HELP = (
    "lambdamart, mcrank: features that are categories, by name, or without names by number, besides text of Parquet."
)
_MONOTONE_HELP = "lambdamart, mcrank-ordinal: features in which scores must rise (+1) or fall (-1)."
_EPSILON_HELP = "--solver n-slack-cutting-plane: largest violation of a constraint at which it stops.  [default: 0.01]"
_SECTIONS = {
    "What and where": (
        "target", "method", "valid", "cv", "measure", "seed", "threads", "device", "engine", "resume", "as_json",
    ),
    "Method auto": ("explainable", "minutes"),
    "Data": (
        "group", "valid_group", "negative_as_zero", "columns", "categorical", "clean", "clean_scaled", "clean_above",
    ),
    "Clicks": ("position", "pair", "propensities"),
    "Linear methods": (
        "C", "C_grid", "relevant_from", "standardize", "bins", "start", "bound", "losses", "loss_weights", "slack",
        "feature_map", "rank_weights", "query_weights", "lam", "tol", "max_passes", "solver", "epsilon",
    ),
    "Trees and nets": ("monotone", "background", "learning_rate", "assigned"),
}  # fmt: skip
_SOLVERS = ["bundle", "one-slack-cutting-plane", "n-slack-cutting-plane", "gd"]


def _cost(_: click.Context, param: click.Parameter, text: str | None) -> float | str | None:
    if text is None or text.strip().lower() == "auto":
        return text and "auto"
    return positive(text, param.opts[0], "a number above 0, or auto")


@click.command("train", cls=Sectioned, sections=_SECTIONS)
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--method", default="auto", metavar="METHOD", shell_complete=complete_method, help=_METHOD_HELP)
@click.option("-o", "--output", "target", required=True, type=FILE, metavar="FILE", help="Model file, such as m.rkw.")
@click.option("--C", "C", metavar="NUMBER|auto", callback=_cost, help=_C_HELP)
@click.option("--C-grid", "C_grid", metavar="0.01,0.1,1", callback=numbers, help=_GRID_HELP)
@click.option("--valid", type=FILE, metavar="FILE", help="Validation data.")
@click.option("--cv", type=Whole(0), metavar="K", help=_CV_HELP)
@click.option("-m", "--measure", metavar="NAME", shell_complete=complete_measure, help=_MEASURE_HELP)
@click.option("--explainable", is_flag=True, callback=lambda _, __, given: given or None, help=_EXPLAINABLE_HELP)
@click.option("--minutes", type=float, metavar="N", help=_MINUTES_HELP)
@click.option("--relevant-from", type=float, metavar="LABEL", help="Lowest relevant label.  [default: 1]")
@click.option("--continue", "start", type=FILE, metavar="MODEL", help=_CONTINUE_HELP)
@click.option(
    "--no-standardize",
    "standardize",
    is_flag=True,
    callback=lambda _, __, given: False if given else None,
    help="Train on the raw features, as the papers do.",
)
@click.option("--bins", type=Whole(1), metavar="N", help=_BINS_HELP)
@click.option("--bound", type=click.Choice(["auto", "ramp", "hinge"]), help=_BOUND_HELP)
@click.option("--losses", metavar="map,dorm@10", help=_LOSSES_HELP)
@click.option(
    "--loss-weights", metavar="1,0.5", callback=numbers, help="svm-combo: a weight for each loss.  [default: 1]"
)
@click.option(
    "--slack", type=click.Choice(["separate", "shared"]), help="svm-combo: sum the losses, or take the largest."
)
@click.option("--feature-map", metavar="MAP", help=_MAP_HELP)
@click.option("--rank-weights", metavar="ndcg@K|none", help=_RANK_WEIGHTS_HELP)
@click.option("--query-weights", type=click.Choice(["pairs", "none"]), help=_QUERY_WEIGHTS_HELP)
@click.option("--lambda", "lam", type=float, help="rank-svm, rsvm-ir: the paper's λ instead of --C.")
@click.option("--tol", type=float, help=_TOL_HELP)
@click.option("--max-passes", type=Whole(1), help="Passes over the data, per C.  [default: 200]")
@click.option("--solver", type=click.Choice(_SOLVERS), help=_SOLVER_HELP)
@click.option("--epsilon", type=float, help=_EPSILON_HELP)
@click.option("--learning-rate", "--eta", "learning_rate", type=float, help=_RATE_HELP)
@click.option("--set", "assigned", multiple=True, metavar="NAME=VALUE", help=_SET_HELP)
@click.option("--background", type=FILE, metavar="MODEL", help="lambdamart, lambdaboost: start from this model.")
@click.option("--categorical", metavar="lang,3", help=_CATEGORICAL_HELP)
@click.option("--monotone", metavar="bm25=+1,spam=-1", help=_MONOTONE_HELP)
@seed_option
@threads_option()
@device_option
@engine_option
@resume_option
@click.option("--group", type=FILE, metavar="FILE", help="Documents per query, for text without qid.")
@click.option("--valid-group", type=FILE, metavar="FILE", help="The same for the validation data.")
@click.option("--negative-as-zero", is_flag=True, help="Treat labels below 0 as not relevant; otherwise an error.")
@columns_option
@clean_options
@position_options
@click.option("--json", "as_json", is_flag=True, help="Print everything known about the training as one JSON object.")
def command(
    features: Path,
    method: str,
    target: Path,
    valid: Path | None,
    start: Path | None,
    measure: str | None,
    assigned: tuple[str, ...],
    seed: int,
    threads: int,
    group: Path | None,
    valid_group: Path | None,
    negative_as_zero: bool,
    engine: str | None,
    resume: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a ranker on FEATURES for the measure you are judged by.

    FEATURES is LETOR text, CSV, Parquet or a Rankwright folder. Without --method this is auto: a committee of linear
    rankers and trees, put together and checked by cross-validation over your queries, with a line on what to expect of
    it.

    \b
    When to take what:
      auto         the best ranking, without having to choose; --explainable for one weight per feature
      svm-map      one weight per feature, proved to be the best for its objective; relevant or not
      rsvm-ir      the same from pairs of documents, for graded labels
      lambdamart   many queries; features that interact, are missing, categorical or must act one way
      lambdarank   a net, or with --set hidden=0 one weight per feature, for any measure

    \b
    All methods:
      committee            auto
      linear, by measure   svm-map, svm-auc, svm-ndcg, svm-ndcg-nc, svm-mrr, dorm, dorm-nc, svm-combo
      linear, by pairs     rank-svm, rsvm-ir
      linear, by classes   svm-acc, svm-acc2, svm-acc3, svm-acc4
      nets and steps       lambdarank, ranknet, lambdaboost
      trees                lambdamart, mcrank, mcrank-ordinal

    svm-ndcg, svm-mrr and dorm are for the first 10 ranks, svm-ndcg@K, svm-mrr@K and dorm@K for the first K.

    Linear methods by measure and pairs stop when the weights are proved to be close to optimal, and report how close.
    What a method leaves open, C or the number of rounds of trees and nets, is chosen on --valid, or without it by
    cross-validation over the queries. Ctrl-C stops early and keeps the best model so far. --clean applies to FEATURES
    and --valid, before anything else.

    \b
    Example:
      rankwright train train.txt -o model.rkw
      rankwright train train.txt --explainable --minutes 2 -o model.rkw
      rankwright train shop.csv --columns qid=search,label=stars,skip=colour --method svm-map -o model.rkw
      rankwright train train.txt --valid vali.txt -m AP -o model.rkw
      rankwright train train.txt --method svm-map -o model.rkw
      rankwright train train.txt --method svm-map --C 10 -o model.rkw
      rankwright train train.txt --method rank-svm --cv 10 -o model.rkw
      rankwright train train.txt --method svm-ndcg@5 --valid vali.txt -o model.rkw
      rankwright train train.txt --method rank-svm --valid vali.txt --measure nDCG@10 --C-grid 0.01,0.1,1 -o model.rkw
      rankwright train train.txt --method svm-combo --losses map,ndcg@5 --valid vali.txt -o model.rkw
      rankwright train train.txt --method svm-mrr --bound hinge --feature-map mrr --C 10 -o model.rkw
      rankwright train train.txt --method svm-map --bins 50 --valid vali.txt -o model.rkw
      rankwright train train.txt --method dorm@10 --feature-map dorm:sqrt@30 --C 10 -o model.rkw
      rankwright train train.txt --method rsvm-ir --rank-weights ndcg@3 --valid vali.txt -o model.rkw
      rankwright train train.txt --method rsvm-ir --solver gd --eta 1e-6 --lambda 0.5 -o model.rkw
      rankwright train train.txt --method svm-acc3 --bins 50 --no-standardize --valid vali.txt -o model.rkw
      rankwright train train.txt --method lambdamart --valid vali.txt --set max_leaves=10 -o model.rkw
      rankwright train train.txt --method lambdarank --valid vali.txt --set hidden=15 -o model.rkw
      rankwright train train.txt --method svm-map --C 10 --clean --clean-scaled -o model.rkw
      rankwright train train.txt --method svm-map --device cuda -o model.rkw
      rankwright train big.parts --method svm-map --engine dask://scheduler:8786 -o model.rkw
      rankwright train pages.rank --method rank-svm --position position --propensities p.csv -o clicks.rkw
      rankwright rank model.rkw test.txt -o test.run
      rankwright evaluate test.txt test.run
    """
    from rankwright.cli.training import show
    from rankwright.models.saving import load_model
    from rankwright.training.train import plan

    _check_output(target, [features, valid])
    cv, columns = options.pop("cv"), options.pop("columns")
    _check_cost(options, valid, cv)
    if start is not None:
        _check_continue(options, valid, cv)
    chosen = parse_method(method)
    if cv == 0 and chosen.name == "auto" and valid is None:
        raise InputError("--cv 0 holds nothing out, and auto decides on queries held out; expected folds, or --valid")
    cleaner = cleaner_of(options, for_training="relevant_from" in chosen.defaults())
    shown = Shown.of(options, chosen, engine)
    settings = settings_of(chosen, options, assigned)
    if "background" in settings:
        settings["background"] = load_model(settings["background"])
    saved = None if start is None else load_model(start)
    if saved is not None and valid is None and settings.keys().isdisjoint({"C", "lam"}):
        settings |= {"C": saved.training["C"]} if saved.training.get("C") else {}
    if valid is None and start is None:
        settings = _folds(settings, cv) | settings
    decided = plan(chosen, settings, measure=measure, validated=valid is not None, random_state=seed, n_jobs=threads)
    read = partial(_read, negative_as_zero=negative_as_zero, columns=columns, cleaner=cleaner, threads=threads)
    files = {"features": features, "valid": valid, "start": start, "background": options["background"]}
    with engine_started(engine) as started, training_course(engine, resume, target, **files) as course:
        inputs = (features, group), (valid, valid_group), (start, saved)
        facts = _trained(decided, method.strip().lower(), partial(read, engine=started), *inputs, target, course, shown)
        if course is not None:
            course.finish(whole=not facts["interrupted"])
    paths = {"model": str(target), "features": str(features), "valid": None if valid is None else str(valid)}
    facts = paths | facts
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        show(facts)
    if facts["interrupted"]:
        raise click.Abort


def _trained(
    decided: Plan,
    method: str,
    read: Any,
    training: tuple[Path, Path | None],
    validation: tuple[Path | None, Path | None],
    continued: tuple[Path | None, SavedModel | None],
    target: Path,
    course: Course | None,
    shown: Shown,
) -> dict[str, Any]:
    """Read the data, train and save the model; what is known then. Data are given by their file and that of groups."""
    from rankwright.cli.training import facts_of, notices, watched
    from rankwright.training.train import STARTING_MODEL, TRAINING, VALIDATION, held_out

    with compiling_ahead(method, announce, getattr(decided.ranker, "device", "cpu")) as ahead:
        data, dropped = read(*training)
        checked, also = (None, None) if validation[0] is None else read(*validation)
        ahead.finish(data)
    tell_of_copies(decided.ranker, method, data, checked)
    if course is not None:
        course.follow(data, checked)
    with naming_files({TRAINING: training[0], VALIDATION: validation[0], STARTING_MODEL: continued[0]}):
        data, checked, clicks = shown.apart(data, checked)
        if checked is not None:
            checked, found = held_out(data, checked)
            for notice in found:
                click.echo(f"warning: {notice.text}", err=True)
        train = partial(decided.train, data, checked, start=continued[1], **clicks)
        trained, compiled = watched(decided, train, starts=continued[1] is not None, told=ahead.told)
        notices(trained)
    trained.save(target)
    return shown.described(facts_of(trained, compiled)) | {"cleaning": {"training": dropped, "validation": also}}


def _read(
    path: Path,
    group: Path | None,
    *,
    negative_as_zero: bool,
    columns: Columns | None,
    cleaner: Cleaner | None,
    threads: int,
    engine: Transport | None = None,
) -> tuple[RankingData, dict[str, Any] | None]:
    """The data of a file, and what cleaning dropped from it."""
    options: dict[str, Any] = {"negative_as_zero": negative_as_zero, "columns": columns, "threads": threads}
    read = read_features(path, group, engine=engine, **options)
    data, found = clean_data(cleaner, read, path, threads)
    return data, None if found is None else found.to_dict()


def _check_output(target: Path, sources: list[Path | None]) -> None:
    """Reject, before training, a model file that could not be written after it."""
    if str(target) == "-":
        raise InputError("a model is binary and cannot go to standard output; expected a file name after -o")
    if target.suffix.lower() == ".gz":
        raise InputError("model files are not gzip; expected a name such as model.rkw", target)
    check_target(target, sources)


def _check_cost(options: dict[str, Any], valid: Path | None, cv: int | None) -> None:
    """Reject a choice with nothing to choose by, and a grid with nothing to choose."""
    if cv == 1:
        raise InputError("--cv is 1; expected a number of folds from 2, or 0 for none")
    if cv and valid is not None:
        raise InputError("--cv chooses without validation data; expected either --cv or --valid")
    if cv == 0 and valid is None and (options["C"] == "auto" or options["C_grid"] is not None):
        raise InputError("--C auto and --C-grid choose C on --valid or by cross-validation; expected no --cv 0")
    if options["C_grid"] is not None and options["C"] not in (None, "auto"):
        raise InputError("--C-grid lists the values that --C auto tries; expected no other --C")


def _check_continue(options: dict[str, Any], valid: Path | None, cv: int | None) -> None:
    """Reject what cannot be continued: a model that may have seen the queries to be held out, for one."""
    if cv or options["bins"] is not None:
        raise InputError(f"--continue does not go with {'--cv' if cv else '--bins'}")
    if valid is None and (options["C"] == "auto" or options["C_grid"] is not None):
        raise InputError("--continue does not go with cross-validation; expected --valid to choose C on, or one --C")


def _folds(settings: dict[str, Any], cv: int | None) -> dict[str, Any]:
    """The setting that asks for cross-validation: as said, or else where the method leaves something open."""
    if cv is None:
        given = settings.get("lam") is not None or settings.get("C", "auto") != "auto"
        return {} if given else {"cv": "auto"}
    return {"cv": cv} if cv else {}
