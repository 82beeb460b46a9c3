"""Runs as features and fusions of runs, against the definitions written out."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright import InputError, InputWarning, TrecTable, fuse, runs_to_data

SCORES = st.sampled_from([-3.0, -0.5, 0.0, 0.25, 1.0, 7.5, 7.5, 100.0])
RUN = st.dictionaries(
    st.sampled_from("123"), st.dictionaries(st.sampled_from("abcdéfgh"), SCORES, min_size=1), min_size=1
)
RUNS = st.lists(RUN, min_size=1, max_size=4)
QRELS = st.dictionaries(
    st.sampled_from("1234"), st.dictionaries(st.sampled_from("abcxy"), st.integers(-1, 3), min_size=1)
)
HOW = st.sampled_from(["minmax", "zscore", "sum", "none"])


def as_runs(given):
    return {f"run{at}": TrecTable.from_dict(run) for at, run in enumerate(given)}


def normal(row, how):
    """The normalised scores of one query of one run."""
    low, high = min(row.values()), max(row.values())
    share = {d: (s - low) / (high - low) if high > low else 1.0 for d, s in row.items()}
    if how == "minmax":
        return share
    if how == "sum":
        return {d: s / sum(share.values()) for d, s in share.items()}
    if how == "zscore":
        deviation = statistics.pstdev(row.values())
        return {d: (s - statistics.fmean(row.values())) / deviation if deviation else 0.0 for d, s in row.items()}
    return row


def ranked(row):
    return {d: rank for rank, d in enumerate(sorted(row, key=lambda d: (row[d], d), reverse=True), 1)}


def expected_rows(runs, qrels, how, documents, missing):
    rows = {}
    for query in dict.fromkeys(q for table in ([qrels] if qrels is not None else runs) for q in table):
        found = {d for run in runs for d in run.get(query, {})}
        judged = set((qrels or {}).get(query, {}))
        wanted = {"retrieved": found, "judged": found & judged, "either": found | judged}[documents]
        for d in sorted(wanted, key=str.encode):
            row = []
            for run in runs:
                scores = normal(run[query], how) if query in run else {}
                lowest = min([0.0, *scores.values()]) if missing == "lowest" else math.nan
                row += [scores.get(d, lowest)]
                row += [1 / ranked(run[query])[d] if d in scores else 0.0 if missing == "lowest" else math.nan]
            rows[query, d] = (row, max(0, (qrels or {}).get(query, {}).get(d, 0)))
    return rows


@pytest.mark.filterwarnings("ignore::rankwright.InputWarning")
@settings(max_examples=80, deadline=None)
@given(
    runs=RUNS,
    qrels=st.none() | QRELS,
    how=HOW,
    documents=st.sampled_from(["retrieved", "judged", "either"]),
    missing=st.sampled_from(["lowest", "nan"]),
)
def test_rows_by_definition(runs, qrels, how, documents, missing):
    documents = "retrieved" if qrels is None else documents
    if qrels is not None and not set(qrels) & {query for run in runs for query in run}:
        return
    table = None if qrels is None else TrecTable.from_dict(qrels)
    data = runs_to_data(as_runs(runs), table, normalize=how, documents=documents, missing=missing)
    expected = expected_rows(runs, qrels, how, documents, missing)
    assert list(zip(data.qid.tolist(), data.doc_ids.tolist(), strict=True)) == list(expected)
    assert data.feature_names == tuple(f"run{at}:{what}" for at in range(len(runs)) for what in ("score", "rr"))
    assert data.X.dtype == np.float32
    assert data.labels.tolist() == [label for _, label in expected.values()]
    wanted = np.array([row for row, _ in expected.values()]).reshape(data.X.shape)
    np.testing.assert_allclose(data.X, wanted, rtol=1e-5, atol=1e-6)


@settings(max_examples=80, deadline=None)
@given(runs=RUNS, k=st.sampled_from([0.0, 1.0, 60.0]), depth=st.none() | st.integers(1, 4))
def test_reciprocal_rank_fusion(runs, k, depth):
    check(fuse(as_runs(runs), k=k, depth=depth), runs, depth, lambda query, d: sum(
        1 / (k + ranked(run[query])[d]) for run in runs if d in run.get(query, {})
    ))  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(runs=RUNS, how=HOW, depth=st.none() | st.integers(1, 4))
def test_comb_sum(runs, how, depth):
    def score(query, d):
        scores = [normal(run[query], how) for run in runs if query in run]
        return sum(row.get(d, min([0.0, *row.values()])) for row in scores)

    check(fuse(list(as_runs(runs).values()), "combsum", normalize=how, depth=depth), runs, depth, score)


@settings(max_examples=80, deadline=None)
@given(runs=RUNS, how=st.sampled_from(["minmax", "sum"]))
def test_comb_mnz(runs, how):
    def score(query, d):
        scores = [normal(run[query], how)[d] for run in runs if d in run.get(query, {})]
        return len(scores) * sum(scores)

    check(fuse(as_runs(runs), "combmnz", normalize=how), runs, None, score)


def check(fused, runs, depth, score):
    """Compare a fused run with ``score(query, document)``; where scores are all but equal any order will do."""
    assert fused.query_ids.tolist() == list(dict.fromkeys(query for run in runs for query in run))
    for at, query in enumerate(fused.query_ids.tolist()):
        rows = slice(fused.indptr[at], fused.indptr[at + 1])
        found = dict(zip([d.decode() for d in fused.doc_ids[rows].tolist()], fused.values[rows].tolist(), strict=True))
        every = {d: score(query, d) for run in runs for d in run.get(query, {})}
        assert found == pytest.approx({d: every[d] for d in found}, rel=1e-9, abs=1e-12)
        assert len(found) == min(len(every), depth or len(every))
        left_out = [value for d, value in every.items() if d not in found]
        assert not left_out or min(found.values()) >= max(left_out) - 1e-9


def test_huge_and_tiny_scores():
    run = TrecTable.from_dict({"1": {"a": 1.7e308, "b": -1.7e308, "c": 0.0}, "2": {"a": 5e-324, "b": 0.0}})
    data = runs_to_data({"r": run})
    assert data.X[:, 0].tolist() == [1.0, 0.0, 0.5, 1.0, 0.0]
    assert np.isfinite(runs_to_data({"r": run}, normalize="zscore").X).all()


def test_many_rows_are_joined_as_few():
    rng = np.random.default_rng(0)
    runs = {}
    for name in range(5):
        rows = {str(q): {f"d{d}": float(rng.normal()) for d in rng.choice(900, 300, replace=False)} for q in range(6)}
        runs[f"r{name}"] = TrecTable.from_dict(rows)
    qrels = TrecTable.from_dict({str(q): {f"d{d}": int(rng.integers(3)) for d in range(0, 900, 7)} for q in range(6)})
    data = runs_to_data(runs, qrels)
    place = {pair: at for at, pair in enumerate(zip(data.qid.tolist(), data.doc_ids.tolist(), strict=True))}
    for column, run in enumerate(runs.values()):
        pairs = [(str(q), d.decode()) for q, start, stop in blocks(run) for d in run.doc_ids[start:stop].tolist()]
        rows = [place[pair] for pair in pairs]
        assert (data.X[rows, 2 * column + 1] > 0).all()
        others = np.setdiff1d(np.arange(data.n_docs), rows)
        assert not data.X[others, 2 * column : 2 * column + 2].any()
    labels = dict(zip(place, data.labels.tolist(), strict=True))
    for q, start, stop in blocks(qrels):
        for d, label in zip(qrels.doc_ids[start:stop].tolist(), qrels.values[start:stop].tolist(), strict=True):
            assert labels.get((str(q), d.decode()), label) == label


def blocks(table):
    return zip(table.query_ids.tolist(), table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)


def test_what_is_left_out_is_said():
    run = TrecTable.from_dict({"1": {"a": 1.0}, "2": {"a": 1.0}})
    with pytest.warns(InputWarning) as told:
        data = runs_to_data({"r": run}, TrecTable.from_dict({"2": {"a": 1}, "3": {"b": 1}, "4": {"c": 1}}))
    assert [str(warning.message) for warning in told] == [
        "left out 1 queries without judgements",
        "left out 2 judged queries that no run has",
    ]
    assert data.query_ids.tolist() == ["2"]
    assert runs_to_data({"r": run}, TrecTable.from_dict({"1": {"z": 1}, "2": {"a": 1}}), documents="judged").n_docs == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: runs_to_data({}), "no runs; expected at least one"),
        (lambda run: fuse([]), "no runs; expected at least one"),
        (lambda run: runs_to_data({"r": run}, normalize="max"), "normalize is 'max'; expected one of minmax"),
        (lambda run: runs_to_data({"r": run}, documents="judged"), "there are no judgements"),
        (lambda run: runs_to_data({"r": run}, documents="some"), "documents is 'some'"),
        (lambda run: runs_to_data({"r": run}, missing=0), "missing is 0"),
        (lambda run: runs_to_data({"r": run}, TrecTable.from_dict({"9": {"a": 1}})), "no query in common"),
        (lambda run: runs_to_data({"r": TrecTable.from_columns(["1"], ["a"], [1.0])}, normalize=3), "normalize is 3"),
        (lambda run: fuse([run], "vote"), "method is 'vote'; expected one of rrf, isr, logisr, rbc, borda"),
        (lambda run: fuse([run], k=-1), "k is -1; expected"),
        (lambda run: fuse([run], depth=0), "depth is 0; expected"),
        (lambda run: fuse([run], "combmnz", normalize="zscore"), "scores below 0 .* expected minmax or sum"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(InputError, match=message):
        call(TrecTable.from_dict({"1": {"a": 1.0, "b": 2.0}}))


def test_ids_that_are_no_text():
    run = TrecTable(np.array(["1"]), np.array([0, 1]), np.array([b"\xff"]), np.array([1.0]))
    with pytest.raises(InputError, match="not UTF-8"):
        runs_to_data({"r": run})
    assert fuse([run]).doc_ids.tolist() == [b"\xff"]


def test_queries_without_documents():
    run = TrecTable.from_dict({"1": {}, "2": {"a": 3.0}, "3": {}})
    assert runs_to_data({"r": run}).query_ids.tolist() == ["2"]
    assert np.diff(fuse([run]).indptr).tolist() == [0, 1, 0]


def test_ids_with_the_same_hash(monkeypatch):
    monkeypatch.setattr("rankwright.data.fusion._FACTOR", 0)
    a = TrecTable.from_dict({"1": {"first": 2.0, "x" * 30: 1.0}})
    b = TrecTable.from_dict({"1": {"second": 2.0, "first": 1.0}})
    data = runs_to_data({"a": a, "b": b})
    assert data.doc_ids.tolist() == ["first", "second", "x" * 30]
    assert data.X[:, 1::2].tolist() == [[1.0, 0.5], [0.0, 1.0], [0.5, 0.0]]
