"""Weights that are no better than 0 are called so, first, and what does learn from the data is named and true."""

import numpy as np
import pytest

from rankwright import InputWarning, RankingData, RankingSVM, StructuredSVM
from rankwright.models.saving import load_model
from rankwright.rankers.facts import Kind


def noisy(seed=0, n_queries=30, size=14, noise=4.0):
    """Queries whose best documents cannot be told for sure: MRR's hinge is as large for all weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 5))
    hidden = X @ np.linspace(2, -1, 5) + noise * rng.normal(size=len(X))
    labels = np.digitize(hidden, [1.0, 3.0])
    labels[::size], labels[1::size] = 0, 2
    return RankingData.from_arrays(X, labels, group=[size] * n_queries)


def paper(loss, **settings):
    """The papers' problem, MRR on its own map."""
    maps = ["mrr" if "mrr" in name else None for name in ([loss] if isinstance(loss, str) else loss)]
    return StructuredSVM(loss, bound="hinge", feature_map=maps[0] if len(maps) == 1 else maps, **settings)


def told(facts):
    """The notice, which must be the first."""
    found = [notice for notice in facts.notices if notice.kind is Kind.NO_BETTER_THAN_ZERO]
    assert found == list(facts.notices[: len(found)])
    return found[0] if found else None


@pytest.mark.parametrize("loss", ["mrr@10", "mrr", "dorm@10", ["mrr@10", "dorm@10"]], ids=str)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1000.0])
def test_a_loss_that_cannot_be_lowered(loss, C):
    ranker = paper(loss, C=C)
    facts = ranker.fit_data(noisy())
    notice = told(facts)
    assert facts.certificate.reached  # and proves nothing of use
    assert max(notice.values["slack_ratio"], notice.values["objective_ratio"]) >= 0.99
    assert notice.text.startswith("the model learnt nothing: its loss is ")
    assert "a larger C does not change that. svm-map, svm-ndcg-nc and rank-svm do learn from this data" in notice.text
    with pytest.warns(InputWarning, match="the model learnt nothing"):
        ranker.fit(noisy())


def test_what_is_named_does_learn():
    data = noisy()
    named = told(paper("mrr").fit_data(data)).values["learn"]
    for method, ranker in {"svm-map": StructuredSVM("map"), "svm-ndcg-nc": StructuredSVM("ndcg")}.items():
        assert (method in named) == (told(ranker.fit_data(data)) is None)
    assert told(RankingSVM(C=0.1).fit_data(data)) is None
    assert told(StructuredSVM("map", C="auto", C_grid=[1e-6, 1.0]).fit_data(data, data)) is None


def test_nothing_is_named_where_nothing_learns():
    data = RankingData.from_arrays(np.ones((8, 2)), [0, 1] * 4, group=[4, 4])
    text = told(StructuredSVM("auc").fit_data(data)).text
    assert text.endswith("svm-map, svm-ndcg-nc and rank-svm do not learn from this data either")
    assert "svm-map" not in told(StructuredSVM("map").fit_data(data)).values["fail"]


def test_a_small_C_is_told_from_a_useless_loss():
    data = noisy()
    for settings in ({"C": 1e-5}, {"C": "auto", "C_grid": [1e-6, 1e-5]}):
        valid = data if settings["C"] == "auto" else None
        assert "A larger C lowers it" in told(StructuredSVM("map", **settings).fit_data(data, valid)).text


def test_training_that_did_not_end_promises_nothing():
    data = noisy(noise=0.1)
    text = told(StructuredSVM("map", C=100, max_passes=1).fit_data(data)).text
    assert "training ended before the model learnt anything" in text
    assert "larger" not in text.lower()

    def interrupt(check):
        raise KeyboardInterrupt

    facts = paper("mrr", callback=interrupt).fit_data(data)
    assert [notice.kind for notice in facts.notices] == [Kind.INTERRUPTED]


def test_model_files_keep_it(tmp_path):
    ranker = paper("mrr")
    text = told(ranker.fit_data(noisy())).text
    ranker.save(tmp_path / "m.rkw")
    assert load_model(tmp_path / "m.rkw").training["no_better_than_zero"] == text
    ranker.set_params(loss="map", feature_map=None).fit_data(noisy())
    ranker.save(tmp_path / "m.rkw")
    assert "no_better_than_zero" not in load_model(tmp_path / "m.rkw").training
