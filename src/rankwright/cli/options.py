"""Options that commands share, each declared once, and those of `rankwright train` that the methods declare.

Also here: the classes of commands. :class:`MethodCommand` has an option for every parameter of a method that declares
one (see `rankwright.rankers.parameters`) and lists them in sections; :class:`SuggestingGroup` says which command was
probably meant, :func:`unknown_option` which option.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from rankwright.errors import InputError
from rankwright.io.roles import TABLES, parse_columns, parse_grades, with_grades

if TYPE_CHECKING:
    from rankwright.io.roles import Columns
    from rankwright.rankers.parameters import Parameter
    from rankwright.training.methods import Method

FILE = click.Path(path_type=Path)
FILE.name = "file"  # the help shows it, in capitals, where an option has no metavar
MISSING_AS_ZERO = "--missing-as-zero"
_LARGEST = 2**31 - 1
_COLUMNS_HELP = (
    f"Columns of a table where their names do not tell; roles are {', '.join(TABLES[:-1])} and {TABLES[-1]}."
)
_GRADES = "rankwright.grades"  # in click's context
_GRADES_HELP = "Numbers of labels that are words, such as bad=0,fair=1,good=2."
_DUPLICATES_HELP = "What to do with a document that a run has twice for a query: keep the first, or the best score."
_ENGINE_HELP = (
    "Where partitioned data is used, or features are made: local, processes, processes:4, dask://host:port, "
    "dask://local or dask://local:4. The result does not depend on it."
)
_CLEAN_HELP = (
    "Drop documents whose features are all 0, and relevant and other documents of a query that look the same, as "
    "KDD'08 did; reports how many."
)
_ABOVE_HELP = "With --clean: documents look the same if the cosine of their features is above this.  [default: 0.99]"
_SCALED_HELP = "With --clean: decide by features scaled to 0 … 1 within each query; the features stay unchanged."
_POSITION_HELP = (
    "rank-svm, lambdamart: labels are clicks, queries are pages, and this column says where a document was shown, from "
    "1. Clicks weigh by inverse propensity, in --valid too if it has the column."
)
_PAIR_HELP = (
    "With --position: column with a number for each query and document, the same on all pages.  [default: pair, if "
    "there is such a column]"
)
_PROPENSITIES_HELP = "With --position: CSV with position and propensity, as `rankwright clicks` writes it."


class Integer(click.IntRange):
    """A whole number from a minimum up to what 32 bits hold: no array could be indexed by larger ones."""

    def __init__(self, minimum: int) -> None:
        super().__init__(minimum)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number > _LARGEST:
            self.fail(f"{number} is not in the range {self._describe_range()} up to {_LARGEST}.", param, ctx)
        return number


def _positive(text: str, option: str, expected: str) -> float:
    """A number above 0, as the user typed it."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f"{option} is {text.strip()!r}; expected {expected}")
    return value


def number(_: click.Context, param: click.Parameter, text: str) -> float:
    """Callback of an option that takes a number above 0."""
    return _positive(text, param.opts[0], "a number above 0")


def numbers(_: click.Context, param: click.Parameter, text: str | None) -> list[float] | None:
    """Callback of an option that takes numbers above 0, separated by commas."""
    if text is None:
        return None
    return [_positive(part, param.opts[0], "numbers above 0, separated by commas") for part in text.split(",")]


def integers(_: click.Context, param: click.Parameter, text: str) -> list[int]:
    """Callback of an option that takes whole numbers from 1, separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
        raise InputError(f"{param.opts[0]} is {text!r}; expected whole numbers, separated by commas")
    return [int(part) for part in parts]


def _columns(context: click.Context, __: click.Parameter, text: str | None) -> Columns | None:
    return with_grades(parse_columns(text), context.meta.get(_GRADES))


def _keep_grades(context: click.Context, _: click.Parameter, text: str | None) -> None:
    """Keep the grades for --columns, which is read after what is eager: together they say how labels are read."""
    context.meta[_GRADES] = parse_grades(text)


def complete_method(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """``shell_complete`` of ``--method``."""
    from rankwright.training.methods import NAMES

    return _completions(NAMES, incomplete)


def _complete_measure(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from rankwright.measures import measure_classes

    return _completions(sorted(measure_classes(), key=str.lower), incomplete)


def _completions(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


def together(*options: Any) -> Any:
    """One decorator for several options, which the help lists in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def output_option(text: str, name: str = "target", *, required: bool = True, **settings: Any) -> Any:
    return click.option("-o", "--output", name, required=required, type=FILE, help=text, **settings)


def json_option(text: str = "Print one JSON object.") -> Any:
    return click.option("--json", "as_json", is_flag=True, help=text)


def measure_option(text: str, *name: str, **settings: Any) -> Any:
    settings |= {"metavar": "NAME", "shell_complete": _complete_measure, "help": text}
    return together(click.option("-m", "--measure", *name, **settings), plugin_option)


def _run_plugins(context: click.Context, _: click.Parameter, paths: tuple[Path, ...]) -> None:
    from rankwright.plugins import load_plugin

    for path in () if context.resilient_parsing else paths:
        load_plugin(path)


plugin_option = click.option(
    "--plugin",
    type=FILE,
    multiple=True,
    is_eager=True,  # before measures and methods are looked up
    expose_value=False,
    callback=_run_plugins,
    help="Python file with measures or rankers of yours, which is run; may be repeated.",
)
"""Comes with every option for a measure."""


def seed_option(text: str = "Random seed.") -> Any:
    return click.option("--seed", type=Integer(0), default=0, help=text)


def threads_option(default: int = 1, text: str = "Number of threads; the result does not depend on it.") -> Any:
    return click.option("--threads", type=Integer(1), default=default, help=text)


def depth_option(default: int, text: str) -> Any:
    return click.option("--depth", type=Integer(1), default=default, help=text)


def normalize_option(text: str) -> Any:
    kinds = click.Choice(["minmax", "zscore", "sum", "none"])
    return click.option("--normalize", type=kinds, default="minmax", help=text)


def port_option(default: int) -> Any:
    return click.option("--port", type=click.IntRange(0, 65535), default=default, help="0 for any free one.")


device_option = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="cuda: compute on an NVIDIA GPU, with pip install 'rankwright[gpu]'.  [default: cpu]",
)
missing_option = click.option(
    MISSING_AS_ZERO,
    "missing_as_zero",
    is_flag=True,
    help="Take features of the model that the data lacks as 0, which text leaves out; otherwise an error.",
)
index_missing_option = click.option(
    MISSING_AS_ZERO, is_flag=True, help="Take features of a model that INDEX cannot give as 0."
)
analyzer_option = click.option(
    "--analyzer", metavar="NAME", help="Analyser of --function.  [default: porter+stop if INDEX has it]"
)
part_option = click.option(
    "--part",
    default="title",
    metavar="NAME",
    help="Part of a TREC topic to use: title, description, narrative, or several joined by +.",
)
engine_option = click.option("--engine", metavar="ENGINE", help=_ENGINE_HELP)
resume_option = click.option(
    "--resume", is_flag=True, help="Go on with a training that was interrupted: the same command with --resume."
)
columns_option = click.option("--columns", metavar="ROLE=NAME,…", callback=_columns, help=_COLUMNS_HELP)
grades_option = click.option(
    "--grades",
    "grades",
    metavar="WORD=NUMBER,…",
    callback=_keep_grades,
    is_eager=True,
    expose_value=False,
    help=_GRADES_HELP,
)
label_options = together(columns_option, grades_option)
"""How the columns of a table are read, with labels among them."""

duplicates_option = click.option(
    "--duplicates", type=click.Choice(["error", "keep-first", "keep-best"]), default="error", help=_DUPLICATES_HELP
)
group_option = click.option("--group", type=FILE, help="Documents per query, for text without qid.")
negative_option = click.option(
    "--negative-as-zero", is_flag=True, help="Read labels below 0 as 0 instead of reporting an error."
)
feature_options = together(group_option, negative_option, label_options)
"""Of commands that read one file of features."""

training_data_options = together(
    group_option,
    click.option("--valid-group", type=FILE, help="The same for the validation data."),
    click.option("--negative-as-zero", is_flag=True, help="Treat labels below 0 as not relevant; otherwise an error."),
    label_options,
)
"""Of commands that train on one file and validate on another."""

training_clean_options = together(
    click.option("--clean", is_flag=True, help=_CLEAN_HELP),
    click.option("--clean-above", type=float, metavar="COSINE", help=_ABOVE_HELP),
    click.option("--clean-scaled", is_flag=True, help=_SCALED_HELP),
)
"""Where methods declare ``--relevant-from``, too."""

clean_options = together(
    training_clean_options,
    click.option(
        "--relevant-from", type=float, metavar="LABEL", help="With --clean: lowest relevant label.  [default: 1]"
    ),
)
position_options = together(
    click.option("--position", metavar="COLUMN", help=_POSITION_HELP),
    click.option("--pair", metavar="COLUMN", help=_PAIR_HELP),
    click.option("--propensities", type=FILE, help=_PROPENSITIES_HELP),
)


class FunctionOption(click.Option):
    """An option that takes a retrieval function: ``{functions}`` in its help is read from the registry when shown."""

    @property
    def help(self) -> str:
        from rankwright.text.functions import function_names  # loads numpy

        return self._help.format(functions=function_names())

    @help.setter
    def help(self, text: str) -> None:
        self._help = text


class MethodCommand(click.Command):
    """A command with an option for every parameter of a method that declares one, and with sections in its help.

    `sections`: title of each section, and the names of the command's own options in it. Those of methods are added
    before them, or after the option that they name. Options that are in none are listed last.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **settings: Any) -> None:
        self._own: list[click.Parameter] = []
        super().__init__(*args, **settings)
        self._sections = sections

    @property
    def params(self) -> list[click.Parameter]:
        """The command's own parameters, and those of the methods: these import the estimators."""
        from rankwright.training.methods import METHODS

        parameters = [param for param in self._own if not isinstance(param, _MethodOption)]
        # In place: click adds to this list and takes from it.
        self._own[:] = [*_method_options(tuple(METHODS)), *parameters]
        return self._own

    @params.setter
    def params(self, own: list[click.Parameter]) -> None:
        self._own = own

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {str(option.name): option.get_help_record(ctx) for option in options}
        sections = _with_methods(self._sections)
        placed = {name for names in sections.values() for name in names}
        rest = [name for name in records if name not in placed]
        for title, names in {**sections, "Other options": rest}.items():
            shown = [record for name in names if (record := records.get(name)) is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


class _MethodOption(click.Option):
    pass


def _with_methods(sections: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The names of options by section, with those of the methods."""
    from rankwright.training.methods import declared_options

    parameters = declared_options().items()
    options = {name: parameter.option for name, parameter in parameters if parameter.option is not None}
    all_names = {name for names in sections.values() for name in names} | options.keys()
    followers: dict[str, list[str]] = {}
    placed: dict[str, list[str]] = {title: [] for title in sections}
    for name, option in options.items():
        if option.after in all_names:
            followers.setdefault(option.after, []).append(name)
        else:
            placed.setdefault(option.section, []).append(name)

    def followed(names: Iterable[str]) -> list[str]:
        return [entry for name in names for entry in (name, *followed(followers.get(name, ())))]

    return {title: followed([*names, *sections.get(title, ())]) for title, names in placed.items()}


@cache
def _method_options(_: tuple[str, ...]) -> list[_MethodOption]:
    from rankwright.training.methods import declared_options

    options = [_arguments(name, parameter) for name, parameter in declared_options().items()]
    return [_MethodOption(names, **settings) for names, settings in options]


def parameter_options(estimator: type, *names: str) -> Any:
    """Options for parameters of one estimator, as `rankwright train` has them; None where they are not given."""
    from rankwright.rankers.parameters import declared

    options = [_arguments(name, declared(estimator)[name]) for name in names]
    return together(*(click.option(*spelt, **settings) for spelt, settings in options))


def _arguments(name: str, parameter: Parameter) -> tuple[list[str], dict[str, Any]]:
    """The names and settings of an option of the type that the rules say."""
    option, rules = parameter.option, parameter.rules
    assert option is not None
    kinds = [rule.kind for rule in rules]
    choices = option.choices or tuple(dict.fromkeys(name for rule in rules for name in rule.names))
    minimum = next((rule.minimum for rule in rules if rule.minimum is not None), None)
    spelt = option.names or (f"--{name.replace('_', '-')}",)
    settings: dict[str, Any] = {}
    if option.read is Path:
        settings = {"type": FILE}
    elif option.read is not None:  # by settings_of, as what is read may be None
        settings = {"type": click.Choice(choices)} if choices else {}
    elif bool in kinds:
        turned = not parameter.default
        spelt = spelt if turned else (f"--no-{spelt[0].removeprefix('--')}",)
        settings = {"is_flag": True, "callback": lambda _, __, given: turned if given else None}
    elif list in kinds:
        settings = {"callback": numbers}
    elif float in kinds and choices:
        settings = {"callback": _number_or_auto}
    elif choices:
        settings = {"type": click.Choice(choices)}
    elif minimum is not None:
        settings = {"type": Integer(minimum)}
    elif float in kinds:
        settings = {"type": float}
    default = _shown_default(parameter) if option.default is None else option.default
    text = f"{option.help}  [default: {default}]" if default else option.help
    return [*spelt, name], {"metavar": option.metavar, "help": text, **settings}


def _number_or_auto(_: click.Context, param: click.Parameter, text: str | None) -> float | str | None:
    if text is None or text.strip().lower() == "auto":
        return text and "auto"
    return _positive(text, param.opts[0], "a number above 0, or auto")


def _shown_default(parameter: Parameter) -> str:
    value = parameter.default
    if value is None or isinstance(value, bool):
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else f"{value}"


def settings_of(method: Method, options: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The parameters that options and ``--set`` give a method; an option that the method does not have is an error.

    `options`: by name of the parameter; None if not given. `settings`: ``NAME=VALUE``.
    """
    from rankwright.training.methods import METHODS

    parameters = method.parameters()
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in parameters:
            suited = ", ".join(other.name for other in METHODS.values() if name in other.parameters())
            raise InputError(f"{_option(name)} does not go with the method {method.name}; it is for {suited}")
        read = getattr(parameters[name].option, "read", None)
        given[name] = given[name] if read is None else read(given[name])
    if "losses" in parameters:
        if len(given.get("losses", parameters["losses"].default)) < 2:
            problem = f"{method.name} needs at least two losses"
            raise InputError(f"{problem}; expected --losses with them, such as map,mrr@10")
        if "feature_map" in given:
            maps = [part.strip() for part in given["feature_map"].split(",")]
            given["feature_map"] = [None if part in ("", "-") else part for part in maps]
    names = [name for name, parameter in parameters.items() if parameter.is_assigned]
    return given | assigned(settings, None if method.is_open else names)


def given_options() -> dict[str | None, str]:
    """How the options that the user gave are written, by the names of their parameters."""
    context = click.get_current_context()
    return {
        param.name: max(param.opts, key=len)
        for param in context.command.params
        if isinstance(param, click.Option)
        and context.get_parameter_source(str(param.name)) is not ParameterSource.DEFAULT
    }


def _option(parameter: str) -> str:
    command = click.get_current_context().command
    return next(param.opts[0] for param in command.params if param.name == parameter)


_WORDS = {"true": True, "false": False, "none": None}


def assigned(settings: Sequence[str], names: Sequence[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` settings; a value is true, false or none in any case, or a Python literal, otherwise text.

    `names`: those that there are; None: any.
    """
    from rankwright.rankers.parameters import hint

    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or (names is not None and name not in names):
            meant = hint(name, names or ()) if equals else ""
            expected = meant or "expected NAME=VALUE" + (f" with one of {', '.join(sorted(names))}" if names else "")
            raise InputError(f"--set is {setting!r}; {expected}")
        values[name] = _literal(text.strip())
    return values


def _literal(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


_CUTOFF = 0.6  # of difflib: `serach` and `search` have 0.83
_SIMILAR = 0.1  # further names are told if they are about as near
_OTHER_OPTIONS = {
    "--metric": "--measure",
    "--metrics": "--measure",
    "--jobs": "--threads",
    "--n-jobs": "--threads",
    "--random-state": "--seed",
    "--validation": "--valid",
    "--top": "-k",
    "--save": "--output",
}


class SuggestingGroup(click.Group):
    """A group of commands that says which one was probably meant.

    `other_words`: commands that people may look for, and what does that here.
    """

    other_words: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = str(args[0])
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            other = self.other_words.get(name.lower().strip("-"))
            meant = f"that is: {ctx.command_path} {other}" if other else _meant(name, self.list_commands(ctx))
            ctx.fail(f"No such command {name!r}" + (f"; {meant}" if meant else ""))
        return super().resolve_command(ctx, args)


def unknown_option(error: click.NoSuchOption) -> str:
    """What to say of an option that does not exist: `--num-leaves` is a setting."""
    name, command = error.option_name, None if error.ctx is None else error.ctx.command
    parameters = [param for param in getattr(command, "params", ()) if isinstance(param, click.Option)]
    options = [spelling for param in parameters for spelling in (*param.opts, *param.secondary_opts)]
    spelt = name.replace("_", "-")
    by_case = {option.lower(): option for option in options}
    meant = by_case.get(spelt.lower()) or by_case.get(_OTHER_OPTIONS.get(spelt.lower(), ""))
    hint = f"did you mean {meant}?" if meant else _setting(name, command) or _meant(name, [*options, "--help"])
    return f"No such option {name!r}" + (f"; {hint}" if hint else "")


def _setting(name: str, command: Any) -> str:
    """A parameter of a method that was given as an option, by our name or another library's."""
    setting = next((param for param in getattr(command, "params", ()) if param.name == "assigned"), None)
    if setting is None or not name.startswith("--"):
        return ""
    from rankwright.rankers.parameters import hint
    from rankwright.training.methods import METHODS

    parameters = METHODS["lambdamart"].parameters() | METHODS["lambdarank"].parameters()
    word = name.lstrip("-").replace("-", "_")
    meant = word if word in parameters else hint(word, parameters).partition(" is ")[2].split(" ")[0]
    options = {param.name: param.opts[0] for param in command.params}
    options |= {name: parameter.set_by for name, parameter in parameters.items() if parameter.set_by}
    return f"that is: {options.get(meant, f'{setting.opts[0]} {meant}=VALUE')}" if meant else ""


def _meant(name: str, names: Iterable[str]) -> str:
    """The known names that are near, as a question; empty if there are none."""
    near = difflib.get_close_matches(name, list(dict.fromkeys(names)), n=3, cutoff=_CUTOFF)
    best = _likeness(name, near[0]) if near else 0.0
    near = [other for other in near if best - _likeness(name, other) < _SIMILAR]
    return f"did you mean {' or '.join(near)}?" if near else ""


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()
