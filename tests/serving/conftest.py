"""An index and models, made once; a client for each test."""

import shutil

import pytest
from tests.serving.served import Client, make_files


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("served"))


@pytest.fixture
def folder(made, tmp_path):
    """A copy to change."""
    shutil.copytree(made, tmp_path / "files")
    return tmp_path / "files"


@pytest.fixture(scope="module")
def client(made):
    found = Client(made)
    yield found
    found.close()
