"""Training as people see it: progress while it runs, notices, the outcome as facts or in words; and `--resume`."""

from __future__ import annotations

import signal
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.caching import is_compiled
from rankwright.cli.precompile import noting_compilation
from rankwright.cli.printing import RETURN, LiveLine, counted, styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.cluster.journal import Journal
    from rankwright.data.dataset import RankingData
    from rankwright.rankers.facts import Notice
    from rankwright.training.train import Plan, Trained

CROSSED = "cross-validated"
_INTERVAL = 0.25  # seconds between two updates of the progress line
_MARGIN = 14
_WRAPPED = 104  # columns of a long text
_NOT_DECIDING = {"target", "threads", "engine", "resume", "as_json"}  # options of train that leave the model as it is
_CHUNK = 1 << 22


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
        """Show a pass or a round, if it is time to."""
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
        click.echo(RETURN + "stopping after this pass (Ctrl-C again: at once) …", err=True)


def must_compile() -> bool:
    """Whether numba has no compiled training code on disk; False if unknown."""
    try:
        from rankwright.maxmargin.hinge import _evaluate
        from rankwright.maxmargin.smoothed import minimise

        return not all(kernel.signatures or is_compiled(kernel) for kernel in (_evaluate, minimise))
    except (AttributeError, ImportError, OSError, TypeError):
        return False


def watched(
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


def notices(trained: Trained) -> None:
    """Print what the user should know, one line each; InputError if nothing could be learnt."""
    from rankwright.rankers.facts import Kind
    from rankwright.training.train import TRAINING

    for notice in trained.facts.notices:
        if notice.kind is Kind.NOTHING_TO_ORDER:
            binary = hasattr(trained.ranker, "relevant_from")
            what = "both relevant and other documents" if binary else "documents of different labels"
            raise InputError(f"no query has {what}: there is nothing to train on", TRAINING)
        if notice.kind is not Kind.INTERRUPTED:  # said at the end
            click.echo(f"warning: {_worded(notice)}", err=True)


def _worded(notice: Notice) -> str:
    from rankwright.rankers.facts import Kind

    values = notice.values
    if notice.kind is Kind.NO_BETTER_THAN_ZERO:
        from rankwright.maxmargin.proof import useless_words

        return useless_words(values, "--C")
    if notice.kind is Kind.NOT_CONVERGED and "max_passes" in values:
        return notice.text.replace("max_passes=", "--max-passes ").replace("tol=", "--tol ")
    return notice.text


def facts_of(trained: Trained, compiled: bool) -> dict[str, Any]:
    """All that is known of a training, as ``--json`` prints it."""
    return {
        "method": trained.method,
        "measure": str(trained.measure),
        **trained.facts.to_dict(_chose(trained)),
        "n_features": trained.parts["training"].n_features,
        "compiled": compiled,
        "interrupted": trained.facts.interrupted,
        "measures": {f"{part} {trained.measure}": value for part, value in trained.values.items()},
        "definitions": _definitions(trained),
    }


def _chose(trained: Trained) -> bool:
    return getattr(trained.ranker, "C", None) == "auto"


def _definitions(trained: Trained) -> list[str]:
    """What the values mean: what holds for all data once, the rest with the name of the part."""
    lines = {part: (*evaluation.definitions, *evaluation.notes) for part, evaluation in trained.evaluations.items()}
    definitions = [
        line if all(line in of for of in lines.values()) else f"{part}: {line}"
        for part in lines
        for line in lines[part]
    ]
    return list(dict.fromkeys(definitions))


def show(trained: Trained, facts: Mapping[str, Any]) -> None:
    """Print what is known in words, on stderr; ``facts`` as ``--json`` prints them."""
    features, valid = Path(facts["features"]).name, Path(facts["valid"] or "").name
    what = f"{counted(facts['queries'], 'query', 'queries')} of {features}, {facts['n_features']:,} features"
    click.echo(styled(f"trained {trained.method}", bold=True) + f" on {what}", err=True)
    if facts["queries_skipped"]:
        why = "all relevant, or none" if trained.method.startswith("svm-") else "all labels equal"
        _line("skipped", f"{counted(facts['queries_skipped'], 'query', 'queries')} with nothing to order ({why})")
    for name, text in trained.facts.lines(_chose(trained), valid, facts["compiled"]):
        _line(name, text)
    for line in (facts["committee"] or {}).get("summary", ()):
        title, _, text = line.partition("\t")
        for at, part in enumerate(textwrap.wrap(text, _WRAPPED, break_on_hyphens=False)):
            _line("" if at else title, part)
    values = {part.partition(" ")[0]: value for part, value in facts["measures"].items()}
    shown = [f"{values['validation']:.4f} on {valid} (validation)"] if valid else []
    shown += [f"{values[CROSSED]:.4f} {CROSSED}"] if CROSSED in values else []
    _line(facts["measure"], ", ".join([*shown, f"{values['training']:.4f} on {features} (training)"]))
    for line in facts["definitions"]:
        _line("", line)
    if CROSSED in values:
        _line("", f"{CROSSED}: queries scored by models that were trained and chosen without them")
    so_far = ", the best model so far" if facts["interrupted"] else ""
    click.echo(f"wrote {facts['model']}{so_far}", err=True)


def _line(name: str, text: str) -> None:
    click.echo("  " + styled(f"{name:<{_MARGIN - 2}}") + text, err=True)


def note_copies(ranker: Any, method: str, *given: RankingData | None) -> None:
    """Say that features in partitions are gathered for a ranker that does not train on partitions."""
    from rankwright.data.dataset import feature_bytes
    from rankwright.data.places import place_of

    some = [data for data in given if data is not None and place_of(data).is_partitioned]
    partitioned = [data for data in some if not ranker.trains_in_partitions(data)]
    if partitioned:
        size = sum(map(feature_bytes, partitioned)) / 1e6
        what = f"{method} trains in one place; the features are copied there from their partitions"
        click.echo(f"note: {what}, {size:,.1f} MB, for the time of the training", err=True)


class ResumableRun:
    """A training under way, whose results are kept until it is done.

    `target`: the model file; the journal lies beside it. `key`: what decides the training. `resume`: whether to go on
    with the journal that is there.
    """

    def __init__(self, target: Path, key: Mapping[str, Any], resume: bool) -> None:
        from rankwright.cluster.journal import Journal, read_key

        path = target.parent / f".{target.name}.journal"
        if not resume and read_key(path) == dict(key):
            what = "the same training was interrupted, and its results are here"
            raise InputError(f"{what}; expected --resume to go on, or this file removed to start anew", path)
        self.journal: Journal = Journal(path, key, resume=resume)

    def follow(self, *parts: RankingData | None) -> None:
        """Keep the results of what is computed with these data."""
        from rankwright.data.places import place_of

        for data in parts:
            if data is not None:
                place_of(data).record_to(self.journal)

    def finish(self, complete: bool) -> None:
        """The model is saved: the journal is removed, unless the training was stopped on the way."""
        if complete:
            self.journal.remove()
        else:
            click.echo(f"note: {self.resume_hint}", err=True)

    @property
    def resume_hint(self) -> str:
        return f"the results so far are in {self.journal.path}; the same command with --resume goes on from there"


@contextmanager
def resumable_run(engine: str | None, resume: bool, target: Path) -> Iterator[ResumableRun | None]:
    """The course of a training with an engine; None without one. An error says how to go on."""
    if engine is None:
        if resume:
            raise InputError("--resume is for trainings with --engine; expected --engine, too")
        yield None
        return
    course = ResumableRun(target, _key(), resume)
    try:
        yield course
    except InputError as error:
        if resume or course.journal.recorded:
            raise InputError(f"{error.message}; {course.resume_hint}", error.path, error.line) from None
        raise
    finally:
        if resume or course.journal.recorded:
            course.journal.close()
        else:
            course.journal.remove()  # there is nothing to go on from


def _key() -> dict[str, Any]:
    """What decides a training: version, options, and the content of files."""
    from rankwright import __version__

    options = click.get_current_context().params
    given = {name: _text(value) for name, value in sorted(options.items()) if name not in _NOT_DECIDING}
    return {"version": __version__, **given}


def _text(value: Any) -> Any:
    if isinstance(value, Path):
        return _fingerprint(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _fingerprint(path: Path) -> str:
    """A checksum of a file; of a folder, one of its manifest, or else of the names and sizes of its files."""
    from rankwright.io.partitions import MANIFEST

    if not path.is_dir():
        return _checksum(path)
    if (path / MANIFEST).is_file():
        return _checksum(path / MANIFEST)
    sizes = [(str(one.relative_to(path)), one.stat().st_size) for one in sorted(path.rglob("*")) if one.is_file()]
    return f"{zlib.crc32(repr(sizes).encode()):08x}"


def _checksum(path: Path) -> str:
    total = 0
    try:
        with open(path, "rb") as file:
            while some := file.read(_CHUNK):
                total = zlib.crc32(some, total)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from None
    return f"{total:08x}"
