"""Features left out of an experiment, and the best one in hindsight: to compare with, and to train without."""

import json

import numpy as np
import pytest
from tests.experiments.experiment_files import BACKGROUND, FIXED, TRIALS, write_all, write_experiment, write_rich

from rankwright import Cleaner, QueryScaler, QueryTrials, StructuredSVM, evaluate, read_data
from rankwright.errors import InputError
from rankwright.experiments import load_experiment, run_experiment
from rankwright.experiments.checks import check_text

METHODS = """
[[method]]
method = "best-feature:hindsight"
[[method]]
method = "best-feature"
"""


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    return tmp_path


def with_options(*lines):
    return TRIALS.replace('features = "all.txt"', "\n".join(['features = "all.txt"', *lines])) + METHODS


def values(results, method):
    frame = results.per_query()
    frame = frame[(frame["method"] == method) & (frame["measure"] == "AP")]
    return {(row.split, row.query): row.value for row in frame.itertuples()}


def by_hand(data, scores_of):
    """AP of every test query of every trial; ``scores_of`` training, validation and test data."""
    found = {}
    splits = QueryTrials(3, train=10, valid=8, test=12, random_state=0).split_queries(data)
    for number, split in enumerate(splits, 1):
        parts = split.apply(data)
        table = evaluate(parts[2], scores_of(*parts), measures=["AP"])
        found |= {(number, q): v for q, v in zip(table.query_ids.tolist(), table.values[:, 0].tolist(), strict=True)}
    return found


def trained(columns):
    def scores_of(train, valid, test):
        train, valid, test = (part.with_features(part.X[:, columns]) for part in (train, valid, test))
        ranker = StructuredSVM("map", "auto", C_grid=[0.1, 1, 10], max_passes=20).fit(train, eval_set=valid)
        return ranker.predict(test)

    return scores_of


@pytest.mark.parametrize("listed", ["[3]", '["f3"]', '["?3", 3]'])
def test_features_are_left_out(folder, listed):
    results = run_experiment(write_experiment(folder, with_options(f"without = {listed}")))
    data = read_data(folder / "all.txt")
    assert values(results, "svm-map") == by_hand(data, trained([0, 1, 3]))
    about = results.manifest["data"][0]
    assert about["features"] == 3
    assert about["notes"][0] == "left out 1 of 4 features"


def test_trained_without_the_best_and_compared_with_it(folder):
    """The best one over the test queries of all trials, by AP, the first measure."""
    listed = run_experiment(write_experiment(folder, with_options("without = [1]", "without_best = true")))
    data = read_data(folder / "all.txt")
    means = [evaluate(data, data.X[:, j], measures=["AP"]).means["AP"] for j in range(4)]
    best = 1 + int(np.argmax(means[1:]))
    others = [j for j in range(1, 4) if j != best]
    assert values(listed, "svm-map") == by_hand(data, trained(others))
    assert values(listed, "best-feature:hindsight") == by_hand(data, lambda _, __, test: test.X[:, best])
    name = f"f{best + 1}"
    note = (
        f"best feature in hindsight: {name}, AP {means[best]:.4f} on the test queries; methods are trained without it"
    )
    assert listed.manifest["data"][0]["notes"] == ["left out 1 of 4 features", note]
    runs = listed.runs()
    chosen = runs[runs["method"] == "best-feature"]["parameters"]
    assert {json.loads(text)["feature"] for text in chosen} <= {"f2", "f3", "f4"}


def test_with_the_best_again_only_what_was_trained_is_computed_again(folder):
    path = write_experiment(folder, with_options("without_best = true"))
    first = run_experiment(path)
    before = {method: values(first, method) for method in ("best-feature:hindsight", "svm-map")}
    assert len(list((first.folder / "cells").iterdir())) == 4 * 3
    write_experiment(folder, with_options())
    again = run_experiment(path)
    assert len(list((first.folder / "cells").iterdir())) == 4 * 3 + 3  # of svm-map
    assert values(again, "best-feature:hindsight") == before["best-feature:hindsight"]
    assert values(again, "svm-map") != before["svm-map"]


def test_a_feature_may_have_another_name_in_every_data_set(folder):
    """One method for both: BM25 is the second feature of one data set, and the fourth of the other."""
    other = TRIALS[TRIALS.index("[[data]]") : TRIALS.index("[protocol]")].replace('"all"', '"other"')
    text = with_options("names = { BM25 = 2 }", 'without = ["f3"]').replace(
        "[protocol]",
        other.replace('features = "all.txt"', 'features = "all.txt"\nnames = { BM25 = "f4" }') + "[protocol]",
    )
    results = run_experiment(write_experiment(folder, text + '[[method]]\nmethod = "feature:BM25"\n'))
    assert results.failures == []
    data, frame = read_data(folder / "all.txt"), results.per_query()
    for name, column in (("all", 1), ("other", 3)):
        rows = frame[(frame["data"] == name) & (frame["method"] == "feature:BM25") & (frame["measure"] == "AP")]
        found = {(row.split, row.query): row.value for row in rows.itertuples()}
        assert found == by_hand(data, lambda _, __, test, at=column: test.X[:, at])
    assert [about["features"] for about in results.manifest["data"]] == [3, 4]


def test_features_are_scaled_within_queries_before_anything_else(folder):
    results = run_experiment(write_experiment(folder, with_options('scale = "minmax"', "clean = true")))
    data, found = Cleaner().clean(QueryScaler("minmax").transform(read_data(folder / "all.txt")))
    assert found.queries_emptied == 0
    scaled = values(results, "svm-map")
    assert scaled == by_hand(data, trained([0, 1, 2, 3]))
    assert results.manifest["data"][0]["notes"][0] == "features scaled within every query: minmax"
    unscaled = run_experiment(write_experiment(folder, with_options("clean = true")))
    assert values(unscaled, "svm-map") != scaled


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("names = { a = 5 }", r"a is 5, which is no feature; expected a number from 1 to 4, or a name such as f1"),
        ("names = { f1 = 2 }", "names gives two features one name"),
        ("without = [5]", r"without lists 5, which is no feature; expected a number from 1 to 4, a name such as f1"),
        ('without = ["bm25*"]', "without lists 'bm25*', which is no feature"),
        ('without = ["f?"]', "without lists all features; expected some to be left"),
    ],
)
def test_features_that_cannot_be_left_out(folder, line, message):
    experiment = load_experiment(write_experiment(folder, with_options(line)))
    with pytest.raises(InputError, match=message.replace("*", r"\*")):
        run_experiment(experiment)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("without = 3", "without is 3; expected a list of names and numbers of features"),
        ("without = [0]", "expected a list of names and numbers of features"),
        ("names = 3", "names is 3; expected a table"),
        ("names = { a = 0 }", "a is 0; expected the name of a feature, or its number from 1"),
        ('scale = "minmx"', "unknown scale 'minmx'; did you mean minmax?"),
        ("scale = 1", "scale is 1; expected a string"),
        ("without_best = 1", "without_best is 1; expected true or false"),
    ],
)
def test_mistakes_in_the_file(folder, line, message):
    _, problems = check_text(with_options(line), folder / "exp.toml")
    assert [message in problem.message for problem in problems] == [True]


def test_a_background_has_the_same_features(folder):
    write_rich(folder)
    keys = 'scale = "minmax"\nnames = { a = 1 }\nwithout = [1]\nwithout_best = true\n'
    text = FIXED + keys + BACKGROUND + '[[method]]\nmethod = "adapt:background"\n'
    _, problems = check_text(text, folder / "exp.toml")
    assert ["does not go with a background" in problem.message for problem in problems] == [True] * 4
