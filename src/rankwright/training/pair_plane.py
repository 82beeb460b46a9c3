"""Two queries in the plane of their first two principal components, with models trained there (SIGIR'06, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.figures import look, new_figure, shown
from rankwright.rankers.pair_weights import rank_pair_weights
from rankwright.rankers.ranking_svm import RankingSVM

__all__ = ["Plane", "draw_plane", "plane_of"]

Array = npt.NDArray[Any]
_MARKERS = ("^", "s", "o", "D", "v", "P", "X")  # from the lowest label up
_A_COLUMN = 7  # models in a column of the legend
_ALL, _IR = "all pairs (RSVM)", "RSVM-IR"


@dataclass(frozen=True, eq=False)
class Plane:
    """Two queries in a plane, and the directions in which models trained there raise the score.

    Attributes
    ----------
    queries : tuple
        Ids of the two queries.
    points : ndarray of shape (documents, 2)
        First and second principal component of both queries' documents: features centred within the query, then
        standardised.
    labels, query : ndarray
        Label of each document, and which of the two queries it belongs to.
    explained : float
        Share of the variance in the plane.
    by_labels, by_query : dict
        Unit vectors: of Ranking SVM on all pairs, of RSVM-IR, and of Ranking SVM on the pairs of two labels, or of one
        query, alone, where there are such pairs.
    """

    queries: tuple[Any, Any]
    points: Array
    labels: Array
    query: Array
    explained: float
    by_labels: dict[str, Array]
    by_query: dict[str, Array]

    def degrees(self, directions: Mapping[str, Array]) -> dict[str, float]:
        """The angle between each direction and that of all pairs."""
        cosines = {name: float(direction @ directions[_ALL]) for name, direction in directions.items()}
        return {name: float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))) for name, cosine in cosines.items()}

    def to_dict(self) -> dict[str, Any]:
        """Queries, share of the variance, and angles with the model of all pairs, in degrees."""
        angles = {"by_labels": self.degrees(self.by_labels), "by_query": self.degrees(self.by_query)}
        return {"queries": [str(query) for query in self.queries], "explained": self.explained, "degrees": angles}


def plane_of(data: RankingData, queries: Array, rank_weights: str, settings: Mapping[str, Any]) -> Plane:
    """Project two queries onto their first two principal components and train there."""
    both = data.select(np.asarray(queries))
    X = both.X.toarray() if sparse.issparse(both.X) else np.asarray(both.X)
    X = X.astype(np.float64)
    for begin, end in pairwise(both.indptr.tolist()):
        X[begin:end] -= X[begin:end].mean(axis=0)  # pairs are differences within a query, so nothing is lost
    spread = X.std(axis=0)
    X /= np.where(spread > 0, spread, 1.0)
    left, sizes, axes = np.linalg.svd(X, full_matrices=False)
    signs = np.where(axes[:2].sum(axis=1) < 0, -1.0, 1.0)  # so that the picture does not depend on the library
    points = np.zeros((len(X), 2))
    points[:, : len(sizes)] = (left[:, :2] * sizes[:2]) * signs
    flat = RankingData.from_arrays(points, both.labels, both.qid)
    tau = rank_pair_weights(flat, rank_weights)
    none = dict.fromkeys(tau, 0.0)
    by_labels = {
        f"labels {pair[0]:g} over {pair[1]:g}": _direction(flat, settings, rank_weights=none | {pair: 1.0})
        for pair in sorted(tau, reverse=True)
    }
    by_query = {
        f"query {flat.query_ids[at]}": _direction(flat.select(np.array([at])), settings) for at in range(flat.n_queries)
    }
    ends = {_ALL: _direction(flat, settings), _IR: _direction(flat, settings, rank_weights=tau, query_weights=True)}
    by_labels, by_query = ({name: one for name, one in of.items() if one.any()} for of in (by_labels, by_query))
    total = float((sizes**2).sum())
    explained = float((sizes[:2] ** 2).sum()) / total if total > 0 else 0.0
    ids = flat.query_ids.tolist()
    return Plane(
        (ids[0], ids[1]), points, flat.labels, flat.query_of_row(), explained, ends | by_labels, ends | by_query
    )


def _direction(data: RankingData, settings: Mapping[str, Any], **weights: Any) -> Array:
    """The unit vector along which a model's score rises; 0 where it learns nothing."""
    ranker = RankingSVM(**dict(settings) | {"standardize": False}, **weights)
    ranker.fit_data(data)
    length = float(np.linalg.norm(ranker.coef_))
    return np.asarray(ranker.coef_ / length if length > 0 else ranker.coef_)


def draw_plane(plane: Plane) -> Any:
    """Draw three panels: the documents; models by labels; models by query."""
    n_grades = len(np.unique(plane.labels))
    n_rows = max(n_grades, -(-len(plane.by_labels) // _columns(plane.by_labels)), len(plane.by_query))
    below = 0.55 + 0.15 * n_rows  # inches under the panels: axis, legend
    height = 2.55 + below
    figure = new_figure(height, layout=None)
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    figure.subplots_adjust(left=0.075, right=0.99, wspace=0.12, top=1 - 0.25 / height, bottom=below / height)
    _draw_points(axes[0], plane)
    _draw_arrows(axes[1], plane, plane.by_labels, "Where scores rise, by labels")
    _draw_arrows(axes[2], plane, plane.by_query, "Where scores rise, by query")
    longest = _longest(plane)
    low, high = np.minimum(plane.points.min(axis=0), -longest), np.maximum(plane.points.max(axis=0), longest)
    middle, reach = (low + high) / 2.0, 0.53 * float((high - low).max())
    for axis in axes:
        axis.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
        axis.set_xlabel("first principal component")
    axes[0].set_ylabel("second principal component", labelpad=1)
    return figure


def _draw_points(axis: Any, plane: Plane) -> None:
    axis.set_title(f"Two queries, {100 * plane.explained:.0f} % of the variance")
    grades = np.unique(plane.labels)
    for at, query in enumerate(plane.queries):
        colour = look(at)["color"]
        for number, grade in enumerate(grades):
            x, y = plane.points[(plane.query == at) & (plane.labels == grade)].T
            axis.scatter(
                x, y, s=13, lw=0.7, marker=_MARKERS[number % len(_MARKERS)], edgecolor=colour,
                facecolor=colour if at == 0 else "none", label=f"query {shown(str(query), 12)}, label {grade:g}",
            )  # fmt: skip
    _legend(axis, 2)


def _draw_arrows(axis: Any, plane: Plane, directions: Mapping[str, Array], title: str) -> None:
    """Directions from the origin, over the documents in grey; the angle with the model of all pairs in the legend."""
    axis.set_title(title)
    axis.scatter(*plane.points.T, s=5, color="0.85", lw=0)
    longest = _longest(plane)
    angles = plane.degrees(directions)
    for number, (name, direction) in enumerate(directions.items()):
        style = look(number)
        length = longest * (1.0 - 0.07 * number)  # so that markers of equal directions do not hide each other
        ends = np.array([np.zeros(2), length * direction])
        angle = "" if name == _ALL else f", {angles[name]:.0f}°"
        axis.plot(*ends.T, **style | {"marker": "", "lw": 1.4})
        axis.plot(*ends[1:].T, **style | {"ms": 6, "label": f"{shown(name.removeprefix('labels '), 24)}{angle}"})
    _legend(axis, _columns(directions))


def _longest(plane: Plane) -> float:
    """Length of the longest arrow."""
    return max(0.4 * float(np.ptp(plane.points, axis=0).max()), 1e-9)


def _columns(directions: Mapping[str, Array]) -> int:
    return 1 if len(directions) <= _A_COLUMN else 2


def _legend(axis: Any, n_columns: int) -> None:
    """Below the panel, off the data."""
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=n_columns, frameon=False, fontsize=7,
        handlelength=2.6 if n_columns == 1 else 1.0, columnspacing=0.8, handletextpad=0.5, borderaxespad=0.0,
    )  # fmt: skip
