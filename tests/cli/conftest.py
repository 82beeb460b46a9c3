"""Feature files to train on, for the tests of `train`."""

import pytest
from tests.cli.training_files import made

from rankwright.cli import training
from rankwright.data.letor_write import write_letor


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, (name, n_queries) in enumerate({"train.txt": 20, "vali.txt": 8, "test.txt": 8}.items()):
        write_letor(made(seed, n_queries), tmp_path / name)
    monkeypatch.setattr(training, "must_compile", lambda: False)
    return tmp_path
