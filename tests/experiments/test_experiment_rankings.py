"""The first documents of test queries: against a plain sort, with ties, without ids, with judgements, in the files."""

import csv

import numpy as np
from experiment_files import write_all, write_experiment

from rankwright.data.dataset import RankingData
from rankwright.data.trec_table import TrecTable
from rankwright.evaluation.evaluate import Judgements
from rankwright.experiments import Results, run_experiment, testing
from rankwright.experiments.testing import relevant_counts, top_documents


def made(ids=True, n=14, seed=0):
    """Three queries whose rows are mixed, with many equal scores."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(["a", "b", "c"], n))
    names = [f"d{at}" for at in range(len(qid))] if ids else None
    labels = rng.integers(0, 3, len(qid)) * (qid != "c")
    data = RankingData.from_arrays(np.zeros((len(qid), 1)), labels, qid, doc_ids=names)
    return data, qid, np.array(names), labels, rng.integers(0, 5, len(qid)).astype(float)


def test_documents_are_sorted_by_the_tie_rule():
    data, qid, names, labels, scores = made()
    found = top_documents(data, scores)
    for query in "abc":
        rows = sorted(np.flatnonzero(qid == query), key=lambda at: str(names[at]), reverse=True)
        rows = sorted(rows, key=lambda at: -scores[at])[:10]
        assert found[query] == [[names[at], labels[at]] for at in rows]
    assert relevant_counts(data) == {query: int((labels[qid == query] > 0).sum()) for query in "abc"}
    assert relevant_counts(data)["c"] == 0


def test_without_ids_a_document_is_its_number_in_the_query():
    data = RankingData.from_arrays(np.zeros((4, 1)), [0, 1, 2, 0.5], [7, 8, 7, 7])
    assert top_documents(data, np.array([0.1, 0.2, 0.3, 0.3])) == {
        "7": [["#2", 2], ["#3", 0.5], ["#1", 0]],
        "8": [["#1", 1]],
    }


def test_judgements_say_what_is_not_judged():
    data = RankingData.from_arrays(np.zeros((3, 1)), [0, 1, 0], ["q"] * 3, doc_ids=["x", "y", "z"])
    judged = Judgements(TrecTable.from_dict({"q": {"y": 1, "x": -1, "elsewhere": 2}}))
    scores = np.array([0.3, 0.3 + 1e-12, 0.1])  # equal in a run
    assert top_documents(data, scores, judged) == {"q": [["y", 1], ["x", -1], ["z", None]]}
    assert relevant_counts(data, judged) == {"q": 2}


def test_as_many_queries_as_are_kept(monkeypatch):
    monkeypatch.setattr(testing, "MOST_QUERIES", 2)
    data, *_, scores = made()
    assert len(top_documents(data, scores)) == 2


def test_they_are_in_the_results_folder(tmp_path):
    write_all(tmp_path)
    results = run_experiment(write_experiment(tmp_path))
    rows, tested = (
        list(csv.DictReader((results.folder / name).read_text().splitlines()))
        for name in ("rankings.csv", "per_query.csv")
    )
    first = {}
    for row in tested:
        first[row["query"]] = min(int(row["split"]), first.get(row["query"], 99))
    methods = {row["method"] for row in tested}
    expected = {(str(split), method, query) for query, split in first.items() for method in methods}
    assert {(row["split"], row["method"], row["query"]) for row in rows} == expected
    assert len(rows) == 8 * len(expected)  # of as many documents
    assert [row["rank"] for row in rows[:3]] == ["1", "2", "3"]
    frame = results.rankings()
    assert len(frame["rank"]) == len(rows)
    assert min(results.queries()["relevant"]) >= 0
    (results.folder / "rankings.csv").unlink()  # as earlier versions left folders
    text = (results.folder / "queries.csv").read_text()
    (results.folder / "queries.csv").write_text("\n".join(row.rpartition(",")[0] for row in text.splitlines()) + "\n")
    old = Results.open(results.folder)
    assert len(old.rankings()["rank"]) == 0
    assert np.isnan(list(old.queries()["relevant"])).all()
