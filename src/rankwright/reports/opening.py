"""The first sentences of a report: whether a method is better than the baseline, by how much, and how sure that is.

They claim what was tested, no more: a method with the highest mean is said to have that; only differences from the
baseline are tested. Sentences are HTML; every name from the data is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from rankwright.evaluation.comparison import Difference
from rankwright.evaluation.significance import TESTS
from rankwright.reports.sentences import counted, overall, p_text, percent, signed
from rankwright.reports.statistics import DataSummary, Protocol, verdict
from rankwright.reports.words import word

__all__ = ["distance", "first_measure", "opening", "tested_by", "verdict_of", "winners"]


def first_measure(one: DataSummary, protocol: Protocol) -> str | None:
    """The first measure of the experiment that a data set has."""
    return next((name for name in protocol.measures if name in one.measures), None)


def winners(one: DataSummary, protocol: Protocol) -> list[str]:
    """The methods that are significantly better than the baseline in the first measure, highest mean first."""
    measure = first_measure(one, protocol)
    if measure is None:
        return []
    return [m for m in one.ranked(measure) if verdict(one.difference(m, measure), protocol.tests[0]) > 0]


def opening(data: Sequence[DataSummary], protocol: Protocol) -> str:
    """The verdict on everything: of one data set its own, of several on how many there is a better method."""
    if len(data) == 1:
        return verdict_of(data[0], protocol)
    compared = [one for one in data if one.comparisons.get(first_measure(one, protocol) or "")]
    if not compared:
        return " ".join(["Nothing is compared here.", *overall(data, protocol)])
    better = sum(bool(winners(one, protocol)) for one in compared)
    n, base = len(compared), f"the {word('baseline')} {escape(protocol.baseline)}"
    sure = word("significant", "significantly")
    if better:
        where = ("both" if n == 2 else f"all {n:,}") if better == n else f"{better:,} of {n:,}"
        told = f"On {where} data sets at least one method is {sure} better than {base}"
    else:
        where = "either data set" if n == 2 else f"any of the {n:,} data sets" if n > 2 else "the data set compared"
        told = f"No method is {sure} better than {base} on {where}"
    return " ".join([f"<b>{told}</b> in {escape(protocol.measures[0])}.", *overall(data, protocol)])


def verdict_of(one: DataSummary, protocol: Protocol) -> str:
    """The verdict on one data set, in one or two sentences; empty if it has no values."""
    measure = first_measure(one, protocol)
    ranked = [] if measure is None else one.ranked(measure)
    if measure is None or not ranked:
        return ""
    best, name = ranked[0], escape(measure)
    mean = f"{one.mean(best, measure):.4f}"
    if not one.comparisons.get(measure):
        queries = counted(len(one.query_ids), "query", "queries")
        if len(ranked) == 1:
            return f"<b>{escape(best)}</b> has a mean {name} of {mean} on {queries}; there is nothing to compare with."
        why = f"the {word('baseline')} {escape(protocol.baseline)} shares no query with another method"
        return f"Nothing is compared: {why}. {_highest(best)}, {mean} in {name}."
    better = winners(one, protocol)
    return _better(one, measure, better, protocol) if better else _none(one, measure, protocol)


def tested_by(protocol: Protocol, compared: int) -> str:
    """The deciding test and the correction, in words."""
    test = TESTS[protocol.tests[0]][0]
    if compared < 2:
        return test
    if protocol.correction == "none":
        return f"{test}, not corrected for the {compared:,} methods compared"
    return f"{test}, after {protocol.correction.capitalize()}'s {word('correction')} for {compared:,} methods"


def _better(one: DataSummary, measure: str, better: Sequence[str], protocol: Protocol) -> str:
    head, best = better[0], one.ranked(measure)[0]
    row = one.difference(head, measure)
    assert row is not None
    sure, base = word("significant", "significantly"), f"the {word('baseline')} {escape(protocol.baseline)}"
    said = f"<b>{escape(head)} is {sure} better than {base}</b>: {distance(row, protocol)} ({_p(one, row, protocol)})."
    if head != best:
        return f"{said} {_highest(best)}, {one.mean(best, measure):.4f}, but its difference is not significant."
    methods = len(one.ranked(measure))
    highest = f"It has the {word('highest')} of {methods:,} methods on the test queries" if methods > 2 else ""
    also = f"{len(better) - 1:,} other{'s are' if len(better) > 2 else ' is'} significantly better too"
    rest = [part for part in (highest, also if len(better) > 1 else "") if part]
    among = " Methods are tested against the baseline, not against each other." if methods > 2 else ""
    return f"{said} {'; '.join(rest)}.{among}" if rest else said


def _none(one: DataSummary, measure: str, protocol: Protocol) -> str:
    comparison = one.comparisons[measure]
    best, base = one.ranked(measure)[0], escape(protocol.baseline)
    sure = word("significant", "significantly")
    several = len(comparison.differences) > 1
    who = "No method" if several else escape(comparison.differences[0].system)
    said = f"<b>{who} is {'' if several else 'not '}{sure} better than the {word('baseline')} {base}</b>"
    row = one.difference(best, measure)
    if row is not None:
        found = f"{distance(row, protocol)} ({_p(one, row, protocol)})"
        return f"{said}. {_highest(best)}: {found}. That may be chance."
    mean = f"{one.mean(best, measure):.4f} in {escape(measure)}"
    own = one.values[one.methods.index(best), one.measures.index(measure)]
    queries = counted(int((~np.isnan(own)).sum()), "query", "queries")
    worse = [r.system for r in comparison.differences if verdict(r, protocol.tests[0]) < 0]
    rest = f"; {counted(len(worse), 'method is', 'methods are')} significantly worse" if worse else ""
    return f"{said}. {_highest(best)}, {mean} on {queries}{rest}."


def _highest(method: str) -> str:
    return f"{escape(method)} has the {word('highest')} on the test queries"


def distance(row: Difference, protocol: Protocol) -> str:
    """Both means, their difference, its interval and the number of queries."""
    low, high = row.interval
    interval = f"{protocol.confidence:.0%} {word('interval')} {signed(low)} to {signed(high)}".replace("%", " %", 1)
    means = f"{escape(row.measure)} {row.mean:.4f} against {row.baseline_mean:.4f}"
    queries = counted(row.queries, "query", "queries")
    return f"{means}, a difference of {signed(row.difference)}{percent(row)}, {interval}, on {queries}"


def _p(one: DataSummary, row: Difference, protocol: Protocol) -> str:
    compared = len(one.comparisons[row.measure].differences)
    p = word("p", p_text(row.p_corrected[protocol.tests[0]]))
    return f"{p} by the {tested_by(protocol, compared)}"
