"""`rankwright train` opens every file once, evaluates every part of the data once, and parses every measure once."""

import builtins
import io
import json
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.training_files import made

from rankwright import evaluate
from rankwright.cli.main import main
from rankwright.io.letor import write_letor
from rankwright.measures import parse_measure
from rankwright.training.methods import METHODS


@contextmanager
def counted(monkeypatch):
    """Counts evaluations, measures parsed from text, and files opened to read."""
    calls = Counter()

    def look(frame, event, _):
        if event == "call" and frame.f_code is evaluate.__code__:
            calls["evaluate"] += 1
        if event == "call" and frame.f_code is parse_measure.__code__ and isinstance(frame.f_locals["text"], str):
            calls[f"parse {frame.f_locals['text']}"] += 1

    def opened(path, mode="r", *args, **options):
        if isinstance(path, str | Path) and "r" in mode:
            calls[Path(path).name] += 1
        return real(path, mode, *args, **options)

    real = builtins.open
    monkeypatch.setattr(builtins, "open", opened)
    monkeypatch.setattr(io, "open", opened)
    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        monkeypatch.undo()


@pytest.fixture
def files(tmp_path, monkeypatch):
    for seed, (name, n_queries) in enumerate({"train.txt": 20, "vali.txt": 8}.items()):
        write_letor(made(seed, n_queries), tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("method", ["svm-map", "svm-ndcg@5", "rank-svm", "svm-acc", "lambdamart"])
@pytest.mark.parametrize("valid", [(), ("vali.txt",)])
@pytest.mark.parametrize("measure", [None, "nDCG@3"])
def test_everything_is_done_once(files, monkeypatch, capsys, method, valid, measure):
    options = ["--method", method, "-o", str(files / "m.rkw"), "--json"]
    options += ["--set", "n_trees=20"] if method == "lambdamart" else []
    options += [] if measure is None else ["-m", measure]
    for name in valid:
        options += ["--valid", str(files / name)]
    with counted(monkeypatch) as calls:
        assert main(["train", str(files / "train.txt"), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    parts = ["validation" if valid else "cross-validated", "training"]
    assert sorted(name.partition(" ")[0] for name in facts["measures"]) == sorted(parts)
    assert calls["evaluate"] == 1 + len(valid)
    assert calls["train.txt"] == 1
    assert calls["vali.txt"] == len(valid)
    parsed = {name: count for name, count in calls.items() if name.startswith("parse ")}
    if method == "svm-ndcg@5" and not valid:
        parsed["parse map"] -= 1  # the start is a ranker of its own in cross-validation, and one on all data
    assert set(parsed.values()) == {1}
    assert len(parsed) <= 3  # what is trained for, what is reported, and what the ramp bound starts from


@pytest.mark.parametrize("method", METHODS)
def test_it_chooses_by_what_the_estimator_chooses_by(files, monkeypatch, capsys, method):
    combined = {"losses": ["auc", "map"]} if method == "svm-combo" else {}
    few = {"n_trees": 2, "n_rounds": 2, "epochs": 1}
    options = [f"--set={name}={value}" for name, value in few.items() if name in METHODS[method].defaults()]
    options += ["--losses", "auc,map"] if combined else []
    options += ["--valid", str(files / "vali.txt"), "-o", str(files / "m.rkw"), "--json"]
    assert main(["train", str(files / "train.txt"), "--method", method, *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    own = str(METHODS[method].make(**combined).measure_to_choose_by())
    assert facts["measure"] == own
    assert set(facts["measures"]) == {f"training {own}", f"validation {own}"}
    assert all(own in row for row in facts["C_tried"])
    assert bool(facts["C_tried"]) == ("C" in METHODS[method].defaults())
