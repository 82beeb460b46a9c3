"""Analysers: from a text to its index terms.

An analyser has two stages. The first splits a text into words (:func:`split_words`). The second maps a word to a term
or drops it: ``plain`` keeps it unchanged, ``porter`` takes its stem (M. Porter, An algorithm for suffix stripping,
Program 14(3), 1980, as implemented by PyStemmer), ``porter+stop`` drops stop words first. As the second stage sees one
word at a time, an index applies it to its vocabulary rather than its documents: texts are read once, whatever the
number of analysers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.errors import InputError

__all__ = ["Analyzer"]

BUILT_IN = ("plain", "porter", "porter+stop")

# A word starts with a letter or a digit and continues with letters, digits and combining marks, in any script;
# everything else, including the underscore, separates words. Words are in lower case and composed form (NFC), so that é
# is the same word however it was typed. This is the definition, used for queries: text/postings.py does the same
# for many documents at once.

MARK, START = 1, 2
_ASCII_WORDS = re.compile("[a-z0-9]+")
_ASCII_JOINTS = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_N_CODES = 0x110000
_MARK_PLANES = (range(0x80, 0x20000), range(0xE0000, 0xF0000))  # Unicode has marks in planes 0, 1 and 14 only


def split_words(text: str, split_identifiers: bool = False) -> list[str]:
    """The words of a text, in order.

    Examples
    --------
    >>> split_words("The HTTPServer's café_au_lait")
    ['the', 'httpserver', 's', 'café', 'au', 'lait']
    >>> split_words("The HTTPServer's café_au_lait", split_identifiers=True)
    ['the', 'http', 'server', 's', 'café', 'au', 'lait']
    """
    if not text.isascii():
        return _words().findall(prepared(text, split_identifiers))
    if split_identifiers:
        text = _ASCII_JOINTS.sub(" ", text)
    return _ASCII_WORDS.findall(text.lower())


def prepared(text: str, split_identifiers: bool) -> str:
    """A non-ASCII text, composed and in lower case, with blanks where identifiers are split."""
    text = unicodedata.normalize("NFC", text)
    if split_identifiers:
        text = _joints().sub(" ", text)
    return text.lower()


def frozen(array: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """A contiguous, read-only view, as mapped arrays are: kernels then see one type of array."""
    array = np.ascontiguousarray(array, dtype).view()
    array.flags.writeable = False
    return array


@cache
def character_classes() -> Array:
    """For every code point: ``START`` for letters and digits, ``MARK`` for marks, 0 for separators."""
    codes = np.arange(_N_CODES, dtype="<u4")
    codes[0xD800:0xE000] = 0  # surrogates are not characters
    classes = np.zeros(_N_CODES, np.uint8)
    for word in re.finditer(r"[^\W_]+", codes.tobytes().decode("utf-32-le")):
        classes[word.start() : word.end()] = START
    for start, stop in _mark_ranges():
        classes[start:stop] = np.maximum(classes[start:stop], MARK)
    return frozen(classes)


@cache
def _mark_ranges() -> list[tuple[int, int]]:
    return _ranges(lambda char: unicodedata.category(char)[0] == "M")


@cache
def _words() -> re.Pattern[str]:
    return re.compile(rf"[^\W_]+(?:[{_as_set(_mark_ranges())}]+[^\W_]*)*")


@cache
def _joints() -> re.Pattern[str]:
    upper = "A-Z" + _as_set(_ranges(str.isupper))
    lower = "a-z" + _as_set(_ranges(str.islower))
    return re.compile(f"(?<=[{lower}0-9])(?=[{upper}])|(?<=[{upper}])(?=[{upper}][{lower}])")


def _ranges(belongs: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Where runs of characters with a property start and stop, without ASCII."""
    members = [code for plane in _MARK_PLANES for code in plane if belongs(chr(code))]
    codes = np.array(members)
    breaks = np.flatnonzero(np.diff(codes) != 1)
    starts, stops = codes[np.r_[0, breaks + 1]], codes[np.r_[breaks, len(codes) - 1]] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _as_set(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"{chr(start)}-{chr(stop - 1)}" for start, stop in ranges)


# English words that carry grammar rather than content: Snowball's list
# (https://snowballstem.org/algorithms/english/stop.txt; copyright 2001 Martin Porter, 2002 Richard Boulton; 3-clause
# BSD licence), 174 words. Texts are split at apostrophes, and so is the list: `don't` becomes `don` and `t`.
SNOWBALL = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those
    am is are was were be been being have has had having do does did doing would should could ought
    i'm you're he's she's it's we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd
    i'll you'll he'll she'll we'll they'll
    isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't
    won't wouldn't shan't shouldn't can't cannot couldn't mustn't
    let's that's who's what's here's there's when's where's why's how's
    a an the and but if or because as until while of at by for with about against between into through during before
    after above below to from up down in out on off over under again further then once here there when where why how
    all any both each few more most other some such no nor not only own same so than too very
"""
"""The list as published, without its comments."""

STOP_WORDS = frozenset(split_words(SNOWBALL))
"""The stop words of the analyser ``porter+stop``."""


@dataclass(frozen=True)
class Analyzer:
    """Turns a text into terms.

    Parameters
    ----------
    name : str
        ``"plain"``, ``"porter"``, ``"porter+stop"``, or a name for your own.
    map_term : callable, optional
        For your own: maps a word to its term, or to None to drop it. By default a word is its own term.
    tokenize : callable, optional
        For your own: splits a text into a list of words. By default, words of any script in lower case.
    split_identifiers : bool, default=False
        Split ``camelCase`` and ``HTTPServer`` into two words each (``snake_case`` always is).

    Examples
    --------
    >>> Analyzer("porter+stop")("The runners were running")
    ['runner', 'run']
    >>> Analyzer("first-five", map_term=lambda word: word[:5])("Information retrieval")
    ['infor', 'retri']
    """

    name: str
    map_term: Callable[[str], str | None] | None = None
    tokenize: Callable[[str], Sequence[str]] | None = None
    split_identifiers: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or any(c == "," or c.isspace() for c in self.name):
            raise InputError(f"the analyser's name is {self.name!r}; expected a word without commas or whitespace")
        if self.name in BUILT_IN and self.map_term is not None:
            raise InputError(f"{self.name!r} is a built-in analyser; expected another name for your own")
        if self.name not in BUILT_IN and self.map_term is None and self.tokenize is None:
            raise InputError(f"unknown analyser {self.name!r}; expected {', '.join(BUILT_IN)}, or map_term=…")
        if self.tokenize is not None and self.split_identifiers:
            raise InputError("split_identifiers applies to the built-in tokeniser; expected no tokenize with it")

    def __call__(self, text: str) -> list[str]:
        """The terms of a text, in order."""
        return [term for term in self.map(self.words(text)) if term]

    def words(self, text: str) -> list[str]:
        """The first stage: the words of a text."""
        if self.tokenize is None:
            return split_words(text, self.split_identifiers)
        return checked_words(self.tokenize(text), self.name)

    def map(self, words: list[str]) -> list[str | None]:
        """The second stage: the term of each word, or None."""
        if self.name == "porter":
            return list(_stems(words))
        if self.name == "porter+stop":
            stems = _stems(words)
            return [None if word in STOP_WORDS else stem for word, stem in zip(words, stems, strict=True)]
        if self.map_term is None:
            return list(words)
        terms = [self.map_term(word) for word in words]
        for word, term in zip(words, terms, strict=True):
            if not (term is None or isinstance(term, str)):
                problem = f"the analyser {self.name!r} maps {word!r} to {term!r}"
                raise InputError(f"{problem}; expected a string or None")
            if term and "\n" in term:
                raise InputError(f"the analyser {self.name!r} maps {word!r} to {term!r}; expected no line ends")
        return [term or None for term in terms]

    @property
    def keeps_words(self) -> bool:
        """Whether every word is its own term."""
        return self.map_term is None and self.name not in ("porter", "porter+stop")


CustomAnalyzer = Analyzer | Callable[[str], str | None]
"""An analyser of your own, or just its map from a word to a term."""


def with_one_tokenizer(
    analyzers: Sequence[str | Analyzer] | str | Analyzer, split_identifiers: bool = False
) -> tuple[Analyzer, ...]:
    """The analysers of an index: unique, and with a common first stage, as an index tokenises its texts once."""
    if isinstance(analyzers, str | Analyzer):
        analyzers = (analyzers,)
    made = [item if isinstance(item, Analyzer) else Analyzer(item) for item in analyzers]
    if not made:
        raise InputError(f"no analysers; expected at least one of {', '.join(BUILT_IN)}, or your own")
    names = [analyzer.name for analyzer in made]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"duplicate analyser {name!r}")
    tokenizers = {analyzer.tokenize for analyzer in made if analyzer.tokenize is not None}
    split = split_identifiers or any(analyzer.split_identifiers for analyzer in made)
    if len(tokenizers) > 1 or (tokenizers and split):
        raise InputError("the analysers tokenise differently; expected one tokeniser, as texts are read once")
    return tuple(replace(analyzer, tokenize=next(iter(tokenizers), None), split_identifiers=split) for analyzer in made)


def checked_words(words: Any, name: str) -> list[str]:
    """The output of a custom tokeniser as a list of strings, without empty ones."""
    listed = [words] if isinstance(words, str) else list(words)
    for word in listed:
        if not isinstance(word, str) or "\n" in word:
            raise InputError(f"the tokeniser of {name!r} returned {word!r}; expected strings without line ends")
    return [word for word in listed if word]


def recorded(analyzers: Sequence[Analyzer]) -> dict[str, Any]:
    """Header entries about the analysers of an index; of custom ones, only the names."""
    first = analyzers[0]
    tokenizer: dict[str, Any] = {"split_identifiers": first.split_identifiers}
    if first.tokenize is not None:
        custom = [analyzer.name for analyzer in analyzers if analyzer.name not in BUILT_IN]
        tokenizer = {"own": (custom or [first.name])[0]}
    named = [{"name": analyzer.name, "own": analyzer.name not in BUILT_IN} for analyzer in analyzers]
    return {"tokenizer": tokenizer, "analyzers": named}


def recalled(kept: Mapping[str, Any], given: Mapping[str, CustomAnalyzer]) -> dict[str, Analyzer]:
    """The analysers that can be used with an index: its own, the built-in ones, and those given.

    `kept`: what :func:`recorded` returned. `given`: must include the custom analysers of the index.
    """
    custom = {
        name: analyzer if isinstance(analyzer, Analyzer) else Analyzer(name, map_term=analyzer)
        for name, analyzer in given.items()
    }
    for name, analyzer in custom.items():
        if analyzer.name != name:
            raise InputError(f"the analyser given as {name!r} is named {analyzer.name!r}; expected the same name")
    with_tokenizer = kept["tokenizer"].get("own")
    needed = [entry["name"] for entry in kept["analyzers"] if entry["own"]]
    for name in needed if with_tokenizer is None else [*needed, with_tokenizer]:
        if name not in custom or (name == with_tokenizer and custom[name].tokenize is None):
            kind = "a tokeniser" if name == with_tokenizer else "an analyser"
            raise InputError(f"was built with {kind} of your own; expected it again, as analyzers={{{name!r}: …}}")
    tokenize = None if with_tokenizer is None else custom[with_tokenizer].tokenize
    split = bool(kept["tokenizer"].get("split_identifiers", False))
    usable = {name: Analyzer(name) for name in BUILT_IN} | custom
    if any(analyzer.tokenize not in (None, tokenize) for analyzer in usable.values()):
        raise InputError("an analyser given tokenises differently from the index; expected the same tokeniser")
    return {name: replace(analyzer, tokenize=tokenize, split_identifiers=split) for name, analyzer in usable.items()}


def _stems(words: Sequence[str]) -> list[str]:
    import Stemmer

    # A stemmer is cheap to create and not thread-safe; its own cache costs more than it saves.
    stems: list[str] = Stemmer.Stemmer("porter", 0).stemWords(words)
    return stems
