"""Our values against pytrec_eval and ir_measures on the same random runs, ties and unjudged documents included."""

import ir_measures
import numpy as np
import pytest
import pytrec_eval

from rankwright import evaluate, evaluate_run, parse_measure

pytestmark = pytest.mark.filterwarnings("ignore:ast.Num is deprecated:DeprecationWarning")  # ir_measures uses it

TREC_NAMES = {
    "AP": "map", "AP@10": "map_cut_10", "nDCG": "ndcg", "nDCG@5": "ndcg_cut_5", "nDCG@10": "ndcg_cut_10",
    "RR": "recip_rank", "P@5": "P_5", "P@100": "P_100", "R@10": "recall_10", "Success@1": "success_1",
    "Success@5": "success_5",
}  # fmt: skip


def random_collection(seed, n_queries=30, tied=True):
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for q in range(n_queries):
        pool = [f"d{i:03d}" for i in rng.permutation(200)]
        judged = pool[: rng.integers(1, 80)]
        retrieved = list(rng.permutation(pool))[: rng.integers(1, 150)]
        qrels[str(q)] = {d: int(label) for d, label in zip(judged, rng.integers(-1, 4, len(judged)), strict=True)}
        scores = rng.integers(0, 12, len(retrieved)) / 4 if tied else rng.normal(size=len(retrieved))
        run[str(q)] = {str(d): float(s) for d, s in zip(retrieved, scores, strict=True)}
    return qrels, run


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("tied", [True, False])
def test_equal_to_pytrec_eval(seed, tied):
    qrels, run = random_collection(seed, tied=tied)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(TREC_NAMES.values())).evaluate(run)
    ours = evaluate_run(qrels, run, list(TREC_NAMES))
    for name, trec_name in TREC_NAMES.items():
        expected = [theirs[query][trec_name] for query in ours.query_ids.tolist()]
        np.testing.assert_allclose(ours.column(name), expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["AP", "AP(rel=2)", "nDCG@10", "RR", "RR@10", "P(rel=2)@5", "R@20", "Success@5"])
def test_equal_to_ir_measures(name):
    qrels, run = random_collection(99, tied=name != "RR@10")  # there ir_measures has a tie rule of its own
    expected = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)}
    ours = evaluate_run(qrels, run, [name])
    np.testing.assert_allclose(ours.values[:, 0], [expected[q] for q in ours.query_ids.tolist()], atol=1e-6)


def test_exponential_gain_is_linear_gain_of_powers():
    qrels, run = random_collection(98)
    powers = {query: {d: 2 ** max(label, 0) - 1 for d, label in judged.items()} for query, judged in qrels.items()}
    theirs = pytrec_eval.RelevanceEvaluator(powers, {"ndcg_cut_10"}).evaluate(run)
    ours = evaluate_run(qrels, run, ["nDCG@10"], convention="letor")
    expected = [theirs[query]["ndcg_cut_10"] for query in ours.query_ids.tolist()]
    np.testing.assert_allclose(ours.values[:, 0], expected, atol=1e-6)


def test_scores_that_differ_beyond_single_precision_are_tied_as_in_trec_eval():
    qrels, run = {"1": {"a": 1, "b": 0}}, {"1": {"a": 1.0 + 1e-10, "b": 1.0}}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(run)["1"]["recip_rank"]
    assert evaluate_run(qrels, run, ["RR"]).means["RR"] == theirs == 0.5
    huge = {"1": {"a": 2e300, "b": 1e300}}
    assert evaluate_run(qrels, huge, ["RR"]).means["RR"] == 0.5


def test_arrays_and_runs_are_one_path():
    qrels, run = random_collection(5)
    for query, judged in qrels.items():
        run[query] = {d: run[query].get(d, -1.0) for d in judged}
        qrels[query] = {d: max(label, 0) for d, label in judged.items()}
    measures = [*TREC_NAMES, "AUC", "AveNDCG", "ERR@10", "nDCG(gain=linear, discount=jk)@10"]
    rows = [(q, d, qrels[q][d], run[q][d]) for q in qrels for d in qrels[q]]
    np.random.default_rng(0).shuffle(rows)
    qid, documents, labels, scores = zip(*rows, strict=True)
    from_arrays = evaluate(
        list(map(int, labels)), list(map(float, scores)), qid, doc_ids=documents, measures=measures, convention="trec"
    )
    from_runs = evaluate_run(qrels, run, measures)
    place = {query: i for i, query in enumerate(from_arrays.query_ids.tolist())}
    rows = [place[query] for query in from_runs.query_ids.tolist()]
    np.testing.assert_allclose(from_arrays.values[rows], from_runs.values, atol=1e-12)


def test_definitions_that_ir_measures_has_are_printed_as_it_writes_them():
    for name in (
        "nDCG@10",
        "AP(rel=2)",
        "nDCG(dcg='exp-log2')@10",
        "P(rel=2)@5",
        "RR@10",
        "R@5",
        "Success@3",
        "ERR@20",
    ):
        assert str(ir_measures.parse_measure(str(parse_measure(name)))) == name
