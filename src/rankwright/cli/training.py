"""A training as people see it: progress while it runs, notices, and the outcome as facts or in words."""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.caching import is_compiled
from rankwright.cli.compiling import told_of_compiling
from rankwright.cli.printing import RETURN, styled
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.rankers.cross_validation import CrossValidation
    from rankwright.rankers.facts import Notice
    from rankwright.training.train import Plan, Trained

__all__ = ["Watch", "facts_of", "must_compile", "notices", "show", "watched"]

CROSSED = "cross-validated"
_INTERVAL = 0.25  # seconds between two updates of the progress line
_MARGIN = 14
_WRAPPED = 104  # columns of a long text
_A_LINE = 4  # values of C


class Watch:
    """Called after every pass: rewrites the progress line, and ends the training when Ctrl-C was pressed."""

    def __init__(self, costs: Sequence[float], starts: bool) -> None:
        self._costs = costs
        self._at = -1
        self._starts = starts
        self._asked = False
        self._fold = self._member = ""
        self._live = sys.stderr.isatty()
        self._shown_at = -_INTERVAL
        self._width = 0

    def __call__(self, check: Any) -> None:
        """Show a pass or a round, if it is time to."""
        by_passes = hasattr(check, "passes")
        self._at += by_passes and check.passes == 1
        now = time.monotonic()
        if self._live and now - self._shown_at >= _INTERVAL:
            self._shown_at = now
            self._write(self._member + (self._pass(check) if by_passes else self._round(check)))
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
        """A round of boosting, or an epoch."""
        number = getattr(row, "round", getattr(row, "epoch", 0))
        value = "" if row.value != row.value else f"  {'held out' if self._fold else 'validation'} {row.value:.4f}"
        return f"{self._fold}round {number}{value}  {row.seconds:.0f} s"

    def _pass(self, check: Any) -> str:
        several = len(self._costs) > 1
        at = min(self._at, len(self._costs) - 1)
        which = f"  C {self._costs[at]:g} ({at + 1} of {len(self._costs)})" if several else ""
        if self._fold:  # short, so that it fits
            return f"{self._fold}{which[2:]}  pass {check.passes}  gap {_percent(check.gap)}"
        figures = f"gap {_percent(check.gap)}  objective {check.primal:.5g}  bound {check.dual + 0.0:.5g}"
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
            self._write("")

    def _pressed(self, *_: Any) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._write("")
        click.echo(RETURN + "stopping after this pass (Ctrl-C again: at once) …", err=True)

    def _write(self, text: str) -> None:
        """Rewrite the line; an empty text clears it."""
        if not self._live or (not text and not self._width):
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        click.echo(RETURN + text.ljust(self._width) + ("" if text else RETURN), err=True, nl=False)
        self._width = len(text)


def must_compile() -> bool:
    """Whether numba has no compiled training code on disk; False if unknown."""
    try:
        from rankwright.objectives.structured import _evaluate
        from rankwright.solvers.smoothed import minimise

        return not all(kernel.signatures or is_compiled(kernel) for kernel in (_evaluate, minimise))
    except (AttributeError, ImportError, OSError, TypeError):
        return False


def watched(plan: Plan, train: Callable[..., Trained], *, starts: bool, told: bool = False) -> tuple[Trained, bool]:
    """Train with a progress line and Ctrl-C under control; the outcome, and whether code had to be compiled.

    ``train`` is called with a ``callback``. ``told``: that code is compiled was said already.
    """
    with told_of_compiling(told=told, device=getattr(plan.ranker, "device", "cpu")) as compiled:
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
    """A notice in the words of the command line."""
    from rankwright.rankers.facts import Kind

    values = notice.values
    if notice.kind is Kind.NO_BETTER_THAN_ZERO:
        from rankwright.rankers.usefulness import useless_words

        return useless_words(values, "--C")
    if notice.kind is Kind.NOT_CONVERGED and "max_passes" in values:
        return notice.text.replace("max_passes=", "--max-passes ").replace("tol=", "--tol ")
    return notice.text


def facts_of(trained: Trained, compiled: bool) -> dict[str, Any]:
    """All that is known of a training, as ``--json`` prints it."""
    from rankwright.rankers.facts import Kind

    facts, proof, rounds = trained.facts, trained.facts.certificate, trained.facts.rounds
    crossed = facts.cross_validation
    chosen = getattr(trained.ranker, "C", None) == "auto"
    useless = next((notice for notice in facts.notices if notice.kind is Kind.NO_BETTER_THAN_ZERO), None)
    return {
        "method": trained.method,
        "measure": str(trained.measure),
        "queries": facts.n_queries,
        "queries_skipped": facts.n_queries_skipped,
        "documents": facts.n_docs,
        "n_features": trained.parts["training"].n_features,
        "C": facts.C,
        "C_tried": [dict(row) for row in facts.tried] if chosen else [],
        "C_left": facts.C_left,
        "no_better_than_zero": None if useless is None else dict(useless.values),
        "objective": None if proof is None else proof.objective,
        "gap": None if proof is None else proof.gap,
        "bound": None if proof is None else proof.bound,
        "start": _start(trained.ranker),
        "convex_rounds": len(getattr(trained.ranker, "rounds_", ())),
        "proof": None if proof is None or proof.proof is None else dataclasses.asdict(proof.proof),
        "passes": None if proof is None else proof.passes,
        "passes_total": None if proof is None else proof.passes_total,
        "unit": None if rounds is None else rounds.unit,
        "rounds": None if rounds is None else rounds.kept,
        "rounds_run": None if rounds is None else len(rounds.values if crossed is None else crossed.settings),
        "cross_validation": None if crossed is None else _crossed(crossed),
        "committee": None if facts.committee is None else facts.committee.to_dict(),
        "seconds": facts.seconds,
        "compiled": compiled,
        "interrupted": facts.interrupted,
        "measures": {f"{part} {trained.measure}": value for part, value in trained.values.items()},
        "definitions": _definitions(trained),
    }


def _crossed(found: CrossValidation) -> dict[str, Any]:
    """What cross-validation did, and what it found: the honest estimate, and the mean for every setting."""
    return {
        "how": found.folds.words,
        "folds": found.folds.n_folds,
        "held_out": found.folds.n_held_out,
        "queries": int((found.folds.of_query >= 0).sum()),
        "value": found.value,
        "settings": list(found.settings),
        "means": list(found.means),
    }


def _start(ranker: Any) -> str | None:
    """The ranker that the ramp bound started from, with its C."""
    start = getattr(ranker, "start_", None)
    return None if start is None else f"{start.method_name()} with C = {start.C_:g}"


def _definitions(trained: Trained) -> list[str]:
    """What the values mean: what holds for all data once, the rest with the name of the part."""
    lines = {part: (*found.definitions, *found.notes) for part, found in trained.evaluations.items()}
    own = [
        line if all(line in of for of in lines.values()) else f"{part}: {line}"
        for part in lines
        for line in lines[part]
    ]
    return list(dict.fromkeys(own))


def show(facts: Mapping[str, Any]) -> None:
    """Print the facts in words, on stderr."""
    features, valid = Path(facts["features"]).name, Path(facts["valid"] or "").name
    what = f"{_queries(facts['queries'])} of {features}, {facts['n_features']:,} features"
    click.echo(styled(f"trained {facts['method']}", bold=True) + f" on {what}", err=True)
    if facts["queries_skipped"]:
        binary = facts["method"].startswith("svm-")
        why = "all relevant, or none" if binary else "all labels equal"
        _line("skipped", f"{_queries(facts['queries_skipped'])} with nothing to order ({why})")
    _show_choice(facts, valid)
    _show_work(facts)
    for line in (facts["committee"] or {}).get("summary", ()):
        title, _, text = line.partition("\t")
        for at, part in enumerate(textwrap.wrap(text, _WRAPPED, break_on_hyphens=False)):
            _line("" if at else title, part)
    values = {part.partition(" ")[0]: value for part, value in facts["measures"].items()}
    found = [f"{values['validation']:.4f} on {valid} (validation)"] if valid else []
    found += [f"{values[CROSSED]:.4f} {CROSSED}"] if CROSSED in values else []
    _line(facts["measure"], ", ".join([*found, f"{values['training']:.4f} on {features} (training)"]))
    for line in facts["definitions"]:
        _line("", line)
    if CROSSED in values:
        _line("", f"{CROSSED}: queries scored by models that were trained and chosen without them")
    so_far = ", the best model so far" if facts["interrupted"] else ""
    click.echo(f"wrote {facts['model']}{so_far}", err=True)


def _show_choice(facts: Mapping[str, Any], valid: str) -> None:
    """What was chosen on validation data or by cross-validation, and from what."""
    crossed = facts["cross_validation"]
    where = f"on {valid}" if valid else "" if crossed is None else f"in {crossed['how']}"
    if facts["C"] is not None:
        _line("C", _chosen(facts, where))
    if facts["unit"] is not None:
        chosen = f", the best of {facts['rounds_run']:,} by {facts['measure']} {where}" if where else ""
        included = "" if crossed is None else " in all"
        _line(facts["unit"], f"{facts['rounds']:,}{chosen}, {facts['seconds']:.2f} s{included}")
    if len(facts["C_tried"]) > 1:
        tried = [f"{row['C']:g}: {row[facts['measure']]:.4f}" for row in facts["C_tried"]]
        for at in range(0, len(tried), _A_LINE):
            _line("", "".join(f"{text:<17}" for text in tried[at : at + _A_LINE]).rstrip())


def _show_work(facts: Mapping[str, Any]) -> None:
    """The certificate, and what it took."""
    if facts["bound"] == "ramp" and facts["convex_rounds"]:  # none if the start was interrupted
        one = facts["convex_rounds"] == 1
        rounds = f"{facts['convex_rounds']} {'round' if one else 'rounds'} from {facts['start'] or 'the given weights'}"
        _line("ramp bound", f"{rounds}; {'its' if one else 'the last'} convex problem {_proof(facts)}")
    elif facts["gap"] is not None:
        _line("objective", f"{facts['objective']:.5g}, {_proof(facts)}")
    proof = facts["proof"]
    if proof is not None and proof["at_least"] > 0 and not facts["no_better_than_zero"]:
        value = f"it is {proof['value']:.4f}"
        _line("proved", f"{proof['measure']} ≥ {_floor(proof['at_least'])} over the queries trained on; {value}")
    several = f" for {len(facts['C_tried'])} values of C" if len(facts["C_tried"]) > 1 else ""
    compiled = ", compiling included" if facts["compiled"] else ""
    if facts["cross_validation"] is not None:  # the passes are those of the training on all data
        several, compiled = "", f" in all{compiled}"
    if facts["passes_total"] is not None:
        _line("passes", f"{facts['passes_total']:,} over the data{several}, {facts['seconds']:.2f} s{compiled}")
    elif facts["unit"] is None:
        _line("time", f"{facts['seconds']:.2f} s{several}{compiled}")


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _chosen(facts: Mapping[str, Any], where: str) -> str:
    tried = [row["C"] for row in facts["C_tried"]]
    if not tried:
        return f"{facts['C']:g}"
    text = f"{facts['C']:g}, the best of {len(tried)} by {facts['measure']} {where}"
    if facts["C_left"]:
        return f"{text}; {facts['C_left']} more not tried"
    useless = facts["no_better_than_zero"]
    if useless and not useless["larger"]:
        return text
    at_an_end = len(tried) > 1 and facts["C"] in (tried[0], tried[-1])
    if at_an_end and facts["bound"] != "ramp":  # whose C is relative
        return f"{text}, at the {'low' if facts['C'] == tried[0] else 'high'} end: --C-grid can go further"
    return text


def _proof(facts: Mapping[str, Any]) -> str:
    """The certificate, for someone who has never seen one; if the weights are useless, how little they gained."""
    useless = facts["no_better_than_zero"]
    if useless:
        return f"{100 * useless['objective_ratio']:.1f} % of that at weights of 0"
    if facts["gap"] == 0:
        return "proved to be the best possible"
    lowest = facts["objective"] * (1 - facts["gap"])
    if facts["gap"] > 0.5:
        return f"far from proved: the best possible is somewhere between {lowest:.5g} and this"
    return f"proved to be within {_percent(facts['gap'] / (1 - facts['gap']))} of the best possible"


def _floor(value: float) -> str:
    """Four digits, rounded down: what is proved is a lower bound."""
    return f"{math.floor(1e4 * value) / 1e4:.4f}"


def _percent(share: float) -> str:
    """Two digits, rounded up: what is proved is an upper bound."""
    digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(max(100 * share, 1e-5)))
    return f"{digits:f} %"


def _line(name: str, text: str) -> None:
    click.echo("  " + styled(f"{name:<{_MARGIN - 2}}") + text, err=True)
