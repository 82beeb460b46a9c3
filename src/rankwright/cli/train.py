"""`rankwright train`: a ranker trained on a feature file, with the proof of how good it is, saved as one model file.

The options of the methods are those that the estimators declare, see `rankwright.rankers.parameters`. What is known
after the training is one dictionary of facts: ``--json`` prints it, people get it in words. Ctrl-C ends the training
after the current pass, and the best model so far is saved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.cli.files import check_target, clean_data, cleaner_of, engine_started, naming_files, read_features
from rankwright.cli.options import (
    FILE,
    Integer,
    MethodCommand,
    clean_options,
    complete_measure,
    complete_method,
    device_option,
    engine_option,
    json_option,
    output_option,
    position_options,
    resume_option,
    seed_option,
    settings_of,
    threads_option,
    training_data_options,
)
from rankwright.cli.precompile import announce, precompiling
from rankwright.cli.training import ResumableRun, facts_of, note_copies, notices, resumable_run, show, watched
from rankwright.errors import InputError
from rankwright.training.methods import parse_method

if TYPE_CHECKING:
    from rankwright.cluster.cluster import Transport
    from rankwright.data.cleaning import Cleaner
    from rankwright.data.dataset import RankingData
    from rankwright.io.roles import Columns
    from rankwright.models.saving import SavedModel
    from rankwright.training.methods import Method
    from rankwright.training.train import Plan, Trained

_CV_HELP = (
    "Without --valid: choose C, or the number of rounds, by cross-validation with K folds of queries, then train on "
    "all; 0: choose nothing.  [default: 5 where anything is open, one of them held out from 500 queries on]"
)
_MEASURE_HELP = (
    "Measure to choose by on --valid, and to report.  [default: what the method is trained for, for svm-combo its "
    "first loss; AP for svm-acc; nDCG@10 for the others]"
)
_SET_HELP = "Any other parameter of the method, such as n_trees=500 or hidden=15; an unknown name lists them all."
_CONTINUE_HELP = "Start from the weights of a saved model, and its C unless --C or --valid is given."
_SECTIONS = {
    "What and where": (
        "target", "method", "valid", "cv", "measure", "seed", "threads", "device", "engine", "resume", "as_json",
    ),
    "Method auto": (),
    "Data": ("group", "valid_group", "negative_as_zero", "columns", "clean", "clean_scaled", "clean_above"),
    "Clicks": ("position", "pair", "propensities"),
    "Linear methods": ("start",),
    "Trees and nets": ("assigned",),
}  # fmt: skip
_PAIR = "pair"
_HOW = "over clicks: each as the only relevant document of its page, weighted by inverse propensity"


@click.command("train", cls=MethodCommand, sections=_SECTIONS)
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option(
    "--method",
    default="auto",
    metavar="METHOD",
    shell_complete=complete_method,
    help="What to train, one of those above.  [default: auto]",
)
@output_option("Model file, such as m.rkw.")
@click.option("--valid", type=FILE, metavar="FILE", help="Validation data.")
@click.option("--cv", type=Integer(0), metavar="K", help=_CV_HELP)
@click.option("-m", "--measure", metavar="NAME", shell_complete=complete_measure, help=_MEASURE_HELP)
@click.option("--continue", "start", type=FILE, metavar="MODEL", help=_CONTINUE_HELP)
@click.option("--set", "assigned", multiple=True, metavar="NAME=VALUE", help=_SET_HELP)
@seed_option()
@threads_option()
@device_option
@engine_option
@resume_option
@training_data_options
@clean_options
@position_options
@json_option("Print everything known about the training as one JSON object.")
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
      rankwright train big.partitions --method svm-map --engine dask://scheduler:8786 -o model.rkw
      rankwright train pages.rank --method rank-svm --position position --propensities p.csv -o clicks.rkw
      rankwright rank model.rkw test.txt -o test.run
      rankwright evaluate test.txt test.run
    """
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
    with engine_started(engine) as started, resumable_run(engine, resume, target) as course:
        inputs = (features, group), (valid, valid_group), (start, saved)
        read = partial(read, engine=started)
        trained, facts = _trained(decided, method.strip().lower(), read, *inputs, target, course, shown)
        if course is not None:
            course.finish(complete=not facts["interrupted"])
    paths = {"model": str(target), "features": str(features), "valid": None if valid is None else str(valid)}
    facts = paths | facts
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        show(trained, facts)
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
    course: ResumableRun | None,
    shown: Shown,
) -> tuple[Trained, dict[str, Any]]:
    """Read the data, train and save the model; what is known then. Data are given by their file and that of groups."""
    from rankwright.training.train import STARTING_MODEL, TRAINING, VALIDATION, held_out

    with precompiling(method, announce, getattr(decided.ranker, "device", "cpu")) as precompiler:
        data, dropped = read(*training)
        checked, also = (None, None) if validation[0] is None else read(*validation)
        precompiler.finish(data)
    note_copies(decided.ranker, method, data, checked)
    if course is not None:
        course.follow(data, checked)
    with naming_files({TRAINING: training[0], VALIDATION: validation[0], STARTING_MODEL: continued[0]}):
        data, checked, clicks = shown.apart(data, checked)
        if checked is not None:
            checked, shared = held_out(data, checked)
            for notice in shared:
                click.echo(f"warning: {notice.text}", err=True)
        train = partial(decided.train, data, checked, start=continued[1], **clicks)
        trained, compiled = watched(decided, train, starts=continued[1] is not None, announced=precompiler.announced)
        notices(trained)
    trained.save(target)
    facts = shown.described(facts_of(trained, compiled))
    return trained, facts | {"cleaning": {"training": dropped, "validation": also}}


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
    options: dict[str, Any] = {"negative_as_zero": negative_as_zero, "columns": columns, "threads": threads}
    read = read_features(path, group, engine=engine, **options)
    data, cleaning = clean_data(cleaner, read, path, threads)
    return data, None if cleaning is None else cleaning.to_dict()


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


@dataclass(frozen=True)
class Shown:
    """What the options say: the columns, and how likely positions are looked at."""

    position: str | None
    pair: str | None
    propensities: Any

    @classmethod
    def of(cls, options: dict[str, Any], method: Method, engine: str | None = None) -> Shown:
        """Take them out of the options, checked."""
        position, pair, propensities = (options.pop(name) for name in ("position", "pair", "propensities"))
        if position is None:
            used = "--pair" if pair is not None else "--propensities" if propensities is not None else None
            if used is not None:
                raise InputError(f"{used} is for --position, which is not given")
            return cls(None, None, None)
        if propensities is None:
            raise InputError("--position needs the propensities of positions; expected --propensities FILE")
        if method.name not in ("rank-svm", "lambdamart"):
            raise InputError(f"{method.name} takes no --position; expected --method rank-svm or lambdamart")
        if engine is not None:
            raise InputError("--position does not go with --engine; expected one of the two")
        from rankwright.clicks.reading import read_propensities

        return cls(position, pair, read_propensities(Path(propensities)))

    def apart(
        self, data: RankingData, valid: RankingData | None
    ) -> tuple[RankingData, RankingData | None, dict[str, Any]]:
        """The data without these columns, and the weights of clicks as an argument of a training, if there are any."""
        if self.position is None:
            return data, valid, {}
        from rankwright.rankers.inputs import clicks_of
        from rankwright.training.train import TRAINING, VALIDATION, about

        has_pair = self.pair is None and data.feature_names is not None and _PAIR in data.feature_names
        wanted = [name for name in (self.position, _PAIR if has_pair else self.pair) if name is not None]
        with about(TRAINING):
            places = [_column(data, name) for name in wanted]
            position, *pair = (data.to_caller_order(_values(data, at)) for at in places)
            data = _without(data, places)
        shown = None
        with about(VALIDATION):
            if valid is not None and _has(valid, self.position):
                at = [_column(valid, name) for name in wanted if _has(valid, name)]
                shown = valid.to_caller_order(_values(valid, at[0]))
                valid = _without(valid, at)
        with about(TRAINING):
            clicks = clicks_of(data, valid, position, self.propensities, pair[0] if pair else None, shown)
        for notice in clicks.notices:
            click.echo(f"warning: {notice.text}", err=True)
        return data, valid, {"clicks": clicks}

    def described(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts of a training, with what their values mean where labels are clicks."""
        return facts if self.position is None else facts | {"definitions": [_HOW]}


def _has(data: RankingData, name: str) -> bool:
    numbers = range(1, data.n_features + 1)
    return name in data.feature_names if data.feature_names is not None else name in map(str, numbers)


def _column(data: RankingData, name: str) -> int:
    """A column by its name, or without names by its number from 1."""
    if not _has(data, name):
        names = data.feature_names
        expected = f"a number from 1 to {data.n_features}" if names is None else f"one of {', '.join(names[-5:])}"
        more = " (the last columns)" if names is not None and len(names) > 5 else ""
        raise InputError(f"has no column {name!r}; expected {expected}{more}")
    return int(name) - 1 if data.feature_names is None else data.feature_names.index(name)


def _values(data: RankingData, at: int) -> Any:
    return data.X[:, [at]].toarray()[:, 0] if data.is_sparse else data.X[:, at]


def _without(data: RankingData, places: list[int]) -> RankingData:
    """The data without some columns; without names those that are not the last become 0, so that numbers stay."""
    import numpy as np

    kept = [at for at in range(data.n_features) if at not in places]
    if not kept:
        raise InputError("has no features besides these columns; expected some")
    if data.feature_names is not None:
        return data.matched_to(len(kept), [data.feature_names[at] for at in kept])
    ones = np.ones(kept[-1] + 1)
    ones[[at for at in places if at <= kept[-1]]] = 0.0
    X = data.X[:, : len(ones)]
    return data.with_features(
        X.multiply(ones).tocsr() if data.is_sparse else np.where(ones > 0, X, 0.0).astype(X.dtype)
    )
