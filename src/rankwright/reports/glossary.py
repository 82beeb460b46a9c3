"""The terms of a report in plain words; a page links to its own list, which explains the terms that it links to."""

from __future__ import annotations

import re
from html import escape

_WORDS: dict[str, tuple[str, str]] = {
    "baseline": (
        "baseline",
        "The method that all others are compared with.",
    ),
    "significant": (
        "significant",
        "A difference so large, or so regular over the queries, that chance would rarely produce it: {p|p} is "
        "below 0.05 after {correction}. It says that there is a difference, not that the difference matters to "
        "users. Not significant does not mean equal: there may be too few queries to tell.",
    ),
    "p": (
        "p, p-value",
        "How often chance alone would give a difference at least this clear if both methods were equally good. "
        "Near 0: chance is an unlikely explanation. Near 1: the values say nothing about which is better.",
    ),
    "two-tailed": (
        "two-tailed",
        "The test looks for differences in both directions: a method may be better or worse.",
    ),
    "correction": (
        "correction",
        "Of many methods some look better by luck. A correction (Holm's, Bonferroni's or "
        "Benjamini and Hochberg's) raises {p|p-values} to allow for the number of methods that are compared with the "
        "{baseline}, and widens their {interval|intervals}.",
    ),
    "interval": (
        "interval",
        "A range for the true mean difference, found by drawing the queries anew many times (bootstrap). In the "
        "long run 95 of 100 such 95 % intervals contain the true value; of several methods, all of a measure at once. "
        "A wide one means too few queries, or very unequal ones.",
    ),
    "effect": (
        "effect size",
        "The mean difference divided by the standard deviation of the differences: how large a gain is beside its "
        "changes from query to query. Near 0.2 it is often called small, near 0.5 medium, near 0.8 large.",
    ),
    "seeds": (
        "seeds",
        "Training that involves chance was repeated with several random seeds. A query counts with its mean over them; "
        "± is the standard deviation of the mean over seeds.",
    ),
    "highest": (
        "highest mean",
        "The mean over the test queries that is above all others. The best of several methods is partly the "
        "luckiest: on new queries it tends to be a little worse than here, and only its difference from the "
        "{baseline} is tested.",
    ),
    "wtl": (
        "w/t/l",
        "Wins, ties, losses: queries on which a method is better than, equal to and worse than another.",
    ),
    "validation": (
        "validation queries",
        "Queries set aside to choose settings by. They are neither trained on nor tested on.",
    ),
    "split": (
        "split",
        "One division of the queries into those for training, those for choosing settings and those for testing. "
        "A {cell} is one method on one split.",
    ),
    "cell": (
        "cell",
        "One method on one {split} of one data set.",
    ),
    "loss": (
        "loss",
        "How wrong the rankings of the training queries are, by the measure that a method is trained for: "
        "training lowers it. The methods here lower an upper limit of it, which is easier to compute with; papers "
        "call that limit the hinge, and its mean over the queries the slack.",
    ),
    "untrained": (
        "untrained model",
        "A model whose weights are all 0: all documents get the same score. Training starts there. Where the "
        "{loss} stays near that of an untrained model, next to nothing was learnt, whatever the test values say.",
    ),
    "C": (
        "C",
        "How much the {loss} on the training queries counts against the {penalty}. A large C follows the training "
        "queries more closely; a small C keeps the model simpler. It is chosen on {validation}.",
    ),
    "penalty": (
        "penalty",
        "Half the squared size of the weights, which training keeps small so that the model does not follow every "
        "detail of the training queries. Training minimises {C} times the {loss} plus this penalty (the "
        "objective).",
    ),
    "gap": (
        "gap",
        "A proven limit of how much could still be gained in training: with a gap of 0.0001 no weights at all "
        "lower what training minimises by more than 0.01 %. It says nothing about test queries.",
    ),
    "passes": (
        "passes",
        "How often training went through all training queries.",
    ),
    "weights": (
        "weights",
        "The numbers that a linear model multiplies the features with; see {untrained} for weights of 0.",
    ),
    "rounds": (
        "trees, rounds, epochs",
        "Boosting adds one tree or round after another, a net goes through the data once per epoch. The number "
        "kept is the one with the best value on {validation}.",
    ),
    "relevant": (
        "relevant",
        "A document with a grade above 0 for the query.",
    ),
    "judged": (
        "not judged",
        "Nobody has said how good the document is for the query. It counts as not {relevant}.",
    ),
    "definitions": (
        "definitions of measures",
        "Relevant from label 1: documents with a grade of 1 or more count as {relevant}. Gain: what a document of "
        "each grade is worth; discount: how much less it is worth further down. Ties: what orders documents of "
        "equal score. Empty query 0: a query without a relevant document counts as 0.",
    ),
    "trained-for": (
        "trained for",
        "The measure that a method tries to raise in training. It need not be best in it on test queries.",
    ),
    "background": (
        "background model",
        "A model trained on other data, which a method adapts to this data.",
    ),
    "crossed": (
        "cross-validation",
        "Choosing settings without {validation}: parts of the training queries are left out in turn and tested on.",
    ),
    "propensity": (
        "propensity",
        "How likely users look at a result at this position. Clicks at positions seldom looked at count more.",
    ),
}
# Words in notes, and what explains them; longer ones first.
_IN_NOTES = {
    "untrained model": "untrained",
    "what training minimises": "penalty",
    "significantly worse": "significant",
    "background model": "background",
    "cross-validation": "crossed",
    "validation queries": "validation",
    "propensities": "propensity",
    "Intervals": "interval",
    "P-values": "p",
    "two-tailed": "two-tailed",
    "bootstrap": "interval",
    "C": "C",
    "epochs": "rounds",
    "gap": "gap",
    "passes": "passes",
    "rounds": "rounds",
    "trees": "rounds",
}
_LINK = re.compile(r'href="#word-([\w-]+)"')
_NAMED = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, _IN_NOTES)) + r")(?![\w-])")


def word(key: str, text: str | None = None) -> str:
    """A link to the explanation of a term; ``text`` is plain."""
    return f'<a class="word" href="#word-{key}">{escape(_WORDS[key][0] if text is None else text)}</a>'


SIGNIFICANTLY = word("significant", "significantly")


def linked(text: str) -> str:
    """Plain text as HTML, the words that need explaining linked at their first occurrence."""
    done: set[str] = set()

    def link(match: re.Match[str]) -> str:
        key = _IN_NOTES[match[0]]
        if key in done:
            return match[0]
        done.add(key)
        return word(key, match[0])

    return _NAMED.sub(link, escape(text))


def glossary(body: str) -> str:
    """The explanations of all terms that a page links to, and of those that explanations link to."""
    explained = {key: _explained(text) for key, (_, text) in _WORDS.items()}
    keys = set(_LINK.findall(body))
    while more := {key for explained_key in keys for key in _LINK.findall(explained[explained_key])} - keys:
        keys |= more
    entries = "".join(
        f'<dt id="word-{key}">{escape(title)}</dt><dd>{explained[key]}</dd>'
        for key, (title, _) in _WORDS.items()
        if key in keys
    )
    return f'<dl class="words">{entries}</dl>' if entries else ""


def _explained(text: str) -> str:
    """An explanation as HTML: ``{key}`` and ``{key|text}`` are links."""
    parts = []
    for at, part in enumerate(re.split(r"\{([^{}]+)\}", text)):
        key, _, name = part.partition("|")
        parts.append(word(key, name or None) if at % 2 else escape(part))
    return "".join(parts)
