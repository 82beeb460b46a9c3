"""Rankers of users: what fit is given, which models can be read without their code, and errors in their code."""

import lightgbm
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from rankwright import AutoRanker, InputError, LambdaMART, PythonRanker, RankingData, load_model, load_plugin, train
from rankwright.boosting.tree_model import TreeModel
from rankwright.models.linear import LinearModel

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 4))
QID = np.repeat(np.arange(24), 10)
Y = np.digitize(X[:, 0] - 0.5 * X[:, 2] + 0.5 * rng.normal(size=240), [0.5, 1.3])
DATA = RankingData.from_arrays(X[:160], Y[:160], QID[:160], feature_names=("a", "b", "c", "d"))
VALID = RankingData.from_arrays(X[160:], Y[160:], QID[160:], feature_names=("a", "b", "c", "d"))


class Seen:
    """Keeps what it is given."""

    def __init__(self, alpha=1.0, seed=None, n_jobs=None):
        self.made = {"alpha": alpha, "seed": seed, "n_jobs": n_jobs}

    def fit(self, X, y, group, sample_weight=None, eval_set=None, eval_group=None):
        self.given = {"X": X, "y": y, "group": group, "sample_weight": sample_weight}
        self.given |= {"eval_set": eval_set, "eval_group": eval_group}

    def predict(self, X):
        return np.tanh(X[:, 0])


class ByQid(Seen):
    def fit(self, X, y, qid):
        self.given = {"qid": qid}


def test_fit_is_given_what_it_has_names_for():
    ranker = PythonRanker(Seen, {"alpha": 2.0}, random_state=3, n_jobs=2).fit(DATA, eval_set=VALID)
    given = ranker.fitted_.given
    assert ranker.fitted_.made == {"alpha": 2.0, "seed": 3, "n_jobs": 2}
    np.testing.assert_array_equal(given["X"], DATA.X)
    np.testing.assert_array_equal(given["y"], DATA.labels)
    assert given["group"].tolist() == [10] * 16
    assert given["sample_weight"] is None
    np.testing.assert_array_equal(given["eval_set"][0][0], VALID.X)
    assert given["eval_group"][0].tolist() == [10] * 8
    weighed = PythonRanker(Seen).fit(DATA, query_weight=dict.fromkeys(range(16), 1.0) | {0: 4.0}).fitted_.given
    assert weighed["sample_weight"][0] == pytest.approx(4 * weighed["sample_weight"][10])
    assert PythonRanker(ByQid).fit(DATA).fitted_.given["qid"].tolist() == QID[:160].tolist()
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        PythonRanker(ByQid).fit(DATA, query_weight=dict.fromkeys(range(16), 1.0) | {0: 4.0})


def test_held_out_queries_decide_nothing_in_cross_validation():
    ranker = PythonRanker(Seen, cv=4).fit(DATA)
    assert ranker.fitted_.given["eval_set"] is None
    assert 0 < ranker.cv_.value <= 1
    assert PythonRanker(Seen).fit(DATA).cv_ is None


def test_weights_can_be_saved(tmp_path):
    ranker = PythonRanker(Ridge, {"alpha": 0.5}).fit(DATA)
    theirs = Ridge(alpha=0.5).fit(DATA.X, DATA.labels)
    assert isinstance(ranker.model_, LinearModel)
    ranker.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert saved.feature_names == ("a", "b", "c", "d")
    np.testing.assert_allclose(saved.predict(VALID) + theirs.intercept_, theirs.predict(VALID.X), atol=1e-12)


def test_a_booster_can_be_saved(tmp_path):
    made = lightgbm.LGBMRanker(n_estimators=5, min_child_samples=5, verbosity=-1, n_jobs=1)
    ranker = PythonRanker(made).fit(DATA, eval_set=VALID)
    assert isinstance(ranker.model_, TreeModel)
    np.testing.assert_array_equal(ranker.predict(VALID), ranker.fitted_.predict(VALID.X))
    assert not hasattr(made, "booster_")  # a copy was fitted
    assert "settings" in str(PythonRanker(made, {"n_estimators": 2}))
    with pytest.raises(InputError, match="is an object, which has its settings"):
        PythonRanker(made, {"n_estimators": 2}).fit(DATA)


def test_a_model_of_ours_inside_can_be_saved(tmp_path):
    ranker = PythonRanker(LambdaMART(n_trees=4, min_rows=5)).fit(DATA)
    assert isinstance(ranker.model_, TreeModel)
    np.testing.assert_array_equal(ranker.predict(VALID), LambdaMART(n_trees=4, min_rows=5).fit(DATA).predict(VALID))


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, LogisticRegression, Seen])
def test_any_other_scores_and_says_that_it_cannot_be_saved(kind, tmp_path):
    ranker = PythonRanker(kind).fit(DATA)  # coef_ of a classifier does not score as predict does
    np.testing.assert_array_equal(ranker.predict(VALID), ranker.fitted_.predict(VALID.X))
    with pytest.raises(InputError, match=f"{kind.__name__} cannot be saved: a model file is read without your code"):
        ranker.save(tmp_path / "m.rkw")
    assert not (tmp_path / "m.rkw").exists()
    with pytest.raises(InputError, match="cannot be explained"):
        ranker.predict_contributions(VALID)


def test_members_of_a_committee():
    auto = AutoRanker(members=["rank-svm", Ridge, Seen()], cv=2).fit(DATA)
    assert [member.name for member in auto.committee_.members] == ["rank-svm", "Ridge", "Seen"]
    with pytest.raises(InputError, match=r"members is .*; expected names from svm-map, .*, or rankers of yours"):
        AutoRanker(members=["rank-svn"]).fit(DATA)


SOURCE = """
import numpy as np

class Fine:
    def fit(self, X, y):
        pass
    def predict(self, X):
        return X[:, 0]

class Fails(Fine):
    def fit(self, X, y):
        raise KeyError("alpha")

class Short(Fine):
    def predict(self, X):
        return np.zeros(1)

class Unfit:
    pass
"""


def test_classes_of_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    trained = train(f"python:{tmp_path}/mine.py:Fine", DATA, VALID)
    assert trained.method == "python:mine.py:Fine"
    assert isinstance(trained.model, LinearModel) is False
    np.testing.assert_array_equal(trained.model.predict(VALID), VALID.X[:, 0])
    for kind, told in (
        ("Fails", r"mine.py:12: python:mine.py:Fails failed when it is fitted: KeyError: 'alpha'"),
        ("Short", "predict of python:mine.py:Short gave 1 values; expected 160 finite numbers"),
        ("Unfit", "python:mine.py:Unfit has no fit; expected a class with"),
        ("Nothing", "mine.py: has no class 'Nothing'"),
    ):
        with pytest.raises(InputError, match=told):
            train(f"python:{tmp_path}/mine.py:{kind}", DATA)
    with pytest.raises(InputError, match="does not name a class"):
        train("python:mine.txt", DATA)


def test_a_registered_name(tmp_path):
    (tmp_path / "named.py").write_text(
        f"from rankwright import register_ranker\n{SOURCE}\n@register_ranker\nclass Mine(Fine):\n    name = 'by-1st'\n"
    )
    with pytest.raises(InputError, match="unknown method 'by-1st'"):
        train("by-1st", DATA)
    load_plugin(tmp_path / "named.py")
    assert train("by-1st", DATA).method == "by-1st"
