"""Finite numbers so large that sums or squares of them are not: a clear error, or the result that they should have."""

import numpy as np
import pandas as pd
import pytest
from contract import QUICK, all_rankers, bits, make
from scipy import sparse
from sklearn.base import clone

from rankwright import InputError, RankingData
from rankwright.boosting.tree_rankers import LambdaMART
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM

TOP = np.finfo(np.float64).max
HUGE = {
    "one value": lambda x: np.where(np.arange(len(x)) == 7, 1e300, x),
    "a column": lambda x: x * 1e300,
    "both ends": lambda x: np.where(np.arange(len(x)) < 90, TOP, -TOP),
    "the same everywhere": lambda x: np.full_like(x, 1e308),
}
FORMS = {"dense": np.asarray, "csr": sparse.csr_array, "frame": lambda X: pd.DataFrame(X, columns=list("abcde"))}


RAW = {"standardize": False, "scale": False}
KINDS = [(cls, {}) for cls in all_rankers()] + [
    (cls, RAW) for cls in all_rankers() if RAW.keys() & set(cls().get_params())
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0].__name__ + ", raw" * bool(kind[1]))
def quick(request):
    """Every ranker, with its features scaled in training and, where this can be switched off, as they are."""
    cls, raw = request.param
    few = {"n_trees": 5, "n_rounds": 8, "epochs": 3, "members": ["lambdamart-4"]}
    ranker = cls(**QUICK.get(cls.__name__, {}))
    return ranker.set_params(**{name: value for name, value in (few | raw).items() if hasattr(ranker, name)})


def outcome(use):
    """What comes of it: a result, or the one line of an error."""
    try:
        return use(), ""
    except InputError as error:
        return None, str(error)


def with_column(X, change):
    X = X.copy()
    X[:, 1] = change(X[:, 1])
    return X


@pytest.mark.parametrize("kind", HUGE)
def test_training_on_huge_features(quick, kind):
    X, y, qid = make(noise=1.0)
    huge = with_column(X, HUGE[kind])
    if quick._allow_missing:  # trees compare features only
        X[:, 1] = np.unique(huge[:, 1], return_inverse=True)[1]
        (one, given), (other, plain) = ((clone(quick).fit(rows, y, qid), rows) for rows in (huge, X))
        assert np.isfinite(one.predict(given)).all()
        if not hasattr(quick, "members"):  # folds depend on the numbers, and the trees chosen on the folds
            assert one.score(given, y, qid) == pytest.approx(other.score(plain, y, qid), abs=0.05)
        return
    for name, form in FORMS.items():
        which = r"feature 'b'" if name == "frame" else r"feature 1 \(from 0\)"
        with pytest.raises(
            InputError, match=rf"{which} of the training data reaches \S+; expected values up to 1e\+"
        ) as e:
            clone(quick).fit(form(huge), y, qid)
        assert "\n" not in str(e.value)
    if quick._validates:
        with pytest.raises(InputError, match=r"feature 1 \(from 0\) of eval_set reaches"):
            clone(quick).fit(X, y, qid, eval_set=(huge, y, qid))


def test_large_features_do_no_harm_where_they_are_scaled(ranker):
    if not getattr(ranker, "standardize", False):
        return
    few = {"n_rounds": 20, "epochs": 10}
    ranker.set_params(**{name: value for name, value in few.items() if hasattr(ranker, name)})
    X, y, qid = make(noise=1.0)
    large = with_column(X, lambda x: np.ldexp(x, 960))
    tiny = with_column(X, lambda x: np.ldexp(x, -1060))  # too small to be divided by: as if constant
    for one, other in ((X, large), (with_column(X, np.zeros_like), tiny)):
        plain, fitted = clone(ranker).fit(one, y, qid), clone(ranker).fit(other, y, qid)
        assert np.isfinite(fitted.predict(other)).all()
        assert fitted.score(other, y, qid) == pytest.approx(plain.score(one, y, qid), abs=0.02)
        if hasattr(ranker, "tol"):  # one optimum
            assert fitted.objective_ == pytest.approx(plain.objective_, rel=2 * ranker.tol)


@pytest.mark.parametrize("kind", HUGE)
def test_scores_of_huge_features(quick, kind):
    X, y, qid = make(noise=1.0)
    quick.fit(pd.DataFrame(X, columns=list("abcde")), y, qid)
    frame = pd.DataFrame(with_column(X, HUGE[kind]), columns=list("abcde"))
    scores, message = outcome(lambda: quick.predict(frame))
    if scores is None:
        assert "its feature 'b' is " in message
        assert "\n" not in message
    else:
        assert np.isfinite(scores).all()
        assert 0 <= quick.score(frame, y, qid) <= 1


def test_a_score_out_of_range_names_the_feature():
    X, y, qid = make()
    ranker = RankingSVM(C=100.0).fit(RankingData.from_arrays(X * 1e-3, y, qid))
    assert np.abs(ranker.coef_).max() > 10
    with pytest.raises(InputError, match=r"the score of row 3 \(from 0\) is -?inf: its feature 'f1' is 1.7e\+308; "):
        ranker.predict(np.where(np.arange(len(y))[:, None] == 3, [[1.7e308, 1, 1, 1, 1]], X))


def test_numbers_beyond_float64():
    X, y, qid = make()
    for value in (10**400, np.longdouble("1e4000")):
        wrong = X.astype(object) if isinstance(value, int) else X.astype(np.longdouble)
        wrong[3, 1] = value
        with pytest.raises(InputError):
            RankingSVM().fit(wrong, y, qid)
        with pytest.raises(InputError):
            RankingSVM().fit(X, y, qid).predict(wrong)


@pytest.mark.parametrize("label", [1100, 1e17, 1e300, TOP])
def test_huge_labels(quick, label):
    X, y, qid = make(noise=1.0)
    labels = np.where(np.arange(len(y)) % 50 == 3, label, y.astype(float))
    scores, message = outcome(lambda: clone(quick).fit(X, labels, qid).predict(X))
    assert (
        message.startswith((f"the label {label:g} is too large for nDCG", "LightGBM says: "))
        if scores is None
        else np.isfinite(scores).all()
    )
    quick.fit(X, y, qid)
    with pytest.raises(InputError, match="is too large for nDCG"):
        quick.score(X, labels, qid)
    assert 0 < quick.score(X, labels, qid, measure="AP") <= 1


@pytest.mark.parametrize("measure", ["err", "rbp", "mrr", "map", "auc"])
def test_huge_labels_and_other_measures(measure):
    X, y, qid = make(noise=1.0)
    labels = np.where(np.arange(len(y)) % 50 == 3, 1e300, y.astype(float))
    for ranker in (LambdaMART(n_trees=3, min_rows=2, measure=measure), StructuredSVM("auc", eval_measure=measure)):
        scores, message = outcome(lambda one=ranker: one.fit(X, labels, qid, eval_set=(X, labels, qid)).predict(X))
        assert "1e+300" in message if scores is None else np.isfinite(scores).all()


def test_labels_that_are_no_numbers(quick):
    X, y, qid = make(noise=1.0)
    quick.fit(X, y, qid)
    for label, what in ((np.nan, "NaN"), (np.inf, "infinity")):
        labels = np.where(np.arange(len(y)) == 3, label, y)
        for use in (clone(quick).fit, quick.score):
            with pytest.raises(InputError, match=f"y contains {what}"):
                use(X, labels, qid)
    assert bits(quick.predict(X)) == bits(quick.predict(X.copy()))
