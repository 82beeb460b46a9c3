"""Sessions that are not people, or not searching: dropped, and said."""

from __future__ import annotations

import numpy as np

from rankwright.clicks.log import ClickLog

__all__ = ["drop_sessions"]


def drop_sessions(
    log: ClickLog, *, max_clicks: int = 50, max_impressions: int = 2000, max_share: float = 0.9, min_shown: int = 10
) -> ClickLog:
    """The log without sessions that look like programs; its notes say which were dropped, and how many.

    Parameters
    ----------
    log : ClickLog
        The log; unchanged where it names no sessions.
    max_clicks, max_impressions : int
        Most clicks and impressions of a session.
    max_share : float
        Largest share of its impressions that a session clicks, where it has at least ``min_shown`` of them.
    min_shown : int
        Fewest impressions for ``max_share``.

    Examples
    --------
    >>> session = ["a"] * 20 + ["b"] * 20
    >>> clicked = [1] * 20 + [1] + [0] * 19
    >>> log = ClickLog.from_columns(["q"] * 40, range(40), [*range(1, 21)] * 2, clicked, session=session)
    >>> drop_sessions(log).notes
    ('dropped 1 of 2 sessions (20 of 40 impressions): 1 that clicked more than 90% of 10 or more results',)
    """
    if log.session is None:
        return log
    shown = np.bincount(log.session, log.shown)
    clicks = np.bincount(log.session, log.clicks)
    rules = {
        f"with more than {max_clicks:,} clicks": clicks > max_clicks,
        f"with more than {max_impressions:,} impressions": shown > max_impressions,
        f"that clicked more than {max_share:.0%} of {min_shown:,} or more results": (shown >= min_shown)
        & (clicks > max_share * shown),
    }
    dropped = np.zeros(len(shown), bool)
    said = []
    for what, found in rules.items():
        new = int((found & ~dropped).sum())
        said += [f"{new:,} {what}"] if new else []
        dropped |= found
    if not dropped.any():
        return log
    present = int((shown > 0).sum())
    kept = ~dropped[log.session]
    lost = f"{int(shown[dropped].sum()):,} of {int(shown.sum()):,} impressions"
    return log.rows(kept, f"dropped {int(dropped.sum()):,} of {present:,} sessions ({lost}): {', '.join(said)}")
