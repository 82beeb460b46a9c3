"""Judged@k against ir_measures, and the warning of `compare` where judgements favour one side."""

import ir_measures
import numpy as np
import pytest

from rankwright import compare, evaluate, evaluate_run

CUTOFFS = (1, 3, 10, 100)


@pytest.mark.parametrize("seed", range(4))
def test_judged_is_that_of_ir_measures(seed):
    rng = np.random.default_rng(seed)
    names = [f"d{number}" for number in range(40)]
    qrels = {f"q{q}": {one: int(rng.integers(-1, 3)) for one in rng.permutation(names)[:8]} for q in range(12)}
    run = {f"q{q}": {one: float(rng.normal()) for one in rng.permutation(names)[: 1 + 3 * q]} for q in range(12)}
    ours = evaluate_run(qrels, run, [f"Judged@{k}" for k in CUTOFFS])
    measures = [ir_measures.Judged @ k for k in CUTOFFS]
    theirs = {(one.query_id, str(one.measure)): one.value for one in ir_measures.iter_calc(measures, qrels, run)}
    for at, query in enumerate(ours.query_ids.tolist()):
        for column, k in enumerate(CUTOFFS):
            assert ours.values[at, column] == pytest.approx(theirs[query, f"Judged@{k}"], abs=1e-12)
    assert 0 < ours.values.mean() < 1


def test_a_query_without_relevant_documents_counts():
    found = evaluate_run({"q": {"a": 0}}, {"q": {"a": 2.0, "b": 1.0}}, ["Judged@10", "AP"], empty="skip")
    assert found.values[0, 0] == 0.5
    assert np.isnan(found.values[0, 1])


def test_labelled_data_is_all_judged():
    assert evaluate([1, 0, 0], [3, 2, 1], [1, 1, 1], measures=["Judged@2"]).means == {"Judged@2": 1.0}


def runs_of(shares, n_queries=20):
    """A run per name: of the first ten documents, this share is judged."""
    qrels = {f"q{q}": {f"d{one}": int(one < 2) for one in range(10)} for q in range(n_queries)}
    runs = {}
    for name, share in shares.items():
        known = [f"d{one}" for one in range(round(10 * share))]
        order = [*known, *(f"{name}{one}" for one in range(10 - len(known)))]
        runs[name] = {query: {one: 10.0 - at for at, one in enumerate(order)} for query in qrels}
    return [evaluate_run(qrels, run, ["nDCG@10"], name=name) for name, run in runs.items()]


def test_compare_warns_where_judgements_favour_one_side():
    found = compare(runs_of({"old": 1.0, "new": 0.6, "other": 1.0}), tests=["t"], n_resamples=99)
    warned = [note for note in found.notes if note.startswith("warning: ")]
    told = "Judged@10 is 1.00 for old and 0.60 for new"
    assert warned == [f"warning: {told}: the judgements favour old; judge more of the top of new"]


def test_compare_is_silent_where_both_sides_are_judged_alike():
    found = compare(runs_of({"old": 0.6, "new": 0.6}), tests=["t"], n_resamples=99)
    assert not [note for note in found.notes if "Judged" in note]
    scores = [evaluate([1, 0], [1, score], [1, 1], measures=["AP"], name=str(score)) for score in (0, 2)]
    assert not [note for note in compare(scores, tests=["sign"]).notes if "Judged" in note]
