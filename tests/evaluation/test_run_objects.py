"""Judgements and runs as other libraries hold them give the same values as files."""

import json
import os
import subprocess
import sys

import ir_measures
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankwright import evaluate_run
from rankwright.errors import InputError

RNG = np.random.default_rng(0)
RUN = {f"q{q}": {f"d{d}": float(RNG.normal()) for d in RNG.permutation(30)[:12]} for q in range(5)}
QRELS = {f"q{q}": {f"d{d}": int(RNG.integers(0, 3)) for d in range(30)} for q in range(5)}
EXPECTED = evaluate_run(QRELS, RUN, ["AP", "nDCG@10"])
ROWS = [(query, document, score) for query, row in RUN.items() for document, score in row.items()]
JUDGED = [(query, document, label) for query, row in QRELS.items() for document, label in row.items()]


def check(qrels, run):
    found = evaluate_run(qrels, run, ["AP", "nDCG@10"])
    assert np.array_equal(found.values, EXPECTED.values)
    assert found.query_ids.tolist() == EXPECTED.query_ids.tolist()


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        (("qid", "docno", "score"), ("qid", "docno", "label")),
        (("q_id", "doc_id", "score"), ("q_id", "doc_id", "rel")),
        (("query_id", "doc_id", "score"), ("query_id", "doc_id", "relevance")),
    ],
)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_data_frames(library, run, qrels):
    tables = [
        library({name: [row[at] for row in rows] for at, name in enumerate(names)})
        for names, rows in ((qrels, JUDGED), (run, ROWS))
    ]
    check(*tables)


def test_rows_of_a_frame_may_be_in_any_order_and_have_other_columns():
    frame = pd.DataFrame(ROWS, columns=["qid", "docno", "score"]).assign(query="a text", rank=0)
    shuffled = frame.sample(frac=1.0, random_state=1)
    found = evaluate_run(QRELS, shuffled, ["AP"])
    assert np.array_equal(found.values[:, 0], EXPECTED.values[:, 0])


IN_RANX = """
import json, sys
import ranx
from rankwright import evaluate_run

qrels, run = json.load(sys.stdin)
found = evaluate_run(ranx.Qrels(qrels), ranx.Run(run, name="mine"), ["AP", "nDCG@10"])
theirs = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "map")
print(json.dumps([found.name, found.values.tolist(), found.query_ids.tolist(), float(theirs)]))
"""


def test_ranx():
    """In a process of its own without compiling, which takes ranx half a minute."""
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    given = json.dumps([QRELS, RUN])
    program = [sys.executable, "-c", IN_RANX]
    done = subprocess.run(program, check=True, input=given, env=settings, capture_output=True, text=True)
    name, values, queries, theirs = json.loads(done.stdout)
    assert name == "mine"
    assert dict(zip(queries, values, strict=True)) == dict(
        zip(EXPECTED.query_ids.tolist(), EXPECTED.values.tolist(), strict=True)
    )
    assert EXPECTED.means["AP"] == pytest.approx(theirs)


def test_ir_measures():
    check([ir_measures.Qrel(*row) for row in JUDGED], [ir_measures.ScoredDoc(*row) for row in ROWS])
    check((ir_measures.Qrel(*row) for row in JUDGED), iter([ir_measures.ScoredDoc(*row) for row in ROWS]))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (pd.DataFrame({"qid": ["1"], "score": [1.0]}), "no column for docid (docid, doc_id, docno"),
        (pd.DataFrame({"qid": ["1"], "docno": ["a"], "label": [1]}), "no column for score (score, scores); --columns"),
        (pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": [np.nan]}), "'score' of the run has missing values"),
        (pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": [np.inf]}), "contains nan or inf"),
        (pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": ["x"]}), "non-numeric value; expected numbers"),
        (pd.DataFrame({"qid": [1, 1], "docno": ["a", "a"], "score": [1, 2]}), "duplicate document 'a' in query '1'"),
        ([], "the run is empty; expected at least one document"),
        ([("1", "a", 0.5)], "expected query_id, doc_id and score in every row"),
        ({"1": 0.5}, "the run has 0.5 for query '1'; expected {document: number}"),
        (3, "the run is a int; expected a file, a TrecTable"),
    ],
)
def test_other_things_are_refused(run, message):
    with pytest.raises(InputError) as error:
        evaluate_run(QRELS, run)
    assert message in str(error.value)
