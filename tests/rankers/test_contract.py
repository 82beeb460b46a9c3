"""What every ranker of the project promises; a new one is found by its public name in ``rankwright.rankers``."""

import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import uuid
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rankwright.rankers
from rankwright import InputError, InputWarning, RankingData, evaluate
from rankwright.measures import Measure
from rankwright.models.saving import load_model
from rankwright.rankers.base import Ranker
from rankwright.rankers.facts import Fitted, Kind

# Class name → settings with which it trains in a moment; those it has by itself otherwise.
QUICK = {
    "LambdaBoost": {"n_rounds": 100},
    "LambdaRank": {"epochs": 40},
    "RankNet": {"epochs": 40},
    "LambdaMART": {"n_trees": 60, "max_leaves": 6, "min_rows": 2},
    "McRank": {"n_trees": 40, "max_leaves": 6, "min_rows": 2},
}


def all_rankers():
    """The public classes of all modules of the package, without the bases."""
    found = set()
    for info in pkgutil.walk_packages(rankwright.rankers.__path__, "rankwright.rankers."):
        module = importlib.import_module(info.name)
        public = [getattr(module, name) for name in getattr(module, "__all__", ()) if not name.startswith("_")]
        found |= {item for item in public if inspect.isclass(item)}
    classes = [item for item in found if issubclass(item, Ranker)]
    return sorted((cls for cls in classes if cls.__module__ != Ranker.__module__), key=lambda cls: cls.__name__)


@pytest.fixture(params=all_rankers(), ids=lambda cls: cls.__name__)
def ranker(request):
    return request.param(**QUICK.get(request.param.__name__, {}))


def make(n_queries=15, n_docs=12, n_features=5, noise=0.0, seed=0):
    """Labels 0 and 1, decided by a linear function in every query with a margin, and by noise."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.normal(size=(len(qid), n_features))
    y = (np.arange(len(qid)) % n_docs < n_docs // 3).astype(int)
    direction = np.array([1.0, -1.0, 0.5, 0.0, 0.0])[:n_features]
    X += np.outer(3 * y - X @ direction, direction) / (direction @ direction)  # X @ direction is now 3y
    X += noise * rng.normal(size=X.shape)
    mixed = rng.permutation(len(qid))
    return X[mixed], y[mixed], qid[mixed]


def bits(array):
    return np.asarray(array).tobytes()


def test_the_rankers_are_found():
    assert {"RankingSVM", "StructuredSVM"} <= {cls.__name__ for cls in all_rankers()}
    assert all(cls.__doc__ and cls.__doc__.strip() for cls in all_rankers())


def test_separable_data_is_ranked_perfectly(ranker):
    X, y, qid = make()
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
    "dates": lambda q: np.datetime64("2020-01-01") + int(q),
}


@pytest.mark.parametrize("kind", IDS)
def test_query_ids_of_any_type(ranker, kind):
    X, y, qid = make(noise=1.0)
    scores = clone(ranker).fit(X, y, qid).predict(X)
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
    one = clone(ranker).fit(X, y)
    assert bits(one.predict(X)) == bits(clone(ranker).fit(X, y, group=[len(y)]).predict(X))


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
    "a missing feature": ({"x": np.nan}, "X contains NaN"),
    "an endless feature": ({"x": np.inf}, "X contains infinity"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_told_in_one_line(ranker, what):
    X, y, qid = make()
    given, message = WRONG[what]
    labels = np.asarray(given.get("labels", y.astype(float)))
    if "y" in given:
        labels[3] = given["y"]
    if "x" in given:
        X[3, 1] = given["x"]
    if what == "a missing feature" and ranker._allow_missing:
        assert np.isfinite(ranker.fit(X, labels, qid).predict(X)).all()
        return
    with pytest.raises(InputError, match=message) as caught:
        ranker.fit(X, labels, given.get("qid", qid), group=given.get("group"))
    if "feature" not in what:  # of these scikit-learn has more to say
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


# What no parameter takes, and values just outside the range of those that have one.
OBJECTS = {"an object": object(), "bytes": b"1", "a set of text": {"x"}, "a complex number": 1j}
NO_COUNT = (0, -1, 2.5, "10", True, np.nan)
NO_NUMBER = (0, -1.0, np.inf, np.nan, "fast", True)
OUTSIDE = {
    **dict.fromkeys(
        ("n_trees", "n_rounds", "epochs", "batch", "min_rows", "max_passes", "max_iter"), (*NO_COUNT, None)
    ),
    **dict.fromkeys(("truncation", "patience"), NO_COUNT),
    **dict.fromkeys(("C", "tol", "relevant_from"), (*NO_NUMBER, None)),
    **dict.fromkeys(("learning_rate", "lam", "rate"), NO_NUMBER),
    **dict.fromkeys(("tree_rows", "tree_features", "randomize_nodes"), (0, -0.5, 1.01, np.nan, None, "half")),
    **dict.fromkeys(("standardize", "warm_start", "balance", "scale"), (0, 1, None, "yes", np.nan)),
    **dict.fromkeys(("measure", "loss"), ("nonsense", "ndcg@0", 3, None)),
    **dict.fromkeys(("solver", "slack", "link"), ("nonsense", None, 3)),
    "eval_measure": ("nonsense", "ndcg@0", 3),
    "max_leaves": (1, 2.5, None),
    "max_bins": (1, 256, 2.0, None),
    "hidden": (-1, 2.5, True, None),
    "weight_decay": (-1.0, np.nan, None),
    "random_state": (-1, 1 << 32, 1.5, "seed", True),
    "n_jobs": (0, 1.5, "all", True),
    "C_grid": ([], [1.0, 0.0], ["1"], 1.0, "auto"),
    "callback": (1, "print"),
    "query_scaling": ("nonsense", 3),
}


def parameters():
    return [(cls, field.name) for cls in all_rankers() for field in dataclasses.fields(cls)]


@pytest.mark.parametrize(("cls", "name"), parameters(), ids=lambda part: getattr(part, "__name__", part))
def test_a_wrong_parameter_is_named_in_one_line(cls, name):
    data = RankingData.from_arrays(*make(3))
    for value in (*OBJECTS.values(), *OUTSIDE.get(name, ())):
        ranker = cls(**QUICK.get(cls.__name__, {}) | {name: value})
        for use in (ranker.check_parameters, lambda fitted=ranker: fitted.fit(data)):
            with pytest.raises(InputError) as caught:
                use()
            message = str(caught.value)
            assert "\n" not in message
            # Of a name that is not known there is more to say than what was expected.
            assert isinstance(value, str) or (message.startswith(f"{name} is ") and "; expected " in message), message
        assert not any(fitted.endswith("_") for fitted in vars(ranker))


def test_every_parameter_is_declared_with_its_default():
    for cls in all_rankers():
        fields = {field.name: field.default for field in dataclasses.fields(cls)}
        assert cls().get_params(deep=False) == fields
        cls().check_parameters()  # defaults are in range


def choosing(ranker):
    """The ranker with something to choose on validation data."""
    return ranker.set_params(C="auto", C_grid=[0.01, 1.0]) if hasattr(ranker, "C") else ranker


def facts(ranker):
    fitted = ranker.training_
    return fitted.C, fitted.tried, fitted.rounds


def test_validation_data_in_any_form(ranker):
    X, y, qid = make(seed=1, noise=2.0)
    rows = np.argsort(qid, kind="stable")
    X, y, qid = X[rows], y[rows], qid[rows]
    data, sizes = RankingData.from_arrays(X, y, qid), np.bincount(qid)
    forms = [
        {"eval_set": (X, y, qid)},
        {"eval_set": data},
        {"eval_set": (X, y), "eval_qid": qid},
        {"eval_set": (X, y), "eval_group": sizes},
        {"eval_set": (X, y), "eval_group": sizes.tolist()},
        {"eval_set": [(X, y, qid)]},
        {"eval_set": [data]},
        {"eval_set": [(X, y)], "eval_qid": [qid]},
        {"eval_set": [(X, y)], "eval_qid": qid},
        {"eval_set": [(X, y)], "eval_group": [sizes]},
        {"eval_set": (sparse.csr_array(X), y, qid)},
    ]
    if not ranker._validates:
        for form in forms:
            with pytest.raises(InputError, match="nothing to choose on validation data; leave out eval_set"):
                clone(ranker).fit(*make(), **form)
        return
    first, *others = [choosing(clone(ranker)).fit(*make(noise=2.0), **form) for form in forms]
    for other in others:
        assert facts(other) == facts(first)
        assert bits(other.predict(X)) == bits(first.predict(X))
    kept = choosing(clone(ranker))
    kept.fit_data(RankingData.from_arrays(*make(noise=2.0)), data)
    assert facts(kept) == facts(first)


def test_validation_columns_are_those_of_the_training_data(ranker):
    if not ranker._validates:
        return
    names = list("abcde")
    train, valid = (RankingData.from_arrays(*make(seed=seed, noise=2.0), feature_names=names) for seed in (0, 1))
    turned = valid.with_features(np.column_stack([valid.X[:, ::-1], valid.X[:, 0]]), [*names[::-1], "f"])
    one, other = (choosing(clone(ranker)).fit(train, eval_set=given) for given in (valid, turned))
    assert facts(one) == facts(other)
    unnamed = RankingData.from_arrays(*make(seed=1))
    short = unnamed.with_features(unnamed.X[:, :4])  # zeros at the end left out, as in LETOR text
    padded = unnamed.with_features(np.column_stack([short.X, np.zeros(short.n_docs)]))
    one, other = (choosing(clone(ranker)).fit(*make(noise=2.0), eval_set=given) for given in (short, padded))
    assert facts(one) == facts(other)


def test_wrong_validation_data_is_told_in_one_line(ranker):
    if not ranker._validates:
        return
    X, y, qid = valid = make(seed=1)
    data = RankingData.from_arrays(*valid)
    gappy = RankingData.from_arrays(np.where(X > 1, np.nan, X), y, qid, allow_missing=True)
    wrong = [
        ("has no query ids", {"eval_set": (X, y)}),
        ("has query ids twice", {"eval_set": valid, "eval_qid": qid}),
        ("has query ids twice", {"eval_set": (X, y), "eval_qid": qid, "eval_group": [180]}),
        ("eval_qid without eval_set", {"eval_qid": qid}),
        ("eval_group without eval_set", {"eval_group": [180]}),
        ("leave out eval_qid and eval_group", {"eval_set": data, "eval_qid": qid}),
        ("eval_set is a str; expected a RankingData", {"eval_set": "valid.txt"}),
        ("has 2 validation sets", {"eval_set": [valid, valid]}),
        ("has 2 validation sets", {"eval_set": [data, data]}),
        ("group sizes add up to 3", {"eval_set": (X, y), "eval_group": [3]}),
        ("does not fit: the data has 10 features", {"eval_set": data.with_features(np.column_stack([data.X, data.X]))}),
        ("4 features", {"eval_set": (X[:, 1:], y, qid)}),
        *([] if ranker._allow_missing else [("eval_set has missing features", {"eval_set": gappy})]),
    ]
    for message, form in wrong:
        with pytest.raises(InputError, match=message) as caught:
            choosing(clone(ranker)).fit(*make(), **form)
        assert "\n" not in str(caught.value)
    if not ranker._allow_missing:
        with pytest.raises(InputError, match="the training data has missing features"):
            ranker.fit(gappy)


def test_the_facts_of_a_training(ranker):
    data, valid = RankingData.from_arrays(*make(noise=2.0)), RankingData.from_arrays(*make(seed=1, noise=2.0))
    choosing(ranker)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ranker.fit_data(data, valid if ranker._validates else None)
    assert ranker.training_ is found
    assert isinstance(found, Fitted)
    assert isinstance(found.measure, Measure)
    assert found.measure == ranker.measure_to_choose_by()
    assert (found.n_queries, found.n_queries_skipped, found.n_docs, found.n_features) == (15, 0, 180, 5)
    assert (found.interrupted, found.C_left) == (False, 0)
    assert 0 < found.seconds < 60
    if hasattr(ranker, "C"):
        assert [row["C"] for row in found.tried] == [0.01, 1.0]
        best = max(found.tried, key=lambda row: row[str(found.measure)])
        assert best["C"] == found.C == ranker.C_
    if found.certificate is not None:
        assert found.certificate.passes_total == sum(row["passes"] for row in found.tried)
        assert found.certificate.reached == (ranker.gap_ <= ranker.tol)
    if found.rounds is not None:
        value = evaluate(valid, ranker.predict(valid), measures=[found.measure]).means[str(found.measure)]
        assert found.rounds.value == value == max(found.rounds.values)
        assert len(found.rounds.values) == len(ranker.path_)
    assert (found.C is None) == (not hasattr(ranker, "C"))


def test_weights_of_queries_are_those_of_fit(ranker):
    X, y, qid = make(noise=2.0)
    weights = np.arange(15) % 4
    by_name = clone(ranker).fit(X, y, qid, query_weight=dict(enumerate(weights)))
    data = RankingData.from_arrays(X, y, qid)
    ranker.fit_data(data, weights=weights[data.query_ids])
    assert bits(ranker.predict(X)) == bits(by_name.predict(X))
    for wrong in (weights[1:], -weights, np.zeros(15)):
        with pytest.raises(InputError, match="weights"):
            ranker.fit_data(data, weights=wrong)


def test_ctrl_c_is_a_fact_and_a_warning(ranker):
    if not hasattr(ranker, "callback"):
        return
    seen = []

    def press(row):
        seen.append(row)
        if len(seen) == 3:
            raise KeyboardInterrupt

    data = RankingData.from_arrays(*make(noise=2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clone(ranker).set_params(callback=press).fit_data(data)
    assert found.interrupted
    assert [notice.kind for notice in found.notices] == [Kind.INTERRUPTED]
    seen.clear()
    with pytest.warns(InputWarning, match="^training was interrupted; the model ") as caught:
        ranker.set_params(callback=press).fit(data)
    assert [str(one.message) for one in caught] == [notice.text for notice in found.notices]
    assert caught[0].filename == __file__


def test_nothing_to_order_is_a_fact_and_a_warning(ranker):
    X, _, qid = make()
    data = RankingData.from_arrays(X, np.ones(len(X)), qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clone(ranker).fit_data(data)
    assert [notice.kind for notice in found.notices] == [Kind.NOTHING_TO_ORDER]
    with pytest.warns(InputWarning, match=": there is nothing to ") as caught:
        ranker.fit(data)
    assert [str(one.message) for one in caught] == [notice.text for notice in found.notices]
    assert caught[0].filename == __file__
