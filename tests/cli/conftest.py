"""Feature files to train on, for the tests of `train`."""

from contextlib import nullcontext

import pytest
from tests.cli.training_files import made

from rankwright.cli import adapt, train
from rankwright.cli.precompile import Precompiler
from rankwright.io.letor import write_letor


@pytest.fixture(autouse=True)
def nothing_said_of_compiling(monkeypatch):
    """Messages do not depend on what is compiled already."""
    for command in (train, adapt):
        monkeypatch.setattr(command, "noting_compilation", lambda **_: nullcontext(lambda: False))
    monkeypatch.setattr(train, "precompiling", lambda method, *_: nullcontext(Precompiler(method, None)))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, (name, n_queries) in enumerate({"train.txt": 20, "vali.txt": 8, "test.txt": 8}.items()):
        write_letor(made(seed, n_queries), tmp_path / name)
    return tmp_path
