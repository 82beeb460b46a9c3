"""Models, data folders and indexes: the three uses of the container, for the tests of all that they share."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Index, LinearModel, RankingData, build_index, load_folder, load_model, save_model
from rankwright.io.container import Format
from rankwright.io.folder import FOLDER, save_folder
from rankwright.models.saving import MODEL
from rankwright.text.contents import INDEX

DATA = RankingData.from_arrays(
    np.arange(12.0).reshape(6, 2), [0, 1, 2, 0, 1, 0], list("aabbbc"), doc_ids=[f"d{row}" for row in range(6)]
)
DOCUMENTS = [("d1", {"title": "wings", "text": "a wing in a slipstream"}), ("d2", {"text": "the flow of air"})]


@dataclass(frozen=True)
class Use:
    """One of the uses: how it is written and read, and the array that is damaged in the tests."""

    format: Format
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    array: str


def read_index(path):
    index = Index.open(path)
    return [index.view(name) for name in index.analyzers]


USES = {
    "model": Use(
        MODEL,
        lambda path: save_model(LinearModel(np.arange(20.0) / 7), path, method="m", parameters={}),
        load_model,
        "coef",
    ),
    "data": Use(FOLDER, lambda path: save_folder(DATA, path), load_folder, "labels"),
    "index": Use(INDEX, lambda path: build_index(DOCUMENTS, path), read_index, "docs"),
}


def contents_of(path):
    if path.is_dir():
        return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
