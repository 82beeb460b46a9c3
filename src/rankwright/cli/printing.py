"""Everything that is printed: characters that control a terminal are shown, not sent.

Ids, texts, names and messages come from files, and a terminal obeys what is in them. :func:`harmless` puts a filter
around stdout and stderr for as long as a command runs: control characters, marks that turn the direction of text, and
halves of surrogate pairs become ``\u001b`` and the like (in JSON that is the same text). The program's own bold print
and rewritten lines are marked by characters that no text has a use for, and become codes on a terminal only. Data for
other programs (runs, scores, CSV) is not changed on its way into a file or a pipe.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

RETURN, ERASE = "\ufdd0", "\ufdd1"
"""Marks: to the start of the line; erase the rest of it."""

_BOLD, _DIM, _PLAIN = "\ufdd2", "\ufdd3", "\ufdd4"
_CODES = {RETURN: "\r", ERASE: "\x1b[K", _BOLD: "\x1b[1m", _DIM: "\x1b[2m", _PLAIN: "\x1b[0m"}
_MARK = re.compile("[\ufdd0-\ufdd4]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PATIENCE = 2.0
_INTERVAL = 0.2


class _Filter:
    """A text stream that passes nothing on that a terminal would obey, except the program's own marks."""

    def __init__(self, stream: IO[str]) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        shown = _CONTROL.sub(_code_point, text.replace("\r\n", "\n"))
        is_terminal = self.isatty()
        shown = _MARK.sub(lambda mark: _CODES[mark[0]] if is_terminal else "", shown)
        _write(self.unfiltered, shown)
        return len(text)

    def isatty(self) -> bool:
        return self.unfiltered.isatty()

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # its bytes would pass by the filter
            raise AttributeError(name)
        return getattr(self.unfiltered, name)


@contextmanager
def harmless() -> Iterator[None]:
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Filter(_unfiltered(stream)) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def print_data(text: str) -> None:
    """Print text for other programs: unchanged into a file or a pipe, harmless on a terminal."""
    _write(sys.stdout if sys.stdout.isatty() else _unfiltered(sys.stdout), text)


def print_json(facts: Any, indent: int | None = None) -> None:
    import json

    click.echo(json.dumps(facts, indent=indent, ensure_ascii=False))


def inform(text: str) -> None:
    """Print a line on stderr."""
    click.echo(text, err=True)


def note(text: str) -> None:
    inform(f"note: {text}")


def warn(text: str) -> None:
    inform(f"warning: {text}")


def print_table(text: str, *, is_csv: bool) -> None:
    """Print a rendered table; CSV is data."""
    if is_csv:
        print_data(text)
    else:
        click.echo(text, nl=False)


def styled(text: str, *, bold: bool = False) -> str:
    """Text that is bold or else dim on a terminal."""
    return (_BOLD if bold else _DIM) + text + _PLAIN


class LiveLine:
    """A line on stderr that is rewritten in place; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty()
        self._width = 0

    def write(self, text: str) -> None:
        if self.is_live:
            text = text[: shutil.get_terminal_size().columns - 1]
            click.echo(RETURN + text.ljust(self._width), err=True, nl=False)
            self._width = len(text)

    def clear(self) -> None:
        if self._width:
            click.echo(RETURN + " " * self._width + RETURN, err=True, nl=False)
            self._width = 0


def new_console() -> Console:
    """A console for stdout; text from files must go through :func:`escape`."""
    from rich.console import Console

    return Console(file=_unfiltered(sys.stdout), highlight=False, soft_wrap=True, emoji=False)


def escape(text: str) -> str:
    """Text for the markup of :func:`new_console`: shown unchanged, and harmless."""
    from rich.markup import escape as without_markup

    return without_markup(_CONTROL.sub(_code_point, text))


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: ``1 query``, ``1,200 queries``; the plural takes an s unless it is given."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def partition_sizes(documents: Sequence[int]) -> str:
    """``3 partitions of 10 to 12 documents``, from the documents of each."""
    least, most = min(documents), max(documents)
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{counted(len(documents), 'partition')} of {each} documents"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, with an ellipsis if there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def bar(console: Console, share: float, width: int) -> str:
    """A bar for a share of the longest one: at least one block, even if the share is not a number."""
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    return block * (max(1, round(width * min(share, 1.0))) if share >= 0 else 1)


def decimals(numbers: list[float], digits: int, sign: str = "") -> list[str]:
    """The numbers of a column, all with as many decimals as give the largest ``digits`` digits."""
    largest = max(map(abs, numbers))
    if largest and not 1e-6 <= largest < 1e9:
        return [f"{number:{sign}.{digits}g}" for number in numbers]
    places = max(0, digits - 1 - math.floor(math.log10(largest))) if largest else 1
    return [f"{number:{sign}.{places}f}" for number in numbers]


def print_columns(
    console: Console, columns: dict[str, list[str]], left: tuple[str, ...], colours: list[str] | None = None
) -> None:
    """Print an aligned table; ``colours`` are those of the last column."""
    widths = {head: max(len(text) for text in [head, *cells]) for head, cells in columns.items()}
    heads = {head: [head] for head in columns}
    for title, table in ((True, heads), (False, columns)):
        for number, row in enumerate(zip(*table.values(), strict=True)):
            cells = [
                f"{text:<{width}}" if head in left else f"{text:>{width}}"
                for (head, width), text in zip(widths.items(), row, strict=True)
            ]
            body, last = escape("  " + "  ".join(cells[:-1])), escape(row[-1])
            colour = colours[number] if colours and not title else ""
            line = f"{body}  [{colour}]{last}[/]" if colour else f"{body}  {last}".rstrip()
            console.print(f"[dim]{line}[/]" if title else line)


def _unfiltered(stream: Any) -> Any:
    return getattr(stream, "unfiltered", stream)


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal or a locale that lacks a character
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _code_point(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


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
