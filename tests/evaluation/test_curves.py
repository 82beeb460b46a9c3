"""Curves by depth and by query, against the evaluation of every cutoff alone."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from rankwright import InputError, curve_measures, evaluate, query_curves


def systems(n=3, n_queries=12, seed=0, **options):
    rng = np.random.default_rng(seed)
    qid = np.repeat([f"q${q}" for q in range(n_queries)], 8)
    labels = rng.integers(0, 3, len(qid))
    measures = curve_measures("nDCG@5", deepest=9)
    return [
        evaluate(labels, rng.normal(size=len(qid)), qid, measures=measures, name=f"system_{s} $x$", **options)
        for s in range(n)
    ]


def test_curves_are_the_values_of_every_cutoff():
    tables = systems()
    found = query_curves(tables, "nDCG@5")
    assert found.depths == tuple(range(1, 10))
    for s, table in enumerate(tables):
        assert found.values[s].tolist() == table.column("nDCG@5").tolist()
        for at, depth in enumerate(found.depths):
            assert found.curves[s, :, at].tolist() == table.column(f"nDCG@{depth}").tolist()
            assert found.means[s, at] == pytest.approx(table.means[f"nDCG@{depth}"])


def test_queries_that_all_systems_have_and_count():
    one, other = systems(1)[0], systems(1, n_queries=5, seed=1)[0]
    assert query_curves([one, other], "nDCG@5").query_ids.tolist() == [f"q${q}" for q in range(5)]
    labels, measures = [0, 0, 1, 0], curve_measures("nDCG@2", deepest=2)
    left_out = evaluate(labels, [1, 2, 3, 4], [1, 1, 2, 2], measures=measures, empty="skip")
    assert query_curves([left_out], "nDCG@2").query_ids.tolist() == [2]


def test_other_columns_can_be_taken_away():
    table = systems(1)[0]
    only = table.only(["nDCG@5", "nDCG@1"])
    assert only.means == {name: table.means[name] for name in ("nDCG@5", "nDCG@1")}
    assert [text.partition(":")[0] for text in only.definitions] == ["nDCG@5", "nDCG@1"]


@pytest.mark.parametrize(("n", "queries"), [(1, []), (3, ["q$2"]), (2, ["q$1", "q$2", "q$3", "q$4"])])
def test_the_plot(n, queries, tmp_path):
    found = query_curves(systems(n), "nDCG@5")
    found.plot(tmp_path / "a.svg", queries)
    found.plot(tmp_path / "a.png", queries)
    root = ElementTree.parse(tmp_path / "a.svg")
    shown = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"Query {query}" for query in queries} <= shown
    assert "Mean over 12 queries" in shown
    if n == 3:
        gains = found.values[2] - found.values[0]
        assert f"system_2 $x$ (better {(gains > 0).sum()}, worse {(gains < 0).sum()})" in shown
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn(tmp_path):
    found = query_curves(systems(2), "nDCG@5")
    for queries, message in (
        (["nix"], "query 'nix' is not among the 12 queries"),
        (["q$1"] * 13, "13 queries to draw"),
    ):
        with pytest.raises(InputError, match=message):
            found.plot(tmp_path / "a.png", queries)
    with pytest.raises(InputError, match="AUC has no cutoff, so no curve"):
        curve_measures("AUC")
    with pytest.raises(InputError, match="P@10 was evaluated at fewer than two cutoffs"):
        query_curves(systems(1), "P@10")
    with pytest.raises(InputError, match="nothing to plot"):
        query_curves([])
    assert not list(tmp_path.iterdir())
