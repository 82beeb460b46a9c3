"""Results of a click model: an estimate with an interval for every pair, propensities of positions, judgements."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.clicks.log import ClickLog
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.files import replace_file

__all__ = ["ClickEstimates", "Propensities"]

QUANTILES = (0.5, 0.75, 0.9)
"""Where the estimates are cut into grades by default: the lower half is 0, the top tenth 3."""

_WIDTH = 2 * 1.959963984540054  # of a 95% interval, in standard errors


@dataclass(frozen=True, eq=False)
class Propensities:
    """How often a position is looked at.

    Attributes
    ----------
    position : ndarray
        The positions of the log, from 1, ascending.
    value : ndarray
        Probability that a user looks there; nan where the log does not say.
    error : ndarray
        Its standard error; nan where the model gives none.
    impressions, clicks : ndarray
        How often documents were shown and clicked there.
    """

    position: Array
    value: Array
    error: Array
    impressions: Array
    clicks: Array

    def of(self, position: npt.ArrayLike) -> Array:
        """The propensities of some positions; nan where there is none.

        Examples
        --------
        >>> none = np.zeros(2)
        >>> Propensities(np.array([1, 2]), np.array([1.0, 0.5]), none, none, none).of([2, 1, 7]).tolist()
        [0.5, 1.0, nan]
        """
        wanted = np.asarray(position)
        place = np.minimum(np.searchsorted(self.position, wanted), len(self.position) - 1)
        return np.where(self.position[place] == wanted, self.value[place], np.nan)

    def write(self, path: str | Path) -> None:
        """Write them as CSV: position, propensity, standard error, impressions, clicks."""
        names = ("position", "propensity", "standard_error", "impressions", "clicks")
        columns = (self.position, self.value, self.error, self.impressions, self.clicks)
        _write_csv(path, names, columns)


@dataclass(frozen=True, eq=False)
class ClickEstimates:
    """A click model's estimates for every pair of a query and a document.

    Attributes
    ----------
    model : str
        Name of the model.
    log : ClickLog
        What it was estimated from.
    estimate, lower, upper : ndarray
        Of every pair of the log: how attractive the document is for the query, and a 95% interval; nan where there are
        fewer than ``min_impressions``.
    impressions, clicks : ndarray
        Of every pair, as the model counts them.
    propensities : Propensities
        Of every position.
    min_impressions : int
        Fewest impressions of a pair.
    history : ndarray
        Log-likelihood before every step of EM, and after the last; empty where there is a closed form.
    converged : bool
        Whether EM came to rest.
    details : dict
        Numbers of this model only, such as ``continuation`` of ``"dbn"``.
    """

    model: str
    log: ClickLog
    estimate: Array
    lower: Array
    upper: Array
    impressions: Array
    clicks: Array
    propensities: Propensities
    min_impressions: int
    history: Array
    converged: bool
    details: dict[str, Any]

    @property
    def error(self) -> Array:
        """Standard error of every estimate: the width of the interval over 3.92."""
        return (self.upper - self.lower) / _WIDTH

    @property
    def kept(self) -> Array:
        """Mask of the pairs that have an estimate."""
        return np.isfinite(self.estimate)

    def cuts(self, quantiles: Sequence[float] = QUANTILES) -> Array:
        """Thresholds at quantiles of all estimates."""
        values = self.estimate[self.kept]
        return np.quantile(values, _ascending(quantiles, "quantiles", 1.0)) if len(values) else np.empty(0)

    def grades(
        self,
        quantiles: Sequence[float] | None = None,
        thresholds: Sequence[float] | None = None,
        *,
        cautious: bool = False,
    ) -> Array:
        """A grade for every pair: how many thresholds its estimate is above; −1 where there is no estimate.

        An estimate of 0 has the grade 0.

        Parameters
        ----------
        quantiles : sequence of float, optional
            Thresholds at these quantiles of all estimates; default 0.5, 0.75, 0.9.
        thresholds : sequence of float, optional
            Thresholds themselves, instead.
        cautious : bool
            Take the lower end of the interval instead of the estimate: what was seen rarely gets a low grade.
        """
        if quantiles is not None and thresholds is not None:
            raise InputError("quantiles and thresholds are both given; expected one of them")
        cuts = self.cuts(quantiles or QUANTILES) if thresholds is None else _ascending(thresholds, "thresholds")
        values = np.where(self.kept, self.lower if cautious else self.estimate, 0.0)
        return np.where(self.kept, np.searchsorted(cuts, values, side="left") * (values > 0), -1)

    def qrels(
        self,
        quantiles: Sequence[float] | None = None,
        thresholds: Sequence[float] | None = None,
        *,
        cautious: bool = False,
        query_ids: Sequence[str] | None = None,
    ) -> TrecTable:
        """Judgements of all pairs that have an estimate; see :meth:`grades`.

        Parameters
        ----------
        query_ids : sequence of str, optional
            Other ids for the queries of the log, such as numbers for texts.
        """
        grades = self.grades(quantiles, thresholds, cautious=cautious)
        kept = np.flatnonzero(grades >= 0)
        names = self.log.query_ids if query_ids is None else np.array(list(query_ids), object)
        queries, documents = names[self.log.pair_query[kept]], self.log.doc_ids[self.log.pair_doc[kept]]
        return TrecTable.from_columns(queries.astype(str), documents.astype(str), grades[kept].astype(float), "clicks")

    def write(self, path: str | Path, grades: Array | None = None) -> None:
        """Write all estimates as CSV: query, document, estimate, interval, standard error, counts, grade."""
        grades = self.grades() if grades is None else grades
        log, kept = self.log, np.flatnonzero(self.kept)
        names = ("query", "document", "estimate", "lower", "upper", "standard_error", "impressions", "clicks", "grade")
        numbers = (self.estimate, self.lower, self.upper, self.error, self.impressions, self.clicks, grades)
        ids = (log.query_ids[log.pair_query[kept]], log.doc_ids[log.pair_doc[kept]])
        _write_csv(path, names, (*ids, *(column[kept] for column in numbers)))


def _ascending(values: Sequence[float], name: str, maximum: float = np.inf) -> Array:
    array = np.asarray(values, np.float64)
    if (
        array.ndim != 1
        or not len(array)
        or not ((array >= 0) & (array <= maximum)).all()
        or (np.diff(array) <= 0).any()
    ):
        span = "from 0 to 1" if maximum == 1 else "at least 0"
        raise InputError(f"{name} are {list(values)}; expected numbers {span}, ascending")
    return array


def _write_csv(path: str | Path, names: Sequence[str], columns: Sequence[Array]) -> None:
    with replace_file(path) as out:
        text = io.TextIOWrapper(out, "utf-8", errors="replace", newline="", write_through=True)
        table = csv.writer(text, lineterminator="\n")
        table.writerow(names)
        table.writerows(zip(*(map(_plain, column.tolist()) for column in columns), strict=True))
        text.flush()
        text.detach()


def _plain(value: Any) -> Any:
    """A number without a trailing .0, and nothing for nan."""
    if isinstance(value, float):
        return "" if value != value else int(value) if value == int(value) else repr(value)
    return value
