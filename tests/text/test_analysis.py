import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright import Analyzer, InputError
from rankwright.text.analysis import (
    BUILT_IN,
    MARK,
    SNOWBALL,
    START,
    STOP_WORDS,
    character_classes,
    prepared,
    recalled,
    recorded,
    split_words,
    with_one_tokenizer,
)
from rankwright.text.contents import Vocabulary, as_lines
from rankwright.text.postings import LINES, Lexicon
from rankwright.text.writer import _encoded

ODD = "aAbBzZ019_- .'\n\t\0éÉßẞİıΣσςñ\u0303\u0301Åŉहिन्दीไทย漢字あǅ²½٣Ⅷ\ufe0f❤😀𝒜𐐀𐐨\u200d\U000e0100\U00020000"
LETTERS = st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"]))
TEXTS = st.text(LETTERS, max_size=60)
IDENTIFIERS = st.text(st.sampled_from("abXYZ01_ .éÉßΩω漢"), max_size=30)


def is_mark(char):
    return unicodedata.category(char).startswith("M")


def reference_words(text, split=False):
    """Character by character, as the definition says."""
    text = unicodedata.normalize("NFC", text)
    if split:
        joints = [i for i in range(1, len(text)) if is_joint(text[i - 1], text[i], text[i + 1 : i + 2])]
        text = " ".join(text[a:b] for a, b in zip([0, *joints], [*joints, len(text)], strict=True))
    words = [""]
    for char in text.lower():
        if char.isalnum() or (words[-1] and is_mark(char)):
            words[-1] += char
        elif words[-1]:
            words.append("")
    return [word for word in words if word]


def is_joint(before, char, after):
    if not char.isupper():
        return False
    return before.islower() or before in tuple("0123456789") or (before.isupper() and after.islower())


def kernel_words(texts, split=False, slots=4):
    """The words of texts with their counts, by the compiled tokeniser, and its vocabulary."""
    lexicon = Lexicon(split_identifiers=split, slots=slots)
    found = []
    for some in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):  # two batches over one vocabulary
        ready = [text if text.isascii() else prepared(text, split) for text in some]
        counted = lexicon.count(*_encoded(ready))
        start = 0
        for row, end in enumerate(counted.row_ends.tolist()):
            pairs = zip(counted.terms[start:end].tolist(), counted.counts[start:end].tolist(), strict=True)
            found.append((dict(pairs), int(counted.lengths[row])))
            start = end
        assert start == len(counted.terms)
    words = lexicon.words()
    assert len(set(words)) == len(words) == lexicon.n_terms
    return [({words[term]: count for term, count in row.items()}, length) for row, length in found], words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Don't panic!", ["don", "t", "panic"]),
        ("snake_case __init__ x2", ["snake", "case", "init", "x2"]),
        ("camelCase HTTPServer", ["camelcase", "httpserver"]),
        ("Cafe\u0301 CAFÉ", ["café", "café"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("❤\ufe0f x\ufe0f", ["x\ufe0f"]),
        ("ΟΔΟΣ ΣΟ", ["οδος", "σο"]),
    ],
)
def test_words(text, words):
    assert split_words(text) == words


def test_identifiers_are_split_on_request():
    text = "camelCase HTTPServer parseXML2JSON SHA256 utf8 éclairÉté iPhone A"
    expected = "camel case http server parse xml2 json sha256 utf8 éclair été i phone a"
    assert split_words(text, split_identifiers=True) == expected.split()
    assert Analyzer("plain", split_identifiers=True)("getHTTPResponse_code") == ["get", "http", "response", "code"]


@settings(deadline=None)
@given(TEXTS)
def test_words_against_the_definition(text):
    assert split_words(text) == reference_words(text)


@settings(deadline=None)
@given(IDENTIFIERS)
def test_identifiers_against_the_definition(text):
    assert split_words(text, split_identifiers=True) == reference_words(text, split=True)


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=8))
def test_compiled_words_against_the_definition(texts):
    found, words = kernel_words(texts)
    expected = [reference_words(text) for text in texts]
    assert found == [(Counter(row), len(row)) for row in expected]
    assert sorted(words) == sorted({word for row in expected for word in row})


@settings(deadline=None)
@given(st.lists(IDENTIFIERS, max_size=8))
def test_compiled_identifiers_against_the_definition(texts):
    found, _ = kernel_words(texts, split=True)
    assert found == [(Counter(row), len(row)) for row in (reference_words(text, split=True) for text in texts)]


def test_compiled_words_against_a_regular_expression():
    """Enough words for every table to grow, long ones and ones with the same first sixteen letters among them."""
    rng = np.random.default_rng(0)
    words = [f"{'x' * int(size)}{number}" for size, number in zip(rng.integers(0, 40, 5000), range(5000), strict=True)]
    words += ["y" * 16, "y" * 17, "y" * 16 + "a", "y" * 16 + "b", "z" * 300_000, "Y" * 17]
    texts = [" ".join(words[i] for i in rng.integers(0, len(words), 300)) for _ in range(30)]
    texts += [words[-1], " ".join(words), ""]
    found, known = kernel_words(texts)
    expected = [re.findall("[a-z0-9]+", text.lower()) for text in texts]
    assert found == [(Counter(row), len(row)) for row in expected]
    assert known == list(dict.fromkeys(word for row in expected for word in row))


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1), unique=True))
def test_lines_are_taken_as_they_are(lines):
    lexicon = Lexicon(LINES, slots=4)
    counted = lexicon.count(*_encoded([line + "\n" for line in lines]))
    assert counted.terms.tolist() == list(range(len(lines)))
    assert lexicon.words() == lines
    again = Lexicon(slots=4)
    again.add_lines(lexicon.lines()[0].tobytes())
    assert again.words() == lines


def test_classes_of_all_characters():
    classes = character_classes()
    chars = [chr(code) for code in range(0x110000)]
    letters = np.array([START if char.isalnum() else 0 for char in chars])
    marks = np.array([MARK if is_mark(char) else 0 for char in chars])
    letters[0xD800:0xE000] = 0
    np.testing.assert_array_equal(classes, np.maximum(letters, marks))


def test_analysers_by_name():
    text = "The runners were running, generously"
    assert Analyzer("plain")(text) == ["the", "runners", "were", "running", "generously"]
    stem = Stemmer.Stemmer("porter").stemWord
    assert Analyzer("porter")(text) == [stem(word) for word in split_words(text)]
    assert Analyzer("porter+stop")(text) == ["runner", "run", "gener"]
    assert Analyzer("porter+stop")("to be or not to be") == []


def test_stop_words_are_those_of_snowball_and_are_dropped_before_stemming():
    listed = SNOWBALL.split()
    assert len(listed) == len(set(listed)) == 174
    assert Analyzer("porter+stop")(SNOWBALL.upper()) == []
    assert Analyzer("porter+stop")("Don't they? Wings: what we'd been doing") == ["wing"]
    assert "above" in STOP_WORDS
    assert Analyzer("porter")("above") == ["abov"]
    assert Analyzer("porter+stop")("above abov") == ["abov"]  # a stop word is a word, not a stem


def test_own_analysers():
    mine = Analyzer("mine", map_term=lambda word: None if word == "b" else word[:2])
    assert mine("Abc b bcd") == ["ab", "bc"]
    assert mine.map(["b", "abc"]) == [None, "ab"]
    letters = Analyzer("letters", tokenize=list)
    assert letters("A b") == ["A", " ", "b"]
    assert Analyzer("porter", tokenize=str.split)("running-dogs Cats") == ["running-dog", "Cat"]
    assert Analyzer("x", map_term=lambda word: "")("a b") == []


def test_one_way_to_cut_texts_up():
    one, two = with_one_tokenizer(["porter", Analyzer("mine", tokenize=str.split)])
    assert one("Dogs,cats x") == ["Dogs,cat", "x"]
    assert two("Dogs,cats x") == ["Dogs,cats", "x"]
    assert [one.split_identifiers for one in with_one_tokenizer("plain", True)] == [True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Analyzer("potter"), "unknown analyser 'potter'; expected plain, porter, porter\\+stop"),
        (lambda: Analyzer("a b", map_term=str.upper), "without commas or whitespace"),
        (lambda: Analyzer(""), "the analyser's name is ''"),
        (lambda: Analyzer("porter", map_term=str.upper), "expected another name"),
        (lambda: Analyzer("x", tokenize=str.split, split_identifiers=True), "expected no tokenize"),
        (lambda: Analyzer("x", map_term=len)("abc"), "maps 'abc' to 3; expected a string or None"),
        (lambda: Analyzer("x", map_term=lambda word: "a\nb")("abc"), "expected no line ends"),
        (lambda: Analyzer("x", tokenize=lambda text: [3])("abc"), "returned 3; expected strings"),
        (lambda: Analyzer("x", tokenize=lambda text: ["a\n"])("abc"), "expected strings without line ends"),
        (lambda: with_one_tokenizer([]), "no analysers"),
        (lambda: with_one_tokenizer(["plain", "plain"]), "duplicate analyser 'plain'"),
        (
            lambda: with_one_tokenizer([Analyzer("x", tokenize=list), Analyzer("y", tokenize=str.split)]),
            "tokenise differently",
        ),
        (lambda: with_one_tokenizer([Analyzer("x", tokenize=list)], split_identifiers=True), "tokenise differently"),
        (
            lambda: recalled(recorded([Analyzer("x", map_term=str.upper)]), {}),
            "expected it again, as analyzers={'x': …}",
        ),
        (lambda: recalled(recorded([Analyzer("x", tokenize=list)]), {"x": str.upper}), "a tokeniser of your own"),
        (lambda: recalled(recorded([Analyzer("plain")]), {"y": Analyzer("z", map_term=str.upper)}), "same name"),
        (lambda: recalled(recorded([Analyzer("plain")]), {"y": Analyzer("y", tokenize=list)}), "tokenises differently"),
    ],
)
def test_analysers_that_cannot_be(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_analysers_are_recalled():
    mine = Analyzer("mine", map_term=str.upper, tokenize=str.split)
    found = recalled(recorded(with_one_tokenizer(["porter", mine])), {"mine": mine, "more": lambda word: word[:1]})
    assert set(found) == {*BUILT_IN, "mine", "more"}
    assert found["mine"]("a-b c") == ["A-B", "C"]
    assert found["more"]("a-b c") == ["a", "c"]
    assert found["porter"]("Dogs,cats") == ["Dogs,cat"]
    split = recalled(recorded([Analyzer("plain", split_identifiers=True)]), {})
    assert split["porter"]("camelCases") == ["camel", "case"]


@settings(deadline=None, max_examples=30)
@given(st.sets(TEXTS.filter(lambda text: text and "\n" not in text), max_size=40), st.data())
def test_vocabulary_against_a_dictionary(words, data):
    ordered = sorted(words)
    members = sorted(data.draw(st.sets(st.sampled_from(range(len(ordered))))) if ordered else [])
    for chosen in (None, members):
        kept = ordered if chosen is None else [ordered[i] for i in chosen]
        found = Vocabulary(*as_lines(ordered), None if chosen is None else np.array(chosen, np.int64))
        assert dict(found) == {word: number for number, word in enumerate(kept)}
        assert [found.word(number) for number in range(len(found))] == kept
        for word in [*ordered, "", "nothing", "\ud800"]:
            assert (word in found) == (word in kept)
            assert found.get(word) == (kept.index(word) if word in kept else None)
        assert 3 not in found
        with pytest.raises(IndexError, match="out of range"):
            found.word(len(kept))
