"""`--device cuda` where there is no GPU: one line, before any data is read, and nothing written."""

import numpy as np
import pytest
from tests.cli.training_files import made, one_line, run

from rankwright.experiments import running
from rankwright.experiments.checks import load_experiment
from rankwright.gpu import device as card
from rankwright.io.letor import write_letor
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model

NONE = "device is 'cuda', but no NVIDIA GPU, or no driver for it, was found; expected a GPU, or device='cpu'"


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    monkeypatch.setattr(card, "_problem", lambda: NONE.removeprefix("device is 'cuda', but "))


def test_train_says_so_before_it_reads(tmp_path, capsys):
    target = tmp_path / "m.rkw"
    for method in ((), ("--method", "svm-map"), ("--method", "mcrank")):
        options = (*method, "--device", "cuda", "-o", str(target))
        one_line(run(capsys, "train", str(tmp_path / "missing.txt"), *options), NONE)
        assert not target.exists()


def test_rank_says_so(tmp_path, capsys):
    save_model(LinearModel(np.ones(2)), tmp_path / "m.rkw", method="svm-map", parameters={}, training={})
    one_line(run(capsys, "rank", str(tmp_path / "m.rkw"), str(tmp_path / "missing.txt"), "--device", "cuda"), NONE)


def test_methods_without_one_name_those_that_have(tmp_path, capsys):
    write_letor(made(0, 3), tmp_path / "f.txt")
    options = ("--method", "ranknet", "--device", "cuda", "-o", str(tmp_path / "m.rkw"))
    what = "--device does not go with the method ranknet; it is for auto, svm-map, "
    one_line(run(capsys, "train", str(tmp_path / "f.txt"), *options), what)


def test_an_experiment_finds_it_among_the_parameters(tmp_path, capsys):
    write_letor(made(0, 3), tmp_path / "f.txt")
    text = (
        '[[data]]\nname = "d"\ntrain = "f.txt"\ntest = "f.txt"\n'
        '[[method]]\nmethod = "svm-map"\nparameters = { device = "cuda", C = 1 }\n'
    )
    (tmp_path / "e.toml").write_text(text)
    code, _, err = run(capsys, "experiment", "check", str(tmp_path / "e.toml"))
    assert code == 2
    assert f"e.toml:7: {NONE}" in err


def experiment(folder, *methods):
    for name in ("f", "t"):
        write_letor(made(0, 3), folder / f"{name}.txt")
    named = "".join(f'[[method]]\nmethod = "{method}"\n' for method in methods)
    (folder / "e.toml").write_text(f'[[data]]\nname = "d"\ntrain = "f.txt"\ntest = "t.txt"\n{named}')
    return str(folder / "e.toml")


def test_an_experiment_says_so_before_it_runs(tmp_path, capsys):
    output = tmp_path / "results"
    one_line(
        run(capsys, "experiment", "run", experiment(tmp_path, "svm-map"), "--device", "cuda", "-o", str(output)), NONE
    )
    assert not output.exists()


def test_an_experiment_gives_the_device_to_methods_that_have_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(card, "_problem", lambda: "")
    given = load_experiment(experiment(tmp_path, "svm-map", "ranknet", "feature:1", "lambdamart"))
    placed = running._on_device(given, "cuda")
    assert [dict(spec.parameters) for spec in placed.methods] == [{"device": "cuda"}, {}, {}, {"device": "cuda"}]
    assert running._on_device(placed, "cpu").methods == placed.methods  # what a file sets stays
    arguments = ("experiment", "run", experiment(tmp_path, "ranknet"), "--device", "cuda")
    one_line(run(capsys, *arguments), "device is 'cuda', but no method of the experiment uses a GPU")
