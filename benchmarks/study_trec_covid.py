"""Rankwright's values beside pytrec_eval's on every submission to TREC-COVID, query by query.

Needs the folder `trec_covid_runs` (one `.npz` per round: qid, docid, label, score[n, R], runs[R]; nan = not retrieved)
in the given folder or in RANKWRIGHT_DATA. It contains judged documents only, so the values are not the official ones;
both programs see the same input. `--results FILE` writes the figures as data.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytrec_eval

from figures import Table
from rankwright import TrecTable, evaluate_run
from rankwright.evaluation.evaluate import Judgements
from study_runs import Shown, run_study

MEASURES = {
    "AP": "map", "nDCG": "ndcg", "nDCG@10": "ndcg_cut_10", "nDCG@20": "ndcg_cut_20", "RR": "recip_rank",
    "P@5": "P_5", "P@20": "P_20", "R@10": "recall_10", "R@100": "recall_100", "Success@1": "success_1",
    "Success@10": "success_10",
}  # fmt: skip


def pages(root: Path) -> Iterator[Shown]:
    """Compare all values of all runs, round by round."""
    rows = []
    for number, file in enumerate(sorted((root / "trec_covid_runs").glob("*.npz")), 1):
        with np.load(file, allow_pickle=False) as archive:
            columns = {name: archive[name] for name in ("qid", "docid", "label", "score", "runs")}
        rows.append([number, len(columns["runs"]), *_compare(**columns)])
    yield {"pytrec_eval-terrier": version("pytrec_eval-terrier"), "measures": list(MEASURES)}
    head = ["round", "submissions", "values", "tied documents", "largest difference"]
    yield Table("rounds", head, rows, ["", "integer", "integer", "integer", "2 significant"])


def _compare(
    qid: np.ndarray, docid: np.ndarray, label: np.ndarray, score: np.ndarray, runs: np.ndarray
) -> tuple[int, int, float]:
    """The number of values of all runs and of documents with the score of another, and the largest difference."""
    judged = Judgements(TrecTable.from_columns(qid, docid, label, "qrels"))
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in zip(
        qid.astype(str).tolist(), docid.astype(str).tolist(), label.tolist(), strict=True
    ):
        qrels.setdefault(query, {})[document] = int(grade)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, set(MEASURES.values()))
    largest, values, tied = 0.0, 0, 0
    for column in range(len(runs)):
        kept = ~np.isnan(score[:, column])
        table = TrecTable.from_columns(qid[kept], docid[kept], score[kept, column])
        run: dict[str, dict[str, float]] = {}
        _, sizes = np.unique(
            np.array([qid[kept].astype(str), score[kept, column].astype(str)]), axis=1, return_counts=True
        )
        tied += int(sizes[sizes > 1].sum())
        rows = zip(
            qid[kept].astype(str).tolist(), docid[kept].astype(str).tolist(), score[kept, column].tolist(), strict=True
        )
        for query, document, number in rows:
            run.setdefault(query, {})[document] = number
        theirs = evaluator.evaluate(run)
        ours = evaluate_run(judged, table, list(MEASURES))
        for query, row in zip(ours.query_ids.tolist(), ours.values, strict=True):
            expected = [theirs[query][name] for name in MEASURES.values()] if query in theirs else 0.0
            largest = max(largest, float(np.abs(row - expected).max()))
            values += len(row)
    return values, tied, largest


if __name__ == "__main__":
    run_study(__doc__, ("trec_covid_runs",), pages)
