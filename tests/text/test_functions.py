"""Retrieval functions against the formulas written out over lists of words, and against bm25s."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_views import random_documents, random_query, view_of

from rankwright import InputError
from rankwright.text.functions import BM25, FUNCTIONS, TFIDF, Cosine, Dirichlet, JelinekMercer, parse_function
from rankwright.text.search import Scorer

FAR_APART = [
    BM25(),
    BM25(k1=0),
    BM25(k1=3.5, b=0),
    BM25(k1=0.9, b=1, k3=0),
    BM25(k3=math.inf),
    BM25(k3=1.5, idf="okapi"),
    TFIDF(),
    Cosine(),
    Dirichlet(),
    Dirichlet(mu=3),
    Dirichlet(mu=1e6),
    JelinekMercer(),
    JelinekMercer(lambda_=0.9),
    JelinekMercer(lambda_=0.01),
]


class Collection:
    """Statistics of lists of words, counted one by one."""

    def __init__(self, documents):
        self.documents = documents
        self.n = len(documents)
        self.df = Counter(word for document in documents for word in set(document))
        self.cf = Counter(word for document in documents for word in document)
        self.length = sum(len(document) for document in documents)


def brute_force(function, query, document, all_of):
    """The score by the formulas of docs/retrieval.md, with nothing dropped but what they drop."""
    times = Counter(word for word in query if word in all_of.df)
    counts = Counter(document)
    kind, score = type(function), 0.0
    if kind is Cosine:
        x = {word: (1 + math.log(q)) * math.log(1 + all_of.n / all_of.df[word]) for word, q in times.items()}
        y = {word: (1 + math.log(c)) * math.log(1 + all_of.n / all_of.df[word]) for word, c in counts.items()}
        product = sum(x[word] * y[word] for word in x if word in y)
        return product / math.hypot(*x.values()) / math.hypot(*y.values()) if product else 0.0
    if kind is Dirichlet:  # from the likelihood itself
        mu = function.mu
        for word, q in times.items():
            share = all_of.cf[word] / all_of.length
            score += q * (math.log((counts[word] + mu * share) / (len(document) + mu)) - math.log(share))
        return score
    for word, q in times.items():
        c, df = counts[word], all_of.df[word]
        if c == 0:
            continue
        if kind is BM25:
            odds = (all_of.n - df + 0.5) / (df + 0.5)
            idf = math.log(1 + odds) if function.idf == "lucene" else math.log(odds)
            weight = q if function.k3 == math.inf else (function.k3 + 1) * q / (function.k3 + q)
            relative = len(document) / (all_of.length / all_of.n)
            score += weight * idf * c / (c + function.k1 * (1 - function.b + function.b * relative))
        elif kind is TFIDF:
            score += q * (1 + math.log(c)) * math.log(1 + all_of.n / df)
        elif kind is JelinekMercer:
            share, weight = all_of.cf[word] / all_of.length, function.lambda_
            score += q * math.log(((1 - weight) * c / len(document) + weight * share) / (weight * share))
    return score


@pytest.mark.parametrize("function", FAR_APART, ids=str)
def test_scores_are_the_formula(function):
    rng = np.random.default_rng(0)
    for n_docs in (1, 2, 7, 60):
        documents = [*random_documents(rng, n_docs - 1), ["w0", "w3", "w3"]]
        all_of, view = Collection(documents), view_of(documents)
        scorer = Scorer(view, function)
        for _ in range(6):
            query = random_query(rng)
            expected = [brute_force(function, query, document, all_of) for document in documents]
            text = " ".join(query)
            np.testing.assert_allclose(scorer.scores(text), expected, rtol=2e-6, atol=2e-6)
            np.testing.assert_array_equal(Scorer(view, function).scores(text), scorer.scores(text))
            some = rng.integers(0, n_docs, 5)
            np.testing.assert_array_equal(scorer.scores(text, some), scorer.scores(text)[some])
            holding = [bool(set(document) & set(query)) for document in documents]
            np.testing.assert_array_equal(scorer.matching(text), holding)


@given(
    documents=st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=1, max_size=8),
    query=st.lists(st.sampled_from("abcdefgxyz"), max_size=9),
    function=st.one_of(
        st.builds(
            BM25,
            k1=st.floats(0, 10),
            b=st.floats(0, 1),
            k3=st.one_of(st.floats(0, 1000), st.just(math.inf)),
            idf=st.sampled_from(["lucene", "okapi"]),
        ),
        st.just(TFIDF()),
        st.just(Cosine()),
        st.builds(Dirichlet, mu=st.floats(1e-3, 1e5)),
        st.builds(JelinekMercer, lambda_=st.floats(1e-3, 0.999)),
    ),
)
@settings(max_examples=150, deadline=None)
def test_scores_are_the_formula_whatever_the_input(documents, query, function):
    all_of = Collection(documents)
    expected = [brute_force(function, query, document, all_of) for document in documents]
    scores = Scorer(view_of(documents), function).scores(" ".join(query))
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", FAR_APART, ids=str)
def test_terms_without_a_document_change_nothing(function):
    documents = [["a", "b", "a"], ["b", "c"], []]
    plain, wider = view_of(documents), view_of(documents, vocabulary=["0", "bb", "zz"])
    scores = Scorer(plain, function).scores("a b b")
    for view, text in ((plain, "nobody a b zz b"), (wider, "a b b"), (wider, "0 a zz b b bb")):
        np.testing.assert_array_equal(Scorer(view, function).scores(text), scores)
    for text in ("", "zz", "nobody"):
        np.testing.assert_array_equal(Scorer(wider, function).scores(text), np.zeros(3))
        assert not Scorer(wider, function).matching(text).any()


@pytest.mark.parametrize("function", FAR_APART, ids=str)
def test_empty_documents_and_no_documents(function):
    assert Scorer(view_of([]), function).scores("a").shape == (0,)
    assert Scorer(view_of([[], []]), function).scores("a").tolist() == [0, 0]


def test_total_counts_are_sums():
    rng = np.random.default_rng(1)
    documents = random_documents(rng, 20)
    view = view_of(documents, vocabulary=["", "v", "w1x", "zz"])
    cf = Counter(word for document in documents for word in document)
    assert {word: view.total_counts[term] for word, term in view.terms.items()} == {
        word: cf[word] for word in view.terms
    }
    assert view_of([[]], vocabulary=["a"]).total_counts.tolist() == [0]


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (1.5, 0.75), (0.9, 0.4)])
def test_bm25_agrees_with_bm25s(k1, b):
    import bm25s

    rng = np.random.default_rng(2)
    documents = random_documents(rng, 300, n_words=200, longest=60)
    view = view_of(documents)
    peer = bm25s.BM25(method="lucene", k1=k1, b=b, backend="numpy")
    peer.index(documents, show_progress=False)
    scorer = Scorer(view, BM25(k1=k1, b=b, k3=math.inf))
    for _ in range(30):
        query = [word for word in random_query(rng, n_words=200) if word in view.terms]
        if query:
            np.testing.assert_allclose(scorer.scores(" ".join(query)), peer.get_scores(query), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("bm25", BM25()),
        (" BM25 ( K1 = 0.9 , b=.4,k3=INF )", BM25(k1=0.9, b=0.4, k3=math.inf)),
        ("bm25(idf=okapi)", BM25(idf="okapi")),
        ("bm25()", BM25()),
        ("tfidf", TFIDF()),
        ("Cosine", Cosine()),
        ("dirichlet(mu=2500)", Dirichlet(mu=2500)),
        ("jm(lambda=0.7)", JelinekMercer(lambda_=0.7)),
        (BM25(b=0), BM25(b=0)),
    ],
)
def test_functions_are_parsed(text, function):
    assert parse_function(text) == function


@pytest.mark.parametrize("function", [*FAR_APART, BM25(k1=1 / 3), Dirichlet(mu=np.float32(0.1))], ids=str)
def test_what_is_printed_parses_to_the_same(function):
    assert parse_function(str(function)) == function


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bm26", "unknown retrieval function 'bm26'; expected one of bm25, tfidf, cosine, dirichlet, jm"),
        ("", "bad retrieval function ''; expected, for example, bm25 or bm25(k1=0.9,b=0.4)"),
        ("bm25(k1=1", "bad retrieval function 'bm25(k1=1'; expected, for example,"),
        (7, "bad retrieval function 7; expected, for example,"),
        ("bm25(k2=1)", "bm25 has no parameter 'k2'; its parameters: k1, b, k3, idf"),
        ("tfidf(b=1)", "tfidf has no parameter 'b'; it has none"),
        ("jm(0.5)", "bad parameter '0.5' in 'jm(0.5)'; expected parameter=value"),
        ("bm25(b=1,B=0)", "duplicate parameter b in 'bm25(b=1,B=0)'"),
        ("bm25(k1=-1)", "k1 of bm25 is -1; expected a number of at least 0"),
        ("bm25(k1=inf)", "k1 of bm25 is inf; expected a number of at least 0"),
        ("bm25(k1=nan)", "k1 of bm25 is nan; expected a number of at least 0"),
        ("bm25(b=1.5)", "b of bm25 is 1.5; expected a number from 0 to 1"),
        ("bm25(k3=many)", "k3 of bm25 is many; expected a number of at least 0, or inf"),
        ("bm25(idf=bm25)", "idf of bm25 is 'bm25'; expected lucene or okapi"),
        ("dirichlet(mu=0)", "mu of dirichlet is 0; expected a number of at least 1e-09"),
        ("jm(lambda=0)", "lambda of jm is 0; expected a number between 0 and 1"),
        ("jm(lambda=1)", "lambda of jm is 1; expected a number between 0 and 1"),
    ],
)
def test_bad_functions_are_answered_clearly(text, said):
    with pytest.raises(InputError) as error:
        parse_function(text)
    assert str(error.value).startswith(said)


def test_every_function_has_a_name_and_can_be_hashed():
    assert list(FUNCTIONS) == ["bm25", "tfidf", "cosine", "dirichlet", "jm"]
    assert len({kind() for kind in FUNCTIONS.values()}) == 5
    assert all(str(kind()) == name for name, kind in FUNCTIONS.items())
