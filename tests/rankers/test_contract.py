"""What every ranker of the project promises; a new one is found by its public name in ``rankwright.rankers``."""

import pickle
import uuid
from functools import cache

import numpy as np
import pandas as pd
import pytest
from contract import QUICK, THOROUGH, all_rankers, bits, make
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwright import InputError, RankingData, evaluate
from rankwright.models.saving import load_model


def test_the_rankers_are_found():
    assert {"RankingSVM", "StructuredSVM"} <= {cls.__name__ for cls in all_rankers()}
    assert all(cls.__doc__ and cls.__doc__.strip() for cls in all_rankers())


def test_separable_data_is_ranked_perfectly(ranker):
    X, y, qid = make()
    ranker.set_params(**{name: value for name, value in THOROUGH.items() if hasattr(ranker, name)})
    scores = ranker.fit(X, y, qid).predict(X)
    assert scores.shape == (len(y),)
    assert scores.dtype == np.float64
    assert set(evaluate(y, scores, qid, measures=["nDCG", "nDCG@10", "AP"]).means.values()) == {1.0}
    new = make(seed=1)
    assert evaluate(new[1], ranker.predict(new[0]), new[2], measures=["AP"]).means["AP"] > 0.95
    assert ranker.score(*new) == evaluate(new[1], ranker.predict(new[0]), new[2], measures=["nDCG@10"]).means["nDCG@10"]


def test_the_same_data_gives_the_same_model_bit_for_bit(ranker):
    X, y, qid = make(noise=1.0)
    first = clone(ranker).fit(X, y, qid).predict(X)
    assert bits(clone(ranker).fit(X, y, qid).predict(X)) == bits(first)
    again = ranker.fit(*make(noise=2.0, seed=3)).fit(X, y, qid)  # what was fitted before is forgotten
    assert bits(again.predict(X)) == bits(first)


def test_fit_leaves_its_input_and_its_settings_alone(ranker):
    X, y, qid = make(noise=1.0)
    before, settings = [bits(part) for part in (X, y, qid)], ranker.get_params()
    assert ranker.fit(X, y, qid) is ranker
    assert [bits(part) for part in (X, y, qid)] == before
    assert ranker.get_params() == settings
    for part in (X, y, qid):
        part.flags.writeable = False
    clone(ranker).fit(X, y, qid).predict(X)


def test_the_order_of_rows_and_of_queries_does_not_matter(ranker):
    if type(ranker).__name__ == "LibraryRanker":
        pytest.skip("the order of its sums is the library's")
    X, y, qid = make(noise=1.0)
    scores = clone(ranker).fit(X, y, qid).predict(X)
    rng = np.random.default_rng(1)
    by_query = np.argsort(qid, kind="stable")
    backwards = np.argsort(-qid, kind="stable")
    for rows in (rng.permutation(len(y)), by_query, backwards):
        other = clone(ranker).fit(X[rows], y[rows], qid[rows])
        np.testing.assert_allclose(other.predict(X), scores, rtol=1e-6, atol=1e-6 * np.abs(scores).max())


IDS = {
    "text": lambda q: f"query {q}",
    "numbers, descending": lambda q: -int(q),
    "floats": lambda q: q / 7,
    "bytes": lambda q: str(q).encode(),
    "objects": lambda q: uuid.UUID(int=int(q)),
    "tuples": lambda q: ("topic", int(q)),
    "mixed": lambda q: str(q) if q % 2 else int(q),
    "dates": lambda q: np.datetime64("2020-01-01") + np.timedelta64(int(q), "D"),
}


@cache
def scores_by_numbers(cls):
    """Scores of a ranker that was trained with whole numbers as query ids."""
    X, y, qid = make(noise=1.0)
    return cls(**QUICK.get(cls.__name__, {})).fit(X, y, qid).predict(X)


@pytest.mark.parametrize("kind", IDS)
def test_query_ids_of_any_type(ranker, kind):
    X, y, qid = make(noise=1.0)
    scores = scores_by_numbers(type(ranker))
    named = [IDS[kind](q) for q in qid]
    assert bits(clone(ranker).fit(X, y, named).predict(X)) == bits(scores)
    column = np.empty(len(named), object)
    column[:] = named
    assert bits(clone(ranker).fit(X, y, column).predict(X)) == bits(scores)


def test_group_sizes_are_query_ids(ranker):
    X, y, qid = make(noise=1.0)
    rows = np.argsort(qid, kind="stable")
    X, y, qid = X[rows], y[rows], qid[rows]
    group = np.bincount(qid)
    by_id, by_size = clone(ranker).fit(X, y, qid), clone(ranker).fit(X, y, group=group)
    assert bits(by_size.predict(X)) == bits(by_id.predict(X))
    assert by_size.score(X, y, group=group) == by_id.score(X, y, qid)


def test_scores_come_in_the_callers_order(ranker):
    X, y, qid = make(noise=1.0)
    scores = ranker.fit(X, y, qid).predict(X)
    rows = np.random.default_rng(2).permutation(len(y))
    assert bits(ranker.predict(X[rows])) == bits(scores[rows])
    assert bits(ranker.predict(X[:1])) == bits(scores[:1])
    assert bits(ranker.predict(RankingData.from_arrays(X, y, qid))) == bits(scores)


def test_a_ranking_data_is_its_arrays(ranker):
    X, y, qid = make(noise=1.0)
    data = RankingData.from_arrays(X, y, qid, feature_names=["a", "b", "c", "d", "e"])
    from_arrays, from_data = clone(ranker).fit(X, y, qid), clone(ranker).fit(data)
    assert bits(from_data.predict(data)) == bits(from_arrays.predict(X))
    assert from_data.score(data) == from_arrays.score(X, y, qid)
    assert from_data.n_features_in_ == 5
    assert from_data.feature_names_in_.tolist() == ["a", "b", "c", "d", "e"]
    # Columns are found by name, and names do not outlive the fit that gave them.
    turned = data.with_features(X[data.rows][:, ::-1], ["e", "d", "c", "b", "a"])
    assert bits(from_data.predict(turned)) == bits(from_arrays.predict(X))
    assert not hasattr(from_data.fit(RankingData.from_arrays(X, y, qid)), "feature_names_in_")
    for more in ({"y": y}, {"qid": qid}, {"group": [len(y)]}):
        with pytest.raises(InputError, match="leave out y, qid and group"):
            clone(ranker).fit(data, **more)


def test_a_saved_model_scores_bit_equal(ranker, tmp_path):
    X, y, qid = make(noise=1.0)
    scores = ranker.fit(X, y, qid).predict(X)
    ranker.save(tmp_path / "model.rkw", measures={"nDCG@10": 0.5})
    loaded = load_model(tmp_path / "model.rkw")
    assert bits(loaded.model.score(X)) == bits(scores)
    assert bits(loaded.model.score(sparse.csr_array(X))) == bits(scores)
    assert loaded.measures == {"nDCG@10": 0.5}
    assert loaded.method
    assert loaded.training
    for name, value in loaded.parameters.items():
        assert value == ranker.get_params()[name]
    ranker.save(tmp_path / "again.rkw", measures={"nDCG@10": 0.5})
    assert (tmp_path / "again.rkw").read_bytes() == (tmp_path / "model.rkw").read_bytes()
    assert bits(pickle.loads(pickle.dumps(ranker)).predict(X)) == bits(scores)


def test_settings_survive_clone_and_set_params(ranker):
    settings = ranker.get_params()
    assert clone(ranker).get_params() == settings
    assert type(ranker)(**settings).get_params() == settings
    assert ranker.set_params(**settings) is ranker
    for name in settings:  # set as given, checked by fit only
        marker = object()
        assert getattr(clone(ranker).set_params(**{name: marker}), name) is marker
    fitted = ranker.fit(*make())
    assert not any(name.endswith("_") for name in vars(clone(fitted)))
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        ranker.set_params(nonsense=1)


def test_an_unfitted_ranker_says_so(ranker, tmp_path):
    X, y, qid = make()
    for use in (lambda: ranker.predict(X), lambda: ranker.score(X, y, qid), lambda: ranker.save(tmp_path / "model")):
        with pytest.raises(NotFittedError):
            use()
    assert not (tmp_path / "model").exists()


def test_a_wrong_number_of_features_is_named(ranker):
    X, y, qid = make()
    ranker.fit(X, y, qid)
    for other in (X[:, :4], np.column_stack([X, X]), sparse.csr_array(X[:, :4])):
        with pytest.raises(ValueError, match=f"{other.shape[1]} features.*5 features"):
            ranker.predict(other)
        with pytest.raises(ValueError, match=f"{other.shape[1]} features.*5 features"):
            ranker.score(other, y, qid)


WRONG = {
    "a negative label": ({"y": -1.0}, "label of row 3 .* at least 0"),
    "a missing label": ({"y": np.nan}, "y contains NaN"),
    "an endless label": ({"y": np.inf}, "y contains infinity"),
    "a label of text": ({"labels": ["good", "bad"] * 90}, "could not convert|must be numbers"),
    "too few labels": ({"labels": np.ones(179)}, r"\[180, 179\]"),
    "a table of labels": ({"labels": np.ones((180, 2))}, r"shape \(180, 2\)"),
    "too few query ids": ({"qid": np.arange(179)}, "180 rows but qid of shape"),
    "a table of query ids": ({"qid": np.ones((180, 2))}, "qid of shape"),
    "a missing query id": ({"qid": [None] + [1] * 179}, "qid contains None"),
    "a query id of nan": ({"qid": np.where(np.arange(180) == 5, np.nan, 1.0)}, "qid contains nan"),
    "qid and group": ({"qid": np.ones(180), "group": [180]}, "either qid .* or group"),
    "group of another size": ({"qid": None, "group": [90, 89]}, "add up to 179 but there are 180"),
    "a broken group": ({"qid": None, "group": [90.5, 89.5]}, "whole number"),
    "a missing feature": ({"x": np.nan}, r"X has missing features \(NaN\), .* fill them .*LambdaMART"),
    "an endless feature": ({"x": np.inf}, "X contains infinity"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_gives_one_line(ranker, what):
    X, y, qid = make()
    given, message = WRONG[what]
    labels = np.asarray(given.get("labels", y.astype(float)))
    if "y" in given:
        labels[3] = given["y"]
    if "x" in given:
        X[3, 1] = given["x"]
    if what == "a missing feature" and ranker._allow_missing:
        if hasattr(ranker, "members"):
            ranker.members = ["svm-map", "lambdamart-4"]
        assert np.isfinite(ranker.fit(X, labels, qid).predict(X)).all()
        return
    with pytest.raises(InputError, match=message) as caught:
        ranker.fit(X, labels, given.get("qid", qid), group=given.get("group"))
    if what != "an endless feature":  # of which scikit-learn has more to say
        assert "\n" not in str(caught.value)


def test_labels_are_needed(ranker):
    with pytest.raises(ValueError, match="requires y to be passed"):
        ranker.fit(np.ones((3, 2)))


def test_sparse_features(ranker):
    X, y, qid = make(noise=1.0)
    X[np.abs(X) < 0.7] = 0
    dense = clone(ranker).fit(X, y, qid)
    csr = clone(ranker).fit(sparse.csr_array(X), y, qid)
    scores = dense.predict(X)
    np.testing.assert_allclose(csr.predict(X), scores, rtol=1e-4, atol=1e-4 * np.abs(scores).max())
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        assert bits(dense.predict(kind(X))) == bits(scores)
        assert bits(clone(ranker).fit(kind(X), y, qid).predict(X)) == bits(csr.predict(X))
    assert csr.score(sparse.csr_array(X), y, qid) == csr.score(X, y, qid)


def test_the_names_of_a_frame_are_kept(ranker, tmp_path):
    X, y, qid = make(noise=1.0)
    names = ["bm25", "title length", "PageRank", "clicks", "age"]
    frame = pd.DataFrame(X, columns=names)
    ranker.fit(frame, pd.Series(y), qid=pd.Series(qid))
    assert ranker.feature_names_in_.tolist() == names
    assert bits(ranker.predict(frame)) == bits(clone(ranker).fit(X, y, qid).predict(X))
    assert ranker.score(frame, y, qid) == clone(ranker).fit(X, y, qid).score(X, y, qid)
    ranker.save(tmp_path / "model.rkw")
    model = load_model(tmp_path / "model.rkw").model
    assert list(model.feature_names) == names
    assert bits(model.score(X[:, ::-1], names[::-1])) == bits(ranker.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(frame[names[::-1]])
