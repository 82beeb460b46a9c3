"""What every ranker promises of ``fit``: parameters, validation data, facts, and warnings."""

import dataclasses
import warnings
from dataclasses import replace

import numpy as np
import pytest
from contract import QUICK, all_rankers, bits, make
from scipy import sparse
from sklearn.base import clone

from rankwright import InputError, InputWarning, RankingData, RankingSVM, evaluate
from rankwright.measures import Measure
from rankwright.rankers.facts import Fitted, Kind

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
    **dict.fromkeys(("learning_rate", "lam"), NO_NUMBER),
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
    "cv": (0, 1, 2.5, True, "five"),
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
    """The ranker with something to choose on validation data, not by folds."""
    if hasattr(ranker, "members"):
        ranker.set_params(cv="auto")
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


def test_validation_queries_that_were_trained_on_are_warned_of():
    X, y, qid = make(n_queries=4)
    with pytest.warns(InputWarning, match="1 of 1 validation query is also in the training data"):
        RankingSVM(C=1.0).fit(X, y, qid, eval_set=(X[qid == qid[0]], y[qid == qid[0]], qid[qid == qid[0]]))


def test_wrong_validation_data_gives_one_line(ranker):
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
        ("eval_set has infinite features", {"eval_set": replace(data, X=np.where(X > 1, np.inf, X))}),
        *([] if ranker._allow_missing else [("eval_set has missing features", {"eval_set": gappy})]),
    ]
    for message, form in wrong:
        with pytest.raises(InputError, match=message) as caught:
            choosing(clone(ranker)).fit(*make(), **form)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="the training data has infinite features"):
        ranker.fit(replace(data, X=np.where(X > 1, -np.inf, X)))
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
