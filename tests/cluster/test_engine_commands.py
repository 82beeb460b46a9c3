"""`--engine` and `--resume`: the same model with every engine, and after the driver or the scheduler was killed."""

import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
from at_work_dask import scheduler_running

from in_partitions import made_up
from rankwright.cli import train
from rankwright.cli.main import main
from rankwright.cli.precompile import Precompiler
from rankwright.cluster.journal import Journal
from rankwright.io.letor import write_letor

TRAIN = ["train", "t.partitions", "--method", "svm-map", "--C", "10", "-o", "m.rkw"]
JOURNAL = ".m.rkw.journal"
TREES = ["train", "t.partitions", "--method", "lambdamart", "--cv", "0", "--set", "n_trees=6", "-o", "m.rkw"]


@pytest.fixture(autouse=True)
def partitions(tmp_path, monkeypatch):
    """A folder of partitions, to train on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "noting_compilation", lambda **_: nullcontext(lambda: False))
    monkeypatch.setattr(train, "precompiling", lambda method, *_: nullcontext(Precompiler(method, None)))
    write_letor(made_up(24), "t.txt")
    assert main(["convert", "t.txt", "--by-query", "3", "-o", "t.partitions"]) == 0


def trained(tmp_path, *arguments, method=TRAIN):
    """The bytes of the model."""
    assert main([*method, *arguments]) == 0
    found = (tmp_path / "m.rkw").read_bytes()
    (tmp_path / "m.rkw").unlink()
    assert not (tmp_path / JOURNAL).exists()
    return found


@pytest.mark.parametrize("method", [TRAIN, TREES], ids=["svm-map", "lambdamart"])
def test_every_engine_trains_the_same_model(tmp_path, method, capsys):
    expected = trained(tmp_path, method=method)
    assert trained(tmp_path, "--engine", "local", method=method) == expected
    assert "note:" not in capsys.readouterr().err
    assert trained(tmp_path, "--engine", "processes:2", method=method) == expected
    assert "an engine pays from about 100,000,000" in capsys.readouterr().err


def test_ranking_and_evaluating_with_an_engine(tmp_path, capsys):
    assert main(TRAIN) == 0
    assert main(["rank", "m.rkw", "t.partitions", "-o", "a.scores"]) == 0
    assert main(["rank", "m.rkw", "t.partitions", "-o", "b.scores", "--engine", "processes:2"]) == 0
    assert (tmp_path / "a.scores").read_bytes() == (tmp_path / "b.scores").read_bytes()
    capsys.readouterr()
    shown = []
    for more in ([], ["--engine", "processes:1"]):
        assert main(["evaluate", "t.partitions", "a.scores", *more]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != ""


KILLED = """
import os, sys
sys.path[:] = {path!r}
from rankwright.cluster.journal import Journal
from rankwright.cli.main import main
kept = Journal.recall
def recall(self, compute):
    if self.recorded == {n}:
        os.kill(os.getpid(), 9)
    return kept(self, compute)
Journal.recall = recall
main({arguments!r})
"""


def killed_at(n, arguments):
    """Run a command that is killed after some results."""
    code = KILLED.format(path=sys.path, n=n, arguments=arguments)
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == -9


@pytest.mark.parametrize("method", [TRAIN, TREES], ids=["svm-map", "lambdamart"])
def test_a_killed_driver_goes_on(tmp_path, method, capsys, monkeypatch):
    expected = trained(tmp_path, method=method)
    killed_at(3, [*method, "--engine", "processes:1"])
    assert not (tmp_path / "m.rkw").exists()
    capsys.readouterr()
    assert main([*method, "--engine", "local"]) == 2
    told = capsys.readouterr().err
    assert "was interrupted, and its results are here; expected --resume to go on" in told
    assert told.count("\n") == 1
    journals, kept = [], Journal.remove
    monkeypatch.setattr(Journal, "remove", lambda self: journals.append(self) or kept(self))
    assert trained(tmp_path, "--engine", "local", "--resume", method=method) == expected
    assert journals[0].recalled == 3  # and not computed again
    assert journals[0].recorded > 0


def test_the_death_of_the_scheduler_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    expected = trained(tmp_path)
    with scheduler_running() as (process, address):
        kept = Journal.recall

        def recall(self, compute):
            if self.recorded == 3:
                process.kill()
            return kept(self, compute)

        monkeypatch.setattr(Journal, "recall", recall)
        capsys.readouterr()
        assert main([*TRAIN, "--engine", f"dask://{address}"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: t.partitions")]
    gone = f"rankwright: the Dask scheduler at {address} is gone; expected it to run until the end"
    assert told == [f"{gone}; the results so far are in {JOURNAL}; the same command with --resume goes on from there"]
    monkeypatch.setattr(Journal, "recall", kept)
    assert trained(tmp_path, "--engine", "local", "--resume") == expected


def test_another_training_is_not_resumed(tmp_path, capsys):
    killed_at(2, [*TRAIN, "--engine", "local"])
    other = [("1" if word == "10" else word) for word in TRAIN]
    assert main([*other, "--engine", "local", "--resume"]) == 2
    assert "belongs to another training run: C was 10.0 and is 1.0" in capsys.readouterr().err
    assert (tmp_path / JOURNAL).exists()
    os.remove(JOURNAL)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["evaluate", "q.txt", "a.run", "--engine", "local"], "q.txt: contains judgements, without features"),
        ([*TRAIN, "--resume"], "--resume is for trainings with --engine"),
        ([*TRAIN, "--engine", "spark"], "the engine is 'spark'; expected local, processes"),
        ([*TRAIN, "--engine", "local", "--resume"], f"{JOURNAL}: does not exist, so there is nothing to resume"),
        (["train", "t.txt", "-o", "m.rkw", "--engine", "local"], "convert t.txt --by-query 16 -o t.partitions"),
        ([*TRAIN, "--engine", "local", "--group", "t.txt"], "this data has query ids"),
    ],
)
def test_wrong_use_gets_one_line(tmp_path, arguments, told, capsys):
    (tmp_path / "q.txt").write_text("1 0 d1 1\n")
    capsys.readouterr()
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / JOURNAL).exists()
