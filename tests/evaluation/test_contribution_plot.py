"""Plots of contributions: what is drawn, where points lie, and inputs that do not fit."""

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, plot_contributions
from rankwright.data.display import drawn
from rankwright.evaluation import importance


def make(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X * np.arange(1.0, d + 1), X


def test_the_features_that_add_most_are_on_top(tmp_path):
    contributions, X = make()
    plot_contributions(tmp_path / "a.svg", contributions, X, ["one", "two", "three", "four"], n=2)
    text = (tmp_path / "a.svg").read_text()
    assert "four" in text
    assert "three" in text
    assert "two" not in text
    with_mean = np.column_stack([contributions, np.full(300, 9.0)])  # as predict_contributions gives them
    plot_contributions(tmp_path / "b.svg", with_mean, sparse.csr_array(X), ["one", "two", "three", "four"], n=2)
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()
    X[:, 3] = np.nan  # shown in grey
    plot_contributions(tmp_path / "c.svg", contributions, X, n=4)
    assert "f4" in (tmp_path / "c.svg").read_text()


def test_points_lie_at_their_contributions_and_apart():
    contributions, X = make(n=100, d=1)
    figure = drawn(lambda: importance._swarm(contributions, X, ["one"]))
    _, points = figure.axes[0].collections[:2]
    at = points.get_offsets()
    np.testing.assert_allclose(np.sort(at[:, 0]), np.sort(contributions[:, 0]))
    assert np.abs(at[:, 1]).max() <= 0.5
    shades = points.get_array()
    assert (shades.min(), shades.max()) == (0.0, 1.0)
    assert np.array_equal(np.argsort(shades), np.argsort(X[:, 0]))
    crowd = importance._spread(np.zeros(7), 1.0)
    assert len(set(np.round(crowd, 6))) == 7
    assert importance._shares(np.array([2.0, 2.0, np.nan])).tolist() == [0.5, 0.5, 0.5]


def test_bars_from_top_to_bottom():
    figure = drawn(lambda: importance._bars(["a", "b", "c $x$"], [2.0, -1.0, 0.0], "why"))
    bars = figure.axes[0].patches
    assert [bar.get_width() for bar in bars] == [2.0, -1.0, 0.0]
    assert bars[0].get_y() > bars[1].get_y() > bars[2].get_y()
    assert [bar.get_hatch() for bar in bars[:2]] == ["", "////"]


@pytest.mark.parametrize(
    ("contributions", "X", "names", "message"),
    [
        (np.zeros((3, 2)), np.zeros((2, 2)), None, "expected a row each"),
        (np.zeros(3), np.zeros((3, 1)), None, "expected a row each"),
        (np.zeros((3, 4)), np.zeros((3, 2)), None, "contributions in 4 columns; expected 2 features, or one more"),
        (np.zeros((3, 2)), np.zeros((3, 2)), ["a"], "2 features but 1 feature names"),
    ],
)
def test_inputs_that_do_not_fit(tmp_path, contributions, X, names, message):
    with pytest.raises(InputError, match=message):
        plot_contributions(tmp_path / "x.png", contributions, X, names)
    assert not (tmp_path / "x.png").exists()
