"""Values of headers and tables replaced by values of another kind: a result, or exit code 2 and one line."""

import copy
import csv
import dataclasses
import io
import json
import math
import zipfile

import numpy as np
import pytest
from test_mutated_files import check, outcome
from tests.reports.results_folder import write_results

from rankwright import BinnedModel, LinearModel, NetModel, RankingData, save_model, write_data
from rankwright.boosting.forest import Forest, Tree
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.io.container import write_file
from rankwright.models.saving import KINDS, MODEL, kind_of
from rankwright.models.sum import SumModel

WRONG = (None, [], {}, "", True, math.nan, math.inf, -1, 2**70, "x" * 2000, [None], {"a": [1]}, "\x1b[31m[/]", "DROP")
TREE = Tree(
    np.array([0, -1, -1], np.int32), np.array([0.5, 0, 0]), np.zeros(3, bool), np.array([1, 0, 0], np.int32),
    np.array([0.0, 1.0, 2.0]), np.array([1.0, 0, 0]), np.array([4.0, 2.0, 2.0]),
)  # fmt: skip
FOREST = Forest.of([TREE, TREE])
SETS = {"subset": np.array([0, -1, -1], np.int32), "sets": np.array([[3, 0, 0, 0]], np.uint64)}
TEXT = TreeModel(2, ("a", "[b]"), Forest.of([dataclasses.replace(TREE, **SETS)]), categories={0: ("de", "fr", "[b]")})
LINEAR = LinearModel([1.0, -2.0], ("a", "[b]"))
NET = NetModel([[1.0, 2.0]], [0.5], [1.0], ("a", "[b]"))
MODELS = {
    "linear": LINEAR,
    "net": NET,
    "trees": TreeModel(2, None, FOREST),
    "grades": GradeModel(2, None, np.array([0.0, 1.0]), (FOREST, FOREST), np.zeros(2), "softmax"),
    "binned": BinnedModel([1.0, 2.0, 0.5], [0, 2, 3], [3.0, -1.0, 0.25]),
    "categories": TEXT,
    "sum": SumModel((LINEAR, SumModel((NET, LINEAR), np.ones(2))), np.array([1.0, 0.5])),
}


def places(value, place=()):
    """All places of a JSON value; of a list only its first two."""
    yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*place, key))


def replaced(value, place, new):
    """A copy with another value in a place, or without the place."""
    if not place:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in place[:-1]:
        inner = inner[key]
    if new == "DROP":
        del inner[place[-1]]
    else:
        inner[place[-1]] = new
    return value


def some(value, step):
    """Places with wrong values for them, every ``step``-th of all, so that each place and each value has its turn."""
    pairs = [(place, wrong) for place in places(value) for wrong in WRONG]
    return pairs[::step]


@pytest.fixture
def model_file(tmp_path):
    (tmp_path / "f.txt").write_text("2 qid:1 1:0.5 2:1 # docid = a\n0 qid:1 2:3 # docid = b\n")
    facts = {"parameters": {"C": 1.0, "losses": ["map", 2]}, "training": {"passes": 3}, "measures": {"AP": 0.5}}

    def write(kind):
        save_model(MODELS[kind], tmp_path / "m.rkw", method="svm-map", **facts)
        return tmp_path / "m.rkw"

    return write


def use_model(path, at):
    """Show the model; rank or explain with it, in turn."""
    features = str(path.parent / "f.txt")
    check("info", str(path))
    if at % 2:
        check("explain", str(path), features, "--query", "1")
    else:
        check("rank", str(path), features, "-o", str(path.parent / "o.run"))


@pytest.mark.parametrize("kind", MODELS)
def test_headers_of_models(model_file, kind):
    path = model_file(kind)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["model.json"])
    for at in range(2):
        use_model(path, at)
    for at, (place, wrong) in enumerate(some(header, 5 if kind == "linear" else 23)):
        parts["model.json"] = json.dumps(replaced(header, place, wrong)).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name in parts:
                archive.writestr(name, parts[name])
        use_model(path, at)


@pytest.mark.parametrize("kind", MODELS)
def test_arrays_of_models(model_file, kind):
    path = model_file(kind)
    name, kind_of_model = kind_of(MODELS[kind])
    facts, arrays = kind_of_model.encode(MODELS[kind])
    facts = {"kind": name, "method": "m", "parameters": {}, "training": {}, "measures": {}, **facts}
    for name, array in ((name, arrays[name]) for name in arrays if not name.startswith("1_")):
        for at, wrong in enumerate((np.nan, np.inf, 1e308, -1e308, -1, 0, 2**31 - 1), start=len(name)):
            if array.dtype.kind != "f" and not (math.isfinite(wrong) and (wrong >= 0 or array.dtype.kind != "u")):
                continue
            with np.errstate(all="ignore"):
                damaged = np.full_like(
                    array, np.clip(wrong, -(2**31), 2**31 - 1) if array.dtype.kind in "iu" else wrong
                )
            write_file(path, MODEL, facts, {**arrays, name: damaged})
            use_model(path, at)


def test_trees_claim_no_more_features_than_they_can_have(model_file):
    path = model_file("trees")
    facts, arrays = KINDS["trees"].encode(MODELS["trees"])
    facts = {"kind": "trees", "method": "m", "parameters": {}, "training": {}, "measures": {}, **facts}
    write_file(path, MODEL, {**facts, "n_features": 2**31}, arrays)
    assert "trees over 2,147,483,648 features; expected at most" in outcome("info", str(path))[2][0]


@pytest.mark.parametrize("form", ["dense", "sparse", "categories"])
def test_headers_of_data_folders(tmp_path, form):
    from scipy import sparse

    X = np.arange(8, dtype=np.float32).reshape(4, 2)
    kept = {"categories": {1: (1, 3, 5, 7)}} if form == "categories" else {}
    X = sparse.csr_array(X) if form == "sparse" else X
    data = RankingData.from_arrays(X, [0, 1, 0, 2], qid=[1, 1, 2, 2], **kept)
    write_data(data, tmp_path / "d.rank")
    header = json.loads((tmp_path / "d.rank/rankwright.json").read_text())
    for place, wrong in some(header, 5):
        (tmp_path / "d.rank/rankwright.json").write_text(json.dumps(replaced(header, place, wrong)))
        check("info", str(tmp_path / "d.rank"))
    (tmp_path / "d.rank/rankwright.json").write_text(json.dumps(header | {"features": 2**40, "feature_names": None}))
    assert outcome("info", str(tmp_path / "d.rank"))[0] == 2


def test_a_broken_feature_in_a_data_folder_is_shown(tmp_path):
    write_data(RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, 1]), tmp_path / "d.rank")
    for wrong in (np.nan, np.inf):
        np.save(tmp_path / "d.rank/X.npy", np.array([[wrong], [2.0]]))
        check("info", str(tmp_path / "d.rank"))


MANIFEST = {
    "format": 1, "name": "e", "seed": 0, "measures": ["AP", "nDCG@10"], "baseline": "bm25", "tests": ["t", "sign"],
    "correction": "holm", "protocol": None, "methods": [{"name": "bm25"}, {"name": "svm-map", "trained_for": "AP"}],
    "data": [{"name": "cranfield"}], "failures": [], "definitions": {"cranfield": ["AP: as ever"]},
    "cells": {"total": 2, "done": 2},
}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    folder = write_results(tmp_path / "results", data=("cranfield",), n_queries=6, n_splits=2)
    for name, header in {"rounds": 30, "paths": 30}.items():  # fewer lines: the report is made many times
        lines = (folder / f"{name}.csv").read_text().splitlines(keepends=True)[:header]
        (folder / f"{name}.csv").write_text("".join(lines))
    return folder


def use_results(folder, report=True):
    check("experiment", "table", str(folder))
    check("experiment", "table", str(folder), "--kind", "criterion")
    check("experiment", "table", str(folder), "--kind", "times", "--format", "csv")
    if report:
        check("experiment", "report", str(folder), "-o", str(folder / "report.html"))


def test_manifests(results):
    use_results(results)
    for at, (place, wrong) in enumerate(some(MANIFEST, 9)):
        (results / "manifest.json").write_text(json.dumps(replaced(MANIFEST, place, wrong)))
        use_results(results, report=at % 12 == 0)
    for raw in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 60 + b"1" + b"}" * 60, b"null", b"1" * 5000):
        (results / "manifest.json").write_bytes(raw)
        use_results(results)


FIELDS = ("", "nan", "inf", "1e308", "x", '{"C": NaN}', '{"C": 1e999}', '{"C": ' + "[" * 9999, "</script>", "1" * 5000)


@pytest.mark.parametrize("table", ["per_query", "runs", "queries", "paths", "rounds", "health"])
def test_tables_of_results(results, table):
    (results / "manifest.json").write_text(json.dumps(MANIFEST))
    path = results / f"{table}.csv"
    rows = list(csv.reader(path.read_text().splitlines()))
    for column in range(len(rows[0])):
        for at in range(column % 3, len(FIELDS), 3):
            damaged = [row[:] for row in rows]
            damaged[1 + at % 2][column] = FIELDS[at]
            text = io.StringIO()
            csv.writer(text).writerows(damaged)
            path.write_text(text.getvalue())
            check("experiment", "report", str(results), "-o", str(results / "report.html"))
    for raw in (b"", b"\0\0", path.read_bytes()[:30], path.read_text().encode("utf-16")):
        path.write_bytes(raw)
        use_results(results)
    path.unlink()
    use_results(results)


HUGE = ("1e300", "9223372036854775808", "9" * 30)


@pytest.mark.parametrize("number", HUGE)
def test_numbers_beyond_what_arrays_hold(tmp_path, number):
    (tmp_path / "f.txt").write_text("2 qid:1 1:0.5 2:1\n0 qid:1 2:3\n1 qid:2 1:1\n0 qid:2 1:2\n")
    (tmp_path / "q").write_text("1 0 a 2\n1 0 b 0\n")
    (tmp_path / "r").write_text("1 Q0 a 1 0.9 x\n1 Q0 b 2 0.8 x\n")
    features, qrels, run, out = (str(tmp_path / name) for name in ("f.txt", "q", "r", "o"))
    svm, mart = (
        ("train", features, "--method", "svm-map", "-o", out),
        ("train", features, "--method", "lambdamart", "-o", out),
    )
    refused = [
        (*svm, "--bins", number),
        (*svm, "--set", f"max_passes={number}"),
        (*mart, "--set", f"n_trees={number}"),
        ("fuse", run, run, "-o", out, "--depth", number),
        ("evaluate", qrels, run, "-m", f"RR@{number}"),
    ]
    refused += [(*svm, "--C", number)] if number == "1e300" else []
    for args in refused:
        code, printed, errors = outcome(*args)
        assert (code, printed, len(errors)) == (2, "", 1), args
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("key", ["trials", "train_queries"])
def test_huge_integers_in_an_experiment(tmp_path, key):
    values = {"trials": 1, "train_queries": 5}
    (tmp_path / "f.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    for number in (2**31, 2**63, 10**20):
        text = (
            '[[data]]\nname = "a"\nfeatures = "f.txt"\ntrain_queries = {train_queries}\n[protocol]\nkind = "trials"\n'
        )
        text += 'trials = {trials}\ntrain = 2\n[[method]]\nmethod = "svm-map"\n'
        (tmp_path / "f.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
        (tmp_path / "e.toml").write_text(text.format(**values | {key: number}))
        assert f"{key} is {number}; expected" in outcome("experiment", "run", str(tmp_path / "e.toml"))[2][0]
