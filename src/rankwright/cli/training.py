"""What people see of a training: its progress while it runs, and what came of it."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rankwright.solvers.max_margin import Check

__all__ = ["Watch", "must_compile", "show"]

_INTERVAL = 0.25  # seconds between two updates of the progress line
_MARGIN = 14
_A_LINE = 4  # values of C


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

    def __call__(self, check: Check) -> None:
        """Show a check, if it is time to."""
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
        from rankwright.solvers.planes import _spread

        for kernel in (_evaluate, _spread):
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


def show(facts: dict[str, Any]) -> None:
    """The facts in words, on stderr."""
    features, valid = Path(facts["features"]).name, Path(facts["valid"] or "").name
    what = f"{_queries(facts['queries'])} of {features}, {facts['n_features']:,} features"
    click.echo(click.style(f"trained {facts['method']}", bold=True) + f" on {what}", err=True)
    if facts["queries_skipped"]:
        why = "all labels equal" if facts["method"] == "rank-svm" else "all relevant, or none"
        _line("skipped", f"{_queries(facts['queries_skipped'])} with nothing to order ({why})")
    _line("C", _chosen(facts, valid))
    if len(facts["C_tried"]) > 1:
        tried = [f"{row['C']:g}: {row[facts['measure']]:.4f}" for row in facts["C_tried"]]
        for at in range(0, len(tried), _A_LINE):
            _line("", "".join(f"{text:<17}" for text in tried[at : at + _A_LINE]).rstrip())
    _line("objective", f"{facts['objective']:.5g}, {_proof(facts)}")
    several = f" for {len(facts['C_tried'])} values of C" if len(facts["C_tried"]) > 1 else ""
    compiled = ", compiling included" if facts["compiled"] else ""
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
