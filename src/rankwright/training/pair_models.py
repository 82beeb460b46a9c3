"""Whose pairs decide what a ranker of pairs learns: Ranking SVM against models of some of its pairs alone.

    agreement of two models = correlation of their scores, centred within each query, over all documents

A model of all pairs should rank the highest labels well, and serve all queries alike. If there are more pairs between
low labels, or in a few queries, it agrees most with the models of these (SIGIR'06, Section 4 and Figure 1). Ranking SVM
for IR weighs the pairs to change that. All models have the same λ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.display import Tabled, drawn, look, new_figure, shown, write_figure
from rankwright.data.order import query_of_row
from rankwright.data.summary import PairSummary, pair_summary
from rankwright.errors import InputError
from rankwright.evaluation.render import figure, rendered
from rankwright.maxmargin.losses import rank_pair_weights
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.training.train import TRAINING, about

__all__ = ["PairModels", "pair_models"]

_MOST_QUERIES = 200  # trained on alone
_GROUPS = 4  # of queries, by number of pairs
_HEADER = ("model of", "pairs", "share", "agreement with RSVM", "with RSVM-IR")
_MARKERS = ("^", "s", "o", "D", "v", "P", "X")  # from the lowest label up
_A_COLUMN = 7  # models in a column of the legend
_ALL, _IR = "all pairs (RSVM)", "RSVM-IR"


@dataclass(frozen=True)
class PartModel:
    """A Ranking SVM of some of the pairs alone, and how well it agrees with those of all pairs.

    `part`: the pairs: ``labels 2 over 1``, ``query 12``; for a group of queries, figures are means of their models'.
    `pairs`: number of these pairs. `share`: their share of all pairs. `rsvm`, `rsvm_ir`: correlation of the scores,
    within queries, with those of Ranking SVM and of Ranking SVM for IR.
    """

    part: str
    pairs: float
    share: float
    rsvm: float
    rsvm_ir: float


@dataclass(frozen=True, eq=False)
class PairModels:
    """Models of some of the pairs alone; made by :func:`pair_models`.

    Attributes
    ----------
    all_pairs : PartModel
        Ranking SVM of all pairs itself.
    by_labels : tuple of PartModel
        One for every two labels.
    by_query : tuple of PartModel
        One for every query trained on alone, the query with most pairs first.
    groups : tuple of PartModel
        The same as means over quarters of these queries.
    C : float
        λ = |Q|/(2C) in all models.
    rank_weights : dict
        The τ of Ranking SVM for IR.
    plane : Plane
        Two queries in the plane of their first principal components.
    """

    all_pairs: PartModel
    by_labels: tuple[PartModel, ...]
    by_query: tuple[PartModel, ...]
    groups: tuple[PartModel, ...]
    C: float
    rank_weights: dict[tuple[float, float], float]
    plane: Plane

    def of(self, part: str) -> PartModel:
        """The row of one part, such as ``query 12``."""
        rows = {row.part: row for row in self._rows}
        if part not in rows:
            raise InputError(f"{part!r} is not in the table; expected one of {', '.join(rows)}")
        return rows[part]

    @property
    def _rows(self) -> tuple[PartModel, ...]:
        return (self.all_pairs, *self.by_labels, *self.by_query)

    def render(self, kind: str = "text") -> str:
        """The table as ``text``, ``markdown``, ``latex``, ``csv`` or ``json``; the last two have every query."""
        rows = [asdict(row) for row in self._rows]
        facts: dict[str, Any] = {"all_pairs": asdict(self.all_pairs)}
        facts |= {name: [asdict(row) for row in getattr(self, name)] for name in ("by_labels", "groups", "by_query")}
        tau = [{"higher": a, "lower": b, "weight": weight} for (a, b), weight in self.rank_weights.items()]
        facts |= {"C": self.C, "rank_weights": tau, "plane": self.plane.to_dict()}
        return rendered(_table(self), (list(rows[0]), [list(row.values()) for row in rows]), facts, kind)

    def figure(self) -> Any:
        """The plot of the two queries as a matplotlib figure (SIGIR'06, Figure 1)."""
        return drawn(lambda: draw_plane(self.plane))

    def plot(self, path: str | Path) -> None:
        """Write the plot of the two queries into a ``.png`` or ``.svg`` file."""
        write_figure(path, lambda: draw_plane(self.plane))

    def __str__(self) -> str:
        return self.render()


def pair_models(
    data: RankingData,
    C: float = 0.01,
    *,
    queries: Sequence[Any] = (),
    rank_weights: str = "ndcg@1",
    standardize: bool = True,
    tol: float = 1e-4,
    max_passes: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> PairModels:
    """Train Ranking SVM on the pairs of every two labels and of every query alone, and compare with all pairs.

    Parameters
    ----------
    data : RankingData
        Training data.
    C : float
        As for :class:`RankingSVM`, for all pairs; the other models have the same λ = \\|Q\\|/(2C).
    queries : sequence, optional
        Two queries to draw; by default those at the quartiles of the number of pairs.
    rank_weights : str
        What τ of Ranking SVM for IR is made from.
    standardize, tol, max_passes
        As for :class:`RankingSVM`.
    progress : callable, optional
        Called with (models trained, models in total).

    Examples
    --------
    >>> X, y, qid = np.array([[2.0, 1], [1, 0], [0, 1], [1, 1], [0, 0], [1, 0]]), [2, 1, 0, 1, 0, 0], [1, 1, 1, 2, 2, 2]
    >>> models = pair_models(RankingData.from_arrays(X, y, qid), C=1)
    >>> [row.part for row in (*models.by_labels, *models.by_query)]
    ['labels 2 over 1', 'labels 2 over 0', 'labels 1 over 0', 'query 1', 'query 2']
    """
    counts = pair_summary(data)
    if not counts.rank_pairs or not counts.pairs:
        reason = "too many different labels" if counts.pairs else "no query with documents of different labels"
        raise InputError(f"has {reason}; expected up to 12 grades, and queries with an order", TRAINING)
    if (counts.of_query > 0).sum() < 2:
        raise InputError("has one query with documents of different labels; expected at least two", TRAINING)
    ordered = np.argsort(-counts.of_query, kind="stable")
    ordered = ordered[counts.of_query[ordered] > 0]
    last = len(ordered) - 1
    quartiles = ordered[[-(-3 * last // 4), last // 4]]  # of the number of pairs
    shown = _places(queries, counts) if len(queries) else quartiles
    alone = ordered[np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST_QUERIES)).round().astype(int))]
    settings: dict[str, Any] = {"standardize": standardize, "tol": tol, "max_passes": max_passes}
    settings["lam"] = len(ordered) / (2.0 * C)
    total = len(counts.rank_pairs) + len(alone) + 2
    query = query_of_row(data.indptr)
    scores: list[Array] = []

    def train(some: RankingData, **weights: Any) -> Array:
        ranker = RankingSVM(**settings, **weights)
        with about(TRAINING):
            ranker.fit_data(some)
        raw = data.X @ ranker.coef_
        centred = raw - (np.bincount(query, raw) / data.sizes)[query]
        scores.append(centred)
        if progress is not None:
            progress(len(scores), total)
        return np.asarray(centred)

    tau = rank_pair_weights(data, rank_weights)
    whole = [train(data), train(data, rank_weights=tau, query_weights=True)]
    none = {(pair.higher, pair.lower): 0.0 for pair in counts.rank_pairs}
    by_labels = []
    for pair in counts.rank_pairs:
        weights = none | {(pair.higher, pair.lower): 1.0}
        learnt = train(data, rank_weights=weights) if pair.pairs else np.zeros(data.n_docs)
        by_labels.append(_row(f"labels {pair.higher:g} over {pair.lower:g}", pair.pairs, counts, learnt, whole))
    by_query = []
    for at in alone.tolist():
        learnt = train(data.select(np.array([at])))
        by_query.append(_row(f"query {data.query_ids[at]}", int(counts.of_query[at]), counts, learnt, whole))
    plane = plane_of(data, shown, rank_weights, settings)
    all_pairs = _row("all pairs", counts.pairs, counts, whole[0], whole)
    return PairModels(all_pairs, tuple(by_labels), tuple(by_query), _grouped(by_query), float(C), tau, plane)


def _places(queries: Sequence[Any], counts: PairSummary) -> Array:
    place = {str(query): at for at, query in enumerate(counts.query_ids.tolist())}
    chosen = list(map(str, queries))
    for query in chosen:
        if query not in place:
            raise InputError(f"has no query {query!r}", TRAINING)
        if not counts.of_query[place[query]]:
            raise InputError(f"all labels of query {query!r} are equal; expected one with an order", TRAINING)
    if len(set(chosen)) != 2:
        raise InputError(f"{len(chosen)} queries to draw; expected two different ones")
    return np.array([place[query] for query in chosen])


def _row(part: str, pairs: int, counts: PairSummary, scores: Array, whole: Sequence[Array]) -> PartModel:
    return PartModel(part, pairs, pairs / counts.pairs, *(_agreement(scores, other) for other in whole))


def _agreement(one: Array, other: Array) -> float:
    """Correlation of centred scores; nan if all scores of one model are equal."""
    norm = float(np.sqrt(np.square(one).sum() * np.square(other).sum()))
    return float((one * other).sum()) / norm if norm > 0 else float("nan")


def _grouped(rows: Sequence[PartModel]) -> tuple[PartModel, ...]:
    if len(rows) < 2 * _GROUPS:
        return ()
    names = ("most pairs", "more pairs", "fewer pairs", "fewest pairs")
    groups = []
    for name, members in zip(names, np.array_split(np.arange(len(rows)), _GROUPS), strict=True):
        some = [rows[at] for at in members]
        means = [float(np.nanmean([getattr(row, field) for row in some])) for field in ("pairs", "rsvm", "rsvm_ir")]
        share = sum(row.share for row in some)
        groups.append(PartModel(f"a query, of the {len(some)} with {name}", means[0], share, *means[1:]))
    return tuple(groups)


def _table(models: PairModels) -> Tabled:
    shown = [row for row in models.by_query if row.part in {f"query {query}" for query in models.plane.queries}]
    rows = [models.all_pairs, *models.by_labels, *(models.groups or models.by_query)]
    rules = {1, 1 + len(models.by_labels)}
    if models.groups:
        rules.add(len(rows))
        rows += shown
    cells = [(row.part, f"{row.pairs:,.0f}", f"{row.share:.1%}", figure(row.rsvm), figure(row.rsvm_ir)) for row in rows]
    tau = ", ".join(f"{a:g} over {b:g}: {weight:.3g}" for (a, b), weight in sorted(models.rank_weights.items())[::-1])
    notes = (
        "agreement: correlation of the scores of two models, centred within queries, over all documents",
        f"RSVM: all pairs alike; RSVM-IR: weights for labels (τ {tau}) and for queries (most pairs / own pairs)",
        f"C {models.C:g} for all pairs; the same λ = |Q|/(2C) for every model",
        *(["of a group of queries: pairs and agreement are means, the share is the sum"] if models.groups else []),
    )
    return Tabled(_HEADER, tuple(cells), notes, 1, frozenset(rules))


@dataclass(frozen=True, eq=False)
class Plane:
    """Two queries in a plane, and the directions in which models trained there raise the score.

    `queries`: ids of the two queries. `points` (shape (documents, 2)): first and second principal component of both
    queries' documents: features centred within the query, then standardised. `labels`, `query`: label of each document,
    and which of the two queries it belongs to. `explained`: share of the variance in the plane. `by_labels`,
    `by_query`: unit vectors: of Ranking SVM on all pairs, of RSVM-IR, and of Ranking SVM on the pairs of two labels, or
    of one query, alone, where there are such pairs.
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
    by_labels = {name: direction for name, direction in by_labels.items() if direction.any()}
    by_query = {name: direction for name, direction in by_query.items() if direction.any()}
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
    return max(0.4 * float(np.ptp(plane.points, axis=0).max()), 1e-9)


def _columns(directions: Mapping[str, Array]) -> int:
    return 1 if len(directions) <= _A_COLUMN else 2


def _legend(axis: Any, n_columns: int) -> None:
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=n_columns, frameon=False, fontsize=7,
        handlelength=2.6 if n_columns == 1 else 1.0, columnspacing=0.8, handletextpad=0.5, borderaxespad=0.0,
    )  # fmt: skip
