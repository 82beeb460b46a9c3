"""Kappa against scikit-learn and statsmodels, and what is said of judges."""

import math

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from rankwright.errors import InputError
from rankwright.evaluation.agreement import agreement, cohen_kappa, fleiss_kappa


def judged(rng, n_docs, n_judges, noise):
    truth = rng.integers(0, 4, n_docs)
    return np.clip(truth[:, None] + rng.integers(-noise, noise + 1, (n_docs, n_judges)), 0, 3)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
@pytest.mark.parametrize("n_docs", [2, 5, 40, 300])
@pytest.mark.parametrize("noise", [0, 1, 3])
def test_cohen_is_that_of_scikit_learn_and_statsmodels(weights, n_docs, noise):
    first, second = judged(np.random.default_rng(n_docs + noise), n_docs, 2, noise).T
    if len({*first.tolist(), *second.tolist()}) < 2:
        pytest.skip("one grade only")
    found = cohen_kappa(first, second, weights)
    known = None if weights == "none" else weights
    assert found == pytest.approx(cohen_kappa_score(first, second, labels=[0, 1, 2, 3], weights=known), abs=1e-12)
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1)
    theirs = inter_rater.cohens_kappa(table, wt=known, return_results=False)
    assert found == pytest.approx(theirs, abs=1e-12)
    assert cohen_kappa(second, first, weights) == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("n_judges", [2, 3, 7])
@pytest.mark.parametrize("noise", [0, 1, 3])
def test_fleiss_is_that_of_statsmodels(n_judges, noise):
    grades = judged(np.random.default_rng(n_judges), 60, n_judges, noise)
    table, _ = inter_rater.aggregate_raters(grades)
    assert fleiss_kappa(grades) == pytest.approx(inter_rater.fleiss_kappa(table), abs=1e-12)


def test_where_kappa_is_not_defined():
    assert math.isnan(cohen_kappa([1, 1], [1, 1]))
    assert math.isnan(fleiss_kappa([[1, 1], [1, 1]]))
    assert cohen_kappa([0, 0], [1, 1]) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cohen_kappa([], []), "expected one of each judge"),
        (lambda: cohen_kappa([1, 2], [1]), "expected one of each judge"),
        (lambda: cohen_kappa([1], [1], "cubic"), "weights is 'cubic'"),
        (lambda: fleiss_kappa([[1], [2]]), "at least two judges"),
        (lambda: agreement({"ann": {("q", "d"): 1}}), "at least two judges; found ann"),
    ],
)
def test_bad_arguments_are_explained(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)


def test_the_documents_they_disagree_on():
    ann = {("q1", "a"): 3, ("q1", "b"): 1, ("q2", "a"): 2, ("q2", "c"): 0}
    bob = {("q1", "a"): 3, ("q1", "b"): 2, ("q2", "a"): 0}
    cyd = {("q2", "a"): 2, ("q1", "a"): 3}
    found = agreement({"ann": ann, "bob": bob, "cyd": cyd})
    assert found.judges == {"ann": 4, "bob": 3, "cyd": 2}
    assert found.disagreements == (
        ("q2", "a", {"ann": 2, "bob": 0, "cyd": 2}),
        ("q1", "b", {"ann": 1, "bob": 2}),
    )
    assert [pair.judges for pair in found.pairs] == [("ann", "bob"), ("ann", "cyd"), ("bob", "cyd")]
    assert found.pairs[0].documents == 3
    assert found.pairs[0].same == pytest.approx(1 / 3)
    assert found.documents == 2
    assert found.fleiss == pytest.approx(fleiss_kappa([[3, 3, 3], [2, 0, 2]]))


def test_judges_without_a_document_in_common():
    found = agreement({"ann": {("q", "a"): 1}, "bob": {("q", "b"): 1}})
    assert (found.pairs, found.documents, found.disagreements) == ((), 0, ())
    assert math.isnan(found.fleiss)
