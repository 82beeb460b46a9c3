"""The program itself: help, light imports, exit codes."""

import itertools
import json
import subprocess
import sys

import pytest

import rankwright
from rankwright.cli import main as program
from rankwright.errors import InputError
from rankwright.measures import measure_classes

HEAVY = ("numba", "sklearn", "matplotlib", "pandas", "polars", "pyarrow")


def loaded_after(code):
    """Which top-level modules a fresh interpreter has after running some code."""
    report = "\nimport json, sys\nprint(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import rankwright",
        "from rankwright.cli.main import main; main(['--help'])",
        "from rankwright.cli.main import main; main(['compare', '--help'])",
        "import rankwright; rankwright.evaluate([1, 0], [1, 2], [1, 1])",
        "import rankwright; rankwright.evaluate_run({'1': {'a': 1}}, {'1': {'a': 1.0}})",
    ],
)
def test_light_imports(code):
    assert not loaded_after(code) & set(HEAVY)


def test_evaluating_files_stays_light(tmp_path):
    (tmp_path / "f").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.5\n")
    (tmp_path / "s").write_text("1\n2\n")
    arguments = ["evaluate", str(tmp_path / "f"), str(tmp_path / "s")]
    code = f"from rankwright.cli.main import main; assert main({arguments!r}) == 0"
    assert not loaded_after(code) & {*HEAVY, "scipy"}


def test_training_does_without_scikit_learn(tmp_path):
    (tmp_path / "f").write_text("".join(f"{i % 2} qid:{i // 4} 1:{i % 3} 2:{i % 5}\n" for i in range(24)))
    for method in ("svm-map", "lambdamart"):
        choice = ["--C", "1"] if method == "svm-map" else ["--valid", str(tmp_path / "f"), "--set", "n_trees=2"]
        arguments = ["train", str(tmp_path / "f"), "--method", method, *choice, "-o", str(tmp_path / "m")]
        code = f"from rankwright.cli.main import main; assert main({arguments!r}) == 0"
        assert not loaded_after(code) & (set(HEAVY) - {"numba"})


def test_import_alone_loads_no_numpy():
    assert "numpy" not in loaded_after("import rankwright")


def test_every_public_name_is_there():
    for name in rankwright.__all__:
        assert getattr(rankwright, name) is not None
    assert set(dir(rankwright)) == {*rankwright.__all__, *measure_classes()}
    for name, kind in measure_classes().items():
        assert getattr(rankwright, name) is kind
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rankwright.nothing


@pytest.mark.parametrize("command", program._COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    assert program.main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"rankwright {command}" in shown


def test_help_lists_the_commands(capsys):
    assert program.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in program._COMMANDS:
        assert command in shown
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"rankwright {rankwright.__version__}\n")


def test_no_command_shows_help_and_an_unknown_one_is_one_line(capsys):
    for arguments, command in (([], "evaluate"), (["experiment"], "table")):
        assert program.main(arguments) == 2
        out, err = capsys.readouterr()
        assert (out, "Usage" in err, f"  {command} " in err) == ("", True, True)
    assert program.main(["evaluate", "--unknown"]) == 2  # the same in every version of click
    assert "No such option" in capsys.readouterr().err
    assert program.main(["evalute"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("is\nbroken", "a.txt", 3), 2, "rankwright: a.txt:3: is broken\n"),
        (MemoryError(), 2, "rankwright: not enough memory for this input\n"),
        (KeyboardInterrupt(), 130, "rankwright: interrupted\n"),
        (OSError(28, "No space left on device", "out"), 2, "rankwright: out: No space left on device\n"),
    ],
)
def test_errors_become_one_line(monkeypatch, capsys, error, code, line):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("rankwright.cli.demo._collect", broken)
    assert program.main(["demo", "-o", "."]) == code
    assert capsys.readouterr().err.endswith(line)


def test_a_closed_pipe_is_no_error():
    code = "import sys; from rankwright.cli.main import main; sys.exit(main(['evaluate', '--help']))"
    shell = f'{sys.executable} -c "{code}" | true'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_progress_is_shown_only_after_a_while_and_only_to_people(monkeypatch, capsys):
    from rankwright.cli import printing as bars

    clock = itertools.chain([0.0, 0.1, 5.0], itertools.count(6.0))  # rich looks at it, too
    monkeypatch.setattr(bars.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(bars.sys.stderr, "isatty", lambda: True, raising=False)
    with bars.progress("reading x") as moved:
        moved(1, 10)
        assert capsys.readouterr().err == ""
        moved(5, 10)
    assert "reading x" in capsys.readouterr().err
