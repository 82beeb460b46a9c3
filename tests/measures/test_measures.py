"""Measures against their definitions, written out naively, over every small tuple of labels."""

import dataclasses
import inspect
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from every_measure import with_every_measure
from rankwright.errors import InputError
from rankwright.measures import Measure, Rankings, measure_names, parse_measure
from rankwright.measures.base import REGISTRY, register

GRADES = (0, 1, 2)
BY_BRUTE_FORCE = {"Bpref", "infAP", "IPrec"}
every = with_every_measure(1, 2, 3, 9)


def hits_of(measure, labels):
    """Which of the ranked documents are relevant, as far as ranks count."""
    return [label >= measure.rel for label in labels[: measure.cutoff]]


def n_relevant(measure, judged):
    return max(sum(label >= measure.rel for label in judged), 1)


def ap(measure, labels, judged):
    hits = hits_of(measure, labels)
    return sum(sum(hits[: r + 1]) / (r + 1) for r in range(len(hits)) if hits[r]) / n_relevant(measure, judged)


def rr(measure, labels, judged):
    return next((1 / (r + 1) for r, hit in enumerate(hits_of(measure, labels)) if hit), 0.0)


def auc(measure, labels, judged):
    hits, total = hits_of(measure, labels), sum(label >= measure.rel for label in judged)
    ranked = hits + [True] * (total - sum(hits))  # relevant, not retrieved: below all
    pairs = [(i, j) for i in range(len(ranked)) for j in range(len(hits)) if ranked[i] and not ranked[j]]
    return sum(i < j for i, j in pairs) / len(pairs) if pairs else float(total > 0)


def err(measure, labels, judged):
    total, looking = 0.0, 1.0
    for r, label in enumerate(labels[: measure.cutoff]):
        stop = (2**label - 1) / 2**measure.max_rel
        total += looking * stop / (r + 1)
        looking *= 1 - stop
    return total


def ndcg(measure, labels, judged, k=None):
    def dcg(order):
        total = 0.0
        for r, label in enumerate(order[: k or measure.cutoff]):
            gain = label if measure.gain == "linear" else 2**label - 1
            gain = dict(measure.gains or ()).get(label, gain)
            if measure.discount == "log2":
                total += gain / math.log2(r + 2)
            else:
                total += gain / (1.0 if r < 2 else math.log2(r + 1))
        return total

    best = dcg(sorted(judged, reverse=True))
    return dcg(labels) / best if best else 0.0


def bpref(measure, labels, judged):
    total, others = n_relevant(measure, judged), sum(label < measure.rel for label in judged)
    value, above = 0.0, 0
    for hit in hits_of(measure, labels):
        if hit:
            value += 1 - (min(above, total) / min(others, total) if above else 0.0)
        above += not hit
    return value / total


def inferred(measure, labels, judged):
    value, hits, small = 0.0, 0, 0.00001
    for r, hit in enumerate(hits_of(measure, labels)):
        if hit:
            share = (hits + small) / (r + 2 * small) if r else 0.0
            value += 1 / (r + 1) + r / (r + 1) * share
            hits += 1
    return value / n_relevant(measure, judged)


def interpolated(measure, labels, judged):
    hits = hits_of(measure, labels)
    wanted = int(measure.recall * n_relevant(measure, judged) + 0.9)
    return max([sum(hits[: r + 1]) / (r + 1) for r in range(len(hits)) if sum(hits[: r + 1]) >= wanted], default=0.0)


def mean_ndcg(measure, labels, judged):
    return sum(ndcg(measure, labels, judged, k) for k in range(1, measure.cutoff + 1)) / measure.cutoff


def best_accuracy(measure, labels, judged):
    hits, total = hits_of(measure, labels), sum(label >= measure.rel for label in judged)
    ranked = hits + [True] * (total - sum(hits))  # relevant, not retrieved: below all
    right = [sum(ranked[:cut]) + sum(not hit for hit in ranked[cut:]) for cut in range(len(ranked) + 1)]
    return max(right) / max(len(ranked), 1)


DEFINITIONS = {
    "AP": ap,
    "AUC": auc,
    "AveNDCG": mean_ndcg,
    "BestAccuracy": best_accuracy,
    "Bpref": bpref,
    "ERR": err,
    "infAP": inferred,
    "IPrec": interpolated,
    "Judged": lambda measure, labels, judged: float(len(labels) > 0),  # of labels that all come from judgements
    "nDCG": ndcg,
    "P": lambda measure, labels, judged: sum(hits_of(measure, labels)) / measure.cutoff,
    "R": lambda measure, labels, judged: sum(hits_of(measure, labels)) / n_relevant(measure, judged),
    "RBP": lambda measure, labels, judged: (
        (1 - measure.p) * sum(measure.p**r for r, hit in enumerate(hits_of(measure, labels)) if hit)
    ),
    "Rprec": lambda measure, labels, judged: (
        sum(hits_of(measure, labels)[: n_relevant(measure, judged)]) / n_relevant(measure, judged)
    ),
    "RR": rr,
    "Success": lambda measure, labels, judged: float(any(hits_of(measure, labels))),
}


def naive(measure, labels, judged):
    """The definitions of docs/measures.md, one document at a time; a new measure needs one here."""
    return DEFINITIONS[measure.name](measure, labels, judged)


def rankings_of(lists, judged=None):
    def joined(parts):
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(int)
        return np.array([x for part in parts for x in part], float), indptr

    known = None if judged is None else Rankings(*joined(judged))
    return Rankings(*joined(lists), known)


@every
@pytest.mark.parametrize("extra", [(), (2, 0, 1)], ids=["all retrieved", "some not retrieved"])
def test_value_is_the_definition_on_every_small_tuple(measure, extra):
    lists = [labels for n in range(6) for labels in itertools.product(GRADES, repeat=n)]
    judged = [(*labels, *extra) for labels in lists]
    values = measure.value(rankings_of(lists, judged if extra else None))
    expected = [naive(measure, labels, known) for labels, known in zip(lists, judged, strict=True)]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@every
@pytest.mark.parametrize("extra", [(), (2, 1)], ids=["all retrieved", "some not retrieved"])
def test_swap_deltas_are_what_swapping_changes(measure, extra):
    for n in range(5):
        for labels in itertools.product(GRADES, repeat=n):
            judged = (*labels, *extra)
            deltas = measure.swap_deltas(labels, judged)
            assert deltas.shape == (n, n)
            for i, j in itertools.product(range(n), repeat=2):
                swapped = list(labels)
                swapped[i], swapped[j] = swapped[j], swapped[i]
                change = naive(measure, swapped, judged) - naive(measure, list(labels), judged)
                assert deltas[i, j] == pytest.approx(change, abs=1e-12)


@every
def test_fast_swap_deltas_equal_brute_force_on_longer_lists(measure):
    rng = np.random.default_rng(1)
    for n in (7, 20, 41):
        labels = rng.choice([0, 0, 0, 1, 2], n).astype(float)
        judged = np.sort(np.append(labels, rng.integers(0, 3, 5)))[::-1]
        fast, slow = measure.swap_deltas(labels, judged), measure.brute_force_swap_deltas(labels, judged)
        np.testing.assert_allclose(fast, slow, atol=1e-12)


@every
def test_fractional_labels_and_one_query_at_a_time_agree_with_a_batch(measure):
    rng = np.random.default_rng(2)
    lists = [rng.choice([0, 0.5, 1, 1.5, 2], size).tolist() for size in (0, 1, 2, 30, 0, 8)]
    together = measure.value(rankings_of(lists))
    alone = [measure.value(rankings_of([labels]))[0] for labels in lists]
    np.testing.assert_array_equal(together, alone)


@every
def test_worth_never_falls_as_labels_rise(measure):
    worth = measure.worth(np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0]))
    assert worth.dtype == np.float64
    assert (np.diff(worth) >= 0).all()


@every
def test_every_measure_but_some_is_trained_for_at_full_speed(measure):
    assert (measure.swaps() is None) == (measure.name in BY_BRUTE_FORCE)


@every
def test_a_perfect_ranking_is_not_beaten(measure):
    perfect = measure.value(rankings_of([(2, 2, 1, 0, 0)]))[0]
    for order in set(itertools.permutations((2, 2, 1, 0, 0))):
        assert measure.value(rankings_of([order]))[0] <= perfect + 1e-12


@every
def test_what_is_printed_reads_back(measure):
    assert parse_measure(str(measure)) == measure
    if hasattr(measure, "gain"):
        unresolved = dataclasses.replace(measure, gain=None)
        assert parse_measure(str(unresolved)) == unresolved


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("map", "AP"), ("ndcg@10", "nDCG@10"), ("mrr", "RR"), ("mrr@10", "RR@10"), ("recip_rank", "RR"),
        ("ndcg_cut.10", "nDCG@10"), ("ndcg_cut_5", "nDCG@5"), ("P_5", "P@5"), ("recall.100", "R@100"),
        ("precision@3", "P@3"), (" nDCG @ 10 ", "nDCG@10"), ("auc", "AUC"), ("avendcg", "AveNDCG"),
        ("nDCG(gain=linear)@10", "nDCG(dcg='log2')@10"), ("nDCG(gain='exp')@10", "nDCG(dcg='exp-log2')@10"),
    ],
)  # fmt: skip
def test_aliases(alias, name):
    assert str(parse_measure(alias)) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDGC@10", "unknown measure 'nDGC'; did you mean nDCG"),
        ("qqqq", "known: alpha_nDCG, AP, AUC"),
        ("P", "P needs a cutoff; write for example P@10"),
        ("AUC@3", "AUC has no cutoff"),
        ("P(rl=2)@5", "P has no parameter 'rl'; its parameters: rel"),
        ("nDCG@0", "expected a whole number from 1"),
        ("nDCG@x", "expected a whole number from 1"),
        ("nDCG@", "expected a whole number from 1"),
        ("nDCG@1.5", "expected a whole number from 1"),
        ("nDCG(gain=cubic)", "expected exponential or linear"),
        ("nDCG(discount=none)", "expected log2 or jk"),
        ("nDCG(dcg=foo)", "expected one of log2, exp-log2"),
        ("AP(rel)", "expected parameter=value"),
        ("AP(rel=two)", "expected a number above 0"),
        ("AP(rel=0)", "expected a number above 0"),
        ("AP(", "is not understood"),
        ("", "is not understood"),
        ("ERR(max_rel=0)", "expected a number above 0"),
        ("RBP(p=1)", "expected a number between 0 and 1"),
        ("RBP(p='x')", "expected a number between 0 and 1"),
        ("AP(rel=__import__('os'))", "expected a number above 0"),
    ],
)
def test_what_is_not_understood_is_explained_in_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_measure(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_conventions_fill_in_the_gain_and_say_so():
    measure = parse_measure("nDCG@10")
    assert measure.resolve("trec").definition() == "gain rel, discount log2"
    assert measure.resolve("letor").definition() == "gain 2^rel−1, discount log2"
    assert parse_measure("nDCG(gain=linear)").resolve("letor").gain == "linear"
    with pytest.raises(InputError, match="gain of nDCG@10 is not set"):
        measure.value(rankings_of([(1, 0)]))


@pytest.mark.parametrize(
    ("labels", "measure", "expected"),
    [  # Tables 1 to 4 of SIGIR'07: the first of two hypotheses ranks documents as numbered, the second the other way
        ((1, 0, 0, 0, 0, 1, 1, 0), "AUC", {"AP": (0.59, 0.51), "AUC": (0.47, 0.53)}),
        ((1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0), "best_acc", {"AP": (0.56, 0.51), "best_acc": (0.64, 0.73)}),
    ],
)
def test_what_is_best_for_another_measure_is_worse_for_map(labels, measure, expected):
    for name, values in expected.items():
        found = parse_measure(name).value(rankings_of([labels, labels[::-1]]))
        np.testing.assert_array_equal(found.round(2), values)
    assert expected["AP"][0] > expected["AP"][1]
    assert expected[measure][0] < expected[measure][1]


def test_a_label_above_the_scale_of_err_is_an_error():
    with pytest.raises(InputError, match=r"write ERR\(max_rel=5\)"):
        parse_measure("ERR@10").value(rankings_of([(5, 0)]))


@pytest.mark.parametrize(("convention", "label"), [("letor", 1e4), ("trec", 1e300)])
def test_a_label_whose_gain_would_overflow_is_an_error(convention, label):
    with pytest.raises(InputError, match="is too large for nDCG with gain"):
        parse_measure("nDCG").resolve(convention).value(rankings_of([(label, 0)]))


def test_cutoff_by_at_sign():
    assert str(parse_measure("nDCG") @ 10) == "nDCG@10"


def test_measures_are_immutable_values():
    assert parse_measure("ndcg@10") == parse_measure("nDCG@10")
    assert len({parse_measure("map"), parse_measure("AP")}) == 1
    with pytest.raises(AttributeError):
        parse_measure("AP").rel = 2


def test_a_name_stands_for_one_measure_only():
    class Other(Measure):
        name = "AP"

    with pytest.raises(InputError, match="is already taken by"):
        register(Other)
    assert REGISTRY["ap"].name == "AP"
    assert "AP" in measure_names()


def test_a_new_measure_needs_only_its_value():
    from dataclasses import dataclass
    from typing import ClassVar

    @dataclass(frozen=True)
    class FirstLabel(Measure):
        name: ClassVar[str] = "FirstLabel"

        def value(self, rankings):
            top = rankings.top(1)
            return top.sum(top.labels)

    deltas = FirstLabel().swap_deltas([0, 2, 1])
    np.testing.assert_array_equal(deltas, [[0, 2, 1], [2, 0, 0], [1, 0, 0]])
    with pytest.raises(InputError, match="does not define its value"):
        Measure.value(FirstLabel(), rankings_of([(1,)]))


def test_the_swap_changes_in_the_docs_are_those_of_auc():
    page = (Path(__file__).parents[2] / "docs" / "adding-a-measure.md").read_text()
    shown = page.split("```python\n")[2].split("```")[0]
    source = inspect.getsource(inspect.getmodule(REGISTRY["auc"]))
    for part in shown.split("\n\n\n"):
        assert part.strip("\n") in source
