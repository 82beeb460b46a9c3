"""Completion in the shell: the script runs in bash, and words come from the commands themselves."""

import os
import shutil
import subprocess
import sys

import pytest

from rankwright.cli import main as program
from rankwright.training.methods import NAMES

needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
CALL = "from rankwright.cli.main import program; raise SystemExit(program())"


def asked(words, shell="bash", code=CALL):
    """What the program answers to the script of a shell; the last word is the one that is completed."""
    at = words[-1] if shell == "fish" else str(len(words) - 1)
    own = {"_RANKWRIGHT_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": at}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def words(*typed):
    return [line.partition(",")[2] for line in asked(["rankwright", *typed]).splitlines()]


def test_commands_options_and_values_are_completed():
    assert words("") == sorted(program._COMMANDS)
    assert words("ex") == ["experiment", "explain", "export"]
    assert words("experiment", "r") == ["report", "run"]
    assert words("train", "--me") == ["--method", "--measure"]
    assert words("train", "--method", "") == list(NAMES)
    assert words("train", "--method", "SVM-M") == ["svm-map", "svm-mrr"]
    assert words("evaluate", "-m", "ndc") == ["nDCG"]
    assert words("convert", "--scale", "m") == ["minmax"]
    assert asked(["rankwright", "convert", "t"]) == "file,t\n"


def test_zsh_and_fish_get_the_help_too():
    text = program._COMMANDS["train"]
    assert asked(["rankwright", "tr"], "zsh").splitlines() == ["plain", "train", text]
    assert asked(["rankwright", "tr"], "fish") == f"plain,train\t{text}\n"


@pytest.mark.parametrize("typed", [[""], ["train", "--"], ["train", "--method", ""], ["evaluate", "-m", ""]])
def test_nothing_heavy_is_loaded_to_complete(typed):
    check = (
        "import atexit, sys; atexit.register(lambda: print(*sorted({'numba', 'sklearn', 'pandas'} & {*sys.modules})))"
    )
    assert asked(["rankwright", *typed], code=f"{check}\n{CALL}").splitlines()[-1] == ""


def test_nonsense_is_answered_with_nothing(monkeypatch, capsys):
    monkeypatch.setenv("_RANKWRIGHT_COMPLETE", "tcsh_complete")
    assert program.program() == 0
    monkeypatch.setenv("_RANKWRIGHT_COMPLETE", "bash_complete")
    monkeypatch.delenv("COMP_WORDS", raising=False)
    assert program.program() == 1
    assert capsys.readouterr() == ("", "")


@needs_bash
@pytest.mark.parametrize(("line", "found"), [("tr", "train"), ("train --metho", "--method"), ("serve --por", "--port")])
def test_the_script_works_in_bash(line, found, tmp_path, capsys):
    assert program.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    called = tmp_path / "rankwright"
    called.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{CALL}" "$@"\n')
    called.chmod(0o755)
    typed = f"rankwright {line}".split()
    ask = f"COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _rankwright_completion rankwright"
    shell = f'{script}\n{ask}\nprintf "%s\\n" "${{COMPREPLY[@]}}"\ncomplete -p rankwright'
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", shell], env=os.environ | path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[:-1] == [found]
    assert done.stdout.splitlines()[-1].endswith("-F _rankwright_completion rankwright")


def test_the_script_for_fish_splits_at_the_first_comma_only(capsys):
    assert program.main(["completion", "fish"]) == 0
    script = capsys.readouterr().out
    assert script.count("string split") == script.count('string split --max 1 ","') == 1  # click's script was changed
    assert "," in program._COMMANDS["doctor"]


@needs_fish
def test_descriptions_are_whole_in_fish(tmp_path, capsys):
    assert program.main(["completion", "fish"]) == 0
    (tmp_path / "rankwright.fish").write_text(capsys.readouterr().out)
    called = tmp_path / "rankwright"
    called.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{CALL}" "$@"\n')
    called.chmod(0o755)
    own = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    ask = f"source {tmp_path}/rankwright.fish; complete --do-complete 'rankwright doc'"
    done = subprocess.run(["fish", "-c", ask], env=os.environ | own, capture_output=True, text=True, check=True)
    assert done.stdout == f"doctor\t{program._COMMANDS['doctor']}\n"


@pytest.mark.parametrize(("shell", "part"), [("zsh", "#compdef rankwright"), ("fish", "complete --no-files")])
def test_the_other_scripts_are_for_their_shells(shell, part, capsys):
    assert program.main(["completion", shell]) == 0
    assert part in capsys.readouterr().out
    assert program.main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
