"""The map of pairs, or partial order: AUC, average precision, nDCG, reciprocal rank and all pairs, exactly.

    δΨ(y) = 2/(PN) Σ over (good g, bad b) with b above g of (x_g − x_b)

Goods and bads keep score order among themselves, so a ranking is given by how many goods are above each bad, or by how
many bads are above each good. For AP and unclipped nDCG the best place of bad j does not depend on the other bads and
does not fall with j, so divide and conquer takes O(n log n) with a closed form of the gain per place. The clip
of nDCG@k breaks that; there an exact dynamic programme over the first k ranks takes O(n log n + k²).

For reciprocal rank the best good goes below r bads, the other goods where their margin is smallest, but not above it.
It also has a feature map of its own, ``mrr``:

    δΨ(y) = Σ over bads b above g0 of (x_g0 − x_b),   g0 the topmost good of y

There the loss depends only on the rank r of g0, and the margin is smallest for the lowest-scored good and the r best
bads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER
from rankwright.measures.oracles.common import good_and_bad


@njit(**INNER)
def _turn_round(above: Array, counts: Array) -> None:
    """Convert "how many goods are above each bad" (nondecreasing) to "how many bads are above each good", and back."""
    passed = 0
    for i in range(counts.size):
        while passed < above.size and above[passed] <= i:
            passed += 1
        counts[i] = passed


@njit(**INNER)
def _set_coefficients(places: Array, bads_above: Array, goods_above: Array, coef: Array) -> None:
    n_good, n_bad = bads_above.size, goods_above.size
    unit = 2.0 / (n_good * n_bad)
    for i in range(n_good):
        coef[places[i]] = unit * bads_above[i]
    for j in range(n_bad):
        coef[places[n_good + j]] = -unit * (n_good - goods_above[j])


@njit(cache=True)
def auc(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """Bad b goes above good g iff s_g − s_b < ½."""
    n = scores.size
    places, ordered, above = work[:n].view(np.int64), work[n : 2 * n], work[2 * n : 3 * n].view(np.int64)
    n_good = good_and_bad(scores, labels, order, places, ordered, above)
    n_bad = n - n_good
    bads_above, goods_above = above[:n_good], above[n_good:]
    i = 0
    n_above = 0
    for j in range(n_bad):
        while i < n_good and not ordered[i] < ordered[n_good + j] + 0.5:
            i += 1
        goods_above[j] = i
        n_above += i
    _turn_round(goods_above, bads_above)
    _set_coefficients(places, bads_above, goods_above, coef)
    return 1.0 - n_above / (n_good * n_bad)


@njit(**INNER)
def _place_bads(
    kind: int, table: Array, ordered: Array, n_good: int, scale: float, goods_above: Array, sums: Array
) -> None:
    """The best number of goods above each bad; on entry, how many are scored above it.

    With i goods above it, bad j (from 1) wins, up to a constant,

        2/(PN) Σ_{i'≤i} (s_i' − s_j) + scale · won,   won = −h(i+j−1) − j/(i+j) for AP (kind 0), D(i+j−1) for nDCG

    with harmonic numbers h or discounts D in ``table``. Every second bad lies between the places of its neighbours.
    """
    n_bad = goods_above.size
    unit = 2.0 / (n_good * n_bad)
    sums[0] = 0.0
    for i in range(n_good):
        sums[i + 1] = sums[i] + ordered[i]
    step = 1
    while 2 * step <= n_bad:
        step *= 2
    while step:
        for j in range(step, n_bad + 1, 2 * step):
            score = ordered[n_good + j - 1]
            low = goods_above[j - step - 1] if j > step else 0
            # Going above a good that is not scored higher always pays.
            high = goods_above[j - 1]
            if j + step <= n_bad:
                high = min(high, goods_above[j + step - 1])
            gain = 1.0 / (4 * j - 3) if kind == 0 else table[low + j - 1] - table[low + j]  # gain from passing one good
            farthest = score + gain * scale / unit
            best, best_i = -np.inf, high
            for i in range(high, low - 1, -1):
                won = table[i + j - 1]
                if kind == 0:
                    won = -won - j / (i + j)
                value = unit * (sums[i] - i * score) + scale * won
                if value > best:
                    best, best_i = value, i
                if i > low and ordered[i - 1] > farthest:
                    break
            goods_above[j - 1] = best_i
        step //= 2


@njit(cache=True)
def average_precision(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """``parameters``: the harmonic numbers h(0), h(1), … up to the number of documents."""
    n = scores.size
    places, ordered, above = work[:n].view(np.int64), work[n : 2 * n], work[2 * n : 3 * n].view(np.int64)
    n_good = good_and_bad(scores, labels, order, places, ordered, above)
    bads_above, goods_above = above[:n_good], above[n_good:]
    _place_bads(0, parameters, ordered, n_good, 1.0 / n_good, goods_above, work[3 * n :])
    _turn_round(goods_above, bads_above)
    _set_coefficients(places, bads_above, goods_above, coef)
    precision = 0.0
    for i in range(n_good):
        precision += (i + 1) / (i + 1 + bads_above[i])
    return 1.0 - precision / n_good


@njit(cache=True)
def ndcg(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """``parameters``: the discounts D(0), D(1), … up to the number of documents; they must be convex."""
    n = scores.size
    places, ordered, above = work[:n].view(np.int64), work[n : 2 * n], work[2 * n : 3 * n].view(np.int64)
    n_good = good_and_bad(scores, labels, order, places, ordered, above)
    bads_above, goods_above = above[:n_good], above[n_good:]
    ideal = 0.0
    for i in range(n_good):
        ideal += parameters[i]
    _place_bads(1, parameters, ordered, n_good, 1.0 / ideal, goods_above, work[3 * n :])
    _turn_round(goods_above, bads_above)
    _set_coefficients(places, bads_above, goods_above, coef)
    gained = 0.0
    for i in range(n_good):
        gained += parameters[i + bads_above[i]]
    return 1.0 - gained / ideal


@njit(**INNER)
def _best_last(ordered: Array, bads_above: Array, rows: int, unit: float, sums: Array, best: Array) -> int:
    """The column in which the programme ends, with what the goods from ``rows`` on win there.

    Such a good has no gain left to lose: with b bads above the last row it takes max(b, u) of them, u scored above it.
    """
    fixed = 0.0  # gain of the goods with b ≤ u
    for g in range(rows, bads_above.size):
        u = bads_above[g]
        fixed += sums[u] - u * ordered[g]
    last, last_value = 0, -np.inf
    passed, passed_scores = 0, 0.0
    for b in range(best.size):
        while rows + passed < bads_above.size and bads_above[rows + passed] < b:
            score, u = ordered[rows + passed], bads_above[rows + passed]
            fixed -= sums[u] - u * score
            passed_scores += score
            passed += 1
        value = best[b] + unit * (fixed + passed * sums[b] - b * passed_scores)
        if value > last_value:
            last, last_value = b, value
    return last


@njit(cache=True)
def ndcg_at(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """``parameters``: the cutoff k, then the discounts D(0) … D(k−1), of any form.

    Row g of the programme is a good, column b the number of bads above it; column k means "k or more", of which
    max(k, u) is the best number, u bads being scored above the good.
    """
    n = scores.size
    cutoff = int(parameters[0])
    places, ordered, above = work[:n].view(np.int64), work[n : 2 * n], work[2 * n : 3 * n].view(np.int64)
    n_good = good_and_bad(scores, labels, order, places, ordered, above)
    n_bad = n - n_good
    bads_above, goods_above = above[:n_good], above[n_good:]
    rows, columns = min(n_good, cutoff), min(n_bad, cutoff)
    sums = work[3 * n : 3 * n + n_bad + 1]  # of the best bads' scores
    best = work[4 * n + 1 : 4 * n + columns + 2]  # with at most b bads above the last good
    size = rows * (columns + 1)
    spare = work[5 * n + 2 :]
    choice = (spare if size <= spare.size else np.empty(size)).view(np.int64)
    sums[0] = 0.0
    for j in range(n_bad):
        sums[j + 1] = sums[j] + ordered[n_good + j]
    ideal = 0.0
    for r in range(rows):
        ideal += parameters[1 + r]
    unit = 2.0 / (n_good * n_bad)
    best[:] = 0.0
    for g in range(rows):
        running, running_b = -np.inf, 0
        for b in range(columns + 1):
            taken = b if b < cutoff else max(b, bads_above[g])
            discount = parameters[1 + g + b] if g + b < cutoff else 0.0
            value = best[b] + unit * (sums[taken] - taken * ordered[g]) - discount / ideal
            if value > running:
                running, running_b = value, b
            best[b] = running
            choice[g * (columns + 1) + b] = running_b
    b = _best_last(ordered, bads_above, rows, unit, sums, best)
    for g in range(rows, n_good):
        bads_above[g] = max(b, bads_above[g])
    for g in range(rows - 1, -1, -1):
        b = choice[g * (columns + 1) + b]
        bads_above[g] = b if b < cutoff else max(b, bads_above[g])
    gained = 0.0
    for g in range(rows):
        rank = g + bads_above[g]
        gained += parameters[1 + rank] if rank < cutoff else 0.0
    _turn_round(bads_above, goods_above)
    _set_coefficients(places, bads_above, goods_above, coef)
    return 1.0 - gained / ideal


@njit(cache=True)
def reciprocal_rank(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """``parameters``: the cutoff k (without one, at least the number of documents). Labels below 0 do not count."""
    n = scores.size
    coef[:] = 0.0
    last = n - 1
    while not labels[order[last]] > 0.0:
        last -= 1
    lowest = scores[order[last]]
    best, best_rank, best_loss = 0.0, 0, 0.0
    margin = 0.0
    rank = 0
    for place in order:
        if labels[place] != 0.0:
            continue
        rank += 1
        step = scores[place] - lowest
        margin += step
        loss = 1.0 - 1.0 / (1.0 + rank) if rank < parameters[0] else 1.0
        if loss + margin > best:
            best, best_rank, best_loss = loss + margin, rank, loss
        if step <= 0.0 and 1.0 + margin <= best:
            break  # the loss is at most 1, and the margin only falls from here
    coef[order[last]] = best_rank
    left = best_rank
    for place in order:
        if left == 0:
            break
        if labels[place] == 0.0:
            coef[place] = -1.0
            left -= 1
    return best_loss


@njit(cache=True)
def reciprocal_rank_of_pairs(
    scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array
) -> float:
    """``parameters``: the cutoff k (without one, at least the number of documents)."""
    n = scores.size
    places, ordered, above = work[:n].view(np.int64), work[n : 2 * n], work[2 * n : 3 * n].view(np.int64)
    n_good = good_and_bad(scores, labels, order, places, ordered, above)
    n_bad = n - n_good
    unit = 2.0 / (n_good * n_bad)
    # As r rises, the goods above bad r are pushed below it; those below it by their scores stay where they are.
    best, best_rank = 0.0, 0
    gained, pushed, their_scores = 0.0, 0, 0.0
    for rank in range(1, n_bad + 1):
        while pushed < n_good and above[pushed] < rank:
            their_scores += ordered[pushed]
            pushed += 1
        gained += unit * (pushed * ordered[n_good + rank - 1] - their_scores)
        loss = 1.0 - 1.0 / (1.0 + rank) if rank < parameters[0] else 1.0
        if loss + gained > best:
            best, best_rank = loss + gained, rank
        if 1.0 + gained <= best:
            break  # the loss is at most 1, and the gain only falls
    loss = 0.0
    if best_rank > 0 or above[0] > 0:
        first = max(best_rank, above[0])
        loss = 1.0 - 1.0 / (1.0 + first) if first < parameters[0] else 1.0
    for good in range(n_good):
        coef[places[good]] = unit * max(best_rank, above[good])
    ahead = n_good
    for bad in range(n_bad - 1, -1, -1):
        while ahead > 0 and max(best_rank, above[ahead - 1]) > bad:
            ahead -= 1
        coef[places[n_good + bad]] = -unit * (n_good - ahead)
    return loss


# All pairs of documents with different grades (Ranking SVM), without listing them.
#
#     Σ over pairs with z_i > z_j of τ(z_i, z_j) [1 − (s_i − s_j)]₊
#
# A sweep down the scores tracks, per grade, how many documents are within 1 of the current one: O(n log n + n·L).


@njit(cache=True)
def pairs(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """``labels``: grades 0 … L−1. ``parameters``: L, then τ as an L × L table (row: the higher grade)."""
    n = scores.size
    n_grades = int(parameters[0])
    near = np.zeros(n_grades)
    for i in range(n):
        coef[i] = 0.0
    total = 0.0
    # Winners: the documents of lower grades scored above s_i − 1.
    reached = 0
    for place in range(n):
        i = order[place]
        while reached < n and scores[order[reached]] > scores[i] - 1.0:
            near[int(labels[order[reached]])] += 1.0
            reached += 1
        grade = int(labels[i])
        weight = 0.0
        for lower in range(grade):
            weight += parameters[1 + grade * n_grades + lower] * near[lower]
        coef[i] += weight
        total += weight
    # Losers: the documents of higher grades scored below s_j + 1.
    near[:] = 0.0
    reached = n - 1
    for place in range(n - 1, -1, -1):
        j = order[place]
        while reached >= 0 and scores[order[reached]] - 1.0 < scores[j]:
            near[int(labels[order[reached]])] += 1.0
            reached -= 1
        grade = int(labels[j])
        for higher in range(grade + 1, n_grades):
            coef[j] -= parameters[1 + higher * n_grades + grade] * near[higher]
    return total


# All pairs of a clicked document and any other of its page (Ranking SVM from clicks), without listing them.
#
#     Σ over documents i of v_i Σ over j ≠ i of [1 − (s_i − s_j)]₊,     v_i: the weight of the clicks of i, or 0
#
# Of two clicked documents each should be above the other, by its own weight. A sweep down the scores counts the
# documents within 1 of the current one, a sweep up sums their weights: O(n log n).


@njit(cache=True)
def clicks(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
    """``labels``: the weights v. There are no parameters."""
    n = scores.size
    total = 0.0
    reached = 0
    for place in range(n):
        i = order[place]
        while reached < n and scores[order[reached]] > scores[i] - 1.0:
            reached += 1
        coef[i] = labels[i] * (reached - 1)  # the document itself is included
        total += coef[i]
    near = 0.0
    reached = n - 1
    for place in range(n - 1, -1, -1):
        j = order[place]
        while reached >= 0 and scores[order[reached]] - 1.0 < scores[j]:
            near += labels[order[reached]]
            reached -= 1
        coef[j] -= near - labels[j]
    return total
