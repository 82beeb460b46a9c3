"""Progress on stderr: a bar for anything that takes more than two seconds, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["progress", "reading"]

_PATIENCE = 2.0
_INTERVAL = 0.2


@contextmanager
def progress(label: str) -> Iterator[Any]:
    """Yield a function ``(done, total)`` that moves a bar; silent when stderr is not a terminal."""
    began = time.monotonic()
    shown = 0.0
    bar: Any = None
    task: Any = None

    def update(done: int, total: int) -> None:
        nonlocal bar, task, shown
        now = time.monotonic()
        if now - began < _PATIENCE or now - shown < _INTERVAL or not sys.stderr.isatty():
            return
        shown = now
        if bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            from rankwright.cli.printing import escape

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            out = Console(file=getattr(sys.stderr, "unfiltered", sys.stderr))
            bar = Progress(*columns, console=out, transient=True)
            bar.start()
            task = bar.add_task(escape(label), total=total)
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


def reading(path: str | Path) -> Any:
    """A progress bar for reading a file."""
    return progress(f"reading {Path(path).name}")
