"""Fusion by rank against ranx, and what ranx leaves to chance against the definition."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from rankwright import TrecTable, choose_k, evaluate_run, fuse
from rankwright.errors import InputError

METHODS = {"rrf": "rrf", "isr": "isr", "logisr": "log_isr", "rbc": "rbc", "borda": "bordafuse", "combmnz": "mnz"}
IN_RANX = """
import json, sys
import ranx

runs, ordered, judged, qrels = json.load(sys.stdin)
runs, ordered, judged = ([ranx.Run(run) for run in part] for part in (runs, ordered, judged))
settings = {"rrf": {"k": 60}, "rbc": {"phi": 0.8}}
found = {
    name: ranx.fuse(runs, norm="min-max" if name == "mnz" else None, method=name, params=settings.get(name)).to_dict()
    for name in ("rrf", "isr", "log_isr", "rbc", "bordafuse", "mnz")
}
found["condorcet"] = ranx.fuse(ordered, norm=None, method="condorcet").to_dict()
found["best"], report = ranx.optimize_fusion(
    ranx.Qrels(qrels), judged, norm=None, method="rrf", metric="map", show_progress=False,
    return_optimization_report=True,
)
found["means"] = [float(getattr(mean, "score", mean)) for mean in report.results]
print(json.dumps(found))
"""


def random_runs(seed, n_runs=3, n_queries=4, retrieved=15, pool=25):
    """Runs of some documents each, without equal scores."""
    rng = np.random.default_rng(seed)
    documents = [f"d{i:02d}" for i in range(pool)]
    return [
        {
            f"q{q}": {
                str(d): float(s)
                for d, s in zip(rng.permutation(documents)[:retrieved], rng.normal(size=retrieved), strict=True)
            }
            for q in range(n_queries)
        }
        for _ in range(n_runs)
    ]


def as_dict(table):
    bounds = table.indptr.tolist()
    rows = list(zip([d.decode() for d in table.doc_ids.tolist()], table.values.tolist(), strict=True))
    return {q: dict(rows[a:b]) for q, (a, b) in zip(table.query_ids.tolist(), pairwise(bounds), strict=True)}


def ordered_runs():
    """Three runs with two neighbours exchanged in each, not the same ones: votes decide on every pair."""
    runs = []
    for at in (1, 5, 9):
        order = np.arange(12)
        order[[at, at + 1]] = order[[at + 1, at]]
        runs.append({"q": {f"d{d:02d}": float(-place) for place, d in enumerate(order)}})
    return runs


def judged_runs():
    """Runs, and judgements of their queries."""
    runs, rng = random_runs(2, n_queries=12, retrieved=20), np.random.default_rng(3)
    return runs, {q: dict.fromkeys(rng.permutation(sorted(runs[0][q]))[:4].tolist(), 1) for q in runs[0]}


@pytest.fixture(scope="module")
def theirs():
    """What ranx makes of these, in a process of its own without compiling, which takes it a minute."""
    given = json.dumps([random_runs(0), ordered_runs(), *judged_runs()])
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    program = [sys.executable, "-c", IN_RANX]
    done = subprocess.run(program, check=True, input=given, env=settings, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_ranx(theirs, method):
    ours = as_dict(fuse([TrecTable.from_dict(run) for run in random_runs(0)], method))
    expected = theirs[METHODS[method]]
    assert set(ours) == set(expected)
    for query, scores in expected.items():
        assert ours[query] == pytest.approx(scores, abs=1e-9)


def wins(runs, query, one, other):
    """By how many runs one document is above the other; those that a run lacks are below."""
    ranks = [{d: at for at, d in enumerate(sorted(run[query], key=run[query].get, reverse=True))} for run in runs]
    places = [(rank.get(one, np.inf), rank.get(other, np.inf)) for rank in ranks]
    return sum(a < b for a, b in places) - sum(a > b for a, b in places)


def test_condorcet_is_that_of_ranx_where_votes_decide(theirs):
    ours = as_dict(fuse([TrecTable.from_dict(run) for run in ordered_runs()], "condorcet"))
    assert ours == theirs["condorcet"]
    assert ours["q"] == {f"d{d:02d}": float(12 - d) for d in range(12)}


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_beaten_by_the_next(seed):
    runs = random_runs(seed, n_runs=2 + seed % 3)  # with cycles, and with equal votes
    tables = [TrecTable.from_dict(run) for run in runs]
    fused, borda = as_dict(fuse(tables, "condorcet")), as_dict(fuse(tables, "borda"))
    for query, scores in fused.items():
        order = sorted(scores, key=scores.get, reverse=True)
        assert sorted(scores.values()) == list(range(1, len(order) + 1))
        for one, other in pairwise(order):
            assert wins(runs, query, one, other) >= 0
    again = as_dict(fuse(tables[::-1], "condorcet"))
    assert again == fused  # the order of the runs does not matter
    assert set(borda) == set(fused)


def test_a_run_without_a_query_leaves_the_others_to_decide():
    tables = [TrecTable.from_dict({"1": {"a": 2.0, "b": 1.0}}), TrecTable.from_dict({"2": {"c": 1.0}})]
    for method in METHODS:
        found = as_dict(fuse(tables, method))
        assert list(found["1"]) == ["a", "b"]
        assert found["1"]["a"] >= found["1"]["b"]
        assert list(found["2"]) == ["c"]


def test_k_is_chosen_as_ranx_chooses_it(theirs):
    runs, qrels = judged_runs()
    tables = [TrecTable.from_dict(run) for run in runs]
    found = choose_k(tables, TrecTable.from_dict(qrels), "AP")
    assert list(found.means.values()) == pytest.approx(theirs["means"], abs=1e-9)
    assert found.k == theirs["best"]["k"]
    assert found.queries == 12
    assert found.means[found.k] == evaluate_run(qrels, fuse(tables, k=found.k), ["AP"]).means["AP"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"method": "max"},
            "method is 'max'; expected one of rrf, isr, logisr, rbc, borda, condorcet, combsum, combmnz",
        ),
        ({"method": "rbc", "phi": 2.0}, "phi is 2.0; expected a number from 0 to 1"),
    ],
)
def test_bad_settings_are_told_in_one_line(settings, message):
    with pytest.raises(InputError) as caught:
        fuse([TrecTable.from_dict({"1": {"a": 1.0}})], **settings)
    assert str(caught.value) == message


def test_judgements_of_other_queries_choose_nothing():
    table = TrecTable.from_dict({"1": {"a": 1.0}})
    with pytest.raises(InputError, match="have no query in common"):
        choose_k([table], TrecTable.from_dict({"2": {"a": 1}}))
