"""Feature names that a consumer can hold."""

from __future__ import annotations

import re
from collections import Counter

from rankwright.data.categories import named
from rankwright.exporting.form import Form

__all__ = ["allowed_names", "no_features", "repeated_names"]


def allowed_names(names: tuple[str, ...], forbidden: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Different names without some characters, and what there is to say about that.

    Examples
    --------
    >>> allowed_names(("a b", "a_b"), re.compile(r"\\s"))[0]
    ['a_b_1', 'a_b_2']
    """
    changed = [forbidden.sub("_", name) or "_" for name in names]
    counts = Counter(changed)
    changed = [f"{name}_{at}" if counts[name] > 1 else name for at, name in enumerate(changed, 1)]
    n_changed = sum(new != old for new, old in zip(changed, names, strict=True))
    if not n_changed:
        return changed, []
    example = next(f"{old!r} is {new!r}" for new, old in zip(changed, names, strict=True) if new != old)
    return changed, [f"{n_changed:,} feature names were changed ({example}); columns go by position"]


def repeated_names(form: Form) -> str | None:
    """Why a target that knows features by name only cannot hold a form; None if used names differ."""
    counts = Counter(form.names[j] for j in form.used)
    twice = [name for name, count in counts.items() if count > 1]
    return f"it has several features of the name {named(twice)}, and features go by name there" if twice else None


def no_features(form: Form) -> str | None:
    """Why an engine that computes features for a model does not take a form; None if it uses any."""
    return None if len(form.used) else "it uses no feature, so all documents score the same"
