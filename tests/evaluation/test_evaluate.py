"""The per-query table: conventions, empty and missing queries, order, errors."""

import numpy as np
import pytest

from rankwright import InputError, InputWarning, RankingData, evaluate, evaluate_run

LABELS = [2, 0, 1, 0, 0]
SCORES = [0.1, 0.2, 0.9, 0.3, 0.4]
QID = ["a", "a", "b", "b", "c"]


def test_rows_in_any_order_give_the_same_table():
    straight = evaluate(LABELS, SCORES, QID, measures=["AP", "nDCG@10"])
    rng = np.random.default_rng(0)
    for _ in range(5):
        p = rng.permutation(5)
        mixed = evaluate(np.array(LABELS)[p], np.array(SCORES)[p], np.array(QID)[p], measures=["AP", "nDCG@10"])
        place = [mixed.query_ids.tolist().index(query) for query in straight.query_ids.tolist()]
        np.testing.assert_array_equal(mixed.values[place], straight.values)


def test_the_convention_decides_the_gain_and_every_table_says_so():
    letor = evaluate([2, 1], [0, 1], [1, 1], measures=["nDCG@10"])
    trec = evaluate([2, 1], [0, 1], [1, 1], measures=["nDCG@10"], convention="trec")
    assert letor.definitions == ("nDCG@10: gain 2^rel−1, discount log2, ties in input order, empty query 0",)
    assert trec.definitions == ("nDCG@10: gain rel, discount log2, ties in input order, empty query 0",)
    log3 = 1 / np.log2(3)
    assert letor.means["nDCG@10"] == pytest.approx((1 + 3 * log3) / (3 + log3))
    assert trec.means["nDCG@10"] == pytest.approx((1 + 2 * log3) / (2 + log3))


@pytest.mark.parametrize(
    ("empty", "expected"), [(0, [0.5, 1.0, 0.0]), (1, [0.5, 1.0, 1.0]), ("skip", [0.5, 1.0, np.nan])]
)
def test_a_query_without_relevant_documents_counts_as_told(empty, expected):
    table = evaluate(LABELS, SCORES, QID, measures=["AP", "AUC"], empty=empty)
    np.testing.assert_array_equal(table.column("AP"), expected)
    assert table.means["AP"] == pytest.approx(np.nanmean(expected))
    assert table.facts["without_relevant"] == 1
    assert f"empty query {empty}" in table.definitions[0]
    assert "queries without a relevant document: 1 of 3" in table.notes[0]


def test_no_query_that_counts_gives_nan():
    assert np.isnan(evaluate([0, 0], [1, 2], [1, 1], measures=["AP"], empty="skip").means["AP"])


def test_ties_follow_document_ids_descending_or_input_order():
    assert evaluate([1, 0], [5, 5], [1, 1], measures=["RR"]).means["RR"] == 1.0
    assert evaluate([1, 0], [5, 5], [1, 1], measures=["RR"], doc_ids=["a", "b"]).means["RR"] == 0.5
    assert evaluate([1, 0], [5, 5], [1, 1], measures=["RR"], doc_ids=[10, 9]).means["RR"] == 0.5  # as strings


def test_ranking_data_takes_scores_in_the_callers_order():
    data = RankingData.from_arrays(np.zeros((4, 1)), [1, 0, 0, 1], qid=[1, 2, 1, 2])
    assert evaluate(data, [1, 0, 0, 1], measures=["AP"]).means["AP"] == 1.0


def test_group_sizes():
    assert evaluate([1, 0, 0, 1], [1, 0, 0, 1], group=[2, 2], measures=["AP"]).means["AP"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [1, 2]}, "5 documents but scores of shape (2,)"),
        ({"scores": [1, 2, np.nan, 3, 4]}, "the score of document 2 (from 0) is nan"),
        ({"labels": [1, 0, -1, 0, 0]}, "the label of row 2 (from 0) is -1; labels must be finite and at least 0"),
        ({"convention": "mine"}, "expected trec or letor"),
        ({"empty": 2}, "expected 0, 1 or skip"),
        ({"measures": []}, "no measures; expected"),
        ({"measures": ["nDGC@5"]}, "did you mean nDCG"),
        ({"qid": [1, 2]}, "expected one query id per row"),
    ],
)
def test_bad_arguments_are_explained(arguments, message):
    with pytest.raises(InputError) as caught:
        evaluate(**{"labels": LABELS, "scores": SCORES, "qid": QID, **arguments})
    assert message in str(caught.value)


def test_a_measure_that_was_not_evaluated_is_named():
    with pytest.raises(InputError, match="RR was not evaluated; expected one of AP"):
        evaluate(LABELS, SCORES, QID, measures=["AP"]).column("RR")


QRELS = {"1": {"a": 1, "b": 0}, "2": {"c": 1}, "3": {"d": 0}}


def test_queries_that_a_run_lacks_count_zero_or_are_skipped():
    run = {"1": {"a": 1.0}}
    table = evaluate_run(QRELS, run, ["AP", "AUC"])
    np.testing.assert_array_equal(table.values, [[1, 1], [0, 0], [0, 0]])
    assert "judged queries missing from the run: 2 of 3, counted 0" in table.notes
    counts = {"queries": 3, "without_relevant": 1, "missing_from_run": 2, "unjudged_queries_ignored": 0}
    assert table.facts == {**counts, "Judged@10": 1.0}
    skipped = evaluate_run(QRELS, run, ["AP"], missing="skip")
    assert skipped.means["AP"] == 1.0
    assert np.isnan(skipped.values[1, 0])


def test_documents_of_unknown_queries_are_ignored_with_a_warning():
    with pytest.warns(InputWarning, match="run: ignored 2 documents of 1 unjudged queries"):
        table = evaluate_run(QRELS, {"1": {"a": 1.0}, "9": {"x": 1.0, "y": 2.0}}, ["AP"])
    assert table.query_ids.tolist() == ["1", "2", "3"]


def test_labels_below_zero_are_not_relevant():
    table = evaluate_run(
        {"1": {"a": -2, "b": 1}}, {"1": {"a": 2.0, "b": 1.0}}, ["AP", "nDCG", "nDCG(gain=exponential)"]
    )
    np.testing.assert_allclose(table.values[0], [0.5, 1 / np.log2(3), 1 / np.log2(3)])


def test_a_run_without_any_judged_query_is_all_zero():
    with pytest.warns(InputWarning, match="run: no query is judged .its first is '9', that of the judgements '1'"):
        assert evaluate_run(QRELS, {"9": {"x": 1.0}}, ["AP", "nDCG@3", "RR", "ERR"]).means["AP"] == 0.0


def test_a_run_without_any_judged_document_is_said():
    with pytest.warns(InputWarning, match="none of its documents is judged"):
        assert evaluate_run(QRELS, {"1": {"x": 1.0}}, "AP").means == {"AP": 0.0}


def test_names_and_values_are_those_of_the_command(tmp_path):
    (tmp_path / "q").write_text("1 0 a 1\n1 0 b 0\n2 0 c 0\n")
    (tmp_path / "bm25.run").write_text("1 Q0 a 1 2.5 tag\n")
    table = evaluate_run(tmp_path / "q", tmp_path / "bm25.run", measures="AP", empty="1", missing="skip")
    assert (table.name, table.means) == ("bm25", {"AP": 1.0})
    zero = evaluate_run(tmp_path / "q", tmp_path / "bm25.run", measures=["AP"], empty="0", missing="0")
    assert zero.values[:, 0].tolist() == [1.0, 0.0]
