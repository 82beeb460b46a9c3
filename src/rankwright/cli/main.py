"""The `rankwright` program: finds the command, and turns errors into one clear line.

Exit codes: 0 success, 1 failed cells of an experiment or a bug in the program, 2 bad input or usage, 130 interrupted.

:func:`main` turns what users can cause into one line; anything else is a bug and leaves it as an exception.
:func:`program`, which the command line calls, asks to report that and keeps the traceback in a file.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import tempfile
import traceback
import warnings
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

import rankwright
from rankwright.caching import VARIABLE, keeps_code, temporary_cache
from rankwright.cli.options import SuggestingGroup, unknown_option
from rankwright.cli.printing import harmless, inform, note, print_data, warn
from rankwright.errors import InputError, InputWarning

_DEBUG = "RANKWRIGHT_DEBUG"
_COMPLETE = "_RANKWRIGHT_COMPLETE"  # set by the script of `rankwright completion`
_SHELLS = ("bash", "zsh", "fish")
_ALL_COMMAS, _FIRST_COMMA = 'string split ","', 'string split --max 1 ","'  # in fish; click's script cuts descriptions

_TASKS = {
    "Begin": {
        "demo": "Go from the text of Python's documentation to learned rankers, compared with BM25.",
        "doctor": "Check the installation: versions, folders, extras, and a small training.",
        "completion": "Print a script that completes commands and options in bash, zsh or fish.",
    },
    "Get data and judgements": {
        "index": "Index documents: JSON lines, tab-separated, TREC SGML or a folder of text files.",
        "search": "Search an index: results to read, or a TREC run.",
        "features": "Compute a feature file from an index and queries, or from TREC runs.",
        "convert": "Convert between LETOR text, Parquet, memory-mapped folders and TREC files.",
        "info": "Describe a file.",
        "judge": "Judge documents on a local page: pools, grades by key, qrels.",
        "agreement": "Show how far judges agree: kappa, and the documents they disagree on.",
        "clicks": "Turn a log of impressions and clicks into judgements.",
        "collection": "Write a test collection that needs no download: documents, queries, judgements.",
    },
    "Train a ranker": {
        "train": "Train a ranker for the measure you are judged by.",
        "rank": "Score documents with a trained model: a TREC run or plain scores.",
        "explain": "Show why a model ranks one document above another.",
        "adapt": "Adapt a ranker from a rich domain to one with few judgements.",
        "diagnose": "Show whether training is healthy as C grows, for several losses: table and plot.",
        "import": "Turn a model of LightGBM, XGBoost, CatBoost, RankLib, SVMrank or liblinear into a Rankwright model.",
    },
    "Evaluate and compare": {
        "evaluate": "Evaluate runs against judgements, or score files against feature files.",
        "compare": "Compare runs or score files with a baseline, with significance tests.",
        "fuse": "Merge the runs of several systems into one, without training.",
        "experiment": "Run an experiment described in one file: data sets, methods, protocol; tables and report.",
    },
    "Deploy": {
        "export": "Write a model for a search engine or another library, checked against the model.",
        "serve": "Serve rankers over HTTP, with a page that compares two.",
    },
}
_COMMANDS = {name: text for commands in _TASKS.values() for name, text in commands.items()}
_MODULES = {
    "completion": "main",
    "collection": "demo",
    "index": "search",
    "agreement": "judge",
    "import": "models",
    "export": "models",
    "compare": "evaluate",
    "fuse": "features",
}  # of other names than the command

_OTHER_WORDS = {
    "fit": "train", "learn": "train", "tune": "train", "predict": "rank", "score": "rank", "rerank": "rank",
    "eval": "evaluate", "test": "compare", "significance": "compare", "retrieve": "search", "query": "search",
    "download": "collection", "datasets": "collection", "summary": "info", "describe": "info", "show": "info",
    "load": "import", "save": "export", "deploy": "export", "server": "serve", "annotate": "judge", "label": "judge",
    "normalize": "convert --scale", "scale": "convert --scale", "combine": "fuse", "merge": "fuse",
    "report": "experiment report", "run": "experiment run", "check": "doctor", "help": "--help",
    "version": "--version",
}  # fmt: skip
_SHOWN_VERSIONS = ("numpy", "numba", "scipy", "scikit-learn")
_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
_NO_COMMAND = "Missing command."  # what click says of a group without a command; we show the help


class _LazyGroup(SuggestingGroup):
    """Lists its commands without importing them; a command is imported when it is called."""

    other_words = _OTHER_WORDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"rankwright.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command", None) or module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, _COMMANDS))
        for task, commands in _TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name.ljust(longest), text) for name, text in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [(name, text) for name, text in sorted(_COMMANDS.items()) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=text) for name, text in commands]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


def _show_versions(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        versions = {"rankwright": rankwright.__version__, "Python": platform.python_version()}
        versions |= {name: installed_version(name) or "is missing" for name in _SHOWN_VERSIONS}
        click.echo("\n".join(f"{name} {number}" for name, number in versions.items()))
        ctx.exit()


@click.command(cls=_LazyGroup, no_args_is_help=False, context_settings=_SETTINGS)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_versions,
    help="Show the versions of Rankwright, Python and the libraries that compute.",
)
def cli() -> None:
    """Learn to rank for the measure you are judged by, and prove the gain.

    \b
    Example:
      rankwright train train.txt -o model.rkw
      rankwright rank model.rkw test.txt -o test.run
      rankwright compare qrels.txt bm25.run mine.run
    """


def installed_version(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def program() -> int:
    """Run the command line for people: a bug is one line, which names a file with the traceback."""
    if _COMPLETE in os.environ:
        return _complete(os.environ[_COMPLETE])
    try:
        return main()
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        with harmless():
            problem = "this is a bug in Rankwright, not in what you did"
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            inform(f"rankwright: {problem} ({reason}); please report it{_traceback_file()}")
        return 1


@click.command("completion")
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(_SHELLS))
def completion_command(shell: str) -> None:
    """Print a script that completes commands, options, methods, measures and files.

    \b
    To keep it:
      bash   rankwright completion bash > ~/.local/share/bash-completion/completions/rankwright
      zsh    rankwright completion zsh > "${fpath[1]}/_rankwright"
      fish   rankwright completion fish > ~/.config/fish/completions/rankwright.fish

    The folder must exist; new shells use it. To try it in this bash: eval "$(rankwright completion bash)".

    \b
    Example:
      rankwright completion bash
      rankwright completion zsh
    """
    script = _of_shell(shell).source()
    print_data((script.replace(_ALL_COMMAS, _FIRST_COMMA) if shell == "fish" else script) + "\n")


def _of_shell(shell: str) -> ShellComplete:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "rankwright", _COMPLETE)


def _complete(instruction: str) -> int:
    """Print the words that may come next, one per line, for ``bash_complete`` and the like.

    What is typed is in variables of the environment. A shell that waits for words must not get messages.
    """
    shell, _, task = instruction.partition("_")
    try:
        if shell in _SHELLS and task == "complete":
            sys.stdout.write(_of_shell(shell).complete() + "\n")
    except Exception:
        if os.environ.get(_DEBUG):
            raise
        return 1
    return 0


def _traceback_file() -> str:
    try:
        with tempfile.NamedTemporaryFile("w", prefix="rankwright-", suffix=".txt", delete=False) as file:
            file.write(f"rankwright {rankwright.__version__}, Python {sys.version}\n{sys.argv!r}\n")
            file.write(traceback.format_exc())
        return f" with {file.name}"
    except OSError:
        return f"; {_DEBUG}=1 shows where it happened"


def main(args: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with harmless(), warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.filterwarnings("ignore", ".*joblib will operate in serial mode")  # it is not used
        warnings.showwarning = _show_warning
        code = _run(args)
        _note_cache()
        return code


def _run(args: list[str] | None) -> int:
    try:
        code = cli.main(args=args, prog_name="rankwright", standalone_mode=False)
        return code if isinstance(code, int) else 0  # the argument of ctx.exit()
    except InputError as error:
        return _fail(str(error))
    except click.Abort:
        inform("rankwright: interrupted")
        return 130
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx and error.message == _NO_COMMAND:
            inform(error.ctx.get_help())
            return 2
        hint = f" (see: {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
        message = unknown_option(error) if isinstance(error, click.NoSuchOption) else error.format_message()
        return _fail(message + hint)
    except MemoryError:
        return _fail("not enough memory for this input")
    except RecursionError:
        return _fail("the input is nested too deeply")
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return _fail(f"no folder for compiled code can be written; expected {VARIABLE} to name one")
    except BrokenPipeError:
        # The reader of our output is gone (`| head`), which is no error. Keep Python from flushing into a closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
    return 0


def _note_cache() -> None:
    """Say where compiled code is kept if numba found no place of its own."""
    folder, kept = temporary_cache(), keeps_code()
    if folder is None and kept:
        return
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("rankwright.")]
    if not any("njit" in vars(module) for module in ours):
        return  # nothing that is compiled was used
    if not kept:
        reason = "no folder for it can be written"
        note(f"compiled code is not kept ({reason}), so every run compiles; {VARIABLE} names a folder")
    elif folder is not None:
        note(f"compiled code is in {folder} (no other place for it can be written); {VARIABLE} names another folder")


def _fail(message: str) -> int:
    inform("rankwright: " + " ".join(message.split()))
    return 2


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    where = "" if issubclass(category, InputWarning) else f" ({filename}:{lineno})"
    warn(f"{message}{where}")


if __name__ == "__main__":
    sys.exit(program())
