"""What was meant by a command or an option that does not exist: `serach` is search, `--num-leaves` a setting."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import click

__all__ = ["SuggestingGroup", "unknown_option"]

_CUTOFF = 0.6  # of difflib: `serach` and `search` have 0.83
_AS_OPTIONS = {"random_state": "--seed", "n_jobs": "--threads", "eval_measure": "--measure"}
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
_SIMILAR = 0.1  # further ones are named if they are about as near


class SuggestingGroup(click.Group):
    """A group of commands that says which one was probably meant.

    Attributes
    ----------
    other_words : mapping
        Commands that people may look for, and what does that here.
    """

    other_words: Mapping[str, str] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with."""
        name = str(args[0])
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            other = self.other_words.get(name.lower().strip("-"))
            meant = f"that is: {ctx.command_path} {other}" if other else _meant(name, self.list_commands(ctx))
            ctx.fail(f"No such command {name!r}" + (f"; {meant}" if meant else ""))
        return super().resolve_command(ctx, args)


def unknown_option(error: click.NoSuchOption) -> str:
    """What to say of an option that does not exist."""
    name, command = error.option_name, None if error.ctx is None else error.ctx.command
    options = [opt for param in getattr(command, "params", ()) for opt in _spellings(param)]
    spelt = name.replace("_", "-")
    by_case = {option.lower(): option for option in options}
    meant = by_case.get(spelt.lower()) or by_case.get(_OTHER_OPTIONS.get(spelt.lower(), ""))
    told = f"did you mean {meant}?" if meant else _setting(name, command) or _meant(name, [*options, "--help"])
    return f"No such option {name!r}" + (f"; {told}" if told else "")


def _spellings(param: click.Parameter) -> list[str]:
    return [*param.opts, *param.secondary_opts] if isinstance(param, click.Option) else []


def _setting(name: str, command: Any) -> str:
    """A parameter of a method that was given as an option, by our name or another library's."""
    setting = next((param for param in getattr(command, "params", ()) if param.name == "assigned"), None)
    if setting is None or not name.startswith("--"):
        return ""
    from rankwright.rankers.other_names import hint
    from rankwright.training.methods import METHODS

    known = set(METHODS["lambdamart"].defaults()) | set(METHODS["lambdarank"].defaults())
    word = name.lstrip("-").replace("-", "_")
    own = word if word in known else hint(word, known).partition(" is ")[2].split(" ")[0]
    options = {param.name: param.opts[0] for param in command.params} | _AS_OPTIONS
    return f"that is: {options.get(own, f'{setting.opts[0]} {own}=VALUE')}" if own else ""


def _meant(name: str, known: Iterable[str]) -> str:
    """The known names that are near, as a question; empty if there are none."""
    near = difflib.get_close_matches(name, list(dict.fromkeys(known)), n=3, cutoff=_CUTOFF)
    best = _likeness(name, near[0]) if near else 0.0
    near = [one for one in near if best - _likeness(name, one) < _SIMILAR]
    return f"did you mean {' or '.join(near)}?" if near else ""


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()
