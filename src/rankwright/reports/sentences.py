"""What a report says: the verdict, then groups of methods, other measures, how training went, how tests are made.

The verdict is whether a method is better than the baseline, by how much, and how sure that is. It claims what was
tested, no more: a method with the highest mean is said to have that; only differences from the baseline are tested.
Sentences are HTML; every name from the data is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from statistics import fmean

import numpy as np

from rankwright.evaluation.comparison import Difference, disagreement
from rankwright.evaluation.significance import CORRECTIONS, TESTS
from rankwright.reports.glossary import SIGNIFICANTLY, linked, word
from rankwright.reports.results import Health, ResultsFolder
from rankwright.reports.statistics import ALPHA, ComparisonProtocol, DataSummary, about_seeds, verdict

_NAMED = 5  # methods to list by name
_STILL = 0.99  # of the objective at zero weights: above it, hardly anything was learnt


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun, as in ``1 query`` and ``1,200 queries``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def signed(value: float) -> str:
    """A difference with its sign, using a true minus sign."""
    return f"{round(value, 4) + 0.0:+.4f}".replace("-", "−")  # no −0.0000


def p_text(p: float) -> str:
    """``p = 0.012``, or ``p < 0.0001``."""
    text = "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def bullets(items: Iterable[str], kind: str = "") -> str:
    """Items of HTML as a list of a kind; empty without items."""
    listed = "".join(f"<li>{item}</li>" for item in items)
    opening = f'<ul class="{kind}">' if kind else "<ul>"
    return f"{opening}{listed}</ul>" if listed else ""


def overall(data: Sequence[DataSummary], protocol: ComparisonProtocol) -> list[str]:
    """Sentences about all data sets together; empty for a single one."""
    measure = protocol.measures[0]
    with_measure = [summary for summary in data if measure in summary.measures]
    if len(with_measure) < 2:
        return []
    n = len(with_measure)
    best = [summary.ranked(measure)[0] for summary in with_measure]
    first = [
        f"<b>{escape(method)}</b> on {best.count(method)} of {n} data sets"
        for method in sorted(set(best), key=lambda method: (-best.count(method), method))
    ]
    sentences = [f"Highest {escape(measure)} on the test queries: {_list(first)}."]
    for sign, how in ((1, "better than"), (-1, "worse than")):
        times = {
            method: sum(summary.verdict(method, measure) == sign for summary in with_measure)
            for method in protocol.methods
        }
        winners = [f"{escape(m)} on {times[m]}" for m in sorted(times, key=lambda m: -times[m]) if times[m]]
        if winners:
            where = f"Significantly {how} {escape(protocol.baseline)}"
            sentences.append(f"{where}: {_list(winners)} of {n} data sets.")
    return sentences


def about_data(summary: DataSummary, measure: str) -> list[str]:
    """What there is to say of a data set after its verdict."""
    ranked = summary.ranked(measure)
    if not summary.differences.get(measure) or not ranked:
        return []
    best = ranked[0]
    sentences = []
    row = summary.difference(best, measure)
    if row is not None:
        wins = f"better on {counted(row.wins, 'query', 'queries')}, equal on {row.ties:,}, worse on {row.losses:,}"
        sentences = [
            f"{escape(best)} against {escape(summary.protocol.baseline)}: {wins}.",
            *_disagreement(row, summary.protocol),
        ]
    protocol = summary.protocol
    for row in summary.differences[measure]:
        text = disagreement(row, protocol.tests[0], protocol.correction, protocol.confidence)
        sentences += [f"{escape(row.system)}: {escape(text)}."] if text else []
    sure = [method for method in summary.methods if summary.verdict(method, measure)]
    for method in sure if summary.seed_means is not None else ():
        gains = summary.seeds(method, measure) - summary.seeds(protocol.baseline, measure)
        text = about_seeds(gains, method, measure, protocol.baseline)
        sentences += [f"{escape(text)}."] if text else []
    sentences.extend(_groups(summary, measure))
    sentences.extend(_other_measures(summary, measure))
    return sentences


def about_tests(data: Sequence[DataSummary], protocol: ComparisonProtocol) -> list[str]:
    """How significance is decided, and what is averaged."""
    if not any(summary.differences for summary in data):
        return []
    deciding = TESTS[protocol.tests[0]][0]
    several = " (the first test requested)" if len(protocol.tests) > 1 else ""
    lines = [
        f"significant: {deciding}{several}, two-tailed over queries, p < {ALPHA:g} after correction",
        *protocol.description,
    ]
    if any(summary.splits > 1 for summary in data):
        lines.append("a query tested in several splits counts once, with the mean of its values")
    if any(summary.seed_means is not None for summary in data):
        lines.append("a query counts with its mean over seeds; what is significant is tested over seeds, too (t-test)")
    return [linked(line[0].upper() + line[1:] + ".") for line in lines]


def about_useless(health: Sequence[Health], data: str) -> str:
    """Which methods are no better than an untrained model on a data set, in plain text; empty if all are better."""
    fits: dict[str, dict[str, list[float]]] = {}
    for row in health:
        if row.data in (data, "") and {"slack_ratio", "objective_ratio"} <= set(row.figures):
            ratio = max(row.figures["slack_ratio"], row.figures["objective_ratio"])
            fits.setdefault(row.method, {}).setdefault(row.split, []).append(ratio)
    still = {method: [min(ratios) >= _STILL for ratios in of.values()] for method, of in fits.items()}
    useless = [f"{m} ({sum(flags)} of {counted(len(flags), 'training')})" for m, flags in still.items() if any(flags)]
    if not useless:
        return ""
    learn = [method for method, flags in still.items() if not any(flags)]
    whose = "its loss stays" if len(useless) == 1 else "their losses stay"
    why = f"for every C tried, {whose} within 1 % of an untrained model's"
    others = f" {_list(learn)} {'does' if len(learn) == 1 else 'do'} learn here." if learn else ""
    return f"{_list(useless)} learnt nothing: {why}.{others}"


def about_health(results: ResultsFolder, data: str, methods: Sequence[str]) -> str:
    """How far training got for each method along C on a data set; empty if unknown."""
    best: dict[str, dict[str, float]] = {}
    for method in methods:
        rows = [row for row in results.health if row.method == method and row.data in (data, "")]
        by_C = {row.C: [same.figures for same in rows if same.C == row.C] for row in rows}
        if len(by_C) > 1 and all({"slack_ratio", "objective_ratio"} <= set(row.figures) for row in rows):
            best[method] = {
                name: min(fmean(values[name] for values in figures) for figures in by_C.values())
                for name in ("slack_ratio", "objective_ratio")
            }
    still = [escape(method) for method in best if best[method]["objective_ratio"] > _STILL]
    moved = sorted((m for m in best if escape(m) not in still), key=lambda m: best[m]["slack_ratio"])
    sentences = []
    if moved:
        shares = [f"{escape(method)} ({100 * best[method]['slack_ratio']:.0f})" for method in moved]
        if len(shares) > _NAMED + 1:
            rest = f"{len(shares) - _NAMED} others (up to {100 * best[moved[-1]]['slack_ratio']:.0f})"
            shares = [*shares[:_NAMED], rest]
        left = f"{word('loss', 'Loss')} left on the training queries, in % of an {word('untrained')}'s"
        sentences.append(f"{left}: {_list(shares)}.")
    if still:
        sentences.append(
            f"{_list(still)} learnt nothing from these training queries: with every {word('C')}, what training "
            f"minimises stays within 1 % of an {word('untrained')}'s."
        )
    return " ".join(sentences)


def _disagreement(row: Difference, protocol: ComparisonProtocol) -> list[str]:
    """Tests that disagree with the deciding one."""
    is_significant = verdict(row, protocol.tests[0]) != 0
    others = [test for test in protocol.tests[1:] if (verdict(row, test) != 0) != is_significant]
    if not others:
        return []
    named = _list([f"the {TESTS[test][0]} ({p_text(row.p_corrected[test])})" for test in others])
    return [f"By {escape(named)} it is {'not ' * is_significant}significant."]


def _groups(summary: DataSummary, measure: str) -> list[str]:
    groups: dict[int, list[str]] = {1: [], 0: [], -1: []}
    for method in summary.ranked(measure):
        if summary.difference(method, measure) is not None:
            groups[summary.verdict(method, measure)].append(escape(method))
    base = escape(summary.protocol.baseline)
    texts = (
        (1, f"Significantly better than {base}"),
        (0, f"No significant difference from {base}"),
        (-1, f"Significantly worse than {base}"),
    )
    return [f"{text}: {_list(groups[sign])}." for sign, text in texts if groups[sign]]


def _other_measures(summary: DataSummary, first: str) -> list[str]:
    parts = []
    for measure in summary.measures:
        ranked = summary.ranked(measure)
        if measure == first or not ranked:
            continue
        is_baseline = ranked[0] == summary.protocol.baseline
        sign = summary.verdict(ranked[0], measure)
        mark = "significant" if sign else "the baseline" if is_baseline else "not significant"
        parts.append(f"{escape(measure)}: {escape(ranked[0])} ({summary.mean(ranked[0], measure):.4f}, {mark})")
    return [f"Best in other measures: {'; '.join(parts)}."] if parts else []


def _list(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def winners(summary: DataSummary) -> list[str]:
    """The methods that are significantly better than the baseline in the first measure, highest mean first."""
    measure = summary.first_measure
    return [] if measure is None else [m for m in summary.ranked(measure) if summary.verdict(m, measure) > 0]


def opening_verdict(data: Sequence[DataSummary], protocol: ComparisonProtocol) -> str:
    """The verdict on everything: of one data set its own, of several on how many there is a better method."""
    if len(data) == 1:
        return verdict_of(data[0])
    compared = [summary for summary in data if summary.differences.get(summary.first_measure or "")]
    if not compared:
        return " ".join(["Nothing is compared here.", *overall(data, protocol)])
    better = sum(bool(winners(summary)) for summary in compared)
    n, base = len(compared), _baseline(protocol)
    if better:
        where = ("both" if n == 2 else f"all {n:,}") if better == n else f"{better:,} of {n:,}"
        claim = f"On {where} data sets at least one method is {SIGNIFICANTLY} better than {base}"
    else:
        where = "either data set" if n == 2 else f"any of the {n:,} data sets" if n > 2 else "the data set compared"
        claim = f"No method is {SIGNIFICANTLY} better than {base} on {where}"
    return " ".join([f"<b>{claim}</b> in {escape(protocol.measures[0])}.", *overall(data, protocol)])


def verdict_of(summary: DataSummary) -> str:
    """The verdict on one data set, in one or two sentences; empty if it has no values."""
    measure = summary.first_measure
    ranked = [] if measure is None else summary.ranked(measure)
    if measure is None or not ranked:
        return ""
    best, name = ranked[0], escape(measure)
    mean = f"{summary.mean(best, measure):.4f}"
    if not summary.differences.get(measure):
        queries = counted(len(summary.query_ids), "query", "queries")
        if len(ranked) == 1:
            return f"<b>{escape(best)}</b> has a mean {name} of {mean} on {queries}; there is nothing to compare with."
        why = f"{_baseline(summary.protocol)} shares no query with another method"
        return f"Nothing is compared: {why}. {_highest(best)}, {mean} in {name}."
    better = winners(summary)
    return _better(summary, measure, better) if better else _none(summary, measure)


def _better(summary: DataSummary, measure: str, better: Sequence[str]) -> str:
    head, best = better[0], summary.ranked(measure)[0]
    row = summary.difference(head, measure)
    assert row is not None
    figures = figures_of(row, summary.protocol, len(summary.differences[measure]))
    claim = f"<b>{escape(head)} is {SIGNIFICANTLY} better than {_baseline(summary.protocol)}</b>: {figures}."
    if head != best:
        return f"{claim} {_highest(best)}, {summary.mean(best, measure):.4f}, but its difference is not significant."
    methods = len(summary.ranked(measure))
    highest = f"It has the {word('highest')} of {methods:,} methods on the test queries" if methods > 2 else ""
    also = f"{len(better) - 1:,} other{'s are' if len(better) > 2 else ' is'} significantly better too"
    rest = [part for part in (highest, also if len(better) > 1 else "") if part]
    among = " Methods are tested against the baseline, not against each other." if methods > 2 else ""
    return f"{claim} {'; '.join(rest)}.{among}" if rest else claim


def _none(summary: DataSummary, measure: str) -> str:
    differences, protocol = summary.differences[measure], summary.protocol
    best = summary.ranked(measure)[0]
    who = "No method is" if len(differences) > 1 else f"{escape(differences[0].system)} is not"
    claim = f"<b>{who} {SIGNIFICANTLY} better than {_baseline(protocol)}</b>"
    row = summary.difference(best, measure)
    if row is not None:
        return f"{claim}. {_highest(best)}: {figures_of(row, protocol, len(differences))}. That may be chance."
    mean = f"{summary.mean(best, measure):.4f} in {escape(measure)}"
    values = summary.values[summary.methods.index(best), summary.measures.index(measure)]
    queries = counted(int((~np.isnan(values)).sum()), "query", "queries")
    worse = [r.system for r in differences if verdict(r, protocol.tests[0]) < 0]
    rest = f"; {counted(len(worse), 'method is', 'methods are')} significantly worse" if worse else ""
    return f"{claim}. {_highest(best)}, {mean} on {queries}{rest}."


def _baseline(protocol: ComparisonProtocol) -> str:
    return f"the {word('baseline')} {escape(protocol.baseline)}"


def _highest(method: str) -> str:
    return f"{escape(method)} has the {word('highest')} on the test queries"


def figures_of(row: Difference, protocol: ComparisonProtocol, compared: int) -> str:
    """Both means, their difference, its interval, the number of queries, and its p among so many methods compared."""
    low, high = row.interval
    interval = f"{protocol.confidence:.0%} {word('interval')} {signed(low)} to {signed(high)}".replace("%", " %", 1)
    means = f"{escape(row.measure)} {row.mean:.4f} against {row.baseline_mean:.4f}"
    share = f" ({100 * row.difference / row.baseline_mean:+.1f} %)".replace("-", "−") if row.baseline_mean else ""
    queries = counted(row.queries, "query", "queries")
    test = TESTS[protocol.tests[0]][0]
    if compared > 1 and protocol.correction == "none":
        test += f", not corrected for the {compared:,} methods compared"
    elif compared > 1:
        test += f", after {CORRECTIONS[protocol.correction]}'s {word('correction')} for {compared:,} methods"
    p = word("p", p_text(row.p_corrected[protocol.tests[0]]))
    return f"{means}, a difference of {signed(row.difference)}{share}, {interval}, on {queries} ({p} by the {test})"
