"""Figures of the studies and experiments as data, and the pages that are made from them.

    python benchmarks/results.py run --data DATA    run what is out of date, then make all pages
    python benchmarks/results.py run kdd08          run some by name, also those without figures yet
    python benchmarks/results.py check              run nothing: list figures that are older than the code behind them
    python benchmarks/results.py pages              make all pages anew, from the figures that there are

A study is ``benchmarks/study_NAME.py``, an experiment ``experiments/NAME.toml``; figures are in ``results/NAME.json``,
templates of pages in ``results/pages``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import experiment_figures
from code_hash import EXPERIMENTS, STUDIES
from figures import RESULTS, read_results, result_files
from page_templates import PAGES, page_of, rendered
from rankwright.errors import InputError
from rankwright.io.files import replace_file

__all__ = ["check", "main", "pages"]


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "check", "pages"), help="what to do")
    parser.add_argument("names", nargs="*", help="studies or experiments to run, out of date or not")
    parser.add_argument("--data", default=os.environ.get("RANKWRIGHT_DATA"), help="data folder; or RANKWRIGHT_DATA")
    parser.add_argument("--jobs", type=int, default=1, help="processes of an experiment; 1 if times matter")
    args = parser.parse_args(words)
    root = None if args.data is None else Path(args.data)
    try:
        if root is not None and not root.is_dir():
            raise InputError("no such folder; expected the data folder", root)
        if args.action == "check":
            print("\n".join(check(root)) or "all figures are those of the code as it is")
            return 0
        if args.action == "run":
            run(root, args.names, args.jobs)
        for page in pages():
            print(f"wrote {page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page}")
    except InputError as error:
        print(f"results: {error}", file=sys.stderr)
        return 2
    return 0


def known() -> list[str]:
    """Return the names of all studies and experiments."""
    studies = [path.stem for path in STUDIES.glob("study_*.py") if path.stem not in ("study_data", "study_runs")]
    return sorted(studies) + sorted(path.stem for path in EXPERIMENTS.glob("*.toml"))


def check(root: Path | None = None) -> list[str]:
    """Return a line for all figures that are out of date; data files are compared if their folder is given."""
    lines = []
    for path in result_files():
        found = read_results(path.stem)
        if path.stem not in known():
            lines.append(f"results/{path.name}: there is no such study or experiment any more")
            continue
        changed = found.changed() + ([] if root is None else found.changed_data(root))
        if changed:
            lines.append(f"results/{path.name}: older than {', '.join(changed[:3])}{' …' * (len(changed) > 3)}")
    missing = sorted(set(known()) - {path.stem for path in result_files()})
    return lines + ([f"not yet data: {', '.join(missing)}"] if missing else [])


def run(root: Path | None, names: Sequence[str], jobs: int) -> None:
    """Run studies and experiments: those named, or those that are out of date."""
    unknown = [name for name in names if name not in known()]
    if unknown:
        raise InputError(f"no study or experiment {unknown[0]!r}; expected some of {', '.join(known())}")
    recorded = [(path.stem, read_results(path.stem)) for path in result_files() if path.stem in known()]
    outdated = [name for name, one in recorded if one.changed() or (root is not None and one.changed_data(root))]
    for name in names or outdated:
        print(f"running {name}", file=sys.stderr, flush=True)
        script = STUDIES / f"{name}.py"
        if script.is_file():
            folder = [] if root is None else [str(root)]
            command = [sys.executable, str(script), *folder, "--results", str(RESULTS / f"{name}.json")]
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
                raise InputError("failed, see above; it has to take --results FILE", script)
        elif root is None:
            raise InputError(f"experiment {name} needs the data folder; give --data or set RANKWRIGHT_DATA")
        else:
            experiment_figures.run(name, root, jobs)


def pages() -> Iterator[Path]:
    """Make all pages from their templates, and iterate over those that changed; a mistake in one stops no other."""
    failed: list[InputError] = []
    for template in sorted(PAGES.rglob("*.md")):
        page = page_of(template)
        try:
            text = rendered(template)
        except InputError as error:
            failed.append(error)
            continue
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            with replace_file(page) as out:
                out.write(text.encode())
            yield page
    if failed:
        raise InputError("\n".join(f"this page cannot be made, all others are: {error}" for error in failed))


if __name__ == "__main__":
    sys.exit(main())
