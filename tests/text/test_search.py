"""Search against a full sort of all scores, for every function, and the same bits from any number of threads."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_views import random_documents, random_query, view_of

import rankwright
from rankwright import InputError
from rankwright.text.contents import View
from rankwright.text.functions import BM25, parse_function
from rankwright.text.search import Hits, Scorer, default_analyzer

FUNCTIONS = ["bm25", "bm25(idf=okapi,k3=0)", "bm25(k1=0)", "tfidf", "cosine", "dirichlet", "dirichlet(mu=5)", "jm"]


def by_sorting(scorer, text, k):
    """The best k by looking at every document."""
    docs = np.flatnonzero(scorer.matching(text))
    scores = scorer.scores(text)[docs]
    order = np.lexsort((docs, -scores))[:k]
    return docs[order], scores[order]


def assert_same(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_search_is_a_full_sort(function):
    rng = np.random.default_rng(0)
    for n_docs in (1, 3, 50, 400):
        scorer = Scorer(view_of([*random_documents(rng, n_docs - 1), ["w0"]]), function)
        for _ in range(6):
            text = " ".join(random_query(rng))
            for k in (1, 2, 10, n_docs, 10**9):
                assert_same(scorer.search(text, k), by_sorting(scorer, text, k))


def large_view(seed, n_docs=20_000, ties=False):
    """Lists of random lengths, long enough for samples, bounds and full buffers."""
    rng = np.random.default_rng(seed)
    held = [0.9, 0.6, 0.3, 0.3, 0.05, 0.001]
    docs = [np.flatnonzero(rng.random(n_docs) < share).astype(np.int32) for share in held]
    sizes = [len(list_) for list_ in docs]
    counts = np.ones(sum(sizes)) if ties else rng.geometric(0.6, sum(sizes))
    lengths = np.full(n_docs, 20) if ties else rng.integers(20, 200, n_docs)
    terms = {f"w{t}": t for t in range(len(held))}
    return View(
        terms,
        np.cumsum([0, *sizes]),
        np.concatenate(docs),
        counts.astype(np.int32),
        lengths.astype(np.int32),
        str.split,
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("function", ["bm25", "bm25(idf=okapi)", "dirichlet(mu=50)"])
def test_search_in_long_lists(function, ties):
    scorer = Scorer(large_view(1, ties=ties), function)
    texts = ["w0", "w0 w1", "w5 w0", "w1 w4 w3 w2", "w5 w4", "w0 w1 w2 w3 w4 w5", "w3 w3 w2"]
    for k in (1, 10, 300, 1500, 15_000):
        for text, found in zip(texts, scorer.search_all(texts, k), strict=True):
            assert_same(found, by_sorting(scorer, text, k))


def test_scores_that_rise_or_fall_with_the_document_number():
    """What a sample of a list suggests is wrong here, or the buffer is full again and again."""
    n = 10_000
    for lengths in (np.arange(1, n + 1), np.arange(n, 0, -1), np.where(np.arange(n) % 9 == 0, 1, 500)):
        view = View(
            {"a": 0}, np.array([0, n]), np.arange(n, dtype=np.int32), np.ones(n, np.int32), lengths.astype(np.int32),
            str.split,
        )  # fmt: skip
        scorer = Scorer(view, "jm")
        for k in (1, 7, 100, 1200, 2400):
            assert_same(scorer.search("a", k), by_sorting(scorer, "a", k))


@given(
    documents=st.lists(st.lists(st.sampled_from("abcde"), max_size=6), min_size=1, max_size=30),
    texts=st.lists(st.text("abcdexy ", max_size=8), max_size=4),
    k=st.integers(1, 40),
    function=st.sampled_from(FUNCTIONS),
)
@settings(max_examples=150, deadline=None)
def test_search_is_a_full_sort_whatever_the_input(documents, texts, k, function):
    texts = [" ".join(text) for text in texts]
    scorer = Scorer(view_of(documents), function)
    hits = scorer.search_all(texts, k)
    assert len(hits) == len(texts)
    for text, found in zip(texts, hits, strict=True):
        assert_same(found, by_sorting(scorer, text, k))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_threads_give_the_same_bits(function):
    rng = np.random.default_rng(3)
    scorer = Scorer(view_of(random_documents(rng, 300)), function)
    texts = [" ".join(random_query(rng)) for _ in range(300)]
    one = scorer.search_all(texts, 20)
    for threads in (2, 5):
        many = Scorer(scorer.view, function).search_all(texts, 20, n_jobs=threads)
        for name in ("indptr", "docs", "scores"):
            assert getattr(many, name).tobytes() == getattr(one, name).tobytes()


def test_one_scorer_may_be_used_by_several_threads():
    rng = np.random.default_rng(4)
    view = view_of(random_documents(rng, 300))
    texts = [" ".join(random_query(rng)) for _ in range(100)]
    expected = [Scorer(view, "cosine").search(text) for text in texts]
    shared, failed = Scorer(view, "cosine"), []

    def work():
        for text, found in zip(texts, expected, strict=True):
            try:
                assert_same(shared.search(text), found)
            except AssertionError as error:
                failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_query_does_not_depend_on_those_before():
    rng = np.random.default_rng(5)
    view = view_of(random_documents(rng, 200))
    texts = [" ".join(random_query(rng)) for _ in range(40)]
    for function in FUNCTIONS:
        for text, found in zip(texts, Scorer(view, function).search_all(texts, 7), strict=True):
            assert_same(found, Scorer(view, function).search(text, 7))


def test_ties_are_in_the_order_of_documents():
    scorer = Scorer(view_of([["a"], ["b"], ["a"], ["a", "c"], ["a"]]), "tfidf")
    assert scorer.search("a", 10)[0].tolist() == [0, 2, 3, 4]
    assert scorer.search("a", 2)[0].tolist() == [0, 2]


def test_documents_with_a_negative_or_no_score_are_found_if_they_hold_a_term():
    scorer = Scorer(view_of([["a"], ["a"], ["b", "a"], ["b"]]), "bm25(idf=okapi)")
    assert sorted(scorer.search("b", 10)[0].tolist()) == [2, 3]
    assert (scorer.search("b", 10)[1] == 0).all()
    docs, scores = scorer.search("a", 10)
    assert sorted(docs.tolist()) == [0, 1, 2]
    assert (scores < 0).all()
    docs, scores = Scorer(view_of([["a"], ["b"]]), "dirichlet").search("a", 10)
    assert docs.tolist() == [0]


@pytest.mark.parametrize("text", ["", "nobody", "nobody nothing"])
def test_no_known_term_finds_nothing(text):
    docs, scores = Scorer(view_of([["a"], []]), "dirichlet").search(text)
    assert len(docs) == len(scores) == 0


def test_no_documents_and_no_queries():
    assert len(Scorer(view_of([])).search("a")[0]) == 0
    hits = Scorer(view_of([["a"]])).search_all([])
    assert len(hits) == 0
    assert hits.indptr.tolist() == [0]


def test_arrays_that_cannot_be_written_are_fine(tmp_path):
    view = view_of([["a", "b"], ["a"], []])
    mapped = {}
    for name in ("indptr", "docs", "counts", "lengths"):
        np.save(tmp_path / f"{name}.npy", getattr(view, name))
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    for function in FUNCTIONS:
        assert_same(Scorer(View(view.terms, **mapped, analyze=str.split), function).search("a b"),
                    Scorer(view, function).search("a b"))  # fmt: skip


def test_hits_are_looked_up_by_number():
    hits = Hits(np.array([0, 2, 2, 3]), np.array([4, 1, 7]), np.array([2.0, 1.0, 3.0]))
    assert hits[0][0].tolist() == [4, 1]
    assert hits[1][0].tolist() == []
    assert hits[-1][1].tolist() == [3.0]
    with pytest.raises(IndexError):
        hits[3]


def test_progress_is_told():
    seen = []
    scorer = Scorer(view_of([["a"]]))
    scorer.search_all(["a"] * 150, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(64, 150), (128, 150), (150, 150)]


@pytest.mark.parametrize("k", [0, -1, 1.5, "10", None])
def test_k_is_a_whole_number(k):
    with pytest.raises(InputError, match=r"k is .*; expected a positive integer"):
        Scorer(view_of([["a"]])).search("a", k)


def test_one_text_is_not_several():
    with pytest.raises(InputError, match="expected a sequence"):
        Scorer(view_of([["a"]])).search_all("a")


class FewDocuments:
    """What `search` needs of an index."""

    analyzers = ("plain", "porter+stop")
    fields = ("text",)

    def view(self, analyzer, field=None):
        self.asked = analyzer, field
        return view_of([["wing", "lift"], ["heat"], ["wing", "wing"]])

    def doc_id(self, doc):
        return f"d{doc}"


def test_search_gives_ids_and_scores():
    index = FewDocuments()
    found = rankwright.search(index, "wing lift", "tfidf", k=5)
    assert index.asked == ("porter+stop", None)
    assert [document for document, _ in found] == ["d0", "d2"]
    assert found[0][1] == pytest.approx(np.log(1 + 3 / 2) + np.log(4), rel=1e-6)
    assert rankwright.search(index, "wing", BM25(), analyzer="plain", field="text", k=1)[0][0] == "d2"
    assert index.asked == ("plain", "text")
    assert rankwright.search(index, "nobody") == []


def test_the_analyser_taken_unless_one_is_named():
    assert default_analyzer(("plain", "porter", "porter+stop")) == "porter+stop"
    assert default_analyzer(("mine", "plain")) == "mine"


def test_names_of_functions_will_do():
    assert Scorer(view_of([["a"]]), "JM(lambda=0.2)").function == parse_function("jm(lambda=0.2)")
