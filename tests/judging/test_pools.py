"""Pools and the order of judging: everything once, nothing that tells who found it, disagreement first."""

import itertools

import numpy as np
import pytest
from tests.judging.at_work import make_session

from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.trec import write_run
from rankwright.judging.pool import JudgingPool, disagreement, make_pool, planned, read_runs
from rankwright.serving.service import Service
from rankwright.text.queries import read_queries


def made_up(n_queries=30, depth=10, n_docs=40, seed=0):
    rng = np.random.default_rng(seed)
    names = [f"d{number:02d}" for number in range(n_docs)]
    tops = {
        ranker: {f"q{query}": rng.permutation(names)[:depth].tolist() for query in range(n_queries)}
        for ranker in ("a", "b", "c")
    }
    return JudgingPool(depth, tops)


@pytest.mark.parametrize("order", ["depth", "disagreement"])
def test_everything_once(order):
    pool = made_up()
    found = planned(pool, order)
    assert sorted(found) == sorted((query, one) for query in pool.queries for one in pool.documents(query))
    assert len(set(found)) == len(found)
    assert planned(pool, order) == found
    assert planned(pool, order, seed=1) != found


@pytest.mark.parametrize("order", ["depth", "disagreement"])
def test_the_order_does_not_tell_who_found_a_document(order):
    pool = made_up()
    other = JudgingPool(pool.depth, dict(zip(("c", "a", "b"), pool.tops.values(), strict=True)))
    assert sorted(planned(other, order)) == sorted(planned(pool, order))
    assert planned(JudgingPool(pool.depth, dict(reversed(pool.tops.items()))), order)[:5] == planned(pool, order)[:5]
    found = planned(pool, order)
    first = {name: [] for name in pool.tops}
    for query in pool.queries:
        shown = [one for asked, one in found if asked == query]
        for name, top in pool.tops.items():
            first[name] += [shown.index(one) / len(shown) for one in top[query]]
    means = [np.mean(places) for places in first.values()]
    assert max(means) - min(means) < 0.08


def test_depth_orders_do_not_follow_ranks():
    pool = made_up(n_queries=100)
    found = planned(pool, "depth")
    places = {pair: at for at, pair in enumerate(found)}
    top, last = (
        np.mean([places[query, one[rank]] for name in pool.tops for query, one in pool.tops[name].items()])
        for rank in (0, -1)
    )
    assert abs(top - last) < 0.05 * len(found)


def test_queries_stay_together():
    pool = made_up()
    queries = [query for query, _ in planned(pool, "depth")]
    assert sum(a != b for a, b in itertools.pairwise(queries)) == len(pool.queries) - 1


def test_disagreement_comes_first():
    tops = {"a": {"q": list("uvwxyz")}, "b": {"q": list("uvzxyw")}}
    pool = JudgingPool(6, tops)
    differing = disagreement(pool, "q")
    assert differing["u"] == differing["v"] == differing["x"] == differing["y"] == 0.0
    assert differing["w"] == differing["z"] == pytest.approx(1 / 2 - 1 / np.log2(7))
    assert {one for _, one in planned(pool, "disagreement")[:4]} >= {"w", "z"}
    only_a = JudgingPool(1, {"a": {"q": ["u"]}, "b": {"q": []}})
    assert disagreement(only_a, "q") == {"u": 1.0}


def test_rankers_and_runs_are_pooled(made, tmp_path):
    service = Service(made / "docs.index", [made / "linear.rkw"], ["bm25"])
    queries = read_queries(made / "queries.jsonl")
    run = TrecTable.from_dict({"q1": {"d00": 3.0, "nowhere": 2.5, "d01": 2.0, "d02": 1.0}, "other": {"d05": 1.0}})
    write_run(run, tmp_path / "mine.run.gz")
    runs = read_runs([tmp_path / "mine.run.gz"])
    pool = make_pool(service.state.index, queries, service.state.rankers, runs, 3)
    assert list(pool.tops) == ["linear", "bm25", "mine"]
    assert pool.tops["mine"] == {"q1": ["d00", "d01"]}
    assert pool.absent == 1
    for name in ("linear", "bm25"):
        docs, _ = service.state.rankers[name].search("lift of a thin wing", 3)
        assert pool.tops[name]["q1"] == [service.state.index.doc_id(doc) for doc in docs.tolist()]
    assert set(pool.documents("q1")) == {one for top in pool.tops.values() for one in top["q1"]}
    with pytest.raises(InputError, match="two runs have the name 'mine'"):
        read_runs([tmp_path / "mine.run.gz", tmp_path / "mine.run"])
    with pytest.raises(InputError, match="a run has the name of a ranker, 'bm25'"):
        make_pool(service.state.index, queries, service.state.rankers, {"bm25": run}, 3)
    with pytest.raises(InputError, match="has none of the queries"):
        make_pool(service.state.index, queries, {}, {"x": TrecTable.from_dict({"z": {"d00": 1.0}})}, 3)


def test_skipped_documents_come_back_at_the_end(made, tmp_path):
    from rankwright.judging.records import Action

    session, _ = make_session(made, tmp_path)
    skipped = session.pairs[:2]
    for at, pair in enumerate(session.pairs):
        assert session.state()["next"] == pair
        session.act(at, Action("skip" if at < 2 else "grade", *pair, None if at < 2 else 1))
    state = session.state()
    assert state["progress"]["skipped"] == 2
    assert state["next"] == skipped[0]
    state = session.act(state["seen"], Action("skip", *skipped[0]))
    assert state["next"] == skipped[1]
    state = session.act(state["seen"], Action("cannot tell", *skipped[1]))
    state = session.act(state["seen"], Action("grade", *skipped[0], 0))
    assert state["next"] is None
    session.close()
    again, _ = make_session(made, tmp_path)
    assert again.state() == state
    again.close()
