"""Documents of a few words in a few fields, some of them lacking, and the files of what they are made into."""

import numpy as np

WORDS = [
    "run",
    "running",
    "runs",
    "runner",
    "the",
    "of",
    "wing",
    "wings",
    "Winged",
    "café",
    "naïve",
    "été",
    "x1",
    "漢字",
]


def make_documents(n=60, seed=0, fields=("title", "text", "note")):
    rng = np.random.default_rng(seed)
    documents = []
    for i in range(n):
        own = {name: " ".join(rng.choice(WORDS, rng.integers(0, 12))) for name in fields if rng.random() < 0.8}
        documents.append((f"d{i}", own))
    return documents


def files_of(path):
    return {entry.name: entry.read_bytes() for entry in path.iterdir()}
