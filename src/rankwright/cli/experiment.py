"""`rankwright experiment`: data sets, methods and a protocol in one file; checked, run, shown as tables and report."""

from __future__ import annotations

import shlex
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rankwright.cli.options import FILE, Integer, SuggestingGroup, device_option, output_option
from rankwright.cli.printing import LiveLine, counted, inform, print_table, progress, warn
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.experiments.config import Experiment
    from rankwright.experiments.results import Results
    from rankwright.experiments.running import Status

_DATA_HELP = "Folder for data files that are not next to FILE.  [default: the folder in RANKWRIGHT_DATA]"
_PLUGINS_HELP = "Run Python code that FILE names: plugins, and methods such as python:mine.py:MyRanker."
_THREADS_HELP = (
    "Number of methods to train in parallel; the results do not depend on it.  "
    "[default: all cores; with --device cuda, at most 4]"
)
_RUNS_HELP = (
    "Write all rankings as TREC runs, a file per data set, method and split, to runs/ in the results folder; annotated "
    "ones begin with their ir_metadata, which trec_eval does not read."
)
_INTERVAL = 0.2  # seconds between two updates of the line on a terminal
_LOG_INTERVAL = 10.0  # and of lines in a log
_SHOWN_FAILURES = 20
_KINDS = ["means", "criterion", "times", "pairs", "splits", "ablation"]


@click.group("experiment", cls=SuggestingGroup, no_args_is_help=False)
def command() -> None:
    """Run an experiment from one file: data sets × splits × methods, compared with a baseline.

    \b
    Example:
      rankwright experiment init exp.toml
      rankwright experiment check exp.toml
      rankwright experiment run exp.toml
      rankwright experiment table python-docs-results --format markdown
      rankwright experiment report python-docs-results
    """


@command.command("init")
@click.argument("file", metavar="[FILE]", type=FILE, default=Path("experiment.toml"))
def init(file: Path) -> None:
    """Write a commented example, ready to run, to FILE (default: experiment.toml).

    \b
    Example:
      rankwright experiment init exp.toml
    """
    from rankwright.io.files import replace_file

    if file.exists():
        raise InputError("exists; expected the name of a new file", file)
    with replace_file(file) as out:
        text = resources.files("rankwright.experiments").joinpath("example.toml").read_text(encoding="utf-8")
        out.write(text.replace(" FILE ", f" {file} ").encode())
    inform(f"wrote {file}; next: rankwright experiment run {file}")


@command.command("check")
@click.argument("file", type=FILE)
@click.option("--data", type=FILE, metavar="FOLDER", help=_DATA_HELP)
@click.option("--plugins", is_flag=True, help=_PLUGINS_HELP)
@click.pass_context
def check(ctx: click.Context, file: Path, data: Path | None, plugins: bool) -> None:
    """Find the mistakes in FILE before anything runs, each with its line.

    \b
    Example:
      rankwright experiment check exp.toml
    """
    from rankwright.experiments.checks import check_text, read_text

    experiment, problems = check_text(read_text(file), file, data=data, plugins=plugins)
    for problem in problems:
        inform(str(problem))
    if experiment is None:
        inform(f"rankwright: {file}: {counted(len(problems), 'mistake')}")
        ctx.exit(2)
    counts = (("data set", experiment.data), ("method", experiment.methods), ("measure", experiment.measures))
    sizes = ", ".join(counted(len(entries), noun) for noun, entries in counts)
    click.echo(f"{file}: no mistakes found; {sizes}, results in {experiment.output}")
    _show_cleaning_of(experiment)


@command.command("run")
@click.argument("file", type=FILE)
@click.option("--threads", type=Integer(1), metavar="N", help=_THREADS_HELP)
@click.option("--data", type=FILE, metavar="FOLDER", help=_DATA_HELP)
@output_option("Results folder, instead of the output in FILE.", "output", metavar="FOLDER", required=False)
@click.option("--runs", type=click.Choice(["plain", "annotated"]), help=_RUNS_HELP)
@device_option
@click.option("--plugins", is_flag=True, help=_PLUGINS_HELP)
@click.pass_context
def run(
    ctx: click.Context,
    file: Path,
    threads: int | None,
    data: Path | None,
    output: Path | None,
    runs: str | None,
    device: str | None,
    plugins: bool,
) -> None:
    """Run the experiment in FILE, or resume it after an interruption.

    Every method on every split is kept when it is finished: run the same command again to resume. Measures are computed
    from the scores that are kept: after adding one to FILE, run it again, and nothing is trained. Results are plain
    files: per_query.csv, runs.csv, paths.csv, rounds.csv, health.csv, queries.csv, rankings.csv, manifest.json.
    Finished results stay until those that replace them are complete; meanwhile these are in the folder "unfinished".

    --device is for all methods that do not set one under parameters. Results of a GPU and of the CPU, which agree but
    for rounding, are kept apart.

    \b
    Example:
      rankwright experiment run exp.toml
      rankwright experiment run exp.toml --threads 4 --data ~/letor
      rankwright experiment run exp.toml --device cuda
      rankwright experiment run exp.toml --runs plain
    """
    from rankwright.experiments.checks import load_experiment
    from rankwright.experiments.running import default_jobs, run_experiment

    experiment = load_experiment(file, data=data, plugins=plugins)
    line = _Line()
    began = time.monotonic()
    try:
        n_jobs = threads or default_jobs(device)
        typed = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        results = run_experiment(
            experiment, n_jobs=n_jobs, output=output, device=device, progress=line, command=typed, runs=runs
        )
    except KeyboardInterrupt:
        line.clear()
        folder = output or experiment.output
        where = "" if _show_unfinished(folder) else f"finished results are in {folder}; "
        inform(f"{where}run the same command again to resume")
        raise click.Abort from None
    finally:
        line.clear()
    for data_set in results.manifest["data"]:
        for entry in data_set.get("cleaning", ()):
            inform(f"{data_set['name']}: {entry['text']}")
    _warn_of_useless(results)
    click.echo(results.table("means"), nl=False)
    _show_unfinished(output or experiment.output)
    if runs is not None:
        inform(f"wrote the rankings to {(output or experiment.output) / 'runs'}")
    counts = results.manifest["cells"]
    inform(f"{counts['done']} of {counts['total']} cells in {results.folder} ({_time(time.monotonic() - began)})")
    if results.failures:
        _show_failures(results)
        ctx.exit(1)


@command.command("table")
@click.argument("folder", metavar="FOLDER", type=FILE)
@click.option("--kind", type=click.Choice(_KINDS), default="means", help="Table to show.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv"]),
    default="text",
    help="Output format; LaTeX needs booktabs, CSV has all digits.",
)
def table(folder: Path, kind: str, form: str) -> None:
    """Show the results in FOLDER as a table.

    means: every method on every data set, with significance, wins and losses against the baseline. criterion: rows are
    the measures trained for, columns the measures tested on, the best of each column marked. times: seconds to train
    the chosen model and everything that was tried, their ratios to the baseline, and CPU seconds. pairs: all pairs of
    methods, by Tukey's HSD by randomisation. splits: every split or fold. ablation: what each method changes of the
    baseline, and the difference that it makes.

    \b
    Example:
      rankwright experiment table python-docs-results
      rankwright experiment table python-docs-results --kind pairs
      rankwright experiment table python-docs-results --kind criterion --format latex
    """
    from rankwright.experiments.results import Results

    print_table(Results.open(folder).table(kind, form), is_csv=form == "csv")
    _show_unfinished(folder)


@command.command("report")
@click.argument("folder", metavar="FOLDER", type=FILE)
@click.argument("other", metavar="[FOLDER2]", type=FILE, required=False)
@output_option("[default: report.html in FOLDER; of two folders comparison.html in FOLDER2]", required=False)
@click.option("--title", metavar="TEXT", help="Heading.  [default: the name of the experiment, or of the two folders]")
def report(folder: Path, other: Path | None, target: Path | None, title: str | None) -> None:
    """Write the results in FOLDER as one HTML report, which needs no network.

    With FOLDER2, compare the two instead: every method with itself, before (FOLDER) and after (FOLDER2), with tests on
    the queries that both have. Methods and data sets are matched by name.

    \b
    Example:
      rankwright experiment report python-docs-results
      rankwright experiment report results-old results-new -o comparison.html
    """
    from rankwright.reports import write_comparison, write_report

    with progress("comparing") as update:
        if other is None:
            path = write_report(folder, target or folder / "report.html", title=title, progress=update)
        else:
            named = target or other / "comparison.html"
            path = write_comparison(folder, other, named, title=title, progress=update)
    inform(f"wrote {path}")
    _show_unfinished(other or folder)


def _show_unfinished(folder: Path) -> bool:
    """Say that there are newer results beside the finished ones, if there are."""
    from rankwright.reports.results import MANIFEST, UNFINISHED, read_manifest

    newer = folder / UNFINISHED
    if not (newer / MANIFEST).is_file():
        return False
    when = str(read_manifest(folder).get("finished", "")).partition("T")[0]
    inform(f"{folder} has the results that were finished {when}; those of the changed file so far are in {newer}")
    return True


def _show_cleaning_of(experiment: Experiment) -> None:
    """Show what will be dropped from the data sets that are cleaned; they are read for it."""
    from rankwright.experiments.preparing import read_source
    from rankwright.experiments.running import Status

    line = _Line()
    for source in experiment.data:
        if "clean" not in source.options:
            continue
        if source.kind == "collection":
            click.echo(f"{source.name}: cleaned in the run, when its features are computed")
            continue
        try:
            read = read_source(source, Path(), 1, lambda text: line(Status(text)))
        finally:
            line.clear()
        for entry in read.cleaning:
            click.echo(f"{source.name}: {entry['text']}")


def _warn_of_useless(results: Results) -> None:
    """Say first which methods are no better than zero weights."""
    from rankwright.reports.results import read_health
    from rankwright.reports.sentences import about_useless

    health = read_health(results.folder)
    for data in results.data:
        text = about_useless(health, data)
        if text:
            warn(f"{data}: {text}")


def _show_failures(results: Results) -> None:
    failures = results.failures
    inform(f"rankwright: {counted(len(failures), 'cell')} failed:")
    for failure in failures[:_SHOWN_FAILURES]:
        place = f"{failure['method']} on {failure['data']}, split {failure['split']}"
        inform(f"  {place}: {failure['reason']}")
    if len(failures) > _SHOWN_FAILURES:
        inform(f"  … and {len(failures) - _SHOWN_FAILURES} more; all are in runs.csv")
    inform("  run the experiment again to retry them")


class _Line(LiveLine):
    """Progress of an experiment: one line that is rewritten on a terminal, a new line now and then in a log."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = time.monotonic() - (_INTERVAL if self.is_live else 0.0)

    def __call__(self, status: Status) -> None:
        now = time.monotonic()
        if now - self._shown < (_INTERVAL if self.is_live else _LOG_INTERVAL):
            return
        self._shown = now
        text = status.doing
        if status.total:
            left = "" if status.left is None else f", about {_time(status.left)} left"
            failed = f", {status.failed} failed" if status.failed else ""
            text = f"{status.done} of {status.total} cells{failed}{left}: {text}"
        if self.is_live:
            self.write(text)
        else:
            inform(text)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
