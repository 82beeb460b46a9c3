"""What people see of a training: its progress while it runs, and what came of it."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankwright.errors import InputError, InputWarning

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

__all__ = ["Watch", "must_compile", "show", "train"]

_INTERVAL = 0.25  # seconds between two updates of the progress line
_MARGIN = 14
_A_LINE = 4  # values of C
_NO_PAIRS = "no query has documents of different labels"
_ALL_ZERO = "all weights are 0, which for this C is near enough to the best; a larger --C or a smaller --tol may help"
_ROUNDS = {"n_trees_": "trees", "n_rounds_": "rounds", "best_epoch_": "epochs"}
_FACTS = {
    "queries": "n_queries_",
    "queries_skipped": "n_queries_skipped_",
    "C": "C_",
    "objective": "objective_",
    "gap": "gap_",
    "passes": "n_passes_",
    "passes_total": "n_passes_total_",
}


class Watch:
    """Called after every pass: rewrites the progress line, and ends the training when Ctrl-C was pressed."""

    def __init__(self, tried: Sequence[float], starts: bool) -> None:
        self.stopped = False
        self._tried = tried
        self._at = -1
        self._starts = starts
        self._asked = False
        self._live = sys.stderr.isatty()
        self._shown_at = -_INTERVAL
        self._width = 0

    def __call__(self, check: Any) -> None:
        """Show a check, if it is time to."""
        if not hasattr(check, "passes"):
            self._show_round(check)
            return
        self._at += check.passes == 1
        now = time.monotonic()
        if self._live and now - self._shown_at >= _INTERVAL:
            self._shown_at = now
            several = f"  C {self._tried[self._at]:g} ({self._at + 1} of {len(self._tried)})"
            self._write(
                f"pass {check.passes}  gap {_percent(check.gap)}  objective {check.primal:.5g}"
                f"  bound {check.dual + 0.0:.5g}{several if len(self._tried) > 1 else ''}"
            )
        # The first pass of all only looks at weights of 0, which are not worth keeping.
        if self._asked and (self._starts or self._at > 0 or check.passes > 1):
            self.stopped = True
            raise KeyboardInterrupt

    def _show_round(self, row: Any) -> None:
        """A round of boosting, or an epoch."""
        now = time.monotonic()
        if self._live and now - self._shown_at >= _INTERVAL:
            self._shown_at = now
            number = getattr(row, "round", getattr(row, "epoch", 0))
            value = "" if row.value != row.value else f"  validation {row.value:.4f}"
            self._write(f"round {number}{value}  {row.seconds:.0f} s")
        if self._asked:
            self.stopped = True
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C wait for the end of the pass, when the gap is known, and the second one not."""
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
            self.stopped = True
            raise KeyboardInterrupt
        self._asked = True
        self._write("")
        click.echo(("\r" if self._live else "") + "stopping after this pass (Ctrl-C again: at once) …", err=True)

    def _write(self, text: str) -> None:
        """Rewrite the line; nothing clears it."""
        if not self._live or (not text and not self._width):
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        click.echo("\r" + text.ljust(self._width) + ("" if text else "\r"), err=True, nl=False)
        self._width = len(text)


def must_compile() -> bool:
    """Whether numba has no compiled training code on disk; False when that cannot be told."""
    try:
        from rankwright.objectives.structured import _evaluate
        from rankwright.solvers.smoothed import minimise

        for kernel in (_evaluate, minimise):
            code = kernel.py_func.__code__
            source = Path(code.co_filename)
            folder = Path(kernel.stats.cache_path)
            python = f"py{sys.version_info.major}{sys.version_info.minor}"
            name = f"{source.stem}.{code.co_name}-{code.co_firstlineno}.{python}*.nbi"
            newest = max((index.stat().st_mtime for index in folder.glob(name)), default=0.0)
            if not kernel.signatures and newest < source.stat().st_mtime:
                return True
    except (AttributeError, ImportError, OSError, TypeError):
        return False
    return False


def train(ranker: Any, data: RankingData, valid: RankingData | None, path: Path, *, starts: bool) -> dict[str, Any]:
    """Fit; what is known afterwards. Warnings become one line each."""
    tried = _tried(ranker)
    watched = hasattr(ranker, "callback")
    compiles = watched and hasattr(ranker, "C") and must_compile()
    if compiles:
        click.echo("compiling the training code, once on this machine: about 15 seconds …", err=True)
    watch = Watch(tried, starts)
    if watched:
        ranker.callback = watch
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with watch.interruptible() if watched else nullcontext():
            ranker.fit(data, eval_set=valid)
    seconds = time.perf_counter() - began
    if watched:
        ranker.callback = None
    if ranker.n_queries_ == 0:
        what = "no query has both relevant and other documents" if hasattr(ranker, "relevant_from") else _NO_PAIRS
        raise InputError(f"{what}: there is nothing to order, and nothing to train on", path)
    _repeat(caught, watch.stopped)
    if hasattr(ranker, "C") and not ranker.coef_.any():
        click.echo(f"warning: {_ALL_ZERO}", err=True)
    facts = {name: getattr(ranker, attribute, None) for name, attribute in _FACTS.items()}
    unit = next((word for attribute, word in _ROUNDS.items() if hasattr(ranker, attribute)), None)
    kept = next((int(getattr(ranker, attribute)) for attribute in _ROUNDS if hasattr(ranker, attribute)), None)
    automatic = len(tried) > 0 and ranker.C == "auto"
    return facts | {
        "documents": data.n_docs,
        "n_features": data.n_features,
        "C_tried": ranker.C_path_ if automatic else [],
        "C_left": len(tried) - len(ranker.C_path_) if automatic else 0,
        "unit": unit,
        "rounds": kept,
        "rounds_run": None if unit is None else len(ranker.path_),
        "seconds": seconds,
        "compiled": compiles,
        "interrupted": watch.stopped,
    }


def _tried(ranker: Any) -> list[Any]:
    from rankwright.rankers.max_margin import DEFAULT_GRID

    if not hasattr(ranker, "C"):
        return []
    return sorted(ranker.C_grid or DEFAULT_GRID) if ranker.C == "auto" else [ranker.C]


def _repeat(caught: Sequence[warnings.WarningMessage], stopped: bool) -> None:
    """The warnings of an estimator in the words of the command."""
    for one in caught:
        text = str(one.message)
        if not issubclass(one.category, UserWarning):
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)
        elif not (stopped and issubclass(one.category, InputWarning) and "interrupted" in text):
            text = text.replace("max_passes=", "--max-passes ").replace("; asked for ", "; --tol asks for ")
            click.echo(f"warning: {text}", err=True)


def show(facts: dict[str, Any]) -> None:
    """The facts in words, on stderr."""
    features, valid = Path(facts["features"]).name, Path(facts["valid"] or "").name
    what = f"{_queries(facts['queries'])} of {features}, {facts['n_features']:,} features"
    click.echo(click.style(f"trained {facts['method']}", bold=True) + f" on {what}", err=True)
    if facts["queries_skipped"]:
        binary = facts["method"].startswith("svm-")
        why = "all relevant, or none" if binary else "all labels equal"
        _line("skipped", f"{_queries(facts['queries_skipped'])} with nothing to order ({why})")
    if facts["C"] is not None:
        _line("C", _chosen(facts, valid))
    if facts["unit"] is not None:
        chosen = f", the best of {facts['rounds_run']:,} by {facts['measure']} on {valid}" if valid else ""
        _line(facts["unit"], f"{facts['rounds']:,}{chosen}, {facts['seconds']:.2f} s")
    if len(facts["C_tried"]) > 1:
        tried = [f"{row['C']:g}: {row[facts['measure']]:.4f}" for row in facts["C_tried"]]
        for at in range(0, len(tried), _A_LINE):
            _line("", "".join(f"{text:<17}" for text in tried[at : at + _A_LINE]).rstrip())
    if facts["gap"] is not None:
        _line("objective", f"{facts['objective']:.5g}, {_proof(facts)}")
    several = f" for {len(facts['C_tried'])} values of C" if len(facts["C_tried"]) > 1 else ""
    compiled = ", compiling included" if facts["compiled"] else ""
    if facts["passes_total"] is None and facts["unit"] is None:
        _line("time", f"{facts['seconds']:.2f} s{several}")
    elif facts["passes_total"] is not None:
        _line("passes", f"{facts['passes_total']:,} over the data{several}, {facts['seconds']:.2f} s{compiled}")
    values = {part.partition(" ")[0]: value for part, value in facts["measures"].items()}
    found = [f"{values['validation']:.4f} on {valid} (validation)"] if valid else []
    _line(facts["measure"], ", ".join([*found, f"{values['training']:.4f} on {features} (training)"]))
    for line in facts["definitions"]:
        _line("", line)
    so_far = ", the best model so far" if facts["interrupted"] else ""
    click.echo(f"wrote {facts['model']}{so_far}", err=True)


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _chosen(facts: dict[str, Any], valid: str) -> str:
    tried = [row["C"] for row in facts["C_tried"]]
    if not tried:
        return f"{facts['C']:g}"
    text = f"{facts['C']:g}, the best of {len(tried)} by {facts['measure']} on {valid}"
    if facts["C_left"]:
        return f"{text}; {facts['C_left']} more were not tried"
    if len(tried) > 1 and facts["C"] in (tried[0], tried[-1]):
        return f"{text}, at the {'low' if facts['C'] == tried[0] else 'high'} end: --C-grid can go further"
    return text


def _proof(facts: dict[str, Any]) -> str:
    """The certificate, for someone who has never seen one."""
    if facts["gap"] == 0:
        return "proved to be the best possible"
    lowest = facts["objective"] * (1 - facts["gap"])
    if facts["gap"] > 0.5:
        return f"far from proved: the best possible is somewhere between {lowest:.5g} and this"
    return f"proved to be within {_percent(facts['gap'] / (1 - facts['gap']))} of the best possible"


def _percent(share: float) -> str:
    """Two digits, rounded up: what is proved is an upper bound."""
    digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(max(100 * share, 1e-5)))
    return f"{digits:f} %"


def _line(name: str, text: str) -> None:
    click.echo("  " + click.style(f"{name:<{_MARGIN - 2}}", dim=True) + text, err=True)
