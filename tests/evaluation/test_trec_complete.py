"""The measures of trec_eval, ndeval and sample_eval against these programs; ties, and gaps in the judgements."""

import ir_measures
import numpy as np
import pyndeval
import pytest
import pytrec_eval

from rankwright import (
    LambdaMART,
    LinearModel,
    RankingData,
    cross_validate,
    evaluate,
    evaluate_run,
    parse_measure,
    permutation_importance,
    read_strata,
    read_subtopics,
)
from rankwright.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:.* will be removed in Python 3.14:DeprecationWarning")  # in ir_measures

TREC_NAMES = {
    "Bpref": "bpref", "infAP": "infAP", "Rprec": "Rprec", "SetP": "set_P", "SetR": "set_recall", "SetF": "set_F",
    "SetP(relative=True)": "set_relative_P", "SetAP": "set_map", "GMAP": "gm_map",
    **{f"IPrec@{level / 10}": f"iprec_at_recall_{level / 10:.2f}" for level in range(11)},
}  # fmt: skip


def sparse_collection(seed, lowest=0, n_queries=30):
    """Judgements and a run, both with gaps; labels from ``lowest`` to 3."""
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for q in range(n_queries):
        pool = [f"d{i:03d}" for i in rng.permutation(120)]
        judged = pool[: rng.integers(1, 70)]
        retrieved = list(rng.permutation(pool))[: rng.integers(1, 100)]
        labels = rng.choice(np.arange(lowest, 4), len(judged))
        labels[0] = max(labels[0], 0)  # trec_eval crashes on a query without any judgement
        qrels[str(q)] = {d: int(label) for d, label in zip(judged, labels, strict=True)}
        run[str(q)] = {
            str(d): float(s) for d, s in zip(retrieved, rng.integers(0, 25, len(retrieved)) / 4, strict=True)
        }
    return qrels, run


@pytest.mark.parametrize("lowest", [0, -1, -2])
@pytest.mark.parametrize("seed", range(4))
def test_equal_to_trec_eval(seed, lowest):
    qrels, run = sparse_collection(seed, lowest)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"bpref", "infAP", "Rprec", "set_P", "set_recall", "set_F", "gm_map",
        "set_relative_P", "set_map", "iprec_at_recall"}).evaluate(run)  # fmt: skip
    ours = evaluate_run(qrels, run, list(TREC_NAMES))
    for name, trec_name in TREC_NAMES.items():
        expected = np.array([theirs[query][trec_name] for query in ours.query_ids.tolist()])
        if name == "GMAP":
            assert ours.means["GMAP"] == pytest.approx(np.exp(expected.mean()), abs=1e-6)
            continue
        np.testing.assert_allclose(ours.column(name), expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["Bpref(rel=2)", "Rprec(rel=2)", "SetF(beta=0.5)", "IPrec(rel=3)@0.4", "SetAP(rel=2)"])
def test_equal_to_ir_measures(name):
    qrels, run = sparse_collection(9)
    expected = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)}
    ours = evaluate_run(qrels, run, [name])
    assert ours.values[:, 0] == pytest.approx([expected[q] for q in ours.query_ids.tolist()], abs=1e-6)
    assert str(parse_measure(name)) == name


@pytest.mark.parametrize("gains", [{1: 1, 2: 3, 3: 10}, {1: 0, 2: 0, 3: 5}, {2: 2.5}])
def test_gain_tables_are_those_of_trec_eval(gains):
    qrels, run = sparse_collection(10)
    powers = {q: {d: gains.get(label, label) for d, label in judged.items()} for q, judged in qrels.items()}
    names = [f"nDCG(gains={gains})", f"nDCG(gains={gains})@5"]
    ours = evaluate_run(qrels, run, names)
    scale = {q: {d: round(2 * gain) for d, gain in judged.items()} for q, judged in powers.items()}  # whole numbers
    theirs = pytrec_eval.RelevanceEvaluator(scale, {"ndcg", "ndcg_cut_5"}).evaluate(run)
    for name, key in zip(names, ("ndcg", "ndcg_cut_5"), strict=True):
        assert ours.column(name) == pytest.approx([theirs[q][key] for q in ours.query_ids.tolist()], abs=1e-6)
    table = ", ".join(f"{label:g}→{gain:g}" for label, gain in gains.items())
    assert ours.definitions[0].startswith(f"{names[0]}: gain {table} (other labels: rel), discount log2, ")
    assert parse_measure(str(parse_measure(names[0]))) == parse_measure(names[0])


def diverse_collection(seed, n_queries=12):
    """Lines of judgements by subtopic, and a run."""
    rng = np.random.default_rng(seed)
    lines, run = [], {}
    for q in range(n_queries):
        names = [f"d{i:02d}" for i in rng.permutation(60)]
        for document in names[:40]:
            for subtopic in rng.permutation(6)[: rng.integers(1, 5)]:
                lines.append((f"q{q}", f"s{subtopic}", document, int(rng.choice([-1, 0, 0, 1, 1, 2]))))
        retrieved = rng.permutation(names)[: rng.integers(1, 50)].tolist()
        run[f"q{q}"] = {str(d): float(-at) for at, d in enumerate(retrieved)}
    order = rng.permutation(len(lines))
    return [lines[at] for at in order], run


def written(path, lines):
    path.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("alpha", [0.5, 0.25, 1])
@pytest.mark.parametrize("rel", [1, 2])
def test_equal_to_ndeval(tmp_path, alpha, rel):
    for seed in range(3):
        lines, run = diverse_collection(seed)
        names = {f"{name}(rel={rel}, alpha={alpha})@{k}": f"{theirs}@{k}" for k in (2, 5, 10, 20)
                 for name, theirs in (("alpha_nDCG", "alpha-nDCG"), ("ERR_IA", "ERR-IA"))}  # fmt: skip
        evaluator = pyndeval.RelevanceEvaluator(lines, list(names.values()), relevance_level=rel, alpha=alpha)
        scored = [(q, d, s) for q, documents in run.items() for d, s in documents.items()]
        theirs = evaluator.evaluate(scored)
        ours = evaluate_run(read_subtopics(written(tmp_path / "qrels", lines)), run, list(names))
        for name, key in names.items():
            expected = [theirs[query][key] for query in ours.query_ids.tolist()]
            assert ours.column(name) == pytest.approx(expected, abs=1e-6), name


def test_other_measures_take_the_highest_label_of_a_document(tmp_path):
    lines, run = diverse_collection(5)
    highest = {}
    for query, _, document, label in lines:
        row = highest.setdefault(query, {})
        row[document] = max(label, row.get(document, label))
    asked = ["AP", "nDCG@10", "Bpref"]
    ours = evaluate_run(read_subtopics(written(tmp_path / "qrels", lines)), run, asked)
    assert ours.means == pytest.approx(evaluate_run(highest, run, asked).means)


def test_some_queries_keep_their_subtopics(tmp_path):
    lines, run = diverse_collection(6)
    qrels = read_subtopics(written(tmp_path / "qrels", lines))
    whole = evaluate_run(qrels, run, ["alpha_nDCG@5"])
    some = qrels.query_ids.tolist()[3:7]
    part = evaluate_run(qrels.select(some), {query: run[query] for query in some}, ["alpha_nDCG@5"])
    assert part.values.tolist() == [whole.values[whole.query_ids.tolist().index(query)].tolist() for query in some]


def test_subtopics_are_needed_and_read_with_care(tmp_path):
    for name in ("alpha_nDCG@5", "ERR_IA@5"):
        with pytest.raises(InputError, match="needs judgements by subtopic; expected qrels whose second column"):
            evaluate_run({"1": {"a": 1}}, {"1": {"a": 1.0}}, [name])
        with pytest.raises(InputError, match="needs judgements by subtopic"):
            evaluate([1, 0], [1, 2], [1, 1], measures=[name])
    lines = [("1", "a", "x", 1), ("1", "b", "x", 0), ("2", "a", "x", 1), ("1", "a", "x", 0)]
    with pytest.raises(InputError, match=r"qrels:4: duplicate document 'x' for subtopic 'a' \(first on line 1\)"):
        read_subtopics(written(tmp_path / "qrels", lines))
    with pytest.raises(InputError, match="expected 4: query subtopic document label"):
        read_subtopics(written(tmp_path / "qrels", [("1", "x", "1")]))


def sampled(seed, n_queries=6):
    """Judgements with strata that were sampled at different rates, and a run."""
    rng = np.random.default_rng(seed)
    lines, run = [], {}
    for q in range(n_queries):
        for i in rng.permutation(50)[:35]:
            stratum = int(rng.integers(3))
            label = int(rng.integers(0, 3)) if rng.random() < (1.0, 0.6, 0.2)[stratum] else -1
            lines.append((str(q), 0, f"d{i:02d}", f"s{stratum}", label))
        run[str(q)] = {
            f"d{i:02d}": float(s) for i, s in zip(rng.permutation(50)[:40], rng.integers(0, 20, 40), strict=True)
        }
    return lines, run


def by_strata(lines, ranked):
    """The xinfAP of one query, a document at a time (Yilmaz, Kanoulas and Aslam 2008)."""
    judged = {document: (stratum, label) for _, _, document, stratum, label in lines}
    strata = sorted({stratum for stratum, _ in judged.values()})
    of = {one: [label for stratum, label in judged.values() if stratum == one] for one in strata}
    n_sampled = {one: sum(label >= 0 for label in of[one]) for one in strata}
    total = sum(sum(x > 0 for x in of[one]) * len(of[one]) / n_sampled[one] for one in strata if n_sampled[one])
    value = 0.0
    for rank, document in enumerate(ranked):
        stratum, label = judged.get(document, (None, -1))
        if label <= 0:
            continue
        above = [judged[one] for one in ranked[:rank] if one in judged]
        expected = 0.0
        for one in strata:
            here = [x for own, x in above if own == one]
            hits, seen = sum(x > 0 for x in here), sum(x >= 0 for x in here)
            expected += len(here) * (hits + 1e-5) / (seen + 3e-5)
        value += (1 + expected) / (rank + 1) * len(of[stratum]) / n_sampled[stratum]
    return value / total if total else 0.0


@pytest.mark.parametrize("seed", range(3))
def test_xinfap_is_its_definition(tmp_path, seed):
    lines, run = sampled(seed)
    ours = evaluate_run(read_strata(written(tmp_path / "qrels", lines)), run, ["xinfAP"])
    for query, value in zip(ours.query_ids.tolist(), ours.values[:, 0], strict=True):
        ranked = sorted(run[query], key=lambda document: (run[query][document], document), reverse=True)
        assert value == pytest.approx(by_strata([line for line in lines if line[0] == query], ranked), abs=1e-9)


def test_xinfap_is_what_sample_eval_prints(tmp_path):
    lines, run = sampled(0)
    ours = evaluate_run(read_strata(written(tmp_path / "qrels", lines)), run, ["xinfAP"])
    printed = [0.4769353079, 0.3958053736, 0.4143458782, 0.3188471897, 0.6628513740, 0.5864601347]  # NIST's program
    assert ours.values[:, 0] == pytest.approx(printed, abs=1e-9)


def test_strata_are_needed_and_read_with_care(tmp_path):
    with pytest.raises(InputError, match="xinfAP needs strata; expected qrels of five columns"):
        evaluate_run({"1": {"a": 1}}, {"1": {"a": 1.0}}, ["xinfAP"])
    with pytest.raises(InputError, match=r"qrels:3: duplicate document 'x' \(first on line 1\); expected once"):
        read_strata(written(tmp_path / "qrels", [(1, 0, "x", 1, 0), (2, 0, "x", 1, 0), (1, 0, "x", 2, 1)]))


@pytest.mark.parametrize("name", ["GMAP", "SetP", "SetR", "SetF", "SetAP", "alpha_nDCG@5", "ERR_IA@5", "xinfAP"])
def test_measures_that_only_evaluate_are_refused_in_training(name):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(20, 2)), np.repeat([1, 2], 10)
    with pytest.raises(InputError, match="cannot be trained for: ") as caught:
        LambdaMART(measure=name, n_trees=1).fit(X, rng.integers(0, 2, 20), qid=qid)
    assert "\n" not in str(caught.value)


def test_a_geometric_mean_counts_nothing_found_as_a_little():
    found = evaluate_run({"1": {"a": 1}, "2": {"a": 1}}, {"1": {"a": 1.0}, "2": {"b": 1.0}}, ["GMAP", "AP"])
    assert found.means == {"GMAP": pytest.approx(0.00001**0.5), "AP": 0.5}
    assert "geometric mean over queries of AP, at least 0.00001" in found.definitions[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("IPrec", "IPrec needs a recall; write for example IPrec@0.1"),
        ("IPrec@1.5", "recall of IPrec is 1.5; expected a number from 0 to 1"),
        ("IPrec@x", "the recall of 'IPrec@x' is 'x'; expected a number"),
        ("SetF(beta=-1)", "beta of SetF is -1; expected a number of at least 0"),
        ("SetP(relative=2)", "relative of SetP is 2; expected True or False"),
        ("alpha_nDCG(alpha=2)@5", "alpha of alpha_nDCG is 2; expected a number from 0 to 1"),
        ("ERR_IA", "ERR_IA needs a cutoff; write for example ERR_IA@10"),
        ("nDCG(gains={1: -1})", "gains of nDCG is {1: -1}; expected numbers of at least 0 by label"),
        ("nDCG(gains={0: 1})", "gains of nDCG has 1 for label 0, which unjudged documents have; expected 0"),
        ("nDCG(gains=2)", "gains of nDCG is 2; expected numbers of at least 0 by label"),
    ],
)
def test_what_is_not_understood_is_told_in_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_measure(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_gains_that_fall_are_refused():
    with pytest.raises(InputError, match="the gain of label 2 is below that of label 1 in nDCG"):
        evaluate([2, 1, 0], [1, 2, 3], [1, 1, 1], measures=["nDCG(gains={1: 10})"])


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("iprec_at_recall_0.10", "IPrec@0.1"), ("iprec_at_recall.0.5", "IPrec@0.5"), ("set_map", "SetAP"),
        ("alpha-nDCG@10", "alpha_nDCG@10"), ("ERR-IA@20", "ERR_IA@20"), ("gm_map", "GMAP"), ("bpref", "Bpref"),
        ("nDCG(gains={2: 3, 1: 1}, dcg=exp-log2)@5", "nDCG(dcg='exp-log2', gains={1: 1, 2: 3})@5"),
    ],
)  # fmt: skip
def test_names(alias, name):
    assert str(parse_measure(alias)) == name


def test_what_takes_arithmetic_means_refuses_a_geometric_one():
    data = RankingData.from_arrays([[1.0], [2.0], [3.0]] * 3, [0, 1, 1] * 3, group=[3, 3, 3])
    with pytest.raises(InputError, match="GMAP cannot be reported here: it is a geometric mean over queries"):
        permutation_importance(LinearModel([1.0]), data, "GMAP")
    with pytest.raises(InputError, match="GMAP cannot be trained for"):
        cross_validate(LambdaMART(), data, measure="GMAP")
