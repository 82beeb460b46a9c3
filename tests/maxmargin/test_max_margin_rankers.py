"""StructuredSVM and RankingSVM as estimators: paths over C, warm starts, weights, settings, what is kept."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankwright import InputError, InputWarning, RankingData, evaluate, parse_measure
from rankwright.maxmargin.accuracy import AccuracySVM
from rankwright.maxmargin.cost import DEFAULT_GRID
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.models.saving import load_model

pytestmark = pytest.mark.filterwarnings("ignore:the model learnt n")  # some losses here cannot be lowered

RANKERS = [
    StructuredSVM("map"),
    StructuredSVM("ndcg@5", bound="hinge"),  # test_ramp.py has the other bound
    StructuredSVM("mrr@5", bound="hinge", feature_map="mrr"),
    RankingSVM(),
]
both_kinds = pytest.mark.parametrize("ranker", RANKERS, ids=repr)


def make(n_queries=30, seed=0, n_features=8, noise=1.5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 20, n_queries)
    qid = np.repeat([f"q{q}" for q in range(n_queries)], sizes)
    X = rng.normal(size=(len(qid), n_features)) * 10.0 ** np.linspace(-1, 1, n_features)
    use = X[:, 0] * 10 - X[:, 2] + X[:, -1] / 10
    y = np.digitize(use + noise * rng.normal(size=len(qid)), [1.0, 2.5])
    return X, y, qid


def measured(data, ranker, measure):
    X, y, qid = data
    measure = str(parse_measure(measure))
    return evaluate(y, ranker.predict(X), qid, measures=[measure]).means[measure]


@both_kinds
def test_auto_takes_the_C_that_is_best_on_validation_data(ranker):
    train, valid = make(), make(seed=1)
    grid = [100.0, 1e-3, 0.01, 1.0]
    auto = clone(ranker).set_params(C="auto", C_grid=grid, tol=1e-4).fit(*train, eval_set=valid)
    name = "nDCG@10" if isinstance(ranker, RankingSVM) else str(parse_measure(ranker.loss))
    assert [row["C"] for row in auto.C_path_] == sorted(grid)
    best = max(auto.C_path_, key=lambda row: row[name])
    assert best["C"] == auto.C_
    assert (auto.objective_, auto.gap_, auto.n_passes_) == (best["objective"], best["gap"], best["passes"])
    assert best[name] == measured(valid, auto, name)
    assert auto.C == "auto"
    assert auto.n_passes_total_ == sum(row["passes"] for row in auto.C_path_)
    assert len(auto.path_) == auto.n_passes_


@both_kinds
@pytest.mark.parametrize("solver", ["bundle", "one-slack-cutting-plane"])
def test_a_path_over_C_gives_what_separate_fits_give_in_fewer_passes(ranker, solver):
    train, valid = make(), make(seed=1)
    grid = np.logspace(-3, 1, 9)
    path = clone(ranker).set_params(C="auto", C_grid=grid, solver=solver).fit(*train, eval_set=valid)
    separate = [clone(ranker).set_params(C=C, solver=solver).fit(*train) for C in grid]
    for row, fit in zip(path.C_path_, separate, strict=True):
        assert row["gap"] <= path.tol
        # Both lie within tol above the same optimum.
        assert row["objective"] == pytest.approx(fit.objective_, rel=1.1 * path.tol)
    assert path.n_passes_total_ < 0.8 * sum(fit.n_passes_ for fit in separate)


def test_auto_by_another_measure_and_by_default():
    train, valid = make(noise=4.0), make(seed=1, noise=4.0)
    ranker = StructuredSVM(C="auto", eval_measure="P@5").fit(*train, eval_set=valid)
    assert tuple(row["C"] for row in ranker.C_path_) == DEFAULT_GRID
    assert max(ranker.C_path_, key=lambda row: row["P@5"])["C"] == ranker.C_
    same = StructuredSVM(C="auto", eval_measure="P@5").fit(*train, eval_set=RankingData.from_arrays(*valid))
    assert same.coef_.tobytes() == ranker.coef_.tobytes()
    with pytest.raises(ValueError, match="features"):
        StructuredSVM(C="auto").fit(*train, eval_set=(valid[0][:, 1:], *valid[1:]))


def test_one_C_with_validation_data_reports_its_value():
    train, valid = make(), make(seed=1)
    ranker = StructuredSVM(C=0.1).fit(*train, eval_set=valid)
    assert ranker.C_ == 0.1
    assert [row["AP"] for row in ranker.C_path_] == [measured(valid, ranker, "AP")]
    assert ranker.coef_.tobytes() == StructuredSVM(C=0.1).fit(*train).coef_.tobytes()
    alone = StructuredSVM(C=0.1).fit(*train).C_path_
    assert alone == [{key: value for key, value in ranker.C_path_[0].items() if key != "AP"}]


def test_an_interrupted_path_keeps_the_best_C_so_far():
    train, valid = make(), make(seed=1)
    seen = []

    def interrupt(check):
        seen.append(check)
        if sum(row.passes == 1 for row in seen) == 3 and check.passes == 2:
            raise KeyboardInterrupt

    ranker = StructuredSVM(C="auto", callback=interrupt)
    with pytest.warns(InputWarning, match="interrupted"):
        ranker.fit(*train, eval_set=valid)
    assert [row["C"] for row in ranker.C_path_] == list(DEFAULT_GRID[:3])
    assert max(ranker.C_path_, key=lambda row: row["AP"])["C"] == ranker.C_
    assert np.isfinite(ranker.predict(valid[0])).all()


@both_kinds
def test_a_warm_start_begins_where_the_last_fit_ended(ranker):
    data = make()
    cold = clone(ranker).set_params(C=10.0).fit(*data)
    warm = clone(ranker).set_params(C=10.0, warm_start=True).fit(*data)
    assert warm.coef_.tobytes() == cold.coef_.tobytes()
    warm.fit(*data)
    assert warm.path_[0].primal == pytest.approx(cold.objective_, rel=1e-9)
    assert warm.objective_ <= cold.objective_ * (1 + 1e-12)
    assert warm.gap_ <= warm.tol
    with pytest.raises(InputError, match="7 features but a starting model of 8"):
        warm.fit(data[0][:, :7], *data[1:])


def test_training_goes_on_from_a_saved_model(tmp_path):
    data = make()
    with pytest.warns(ConvergenceWarning):
        StructuredSVM(C=10.0, max_passes=4).fit(*data).save(tmp_path / "model.rkw")
    saved = load_model(tmp_path / "model.rkw")
    ranker = StructuredSVM(C=10.0).start_from(saved.model.coef).fit(*data)
    assert ranker.path_[0].primal == pytest.approx(saved.training["objective"], rel=1e-9)
    assert ranker.gap_ <= ranker.tol
    again = ranker.fit(*data)  # once only
    assert again.coef_.tobytes() == StructuredSVM(C=10.0).fit(*data).coef_.tobytes()


def duplicated(data, times):
    """The queries as often as ``times`` says, under new names."""
    X, y, qid = data
    parts = [(X[qid == q], y[qid == q], f"{q}/{copy}") for q, n in times.items() for copy in range(n)]
    ids = np.concatenate([[name] * len(labels) for _, labels, name in parts])
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), ids


@both_kinds
def test_a_query_that_weighs_double_is_a_query_given_twice(ranker):
    data = make(n_queries=12)
    qid = data[2]
    times = {q: 1 + at % 3 for at, q in enumerate(dict.fromkeys(qid.tolist()))}
    more = duplicated(data, times)
    tight = {"standardize": False, "tol": 1e-5}
    expected = clone(ranker).set_params(**tight).fit(*more)
    per_row = np.array([times[q] for q in qid])
    for weight in (times, per_row, per_row.tolist()):
        weighted = clone(ranker).set_params(**tight).fit(*data, query_weight=weight)
        assert weighted.objective_ == pytest.approx(expected.objective_, rel=1.1e-5)
        np.testing.assert_allclose(weighted.predict(data[0]), expected.predict(data[0]), rtol=0.05, atol=0.05)
    by_rows = clone(ranker).set_params(**tight).fit(*data, sample_weight=per_row)
    assert by_rows.coef_.tobytes() == weighted.coef_.tobytes()


WEIGHTS = {
    "all zero": (lambda qid: {"query_weight": np.zeros(len(qid))}, "all weights are zero"),
    "rows all zero": (lambda qid: {"sample_weight": np.zeros(len(qid))}, "all weights are zero"),
    "negative": (lambda qid: {"query_weight": -np.ones(len(qid))}, "at least 0"),
    "one negative": (lambda qid: {"sample_weight": np.where(np.arange(len(qid)) == 4, -0.5, 1.0)}, "at least 0"),
    "nan": (lambda qid: {"query_weight": dict.fromkeys(qid.tolist(), np.nan)}, "finite"),
    "too few": (lambda qid: {"query_weight": np.ones(3)}, r"query_weight of shape \(3,\)"),
    "too few rows": (lambda qid: {"sample_weight": [1.0]}, r"sample_weight of shape \(1,\)"),
    "a query without": (lambda qid: {"query_weight": {"q0": 1.0}}, "no entry for query 'q1'"),
}


@pytest.mark.parametrize("what", WEIGHTS)
def test_wrong_weights(what):
    X, y, qid = make(n_queries=5)
    weights, message = WEIGHTS[what]
    with pytest.raises(InputError, match=message):
        StructuredSVM().fit(X, y, qid, **weights(qid))


SETTINGS = [
    (StructuredSVM, {"C": 0}, "C is 0; expected a number above 0, or 'auto'"),
    (StructuredSVM, {"C": -1.0}, "C is -1.0"),
    (StructuredSVM, {"C": np.inf}, "C is inf"),
    (StructuredSVM, {"C": np.nan}, "C is nan"),
    (StructuredSVM, {"C": "best"}, "C is 'best'"),
    (StructuredSVM, {"C": None}, "C is None"),
    (StructuredSVM, {"C_grid": [1.0, 0.0]}, "C_grid is [1.0, 0.0]; expected numbers above 0, or None"),
    (StructuredSVM, {"C_grid": []}, "C_grid is []"),
    (StructuredSVM, {"tol": 0.0}, "tol is 0.0"),
    (StructuredSVM, {"max_passes": 0}, "max_passes is 0"),
    (
        StructuredSVM,
        {"solver": "sgd"},
        "solver is 'sgd'; expected one of bundle, one-slack-cutting-plane, n-slack-cutting-plane",
    ),
    (StructuredSVM, {"n_jobs": 0}, "n_jobs is 0"),
    (StructuredSVM, {"relevant_from": 0}, "relevant_from is 0"),
    (StructuredSVM, {"loss": "P@5"}, r"P@5"),
    (StructuredSVM, {"loss": "AP@10"}, r"AP@10"),
    (StructuredSVM, {"loss": "nonsense"}, "nonsense"),
    (
        StructuredSVM,
        {"loss": "map", "feature_map": "dorm"},
        "AP cannot be trained with the feature map 'dorm'; ",
    ),
    (
        StructuredSVM,
        {"loss": ["ndcg", "map"], "feature_map": "dorm"},
        "AP cannot be trained with the feature map 'dorm'; ",
    ),
    (StructuredSVM, {"loss": "dorm", "feature_map": "po"}, "DORM has the feature map dorm, not 'po'"),
    (StructuredSVM, {"loss": ["map", "nonsense"]}, "unknown measure 'nonsense'"),
    (StructuredSVM, {"loss": ["map", "P@5"]}, "P@5 has no most violated ranking"),
    (StructuredSVM, {"loss": []}, "loss is []; expected a name"),
    (
        StructuredSVM,
        {"loss": ["map", "auc"], "loss_weights": [1.0, -2.0]},
        "loss_weights is [1.0, -2.0]; expected numbers above 0",
    ),
    (StructuredSVM, {"loss": ["map", "auc"], "loss_weights": [1.0]}, "2 losses but 1 loss_weights; expected one"),
    (StructuredSVM, {"loss": "mrr", "feature_map": ["po", "mrr"]}, "1 losses but 2 feature maps; expected one"),
    (StructuredSVM, {"loss": "dorm", "feature_map": "dorm:cube"}, "the decay of the feature map is 'cube'; expected"),
    (StructuredSVM, {"loss": "mrr", "feature_map": "tree"}, "RR cannot be trained with the feature map 'tree'"),
    (RankingSVM, {"C": 0}, "C is 0"),
    (RankingSVM, {"eval_measure": "nonsense"}, "nonsense"),
]


@pytest.mark.parametrize(("cls", "settings", "message"), SETTINGS, ids=[str(row[1]) for row in SETTINGS])
def test_wrong_settings_give_one_line(cls, settings, message):
    ranker = cls(**settings)
    with pytest.raises(InputError) as caught:
        ranker.fit(*make(n_queries=5))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not hasattr(ranker, "coef_")


def test_grids_of_any_kind():
    train, valid = make(n_queries=8), make(n_queries=8, seed=1)
    for grid in ([0.1, 1], (1, 0.1), np.array([0.1, 1.0])):
        ranker = StructuredSVM(C="auto", C_grid=grid).fit(*train, eval_set=valid)
        assert [row["C"] for row in ranker.C_path_] == [0.1, 1.0]


def test_grades_are_relevant_from_where_it_is_said():
    X, y, qid = make()
    for limit in (1, 2, 0.5, 1.5):
        binary = StructuredSVM().fit(X, (y >= limit).astype(int), qid)
        assert StructuredSVM(relevant_from=limit).fit(X, y, qid).coef_.tobytes() == binary.coef_.tobytes()


@pytest.mark.parametrize(
    "ranker",  # the start of the ramp bound sees the grades below relevant_from, too
    [StructuredSVM("map"), StructuredSVM("auc"), StructuredSVM("mrr@5", bound="hinge"), AccuracySVM()],
    ids=repr,
)
def test_C_is_chosen_by_documents_relevant_from_where_it_is_said(ranker):
    train, (X, y, qid) = make(noise=4.0), make(seed=1, noise=4.0)
    auto = clone(ranker).set_params(C="auto", C_grid=[1e-3, 0.1, 10.0])
    as_said = clone(auto).set_params(relevant_from=2).fit(*train, eval_set=(X, y, qid))
    binary = auto.fit(train[0], train[1] >= 2, train[2], eval_set=(X, y >= 2, qid))
    assert as_said.C_ == binary.C_
    assert as_said.coef_.tobytes() == binary.coef_.tobytes()
    own, plain = (str(fitted.measure_to_choose_by()) for fitted in (as_said, binary))
    assert "rel=2" in own
    values = [row[own] for row in as_said.C_path_]
    assert values == [row[plain] for row in binary.C_path_]
    assert measured((X, y, qid), as_said, plain) not in values  # relevant from 1 is another measure


def test_pairs_know_the_order_of_grades_only():
    X, y, qid = make()
    expected = RankingSVM().fit(X, y, qid).coef_
    assert RankingSVM().fit(X, np.array([0.0, 0.25, 17.0])[y], qid).coef_.tobytes() == expected.tobytes()
    assert not np.allclose(RankingSVM().fit(X, (y > 0).astype(int), qid).coef_, expected)


def test_losses_may_be_measures_and_have_aliases():
    data = make()
    for alias, name in [("map", "AP"), ("ndcg@5", "nDCG@5"), ("mrr", "RR"), ("auc", "AUC"), ("ndcg", "nDCG")]:
        one = StructuredSVM(alias).fit(*data)
        for other in (name, parse_measure(name)):
            assert StructuredSVM(other).fit(*data).coef_.tobytes() == one.coef_.tobytes()


METHODS = {"map": "svm-map", "auc": "svm-auc", "ndcg": "svm-ndcg-nc", "ndcg@10": "svm-ndcg@10", "mrr@10": "svm-mrr@10"}


@pytest.mark.parametrize("loss", [*METHODS, None])
def test_the_model_file_tells_method_settings_and_certificate(loss, tmp_path):
    ranker = RankingSVM(C=np.float32(0.5)) if loss is None else StructuredSVM(parse_measure(loss), C=np.float32(0.5))
    X, y, qid = make(n_queries=6)
    y[qid == "q2"] = 0
    ranker.fit(X, y, qid).save(tmp_path / "model.rkw")
    saved = load_model(tmp_path / "model.rkw")
    assert saved.method == METHODS.get(loss, "rank-svm")
    assert saved.parameters["C"] == 0.5
    assert saved.parameters["solver"] == "bundle"
    assert saved.parameters.get("loss") == (None if loss is None else str(parse_measure(loss)))
    facts = saved.training
    assert (facts["C"], facts["objective"], facts["gap"]) == (0.5, ranker.objective_, ranker.gap_)
    assert (facts["queries"], facts["queries_skipped"], facts["passes"]) == (5, 1, ranker.n_passes_)


def test_a_model_of_nothing_can_be_saved(tmp_path):
    X, _, qid = make(n_queries=3)
    with pytest.warns(InputWarning, match="nothing to order"):
        ranker = RankingSVM().fit(X, np.ones(len(qid)), qid)
    ranker.save(tmp_path / "model.rkw")
    assert load_model(tmp_path / "model.rkw").training["queries"] == 0
    assert ranker.predict(X).tolist() == [0] * len(qid)


def test_more_queries_than_planes_can_be_kept_for_share_blocks(monkeypatch):
    X, y, qid = make(n_queries=200)
    expected = StructuredSVM(C=0.1, tol=1e-5).fit(X, y, qid)
    monkeypatch.setattr("rankwright.maxmargin.problem._PLANE_BYTES", 0.01)
    monkeypatch.setattr("rankwright.maxmargin.problem._FEW_BYTES", 0)
    shared = StructuredSVM(C=0.1, tol=1e-5).fit(X, y, qid)
    assert shared.coef_.tobytes() != expected.coef_.tobytes()
    assert shared.objective_ == pytest.approx(expected.objective_, rel=1.1e-5)
