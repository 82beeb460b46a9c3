"""`rankwright completion`: a script for the shell, which asks the program itself what may come next.

What completes is found in the commands, so nothing is listed twice. Only the command that is typed is imported; nothing
that is completed loads numba.
"""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

_PROGRAM = "rankwright"
_VARIABLE = "_RANKWRIGHT_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")
_ALL_COMMAS, _FIRST_COMMA = 'string split ","', 'string split --max 1 ","'  # in fish; click's script cuts descriptions


@click.command("completion")
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
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
    from rankwright.cli.printing import print_data

    program = click.get_current_context().find_root().command
    script = _of_shell(program, shell).source()
    print_data((script.replace(_ALL_COMMAS, _FIRST_COMMA) if shell == "fish" else script) + "\n")


def completed(cli: click.Command, asked: str) -> str:
    """What the script of a shell asks for: the words that may come next, one per line.

    `cli`: the program. `asked`: such as ``bash_complete``; what is typed is in variables of the environment.
    """
    shell, _, what = asked.partition("_")
    return _of_shell(cli, shell).complete() + "\n" if shell in _SHELLS and what == "complete" else ""


def _of_shell(cli: click.Command, shell: str) -> ShellComplete:
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, _PROGRAM, _VARIABLE)
