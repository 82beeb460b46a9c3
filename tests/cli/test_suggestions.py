"""Misspelt commands and options, and words of other programs: one line that says what was meant."""

import re

import pytest

from rankwright.cli import main as program
from rankwright.cli.main import cli, main


def said(capsys, *arguments):
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err.removeprefix("rankwright: ").strip()


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["serach"], "No such command 'serach'; did you mean search?"),
        (["evalute", "x"], "No such command 'evalute'; did you mean evaluate?"),
        (["predict"], "No such command 'predict'; that is: rankwright rank"),
        (["xyzzy"], "No such command 'xyzzy' (see: rankwright --help)"),
        (["experiment", "rnu"], "No such command 'rnu'; did you mean run? (see: rankwright experiment --help)"),
        (["evaluate", "--mesure"], "No such option '--mesure'; did you mean --measure?"),
        (["evaluate", "--metric", "AP"], "No such option '--metric'; did you mean --measure?"),
        (["evaluate", "--zzz"], "No such option '--zzz' (see: rankwright evaluate --help)"),
        (["train", "--learning_rate", "1"], "No such option '--learning_rate'; did you mean --learning-rate?"),
        (["train", "--c", "1"], "No such option '--c'; did you mean --C?"),
        (["train", "--num-leaves", "7"], "No such option '--num-leaves'; that is: --set max_leaves=VALUE"),
        (["train", "--n-trees", "7"], "No such option '--n-trees'; that is: --set n_trees=VALUE"),
        (["train", "--nthread", "7"], "No such option '--nthread'; that is: --threads"),
        (["--versoin"], "No such option '--versoin'; did you mean --version?"),
    ],
)
def test_what_was_meant_is_said(typed, told, capsys):
    assert said(capsys, *typed).startswith(told)


def test_other_words_lead_to_what_exists():
    for words in program._OTHER_WORDS.values():
        name, *rest = words.split()
        options = {opt for param in cli.params for opt in param.opts} | {"--help"}
        assert name in program._COMMANDS or name in options
        for word in rest if name in program._COMMANDS else ():
            command = cli.get_command(None, name)
            known = {opt for param in command.params for opt in param.opts} | set(getattr(command, "commands", ()))
            assert word in known
    assert not set(program._OTHER_WORDS) & set(program._COMMANDS)


def test_versions_of_what_computes(capsys):
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["rankwright", "Python", "numpy", "numba", "scipy", "scikit-learn"]
    assert all(re.fullmatch(r"[\w-]+ \d+\.\d+[\w.+]*", line) for line in lines)
    assert program.installed_version("no-such-package") is None
