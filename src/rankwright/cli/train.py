"""`rankwright train`: a ranker trained on a feature file, with the proof of how good it is, saved as one model file.

The options of the methods are those that the estimators declare, see `rankwright.rankers.parameters`. What is known
after the training is one dictionary of facts: ``--json`` prints it, people get it in words. Ctrl-C ends the training
after the current pass, and the best model so far is saved.
"""

from __future__ import annotations

import signal
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rankwright.cli.files import check_target, cleaner_of, engine_started, naming_files, read_clean, warn_of_doubts
from rankwright.cli.options import (
    FILE,
    Integer,
    MethodCommand,
    complete_method,
    device_option,
    engine_option,
    json_option,
    measure_option,
    output_option,
    position_options,
    resume_option,
    seed_option,
    settings_of,
    threads_option,
    training_clean_options,
    training_data_options,
)
from rankwright.cli.precompile import COMPILING, noting_compilation, precompiling
from rankwright.cli.printing import RETURN, LiveLine, counted, inform, note, print_json, styled, warn
from rankwright.errors import InputError
from rankwright.training.methods import METHODS, Method, parse_method

if TYPE_CHECKING:
    from rankwright.cluster.journal import Journal
    from rankwright.data.dataset import RankingData
    from rankwright.models.saving import SavedModel
    from rankwright.rankers.facts import Notice
    from rankwright.rankers.inputs import Clicks
    from rankwright.training.train import Plan, Trained

_METHOD_HELP = "What to train, one of those above."
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
        "target", "method", "valid", "cv", "measure", "plugin",
        "seed", "threads", "device", "engine", "resume", "as_json",
    ),
    "Method auto": (),
    "Data": ("group", "valid_group", "negative_as_zero", "columns", "grades", "clean", "clean_scaled", "clean_above"),
    "Clicks": ("position", "pair", "propensities"),
    "Linear methods": ("start",),
    "Trees and nets": ("assigned",),
}  # fmt: skip
_PAIR = "pair"
_CROSSED = "cross-validated"
_INTERVAL = 0.25  # seconds between two updates of the progress line
_MARGIN = 14
_WRAPPED = 104  # columns of a long text
_NOT_DECIDING = {"target", "threads", "engine", "resume", "as_json"}  # options that leave the model as it is
_CHUNK = 1 << 22
_OVER_CLICKS = "over clicks: each as the only relevant document of its page, weighted by inverse propensity"


@click.command("train", cls=MethodCommand, sections=_SECTIONS)
@click.argument("features", metavar="FEATURES", type=FILE)
@click.option("--method", default="auto", metavar="METHOD", shell_complete=complete_method, help=_METHOD_HELP)
@output_option("Model file, such as m.rkw.")
@click.option("--valid", type=FILE, help="Validation data.")
@click.option("--cv", type=Integer(0), metavar="K", help=_CV_HELP)
@measure_option(_MEASURE_HELP)
@click.option("--continue", "start", type=FILE, metavar="MODEL", help=_CONTINUE_HELP)
@click.option("--set", "assigned", multiple=True, metavar="NAME=VALUE", help=_SET_HELP)
@seed_option()
@threads_option()
@device_option
@engine_option
@resume_option
@training_data_options
@training_clean_options
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
      other libraries      lightgbm, xgboost, catboost, with their parameters by --set
      yours                python:mine.py:MyRanker, and what --plugin registers

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
      rankwright train train.txt --method lightgbm --valid vali.txt --set num_leaves=15 -o model.rkw
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
    clicks = ClickColumns.of(options, chosen, engine)
    settings = settings_of(chosen, options, assigned)
    if "background" in settings:
        settings["background"] = load_model(settings["background"])
    saved = None if start is None else load_model(start)
    if saved is not None and valid is None and settings.keys().isdisjoint({"C", "lam"}):
        settings |= {"C": saved.training["C"]} if saved.training.get("C") else {}
    if valid is None and start is None:
        settings = _folds(settings, cv) | settings
    decided = plan(chosen, settings, measure=measure, validated=valid is not None, random_state=seed, n_jobs=threads)
    read = partial(read_clean, negative_as_zero=negative_as_zero, columns=columns, cleaner=cleaner, threads=threads)
    with engine_started(engine) as started, _journal(engine, resume, target) as journal:
        inputs = (features, group), (valid, valid_group), (start, saved)
        read = partial(read, engine=started)
        known = method.strip().lower() if chosen.name in METHODS else "lightgbm"  # what is compiled of all others
        trained, facts = _trained(decided, known, read, *inputs, target, journal, clicks)
        if journal is not None and facts["interrupted"]:
            note(_resume_hint(journal))
        elif journal is not None:
            journal.remove()
    paths = {"model": str(target), "features": str(features), "valid": None if valid is None else str(valid)}
    facts = paths | facts
    if as_json:
        print_json(facts)
    else:
        _show(trained, facts)
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
    journal: Journal | None,
    columns: ClickColumns | None,
) -> tuple[Trained, dict[str, Any]]:
    """Read the data, train and save the model; what is known then. Data are given by their file and that of groups."""
    from rankwright.data.places import place_of
    from rankwright.training.train import STARTING_MODEL, TRAINING, VALIDATION, held_out

    announce = partial(inform, COMPILING)
    with precompiling(method, announce, getattr(decided.ranker, "device", "cpu")) as precompiler:
        data, dropped = read(*training)
        checked, dropped_there = (None, None) if validation[0] is None else read(*validation)
        precompiler.finish(data)
    given = [data] if checked is None else [data, checked]
    _note_copies(decided.ranker, method, given)
    if journal is not None:
        for some in given:
            place_of(some).record_to(journal)
    with naming_files({TRAINING: training[0], VALIDATION: validation[0], STARTING_MODEL: continued[0]}):
        clicks: dict[str, Any] = {}
        if columns is not None:
            data, checked, clicks["clicks"] = columns.taken_out(data, checked)
        if checked is not None:
            checked, shared = held_out(data, checked)
            for notice in shared:
                warn(notice.text)
        suspected = warn_of_doubts(data)
        train = partial(decided.train, data, checked, start=continued[1], **clicks)
        trained, compiled = _watched(decided, train, starts=continued[1] is not None, announced=precompiler.announced)
        _print_notices(trained)
    trained.save(target)
    facts = _facts(trained, compiled) | {"warnings": suspected}
    if columns is not None:
        facts["definitions"] = [_OVER_CLICKS]
    cleaned = {"training": dropped, "validation": dropped_there}
    facts["cleaning"] = {part: None if cleaning is None else cleaning.to_dict() for part, cleaning in cleaned.items()}
    return trained, facts


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
class ClickColumns:
    """Where labels are clicks: the columns with position and pair, and how likely positions are looked at."""

    position: str
    pair: str | None
    propensities: Any

    @classmethod
    def of(cls, options: dict[str, Any], method: Method, engine: str | None) -> ClickColumns | None:
        """Take them out of the options, checked; None without ``--position``."""
        position, pair, propensities = (options.pop(name) for name in ("position", "pair", "propensities"))
        if position is None:
            used = "--pair" if pair is not None else "--propensities" if propensities is not None else None
            if used is not None:
                raise InputError(f"{used} is for --position, which is not given")
            return None
        if propensities is None:
            raise InputError("--position needs the propensities of positions; expected --propensities FILE")
        if method.name not in ("rank-svm", "lambdamart"):
            raise InputError(f"{method.name} takes no --position; expected --method rank-svm or lambdamart")
        if engine is not None:
            raise InputError("--position does not go with --engine; expected one of the two")
        from rankwright.clicks.models import read_propensities

        return cls(position, pair, read_propensities(Path(propensities)))

    def taken_out(self, data: RankingData, valid: RankingData | None) -> tuple[RankingData, RankingData | None, Clicks]:
        """The data without these columns, and the weights of the clicks."""
        from rankwright.data.dataset import column_of
        from rankwright.rankers.inputs import clicks_of
        from rankwright.training.train import TRAINING, VALIDATION, about

        has_pair = self.pair is None and data.feature_names is not None and _PAIR in data.feature_names
        names = [name for name in (self.position, _PAIR if has_pair else self.pair) if name is not None]
        with about(TRAINING):
            places = [_column(data, name) for name in names]
            position, *pair = (data.to_caller_order(column_of(data, at)) for at in places)
            data = _without(data, places)
        shown = None
        with about(VALIDATION):
            if valid is not None and _has(valid, self.position):
                places = [_column(valid, name) for name in names if _has(valid, name)]
                shown = valid.to_caller_order(column_of(valid, places[0]))
                valid = _without(valid, places)
        with about(TRAINING):
            clicks = clicks_of(data, valid, position, self.propensities, pair[0] if pair else None, shown)
        for notice in clicks.notices:
            warn(notice.text)
        return data, valid, clicks


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


def _without(data: RankingData, places: list[int]) -> RankingData:
    """The data without some columns; without names those that are not the last become 0, so that numbers stay."""
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


class Watch:
    """Called after every pass: rewrites the progress line, and ends the training when Ctrl-C was pressed."""

    def __init__(self, costs: Sequence[float], starts: bool) -> None:
        self._costs = costs
        self._at = -1
        self._starts = starts
        self._asked = False
        self._fold = self._member = ""
        self._line = LiveLine()
        self._shown_at = -_INTERVAL

    def __call__(self, check: Any) -> None:
        by_passes = hasattr(check, "passes")
        self._at += by_passes and check.passes == 1
        now = time.monotonic()
        if self._line.is_live and now - self._shown_at >= _INTERVAL:
            self._shown_at = now
            self._line.write(self._member + (self._pass(check) if by_passes else self._round(check)))
        # The very first pass only looks at weights of 0, which are not worth keeping.
        if self._asked and (not by_passes or self._starts or self._at > 0 or check.passes > 1):
            raise KeyboardInterrupt

    def fold(self, number: int, n_folds: int, costs: Sequence[float]) -> None:
        """Cross-validation goes on: to a fold, from 1; to all together, 0; or to all data, where there are 0 folds."""
        many = f"{n_folds} folds" if n_folds > 1 else "one fold"
        self._fold = "" if not n_folds else f"fold {number} of {n_folds}  " if number else f"{many}  "
        self._costs, self._at = costs, -1
        self._asked &= n_folds > 0  # what was stopped is the choice

    def member(self, name: str, number: int, of: int) -> None:
        """A committee goes on to a member, from 1."""
        self._member, self._fold = f"{number} of {of} {name}  ", ""

    def _round(self, row: Any) -> str:
        number = getattr(row, "round", getattr(row, "epoch", 0))
        value = "" if row.value != row.value else f"  {'held out' if self._fold else 'validation'} {row.value:.4f}"
        return f"{self._fold}round {number}{value}  {row.seconds:.0f} s"

    def _pass(self, check: Any) -> str:
        from rankwright.rankers.facts import percent

        several = len(self._costs) > 1
        at = min(self._at, len(self._costs) - 1)
        which = f"  C {self._costs[at]:g} ({at + 1} of {len(self._costs)})" if several else ""
        if self._fold:  # short, so that it fits
            return f"{self._fold}{which[2:]}  pass {check.passes}  gap {percent(check.gap)}"
        figures = f"gap {percent(check.gap)}  objective {check.primal:.5g}  bound {check.dual + 0.0:.5g}"
        return f"{self._fold}pass {check.passes}  {figures}{which}"

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C wait for the end of the pass, when the gap is known; the second stops at once."""
        in_charge = threading.current_thread() is threading.main_thread()
        in_charge = in_charge and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if in_charge:
            signal.signal(signal.SIGINT, self._pressed)
        try:
            yield
        finally:
            if in_charge:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            self._line.clear()

    def _pressed(self, *_: Any) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._line.clear()
        inform(RETURN + "stopping after this pass (Ctrl-C again: at once) …")


def _watched(
    plan: Plan, train: Callable[..., Trained], *, starts: bool, announced: bool = False
) -> tuple[Trained, bool]:
    """Train with a progress line and Ctrl-C under control; the outcome, and whether code had to be compiled.

    ``train`` is called with a ``callback``. ``announced``: whether the user knows that code is compiled.
    """
    with noting_compilation(announced=announced, device=getattr(plan.ranker, "device", "cpu")) as compiled:
        if not hasattr(plan.ranker, "callback"):
            return train(), compiled()
        watch = Watch(plan.costs, starts)
        with watch.interruptible():
            return train(callback=watch), compiled()


def _print_notices(trained: Trained) -> None:
    """Print what the user should know, one line each; InputError if nothing could be learnt."""
    from rankwright.rankers.facts import Kind
    from rankwright.training.train import TRAINING

    for notice in trained.facts.notices:
        if notice.kind is Kind.NOTHING_TO_ORDER:
            binary = hasattr(trained.ranker, "relevant_from")
            needed = "both relevant and other documents" if binary else "documents of different labels"
            raise InputError(f"no query has {needed}: there is nothing to train on", TRAINING)
        if notice.kind is not Kind.INTERRUPTED:  # said at the end
            warn(_worded(notice))


def _worded(notice: Notice) -> str:
    from rankwright.rankers.facts import Kind

    values = notice.values
    if notice.kind is Kind.NO_BETTER_THAN_ZERO:
        from rankwright.maxmargin.structured_svm import useless_words

        return useless_words(values, "--C")
    if notice.kind is Kind.NOT_CONVERGED and "max_passes" in values:
        return notice.text.replace("max_passes=", "--max-passes ").replace("tol=", "--tol ")
    return notice.text


def _facts(trained: Trained, compiled: bool) -> dict[str, Any]:
    """All that is known of a training, as ``--json`` prints it."""
    return {
        "method": trained.method,
        "measure": str(trained.measure),
        **trained.facts.to_dict(_chose(trained)),
        "n_features": trained.parts["training"].n_features,
        "compiled": compiled,
        "interrupted": trained.facts.interrupted,
        "measures": {f"{data} {trained.measure}": value for data, value in trained.values.items()},
        "definitions": _definitions(trained),
    }


def _chose(trained: Trained) -> bool:
    return getattr(trained.ranker, "C", None) == "auto"


def _definitions(trained: Trained) -> list[str]:
    """What the values mean: what holds for all data once, the rest with the name of the data."""
    lines = {data: (*evaluation.definitions, *evaluation.notes) for data, evaluation in trained.evaluations.items()}
    definitions = [
        line if all(line in others for others in lines.values()) else f"{data}: {line}"
        for data in lines
        for line in lines[data]
    ]
    return list(dict.fromkeys(definitions))


def _show(trained: Trained, facts: Mapping[str, Any]) -> None:
    """Print what is known in words, on stderr; ``facts`` as ``--json`` prints them."""
    features, valid = Path(facts["features"]).name, Path(facts["valid"] or "").name
    size = f"{counted(facts['queries'], 'query', 'queries')} of {features}, {facts['n_features']:,} features"
    inform(styled(f"trained {trained.method}", bold=True) + f" on {size}")
    if facts["queries_skipped"]:
        reason = "all relevant, or none" if trained.method.startswith("svm-") else "all labels equal"
        _line("skipped", f"{counted(facts['queries_skipped'], 'query', 'queries')} with nothing to order ({reason})")
    for name, text in trained.facts.lines(_chose(trained), valid, facts["compiled"]):
        _line(name, text)
    for line in (facts["committee"] or {}).get("summary", ()):
        title, _, text = line.partition("\t")
        for at, wrapped in enumerate(textwrap.wrap(text, _WRAPPED, break_on_hyphens=False)):
            _line("" if at else title, wrapped)
    values = {name.partition(" ")[0]: value for name, value in facts["measures"].items()}
    shown = [f"{values['validation']:.4f} on {valid} (validation)"] if valid else []
    shown += [f"{values[_CROSSED]:.4f} {_CROSSED}"] if _CROSSED in values else []
    _line(facts["measure"], ", ".join([*shown, f"{values['training']:.4f} on {features} (training)"]))
    for line in facts["definitions"]:
        _line("", line)
    if _CROSSED in values:
        _line("", f"{_CROSSED}: queries scored by models that were trained and chosen without them")
    so_far = ", the best model so far" if facts["interrupted"] else ""
    inform(f"wrote {facts['model']}{so_far}")


def _line(name: str, text: str) -> None:
    inform("  " + styled(f"{name:<{_MARGIN - 2}}") + text)


def _note_copies(ranker: Any, method: str, given: Sequence[RankingData]) -> None:
    """Say that features in partitions are gathered for a ranker that does not train on partitions."""
    from rankwright.data.dataset import feature_bytes
    from rankwright.data.places import place_of

    copied = [data for data in given if place_of(data).is_partitioned and not ranker.trains_in_partitions(data)]
    if copied:
        size = sum(map(feature_bytes, copied)) / 1e6
        copies = "the features are copied there from their partitions"
        note(f"{method} trains in one place; {copies}, {size:,.1f} MB, for the time of the training")


@contextmanager
def _journal(engine: str | None, resume: bool, target: Path) -> Iterator[Journal | None]:
    """The results of a training with an engine, kept beside the model file until it is done; None without an engine.

    An error says how to go on.
    """
    if engine is None:
        if resume:
            raise InputError("--resume is for trainings with --engine; expected --engine, too")
        yield None
        return
    from rankwright.cluster.journal import Journal, read_key

    path, key = target.parent / f".{target.name}.journal", _key()
    if not resume and read_key(path) == key:
        problem = "the same training was interrupted, and its results are here"
        raise InputError(f"{problem}; expected --resume to go on, or this file removed to start anew", path)
    journal = Journal(path, key, resume=resume)
    try:
        yield journal
    except InputError as error:
        if resume or journal.recorded:
            raise InputError(f"{error.message}; {_resume_hint(journal)}", error.path, error.line) from None
        raise
    finally:
        if resume or journal.recorded:
            journal.close()
        else:
            journal.remove()  # there is nothing to go on from


def _resume_hint(journal: Journal) -> str:
    return f"the results so far are in {journal.path}; the same command with --resume goes on from there"


def _key() -> dict[str, Any]:
    """What decides a training: version, options, and the content of files."""
    from rankwright import __version__

    key: dict[str, Any] = {"version": __version__}
    for name, value in sorted(click.get_current_context().params.items()):
        if name not in _NOT_DECIDING:
            is_plain = value is None or isinstance(value, bool | int | float)
            key[name] = _fingerprint(value) if isinstance(value, Path) else value if is_plain else str(value)
    return key


def _fingerprint(path: Path) -> str:
    """A checksum of a file; of a folder, one of its manifest, or else of the names and sizes of its files."""
    from rankwright.io.partitions import MANIFEST

    if not path.is_dir():
        return _checksum(path)
    if (path / MANIFEST).is_file():
        return _checksum(path / MANIFEST)
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    sizes = [(str(file.relative_to(path)), file.stat().st_size) for file in files]
    return f"{zlib.crc32(repr(sizes).encode()):08x}"


def _checksum(path: Path) -> str:
    from rankwright.io.files import reading

    total = 0
    with reading(path), open(path, "rb") as file:
        while some := file.read(_CHUNK):
            total = zlib.crc32(some, total)
    return f"{total:08x}"
