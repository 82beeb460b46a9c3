"""Runs a study: its command line, its pages, and the files that it writes; nothing here can move a figure."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from code_hash import code_of
from figures import Table, file_hash, write_results

__all__ = ["Shown", "run_study"]

Shown = str | Table | dict[str, Any]


def run_study(
    doc: str | None,
    needed: Sequence[str],
    pages: Callable[..., Iterable[Shown]],
    options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Find the data, print each page when it is ready, and write all to the files that are asked for.

    A page is text, a table of raw numbers, or a dictionary of single values, which is not printed. ``--markdown FILE``
    has what is printed, ``--results FILE`` the tables and values as data. `needed`: folders of the data folder.
    `pages`: called with the data folder, and with the arguments if there are other options. `options`: adds these.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=os.environ.get("RANKWRIGHT_DATA"), help="data folder")
    parser.add_argument("--markdown", metavar="FILE", help="also write what is printed to this file")
    parser.add_argument("--results", metavar="FILE", type=Path, help="also write the figures to this JSON file")
    if options is not None:
        options(parser)
    args = parser.parse_args()
    root = Path(args.data or ".")
    missing = [name for name in needed if not (root / name).is_dir()]
    if missing:
        parser.error(f"no {', '.join(missing)} found; give the data folder or set RANKWRIGHT_DATA")
    script = Path(sys.argv[0])
    code, opened, began = code_of(script.stem), files_opened(root, needed), time.perf_counter()
    shown: list[Shown] = []
    for page in pages(root) if options is None else pages(root, args):
        if not isinstance(page, dict):
            print(page, flush=True)
        shown.append(page)
    print(f"seconds: {time.perf_counter() - began:.0f}", file=sys.stderr)
    if args.markdown:
        Path(args.markdown).write_text("\n".join(str(page) for page in shown if not isinstance(page, dict)), "utf-8")
    if args.results:
        if not any(isinstance(page, Table) for page in shown):
            parser.error(f"{script.name} hands over no tables of numbers yet, so there are no figures to write")
        write_results(
            args.results,
            command=f"python benchmarks/{script.name}{' DATA' * bool(needed)}",
            code=code,
            data={path: str(file_hash(root / path)) for path in sorted(opened)},
            cpu_seconds=sum(os.times()[:4]),
            tables=[page for page in shown if isinstance(page, Table)],
            values={key: value for page in shown if isinstance(page, dict) for key, value in page.items()},
        )


def files_opened(root: Path, needed: Sequence[str]) -> set[str]:
    """Return a set that collects the files of the data folder that this process opens from now on.

    Only those in its folders that are needed, as it may be a folder with anything in it.
    """
    folder = root.resolve()
    opened: set[str] = set()

    def note(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | os.PathLike):
            path = Path(os.path.abspath(args[0]))
            inside = path.relative_to(folder) if path.is_relative_to(folder) else Path()
            if inside.parts[:1] and inside.parts[0] in needed and path.is_file():
                opened.add(inside.as_posix())

    sys.addaudithook(note)
    return opened
