"""All functions of a view at once: candidates against sorting, blocks and threads against one by one."""

import numpy as np
import pytest
from toy_documents import WORDS, make_documents

from rankwright import Columns, build_index, feature_set
from rankwright.models.linear import LinearModel
from rankwright.text import features as columns_module
from rankwright.text.learned import LearnedSearch
from rankwright.text.search import Scorer
from rankwright.text.search_kernel import flag_best

FIELDS = ("title", "text")
FUNCTIONS = (
    "bm25",
    "bm25(idf=okapi)",
    "bm25(k1=0)",
    "bm25(k1=0,idf=okapi)",
    "dirichlet(mu=5)",
    "cosine",
    "jm",
    "tfidf",
)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return build_index(make_documents(700, fields=FIELDS), tmp_path_factory.mktemp("views") / "docs.index")


def queries(n):
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(n)]


def sorted_best(scores, docs, k):
    return set(docs[np.lexsort((docs, -scores))[:k]].tolist())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_candidates_against_sorting_all_scores(index, name):
    for view in ("plain", "porter+stop,title"):
        own = Columns(index, [f"{name}[{view}]"])
        scorer = Scorer(index.view(*view.split(",")), name)
        for text in queries(8):
            found = np.flatnonzero(scorer.matching(text))
            for depth in (1, 7, 150, 699, 5000):
                expected = sorted_best(scorer.scores(text, found), found, depth)
                assert set(own.candidates(text, depth).tolist()) == expected


@pytest.mark.parametrize("case", ["spread", "tied", "equal", "infinite", "tiny", "huge"])
def test_the_best_of_any_scores(case):
    rng = np.random.default_rng(1)
    n = 500
    scores = {
        "spread": rng.normal(size=n),
        "tied": rng.integers(-3, 4, n),
        "equal": np.full(n, 2.5),
        "infinite": np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n)),
        "tiny": rng.integers(0, 9, n) * 1e-44,
        "huge": rng.choice([-3e38, 3e38, 0.0], n) * rng.random(n),
    }[case].astype(np.float32)
    docs = rng.permutation(2000)[:n].astype(np.uint32)
    places = np.zeros(2000, np.int32)
    places[docs] = np.arange(1, n + 1)
    for bound in (-np.inf, 0.0):
        valid = np.flatnonzero(scores > bound)
        for k in (1, 2, 77, 250, n - 1, n, n + 5):
            flags = np.zeros(n, bool)
            space = np.empty(n, np.uint16), np.empty(n, np.uint64)
            flag_best(scores, docs, np.float32(bound), k, places, *space, flags)
            expected = sorted_best(scores[valid].astype(np.float64), docs[valid].astype(np.int64), k)
            assert set(docs[flags].tolist()) == expected


def test_queries_in_small_blocks(index, monkeypatch):
    names, texts = feature_set("base", FIELDS), [*queries(10), "", "nowhere"]
    indptr, docs = Columns(index, names).candidates_all(texts, 20)
    for most in (1, 700 * 5):
        monkeypatch.setattr(columns_module, "_MAX_MARKS", most)
        other_indptr, other_docs = Columns(index, names).candidates_all(texts, 20)
        assert (indptr.tolist(), docs.tolist()) == (other_indptr.tolist(), other_docs.tolist())
    for indptr, docs in (Columns(index, names).candidates_all([], 20), Columns(index, []).candidates_all([""], 20)):
        assert (set(indptr.tolist()), docs.tolist()) == ({0}, [])


def test_one_function_under_several_names(index):
    names = ["log-bm25[plain]", "BM25(k1=1.2)[plain]", "tfidf[plain]", "bm25[plain]"]
    for text in queries(4):
        table = Columns(index, names).values(text, np.arange(700))
        bm25 = Scorer(index.view("plain"), "bm25").scores(text)
        assert table[:, 1].tolist() == table[:, 3].tolist() == bm25.tolist()
        assert table[:, 0].tolist() == np.log(np.maximum(bm25, 1e-3)).astype(np.float32).tolist()
        assert table[:, :1].tolist() == Columns(index, names[:1]).values(text, np.arange(700)).tolist()


@pytest.mark.parametrize("k", [3, 40, 10_000])
def test_search_with_a_model_by_any_number_of_threads(index, k):
    names = feature_set("base", FIELDS)
    weights = np.round(np.random.default_rng(0).normal(size=len(names)))
    weights[5:] = 0  # ties
    texts = [*queries(40), "nowhere", *queries(5)]
    one_by_one = [LearnedSearch(index, LinearModel(weights, names), depth=30).search(text, k) for text in texts]
    for n_jobs in (1, 3):
        hits = LearnedSearch(index, LinearModel(weights, names), depth=30).search_all(texts, k, n_jobs=n_jobs)
        assert len(hits) == len(texts)
        for q, (docs, scores) in enumerate(one_by_one):
            assert (hits[q][0].tolist(), hits[q][1].tobytes()) == (docs.tolist(), scores.tobytes())
            assert docs.tolist() == docs[np.lexsort((docs, -scores))].tolist()
