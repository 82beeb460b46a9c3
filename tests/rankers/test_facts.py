"""Facts of a training say how they are shown: in JSON, where an estimator is displayed, on the command line."""

import dataclasses
import json

import pytest

from rankwright.rankers.facts import Certificate, Fitted, Kind, Notice, Proof, Rounds, percent
from rankwright.training.train import train

PROOF = Proof("AP", 0.87654, 0.81239)
CERTIFICATE = Certificate(2.5, 0.001, 10, 30, True, proof=PROOF)
USELESS = {"objective_ratio": 0.999, "larger": False}


def fitted(**facts):
    return Fitted(
        **{"n_queries": 3, "n_queries_skipped": 0, "n_docs": 9, "n_features": 2, "seconds": 1.0, "measure": "AP"}
        | facts
    )


@pytest.mark.parametrize(
    ("changes", "useless", "lines"),
    [
        (
            {},
            None,
            [
                ("objective", "2.5, proved to be within 0.11 % of the best possible"),
                ("proved", "AP ≥ 0.8123 over the queries trained on"),
            ],
        ),
        ({"gap": 0.0, "proof": None}, None, [("objective", "2.5, proved to be the best possible")]),
        (
            {"gap": 0.8, "proof": None},
            None,
            [("objective", "2.5, far from proved: the best possible is somewhere between 0.5 and this")],
        ),
        ({}, USELESS, [("objective", "2.5, 99.9 % of that at weights of 0")]),
        (
            {"bound": "ramp", "convex_rounds": 1, "start": "svm-map with C = 1", "gap": 0.0, "proof": None},
            None,
            [("ramp bound", "1 round from svm-map with C = 1; its convex problem proved to be the best possible")],
        ),
        (
            {"bound": "ramp", "convex_rounds": 2, "gap": 0.0, "proof": None},
            None,
            [("ramp bound", "2 rounds from the given weights; the last convex problem proved to be the best possible")],
        ),
        (
            {"gap": 0.0, "proof": dataclasses.replace(PROOF, at_least=-0.1)},
            None,
            [("objective", "2.5, proved to be the best possible")],
        ),
    ],
)
def test_a_certificate_in_words(changes, useless, lines):
    assert list(dataclasses.replace(CERTIFICATE, **changes).lines(useless)) == lines


def test_what_is_proved_is_rounded_to_the_safe_side():
    assert percent(0.00101) == "0.11 %"
    assert percent(0.0) == "0.00001 %"


def test_the_choice_of_C_in_words():
    tried = tuple({"C": C, "AP": 0.5} for C in (0.1, 1.0, 10.0))
    facts = fitted(C=10.0, tried=tried, certificate=CERTIFICATE)
    lines = list(facts.lines(chosen=True, valid="v.txt", compiled=True))
    assert lines[0] == ("C", "10, the best of 3 by AP on v.txt, at the high end: --C-grid can go further")
    assert lines[1] == ("", "0.1: 0.5000      1: 0.5000        10: 0.5000")
    assert lines[-1] == ("passes", "30 over the data for 3 values of C, 1.00 s, compiling included")
    assert next(fitted(C=1.0).lines(chosen=False, valid="", compiled=False)) == ("C", "1")
    for changes in ({"C": 1.0}, {"certificate": dataclasses.replace(CERTIFICATE, bound="ramp")}):
        other = dataclasses.replace(facts, **changes)
        assert "end" not in next(other.lines(chosen=True, valid="v.txt", compiled=False))[1]
    left = dataclasses.replace(facts, C_left=2)
    assert next(left.lines(chosen=True, valid="v.txt", compiled=False))[1].endswith("; 2 more not tried")


def test_rounds_in_words():
    facts = fitted(rounds=Rounds("trees", 2, (0.4, 0.6, 0.5)))
    assert list(facts.lines(chosen=False, valid="v.txt", compiled=False)) == [
        ("trees", "2, the best of 3 by AP on v.txt, 1.00 s")
    ]
    assert dict(facts.rows())["AP, validation"] == 0.6
    assert list(fitted().lines(chosen=False, valid="", compiled=False)) == [("time", "1.00 s")]


def test_json_has_every_fact_whatever_the_method():
    without, proved = fitted().to_dict(chosen=False), fitted(certificate=CERTIFICATE).to_dict(chosen=False)
    assert without.keys() == proved.keys()
    assert (without["gap"], without["proof"], without["convex_rounds"]) == (None, None, 0)
    assert proved["proof"] == {"measure": "AP", "value": 0.87654, "at_least": 0.81239}
    useless = fitted(notices=(Notice(Kind.NO_BETTER_THAN_ZERO, "", USELESS),))
    assert useless.to_dict(chosen=False)["no_better_than_zero"] == USELESS


def test_a_training_has_them():
    from rankwright import RankingData

    data = RankingData.from_arrays([[1.0], [0.0], [3.0], [2.0]], [1, 0, 2, 0], ["a", "a", "b", "b"])
    trained = train("svm-ndcg", data, settings={"C": 1.0})
    facts = trained.facts.to_dict(chosen=False)
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["bound"], facts["start"]) == ("ramp", "svm-map with C = 1 and 8 epochs of LambdaRank for nDCG@10")
    assert facts["convex_rounds"] >= 1
    rows = dict(trained.facts.rows())
    assert (rows["objective"], rows["gap to the optimum"]) == (facts["objective"], facts["gap"])
