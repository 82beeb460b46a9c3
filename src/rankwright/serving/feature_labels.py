"""Names of features in plain words: ``bm25[porter+stop,title]`` is "BM25 in title (stemmed, no stop words)"."""

from __future__ import annotations

from rankwright.text.search.functions import FUNCTIONS, SUMS, feature_parts

_ANALYZERS = {"plain": "words as written", "porter": "stemmed", "porter+stop": "stemmed, no stop words"}


def plain_words(feature: str) -> str:
    """A feature's name for people; the name itself if it does not come from an index.

    Examples
    --------
    >>> plain_words("bm25[porter+stop,title]"), plain_words("jm(lambda=0.7)[plain]")
    ('BM25 in title (stemmed, no stop words)', 'query likelihood, Jelinek–Mercer, lambda=0.7 (words as written)')
    >>> plain_words("clicks")
    'clicks'
    """
    parts = feature_parts(feature)
    if parts is None:
        return feature
    base, _, inside = parts.function.partition("(")
    label = FUNCTIONS[base].label if base in FUNCTIONS else SUMS.get(base)
    if label is None:
        return feature
    settings = f", {inside.rstrip(')')}" if inside else ""
    where = f" in {parts.field}" if parts.field else ""
    return f"{label}{settings}{where} ({_ANALYZERS.get(parts.analyzer, parts.analyzer)})"


def reason(above: bool, tied: bool, parts: list[tuple[str, float]], other: str) -> str:
    """One sentence on why A is above or below ``other``, from contributions, the largest first.

    Examples
    --------
    >>> reason(True, False, [("BM25 in title", 0.75), ("length", -0.25)], "B")
    'A is above B mostly because of BM25 in title (+0.75); against it: length (−0.25).'
    """
    if tied and other != "B":
        return f"A has the same score as {other}."
    if tied:
        return "A and B have the same score; the order of the index decides."
    sign = 1 if above else -1
    speaking = [part for part in parts if part[1] * sign > 0][:2]
    against = [part for part in parts if part[1] * sign < 0][:1]
    text = f"A is {'above' if above else 'below'} {other}"
    if speaking:
        text += " mostly because of " + " and ".join(f"{name} ({_signed(value)})" for name, value in speaking)
    for name, value in against:
        text += f"; against it: {name} ({_signed(value)})"
    return text + "."


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")
