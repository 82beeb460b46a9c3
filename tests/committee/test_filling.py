"""Missing values for linear members: filled by hand, as one model, saved, and what is left out without it."""

import json
import zipfile

import numpy as np
import pytest
from scipy import sparse

from rankwright import AutoRanker, InputError, LinearModel, RankingData, load_model
from rankwright.committee.filling import Filling
from rankwright.exporting.ensemble import ensemble_of
from rankwright.models.saving import save_model
from rankwright.models.sum import interpolate
from rankwright.rankers.facts import Expectation, HeldOut, Interval

NAN = np.nan
X = np.array([[1.0, NAN, 5.0], [NAN, 2.0, 6.0], [3.0, 4.0, 7.0], [5.0, NAN, 8.0]])
DATA = RankingData.from_arrays(X, [0, 1, 0, 1], [1, 1, 2, 2], feature_names=["a", "b", "c"], allow_missing=True)


def test_filled_by_hand():
    filling = Filling.of(DATA)
    filled = filling.filled(DATA)
    assert filled.feature_names == ("a", "b", "c", "missing:a", "missing:b")
    assert filled.X.tolist() == [[1, 3, 5, 0, 1], [3, 2, 6, 1, 0], [3, 4, 7, 0, 0], [5, 3, 8, 0, 1]]
    of_sparse = RankingData.from_arrays(sparse.csr_array(X), [0, 1, 0, 1], [1, 1, 2, 2], allow_missing=True)
    assert Filling.of(of_sparse).filled(of_sparse).X.toarray().tolist() == filled.X.tolist()
    assert Filling.of(DATA.with_features(np.nan_to_num(X))) is None
    taken = RankingData.from_arrays(
        X, [0, 1, 0, 1], [1, 1, 2, 2], feature_names=["missing:b", "b", "c"], allow_missing=True
    )
    assert Filling.of(taken).filled(taken).feature_names[3:] == ("missing::missing:b", "missing::b")


def test_the_collapsed_model_gives_the_scores_over_filled_values():
    filling, rng = Filling.of(DATA), np.random.default_rng(0)
    over_filled = LinearModel(rng.normal(size=5))
    model = filling.collapsed(over_filled, ("a", "b", "c"))
    expected = over_filled.score(filling.filled(DATA).X)
    np.testing.assert_allclose(model.score(X), expected, rtol=1e-12)
    new = np.array([[NAN, NAN, NAN]])  # c is never missing in training: only its mean takes its place
    assert model.score(new)[0] == pytest.approx(over_filled.coef @ [3.0, 3.0, 6.5, 1, 1])


def test_a_model_with_missing_values(tmp_path):
    model = LinearModel([2.0, 0.0, -1.0], ("a", "b", "c"), missing=[0.5, 4.0, 0.0])
    assert model.score(X).tolist() == [1.0, -5.5, -1.0, 6.0]
    assert model.score(sparse.csr_array(X)).tolist() == model.score(X).tolist()
    assert model.uses().tolist() == [True, True, True]
    assert not model.takes_text(1)
    save_model(model, tmp_path / "m.rkw", method="auto", parameters={})
    loaded = load_model(tmp_path / "m.rkw")
    assert loaded.header["version"] == 3
    assert loaded.predict(X).tobytes() == model.score(X).tobytes()
    contributions = model.predict_contributions(X, [1, 1, 2, 2])
    np.testing.assert_allclose(contributions.sum(axis=1), model.score(X), atol=1e-12)
    both = interpolate([model, LinearModel([1.0, 1.0, 1.0], ("a", "b", "c"), missing=[1.0, 1.0, 1.0])], [2.0, 1.0])
    np.testing.assert_allclose(both.missing, [2.0, 9.0, 1.0])
    strict = LinearModel([1.0, 0.0, 0.0], ("a", "b", "c"))
    with pytest.raises(InputError, match="has no 'a'"):  # the sum refuses what one part refuses
        interpolate([model, strict], [1.0, 1.0]).score(X)
    with pytest.raises(InputError, match="cannot be exported"):
        ensemble_of(model)
    for wrong in ([1.0], [NAN, 0.0, 0.0]):
        with pytest.raises(InputError, match="one finite number per feature"):
            LinearModel([2.0, 0.0, -1.0], missing=wrong)
    with pytest.raises(InputError, match="does not go with query_scaling"):
        LinearModel([1.0], query_scaling="minmax", missing=[0.0])


@pytest.fixture(scope="module")
def incomplete():
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(240, 3)), np.repeat(np.arange(24), 10)
    y = (X[:, 0] + X[:, 1] + 0.4 * rng.normal(size=240) > 0.8).astype(int)
    X[rng.random(X.shape) < 0.2] = NAN
    return X, y, qid


def test_auto_says_which_members_it_left_out_or_keeps_them(incomplete, tmp_path):
    members = ["rank-svm", "lambdamart-4"]
    left = AutoRanker(members=members).fit(*incomplete)
    (line,) = [text for title, text in left.committee_.words() if title == "left out"]
    assert line.startswith("rank-svm: 3 of 3 features have missing values, most ")
    assert "--fill-missing" in line
    assert left.committee_.to_dict()["left_out"] == ["rank-svm"]
    kept = AutoRanker(members=members, fill_missing=True).fit(*incomplete)
    assert kept.committee_.left_out is None
    assert {member.name for member in kept.committee_.members} == set(members)
    linear = AutoRanker(members=["rank-svm"], fill_missing=True).fit(*incomplete)
    assert isinstance(linear.model_, LinearModel)
    assert linear.committee_.expectation.difference.value > 0
    linear.save(tmp_path / "m.rkw")
    assert load_model(tmp_path / "m.rkw").predict(incomplete[0]).tobytes() == linear.predict(incomplete[0]).tobytes()
    with pytest.raises(InputError, match="missing features"):
        AutoRanker(explainable=True, members=["rank-svm"]).fit(*incomplete)


def test_complete_data_gives_the_same_file(incomplete, tmp_path):
    X, y, qid = np.nan_to_num(incomplete[0]), *incomplete[1:]
    for name, settings in (("a", {}), ("b", {"fill_missing": True})):
        AutoRanker(members=["rank-svm"], **settings).fit(X, y, qid).save(tmp_path / name)
    parts = [
        {entry: zipfile.ZipFile(tmp_path / name).read(entry) for entry in ("model.json", "coef.npy")} for name in "ab"
    ]
    assert parts[0]["coef.npy"] == parts[1]["coef.npy"]
    headers = [json.loads(part["model.json"]) for part in parts]
    assert "fill_missing" not in headers[0]["parameters"]
    assert headers[1]["parameters"].pop("fill_missing") is True
    assert headers[0] == headers[1]


def test_no_model_is_written_that_is_called_clearly_worse_than_a_feature():
    rng, seen = np.random.default_rng(0), 0
    for _ in range(400):
        n = int(rng.integers(12, 90))
        indptr = np.arange(n)  # a document a query: its score is the value

        def values_of(scores):
            return scores

        feature = rng.normal(size=n) + 0.1
        members = feature[:, None] - rng.normal(loc=0.18, scale=0.8, size=(n, 3))
        held_out = HeldOut(members, feature, values_of, np.ones(n), indptr % 5)
        _, floor, expectation = held_out.decided()
        assert expectation.difference.high >= 0
        if held_out.expectation().difference.high < 0 and not held_out.is_below_feature(held_out.stay()):
            seen += 1
            assert floor
            assert expectation == Expectation(*[expectation.feature_value] * 2, Interval(0.0, 0.0, 0.0))
    assert seen  # the case that was called clearly worse
