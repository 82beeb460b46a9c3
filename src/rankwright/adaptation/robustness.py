"""Is an adapted ranker safe? Closed and open tests side by side, harm per query, and a learning curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.adaptation.ways import Adaptation, Adapted
from rankwright.data.dataset import RankingData
from rankwright.data.display import Tabled
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import evaluate
from rankwright.evaluation.render import draw
from rankwright.evaluation.significance import p_value
from rankwright.measures import Measure, parse_reported

__all__ = ["RobustnessReport", "learning_curve", "robustness"]

_COLOURS = ("#1b1f24", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKERS = ("s", "o", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Row:
    """One method on one test set, against the background ranker.

    `difference`: of the mean from that of the background. `wins`, `ties`, `losses`: queries that got better, stayed the
    same, got worse. `harm`: share of queries that got clearly worse. `p`: paired t-test, two-tailed.
    """

    test: str
    method: str
    mean: float
    difference: float
    wins: int
    ties: int
    losses: int
    harm: float
    p: float


@dataclass(frozen=True)
class CurvePoint:
    """A method trained on a number of in-domain queries: mean, lowest and highest value over repeated samples."""

    method: str
    n_queries: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class RobustnessReport:
    """All methods on all test sets, and the learning curve if there is one."""

    measure: str
    harm_from: float
    rows: tuple[Row, ...]
    curve: tuple[CurvePoint, ...] = field(default=())

    def text(self, kind: str = "text") -> str:
        """The tables, as terminal text, Markdown or LaTeX."""
        return "\n".join(draw(table, kind) for table in self.tables())

    def tables(self) -> list[Tabled]:
        """One table of the rows, and one of the curve."""
        header = ("test", "method", self.measure, "diff", "w/t/l", "harm", "p t-test")
        lines, rules, before = [], set(), ""
        for at, row in enumerate(self.rows):
            if row.test != before and before:
                rules.add(at)
            shown = row.test if row.test != before else ""
            before = row.test
            if row.method == "background":
                lines.append((shown, row.method, f"{row.mean:.4f}", "", "", "", ""))
                continue
            counts, p = f"{row.wins}/{row.ties}/{row.losses}", f"{row.p:.3f}{'*' if row.p < 0.05 else ' '}"
            figures = f"{row.mean:.4f}", f"{row.difference:+.4f}", counts, f"{row.harm:.0%}", p
            lines.append((shown, row.method, *figures))
        notes = (
            "differences from the background ranker; * p < 0.05, not corrected",
            f"harm: share of queries whose {self.measure} drops by more than {self.harm_from:g}",
        )
        tables = [Tabled(header, tuple(lines), notes, 2, frozenset(rules))]
        if self.curve:
            sizes = sorted({point.n_queries for point in self.curve})
            by_key = {(point.method, point.n_queries): point for point in self.curve}
            methods = list(dict.fromkeys(point.method for point in self.curve))
            cells = [(name, *(_shown(by_key.get((name, size))) for size in sizes)) for name in methods]
            head = ("in-domain queries", *(str(size) for size in sizes))
            note = f"{self.measure}: mean (lowest–highest) of repeated samples"
            tables.append(Tabled(head, tuple(cells), (note,)))
        return tables


def _shown(point: CurvePoint | None) -> str:
    return "" if point is None else f"{point.mean:.4f} ({point.low:.3f}–{point.high:.3f})"


def robustness(
    adapted: Adapted, tests: dict[str, RankingData], *, measure: str | Measure | None = None, harm_from: float = 0.05
) -> RobustnessReport:
    """Evaluate every candidate of an adaptation on test sets, such as ``{"closed": …, "open": …}``.

    Parameters
    ----------
    adapted : Adapted
        Returned by :func:`adapt`.
    tests : dict of RankingData
        By name: a closed test has the same distribution as the adaptation data, an open one a different one.
    measure : str or Measure, optional
        By default the measure of the adaptation.
    harm_from : float
        A query is harmed if its measure drops by more than this.
    """
    wanted = parse_reported(measure) if measure is not None else adapted.chosen.evaluation.measures[0]
    rows = []
    for test, data in tests.items():
        evaluations = {
            candidate.name: evaluate(data, candidate.model.predict(data), measures=[wanted]).values[:, 0]
            for candidate in adapted.candidates
        }
        start = evaluations["background"]
        for name, values in evaluations.items():
            apart = values - start
            wins, losses = int((apart > 0).sum()), int((apart < 0).sum())
            counts = (wins, len(apart) - wins - losses, losses)
            harm = float((apart < -harm_from).mean())
            rows.append(Row(test, name, float(values.mean()), float(apart.mean()), *counts, harm, p_value("t", apart)))
    return RobustnessReport(str(wanted), harm_from, tuple(rows))


def learning_curve(
    background: Any,
    train: RankingData,
    valid: RankingData | None,
    test: RankingData,
    *,
    sizes: Sequence[int] = (10, 20, 50, 100, 200, 500),
    repeats: int = 5,
    methods: Sequence[str] = ("in-domain", "interpolate", "lambdaboost", "lambdamart"),
    measure: str | Measure = "ndcg@10",
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    **further: Any,
) -> tuple[CurvePoint, ...]:
    """Value on a test set by number of in-domain training queries, over repeated random samples.

    Sizes beyond the number of training queries become one point with all of them. Every sample is validated on all
    of the validation data; without it, a sample is cross-validated, and one query alone teaches nothing. Further
    settings, such as ``in_domain`` or ``leaves``, are those of :func:`adapt`.
    """
    if repeats < 1 or not sizes or min(sizes) < 1:
        raise InputError(f"sizes {list(sizes)} and {repeats} repeats; expected whole numbers from 1")
    wanted = parse_reported(measure)
    amounts = sorted({min(size, train.n_queries) for size in sizes})
    settings: dict[str, Any] = {"measure": wanted, "random_state": random_state, "n_jobs": n_jobs, **further}
    before = Adaptation(background, train, valid, **settings)
    start = _mean(before.candidate("background").model, test, wanted)
    values: dict[tuple[str, int], list[float]] = {("background", amount): [start] for amount in amounts}
    total, done = len(amounts) * repeats, 0
    for amount in amounts:
        for repeat in range(repeats if amount < train.n_queries else 1):
            rng = np.random.default_rng([random_state, repeat])
            part = train.select(np.sort(rng.permutation(train.n_queries)[:amount]))
            adaptation = None
            for method in methods:
                try:
                    adaptation = adaptation or Adaptation(background, part, valid, **settings)
                    model = adaptation.candidate(method).model
                except InputError:  # too little to learn from
                    continue
                values.setdefault((method, amount), []).append(_mean(model, test, wanted))
            done += 1
            if progress is not None:
                progress(done, total)
    points = [
        CurvePoint(*key, float(np.mean(sample_values)), min(sample_values), max(sample_values))
        for key, sample_values in values.items()
    ]
    order = {name: at for at, name in enumerate(("background", *methods))}
    return tuple(sorted(points, key=lambda point: (order[point.method], point.n_queries)))


def _mean(model: Any, data: RankingData, measure: Measure) -> float:
    return float(evaluate(data, model.predict(data), measures=[measure]).values.mean())


def write_curve(curve: Sequence[CurvePoint], measure: str, path: str | Path) -> None:
    """Draw a learning curve, means with bands from the lowest to the highest sample, as PNG or SVG by file name."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from rankwright.io.files import replace_file

    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError("the plot has another format; expected a name that ends in .png or .svg", path)
    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "rankwright"}
    with rc_context(style):
        figure = Figure(figsize=(7, 4.2), dpi=150, layout="constrained")
        axis = figure.subplots()
        methods = list(dict.fromkeys(point.method for point in curve))
        for method, colour, marker in zip(methods, _COLOURS, _MARKERS, strict=False):
            points = [point for point in curve if point.method == method]
            sizes = [point.n_queries for point in points]
            dashed = "--" if method == "background" else "-"
            axis.plot(
                sizes, [point.mean for point in points], dashed, marker=marker, color=colour, label=method, markersize=5
            )
            axis.fill_between(
                sizes, [p.low for p in points], [p.high for p in points], color=colour, alpha=0.12, linewidth=0
            )
        axis.set_xscale("log")
        ticks = sorted({point.n_queries for point in curve})
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel("in-domain training queries")
        axis.set_ylabel(measure)
        axis.set_title("Learning curve: mean, and lowest to highest of repeated samples", loc="left", fontsize=9)
        axis.legend(frameon=False, fontsize=8)
        with replace_file(path) as out:
            figure.savefig(
                out, format=path.suffix.lower()[1:], metadata={"Date": None} if path.suffix == ".svg" else None
            )
