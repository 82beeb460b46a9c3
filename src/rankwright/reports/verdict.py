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
from rankwright.reports.glossary import word
from rankwright.reports.sentences import counted, overall, p_text, percent, signed
from rankwright.reports.statistics import ComparisonProtocol, DataSummary, verdict


def first_measure(summary: DataSummary, protocol: ComparisonProtocol) -> str | None:
    """The first measure of the experiment that a data set has."""
    return next((name for name in protocol.measures if name in summary.measures), None)


def winners(summary: DataSummary, protocol: ComparisonProtocol) -> list[str]:
    """The methods that are significantly better than the baseline in the first measure, highest mean first."""
    measure = first_measure(summary, protocol)
    if measure is None:
        return []
    return [m for m in summary.ranked(measure) if verdict(summary.difference(m, measure), protocol.tests[0]) > 0]


def opening_verdict(data: Sequence[DataSummary], protocol: ComparisonProtocol) -> str:
    """The verdict on everything: of one data set its own, of several on how many there is a better method."""
    if len(data) == 1:
        return verdict_of(data[0], protocol)
    compared = [summary for summary in data if summary.comparisons.get(first_measure(summary, protocol) or "")]
    if not compared:
        return " ".join(["Nothing is compared here.", *overall(data, protocol)])
    better = sum(bool(winners(summary, protocol)) for summary in compared)
    n, base = len(compared), f"the {word('baseline')} {escape(protocol.baseline)}"
    sure = word("significant", "significantly")
    if better:
        where = ("both" if n == 2 else f"all {n:,}") if better == n else f"{better:,} of {n:,}"
        claim = f"On {where} data sets at least one method is {sure} better than {base}"
    else:
        where = "either data set" if n == 2 else f"any of the {n:,} data sets" if n > 2 else "the data set compared"
        claim = f"No method is {sure} better than {base} on {where}"
    return " ".join([f"<b>{claim}</b> in {escape(protocol.measures[0])}.", *overall(data, protocol)])


def verdict_of(summary: DataSummary, protocol: ComparisonProtocol) -> str:
    """The verdict on one data set, in one or two sentences; empty if it has no values."""
    measure = first_measure(summary, protocol)
    ranked = [] if measure is None else summary.ranked(measure)
    if measure is None or not ranked:
        return ""
    best, name = ranked[0], escape(measure)
    mean = f"{summary.mean(best, measure):.4f}"
    if not summary.comparisons.get(measure):
        queries = counted(len(summary.query_ids), "query", "queries")
        if len(ranked) == 1:
            return f"<b>{escape(best)}</b> has a mean {name} of {mean} on {queries}; there is nothing to compare with."
        why = f"the {word('baseline')} {escape(protocol.baseline)} shares no query with another method"
        return f"Nothing is compared: {why}. {_highest(best)}, {mean} in {name}."
    better = winners(summary, protocol)
    return _better(summary, measure, better, protocol) if better else _none(summary, measure, protocol)


def tested_by(protocol: ComparisonProtocol, compared: int) -> str:
    """The deciding test and the correction, in words."""
    test = TESTS[protocol.tests[0]][0]
    if compared < 2:
        return test
    if protocol.correction == "none":
        return f"{test}, not corrected for the {compared:,} methods compared"
    return f"{test}, after {protocol.correction.capitalize()}'s {word('correction')} for {compared:,} methods"


def _better(summary: DataSummary, measure: str, better: Sequence[str], protocol: ComparisonProtocol) -> str:
    head, best = better[0], summary.ranked(measure)[0]
    row = summary.difference(head, measure)
    assert row is not None
    sure, base = word("significant", "significantly"), f"the {word('baseline')} {escape(protocol.baseline)}"
    figures = figures_of(row, protocol, len(summary.comparisons[measure].differences))
    claim = f"<b>{escape(head)} is {sure} better than {base}</b>: {figures}."
    if head != best:
        return f"{claim} {_highest(best)}, {summary.mean(best, measure):.4f}, but its difference is not significant."
    methods = len(summary.ranked(measure))
    highest = f"It has the {word('highest')} of {methods:,} methods on the test queries" if methods > 2 else ""
    also = f"{len(better) - 1:,} other{'s are' if len(better) > 2 else ' is'} significantly better too"
    rest = [part for part in (highest, also if len(better) > 1 else "") if part]
    among = " Methods are tested against the baseline, not against each other." if methods > 2 else ""
    return f"{claim} {'; '.join(rest)}.{among}" if rest else claim


def _none(summary: DataSummary, measure: str, protocol: ComparisonProtocol) -> str:
    comparison = summary.comparisons[measure]
    best, base = summary.ranked(measure)[0], escape(protocol.baseline)
    sure = word("significant", "significantly")
    several = len(comparison.differences) > 1
    who = "No method" if several else escape(comparison.differences[0].system)
    claim = f"<b>{who} is {'' if several else 'not '}{sure} better than the {word('baseline')} {base}</b>"
    row = summary.difference(best, measure)
    if row is not None:
        return (
            f"{claim}. {_highest(best)}: {figures_of(row, protocol, len(comparison.differences))}. That may be chance."
        )
    mean = f"{summary.mean(best, measure):.4f} in {escape(measure)}"
    values = summary.values[summary.methods.index(best), summary.measures.index(measure)]
    queries = counted(int((~np.isnan(values)).sum()), "query", "queries")
    worse = [r.system for r in comparison.differences if verdict(r, protocol.tests[0]) < 0]
    rest = f"; {counted(len(worse), 'method is', 'methods are')} significantly worse" if worse else ""
    return f"{claim}. {_highest(best)}, {mean} on {queries}{rest}."


def _highest(method: str) -> str:
    return f"{escape(method)} has the {word('highest')} on the test queries"


def distance(row: Difference, protocol: ComparisonProtocol) -> str:
    """Both means, their difference, its interval and the number of queries."""
    low, high = row.interval
    interval = f"{protocol.confidence:.0%} {word('interval')} {signed(low)} to {signed(high)}".replace("%", " %", 1)
    means = f"{escape(row.measure)} {row.mean:.4f} against {row.baseline_mean:.4f}"
    queries = counted(row.queries, "query", "queries")
    return f"{means}, a difference of {signed(row.difference)}{percent(row)}, {interval}, on {queries}"


def figures_of(row: Difference, protocol: ComparisonProtocol, compared: int) -> str:
    """The :func:`distance` of a difference, and its p among so many methods compared."""
    p = word("p", p_text(row.p_corrected[protocol.tests[0]]))
    return f"{distance(row, protocol)} ({p} by the {tested_by(protocol, compared)})"
