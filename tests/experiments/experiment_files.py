"""Small made-up data sets and experiment files for the tests."""

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.io.letor import write_letor


def made(seed, n_queries=12, n_docs=8, first=0):
    """Queries whose labels follow two of four features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, 4)).astype(np.float32)
    goal = X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=len(X))
    labels = (goal > 0.4).astype(int) + (goal > 1.2)
    qid = np.repeat([f"q{first + q}" for q in range(n_queries)], n_docs)
    docs = [f"d{row % n_docs}" for row in range(len(X))]
    return RankingData.from_arrays(X, labels, qid, doc_ids=docs)


def write_all(folder, seed=0):
    """all.txt (30 queries), train.txt, vali.txt, test.txt, and the parts S1.txt … S3.txt."""
    write_letor(made(seed, 30), folder / "all.txt")
    for at, (name, size) in enumerate({"train": 14, "vali": 8, "test": 8, "S1": 6, "S2": 6, "S3": 6}.items()):
        write_letor(made(seed + 10 + at, size, first=100 * at), folder / f"{name}.txt")


TRIALS = """
[experiment]
measures = ["AP", "nDCG@5"]
baseline = "first"
tests = ["wilcoxon"]

[[data]]
name = "all"
features = "all.txt"

[protocol]
kind = "trials"
trials = 3
train = 10
valid = 8
test = 12

[[method]]
name = "first"
method = "feature:1"

[[method]]
method = "svm-map"
parameters = { max_passes = 20 }
[method.grid]
C = [0.1, 1, 10]
"""


def write_experiment(folder, text=TRIALS, name="exp.toml"):
    (folder / name).write_text(text)
    return folder / name


def write_rich(folder):
    """rich1.txt … rich3.txt: another domain, with query ids that all of them have, and other files too."""
    for number, size in ((1, 10), (2, 12), (3, 8)):
        write_letor(made(50 + number, size), folder / f"rich{number}.txt")


# An experiment on adaptation: HEAD + FIXED + BACKGROUND + methods("interpolate", "auto")
BACKGROUND = """
[data.background]
features = ["rich1.txt", "rich2.txt"]
valid = "rich3.txt"
parameters = { n_trees = 12, min_rows = 2, max_leaves = 4, patience = 4 }
"""
SEVERAL = """
[[data.background]]
name = "one"
features = "rich1.txt"
valid = "rich3.txt"
parameters = { n_trees = 6, min_rows = 2, max_leaves = 4, patience = 4 }
[[data.background]]
name = "two"
features = "rich2.txt"
method = "lambdarank"
parameters = { hidden = 3, epochs = 4 }
"""
FIXED = '\n[[data]]\nname = "fixed"\ntrain = "train.txt"\nvalid = "vali.txt"\ntest = "test.txt"\n'
HEAD = '[experiment]\nmeasures = ["AP", "nDCG@10"]\nsave_models = true\nchoose_by = "AP"\n'


def methods(*names):
    entries = [f'[[method]]\nname = "{name}"\nmethod = "adapt:{name}"\n' for name in names]
    return "".join(entry + "parameters = { leaves = 3 }\n" * ("lambdamart" in entry) for entry in entries)
