"""Verification finds what goes wrong in an export, and an export that fails it is not written."""

import dataclasses
import importlib.util
import json
import re

import numpy as np
import pytest
from made_models import NAMES, random_trees

from rankwright import InputError, LinearModel, NetModel, RankingData, SumModel, export_model
from rankwright.exporting import targets
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.target import ExportFiles
from rankwright.exporting.verify import probe_rows

WIDE = tuple(f"x{j}" for j in range(80))  # so many that every split of a tree has its own, and can be reached
USUAL = random_trees(1, n_trees=20, n_leaves=12, names=WIDE, thresholds=np.random.default_rng(0).lognormal(size=100))


def cast(threshold, dtype=np.float32):
    """Return what a naive exporter writes."""
    with np.errstate(over="ignore"):
        return np.clip(np.asarray(threshold).astype(dtype), np.finfo(dtype).min, np.finfo(dtype).max)


def refused(model, target, folder, **options):
    """Return the message of an export that is refused, and check that nothing was written."""
    with pytest.raises(InputError) as caught:
        export_model(model, target, folder / "out", **options)
    assert list(folder.iterdir()) == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("target", "options"),
    [("xgboost", {}), ("opensearch", {}), ("opensearch", {"form": "raw"}), ("vespa", {})],
)
def test_thresholds_merely_cast_are_caught(target, options, tmp_path, monkeypatch):
    module = "to_xgboost" if options else {"opensearch": "to_elasticsearch"}.get(target, f"to_{target}")
    monkeypatch.setattr(f"rankwright.exporting.{module}.for_below", cast)
    message = refused(USUAL, target, tmp_path, **options)
    assert "made rows are off their path" in message


@pytest.mark.parametrize("target", ["ranklib", "solr"])
def test_thresholds_rounded_to_the_nearest_are_caught(target, tmp_path, monkeypatch):
    monkeypatch.setattr(f"rankwright.exporting.to_{target}.for_at_most", cast)
    monkeypatch.setattr("rankwright.boosting.float32.for_at_most", cast)
    assert "off their path" in refused(USUAL, target, tmp_path, missing_as_zero=True)


def test_the_slack_of_solr_left_on_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwright.exporting.to_solr.for_slack", lambda t: (cast(t), cast(t)))
    assert "off their path" in refused(USUAL, "solr", tmp_path)


def spoilt(target, change):
    """Return a target whose files are changed after they were written."""
    plain = targets.find_target(target)

    def write(ensemble, options):
        written = plain.write(ensemble, options)
        name = next(iter(written.files))
        changed = change(written.files[name].decode())
        assert changed != written.files[name].decode()
        return ExportFiles({**written.files, name: changed.encode()}, written.notes, written.representable)

    return dataclasses.replace(plain, write=write)


@pytest.mark.parametrize(
    ("target", "change"),
    [
        ("lightgbm", lambda text: text.replace("decision_type=10", "decision_type=08", 1)),  # of the same length
        ("lightgbm", lambda text: re.sub(r"leaf_value=(-?)\d", r"leaf_value=\g<1>7", text, count=1)),
        ("solr", lambda text: text.replace('"missing": "left"', '"missing": "right"', 1)),
        ("elasticsearch", lambda text: text.replace('"default_left": true', '"default_left": false', 1)),
        ("elasticsearch", lambda text: text.replace('"split_feature": 1', '"split_feature": 2', 1)),
    ],
)
def test_one_wrong_number_is_caught(target, change, tmp_path, monkeypatch):
    monkeypatch.setitem(targets.TARGETS, target, spoilt(target, change))
    assert "off their path" in refused(USUAL, target, tmp_path)


def test_one_wrong_weight_is_caught(tmp_path, monkeypatch):
    model = LinearModel([1e-3, 1000.0, 2.0, -5.0], NAMES[:4])
    monkeypatch.setitem(
        targets.TARGETS, "opensearch", spoilt("opensearch", lambda text: text.replace("0.001", "0.0011"))
    )
    assert "off their path" in refused(model, "opensearch", tmp_path)


def test_a_file_that_the_package_does_not_read(tmp_path, monkeypatch):
    monkeypatch.setitem(targets.TARGETS, "xgboost", spoilt("xgboost", lambda text: text.replace("gbtree", "gbbush")))
    message = refused(USUAL, "xgboost", tmp_path)
    assert message.startswith("xgboost 3")
    assert "does not read what was written for it" in message


@pytest.mark.parametrize("target", ["lightgbm", "xgboost"])
def test_without_the_package_our_model_of_the_rule_verifies(target, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda _: None)
        done = export_model(USUAL, target, tmp_path / "out")
        assert done.made.by == "our model of its rule"
    theirs = export_model(USUAL, target, tmp_path / "out")
    assert theirs.made.by.startswith(f"{target} ")
    assert (theirs.made.rows, theirs.made.off) == (done.made.rows, done.made.off)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_reach_every_split_on_both_sides(dtype):
    """Every split that a row can reach is met by a value on its threshold, one above and a missing one."""
    ensemble = ensemble_of(USUAL)
    X = probe_rows(ensemble, dtype).astype(dtype)
    trees = ensemble.trees
    met = {node: set() for node in np.flatnonzero(trees.feature >= 0).tolist()}
    for row in X:
        for root in trees.roots.tolist():
            node = root
            while trees.feature[node] >= 0:
                x = row[trees.feature[node]]
                if np.isnan(x):
                    met[node].add("missing")
                elif float(x) <= trees.threshold[node]:
                    met[node].add("on" if float(np.nextafter(x, dtype(np.inf))) > trees.threshold[node] else "left")
                else:
                    met[node].add(
                        "above" if float(np.nextafter(x, dtype(-np.inf))) <= trees.threshold[node] else "right"
                    )
                left = trees.missing_left[node] if np.isnan(x) else x <= trees.threshold[node]
                node = int(trees.left[node]) + (0 if left else 1)
    reached = [found for found in met.values() if found]
    whole = sum({"on", "above", "missing"} <= found for found in reached)
    assert len(reached) == len(met)
    assert whole > 0.97 * len(met)


def test_given_rows_are_rounded_and_what_that_moves_is_counted(tmp_path):
    """A built worst case: every value lies between a threshold and the float32 next to it."""
    rng = np.random.default_rng(2)
    thresholds = rng.uniform(1, 2, size=30)
    model = random_trees(3, n_trees=10, thresholds=thresholds)
    X = rng.choice(thresholds, size=(500, 6))
    X = np.where(rng.random(X.shape) < 0.5, X, np.nextafter(X, 3))
    data = RankingData.from_arrays(X, np.zeros(500), np.repeat(np.arange(50), 10), feature_names=NAMES)
    done = export_model(model, "opensearch", tmp_path / "out", verify=data)
    assert done.given.rows == done.given.moved == 500
    assert done.given.moved_off > 100
    assert done.given.off == 0
    exact = export_model(model, "elasticsearch", tmp_path / "out", verify=data)
    assert (exact.given.moved, exact.given.off, exact.given.largest) == (0, 0, 0.0)


def test_large_terms_that_cancel_are_told_from_a_wrong_file(tmp_path):
    model = LinearModel([0.3, -0.3, 1.0], ("a", "b", "c"))
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(1e7, 2e7, 40), np.zeros(40), rng.normal(size=40)])
    X[:, 1] = X[:, 0] + rng.normal(size=40)
    data = RankingData.from_arrays(X, np.zeros(40), np.zeros(40), feature_names=("a", "b", "c"))
    done = export_model(model, "opensearch", tmp_path / "out", verify=data)
    assert done.given.off == 0
    assert done.given.rounded > 0


def test_golden_rows_are_scored_as_the_model_does(tmp_path):
    export_model(USUAL, "opensearch", tmp_path / "out")
    golden = json.loads((tmp_path / "out" / "golden.json").read_text())
    assert len(golden["rows"]) == 24
    X = np.zeros((24, len(WIDE)))
    for at, row in enumerate(golden["rows"]):
        assert list(row["features"]) == golden["features"]
        for name, value in row["features"].items():
            X[at, WIDE.index(name)] = np.nan if value is None else value
    np.testing.assert_array_equal(USUAL.score(X, WIDE), [row["score"] for row in golden["rows"]])
    assert np.isnan(X).any()
    np.testing.assert_array_equal(np.array(X, np.float32).astype(float), X)


def test_golden_rows_of_features_that_share_a_name(tmp_path):
    model = random_trees(1, names=("a", "b", "a", "c", "a", "d"))
    export_model(model, "lightgbm", tmp_path / "out")
    golden = json.loads((tmp_path / "out" / "golden.json").read_text())
    assert (golden["features"], golden["columns"]) == (["a_1", "b", "a_3", "c", "a_5", "d"], [*range(6)])
    X = np.array([[np.nan if x is None else x for x in row["features"].values()] for row in golden["rows"]])
    np.testing.assert_array_equal(model.score(X), [row["score"] for row in golden["rows"]])


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        export_model(USUAL, "solr", tmp_path / name, name="shop")
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


NET = NetModel([[1.0] * 6], [0.0], [1.0], NAMES)
LINEAR = LinearModel([1.0] * 6, NAMES)


@pytest.mark.parametrize(
    ("model", "target", "reason"),
    [
        (LINEAR, "lightgbm", "it has linear weights, which trees cannot represent exactly"),
        (LINEAR, "elasticsearch", "holds trees only"),
        (SumModel((LINEAR, USUAL), [1, 1]), "opensearch", "it has both linear weights and trees"),
        (SumModel((LINEAR, USUAL), [1, 1]), "solr", "it has both linear weights and trees"),
        (SumModel((LINEAR, random_trees(n_leaves=1)), [1, 1]), "opensearch", "use --form ranklib"),
        (NET, "opensearch", "it is a net"),
        (SumModel((NET, LINEAR), [1, 1]), "solr", "it adds a net to other parts"),
        (LinearModel([1.0], query_scaling="zscore"), "vespa", "it scales features within each query"),
        (random_trees(categories=3), "opensearch", "it splits on categories"),
        (USUAL, "ranklib", "use --missing-as-zero"),
        (LinearModel([1e300, 1.0]), "opensearch", "its largest number is 1e+300, beyond the range of float32"),
        (LinearModel([1e-60]), "solr", "its largest number is 1e-60, beyond the range of float32"),
        (LinearModel([1.0, 2.0], ("a", "a")), "solr", "several features of the name 'a'"),
        (LinearModel([1.0], ("f(a/b)",)), "vespa", "'f(a/b)' is not the name of a rank feature"),
    ],
)
def test_what_a_target_cannot_hold_is_refused(model, target, reason, tmp_path):
    message = refused(model, target, tmp_path)
    assert message.startswith(f"{target} cannot hold this model: ")
    assert reason in message


def test_objects_that_are_no_models(tmp_path):
    with pytest.raises(InputError, match="a str cannot be exported"):
        export_model("model.rkw", "solr", tmp_path / "out")
    with pytest.raises(InputError, match="no target 'lucene'; expected one of: opensearch, "):
        export_model(USUAL, "lucene", tmp_path / "out")
    with pytest.raises(InputError, match="no form 'text'; expected one of: auto, linear, trees, raw, ranklib"):
        export_model(USUAL, "opensearch", tmp_path / "out", form="text")


def test_folders_that_are_not_exports_stay(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not a Rankwright folder"):
        export_model(USUAL, "solr", tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]
