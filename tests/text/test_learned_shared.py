"""A learned search engine that is shared: ids, pickles, copies, other processes, and several threads at once."""

import copy
import multiprocessing
import pickle
import sys
import threading

import numpy as np
import pytest

from rankwright import Analyzer, LambdaMART, RankingData, search
from rankwright.errors import InputError
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel
from rankwright.text.index import Index, build_index
from rankwright.text.learned import LearnedSearch
from rankwright.text.search import Scorer

NAMES = ("bm25[porter+stop]", "dirichlet[plain,title]", "log-tf[porter+stop]", "cosine[porter,text]", "log-bm25[plain]")
N_THREADS = 8


def made_up(n_docs=300, n_words=400, seed=0):
    """Random documents of two fields, and queries that share words with many of them."""
    rng = np.random.default_rng(seed)
    bounds = np.cumsum(1 / np.arange(1, n_words + 1))

    def words(n):
        return " ".join(f"w{word}" for word in np.searchsorted(bounds, rng.random(n) * bounds[-1]))

    documents = [(f"d{n}", {"title": words(4), "text": words(30)}) for n in range(n_docs)]
    return documents, [words(rng.integers(1, 7)) for _ in range(60)]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    documents, queries = made_up()
    index = build_index(documents, tmp_path_factory.mktemp("shared") / "docs.index")
    return index, queries


def drawn(rng):
    X, labels = rng.normal(size=(200, len(NAMES))), rng.integers(0, 3, 200)
    return RankingData.from_arrays(X, labels, group=[20] * 10, feature_names=NAMES)


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(1)
    trees = LambdaMART(n_trees=5).fit(drawn(rng)).model_
    linear = LinearModel(rng.normal(size=len(NAMES)), NAMES)
    return {
        "linear": linear,
        "scaled": LinearModel(linear.coef, NAMES, "minmax"),
        "trees": trees,
        "sum": SumModel((linear, trees), [1.0, 0.5]),
    }


KINDS = ("linear", "scaled", "trees", "sum")


def bits(found):
    return found.ids, found.docs.tolist(), found.scores.tobytes()


def test_documents_come_with_their_ids(collection, models):
    index, queries = collection
    engine = LearnedSearch(index, models["linear"])
    hits = engine.search_all(queries, 7)
    assert hits.ids == [index.doc_id(doc) for doc in hits.docs.tolist()]
    for at, text in enumerate(queries):
        found = engine.search(text, 7)
        docs, scores = found
        assert (found.docs is docs, found.scores is scores) == (True, True)
        assert found.ids == [f"d{doc}" for doc in docs.tolist()]
        assert bits(hits[at]) == bits(found)
    nothing = engine.search("unheard-of")
    assert (nothing.ids, nothing.docs.tolist(), nothing.scores.tolist()) == ([], [], [])


def test_functions_give_ids_in_the_same_way(collection):
    index, queries = collection
    for view in (index.view(), index.view("plain", "title"), index.view("porter", "text")):
        scorer = Scorer(view, "bm25")
        hits = scorer.search_all(queries, 5)
        found = scorer.search(queries[0], 5)
        assert bits(hits[0]) == bits(found)
        assert found.ids == [f"d{doc}" for doc in found.docs.tolist()]
        assert hits.ids == [doc_id for at in range(len(hits)) for doc_id in hits[at].ids]
    expected = Scorer(index.view()).search(queries[0], 5)
    assert search(index, queries[0], k=5) == list(zip(expected.ids, expected.scores.tolist(), strict=True))


def test_results_are_pickled_with_their_ids(collection, models):
    index, queries = collection
    engine = LearnedSearch(index, models["trees"])
    found, hits = engine.search(queries[0]), engine.search_all(queries, 4)
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert bits(again) == bits(found)
    again = pickle.loads(pickle.dumps(hits))
    assert [bits(again[at]) for at in range(len(again))] == [bits(hits[at]) for at in range(len(hits))]


def test_documents_of_a_view_on_its_own_have_no_ids(collection):
    from dataclasses import replace

    found = Scorer(replace(collection[0].view(), ids=None)).search("w1", 3)
    assert len(found.docs) == 3
    with pytest.raises(InputError, match="have no ids"):
        _ = found.ids
    assert "ids" not in repr(found)
    assert len(pickle.loads(pickle.dumps(found)).docs) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_can_be_pickled_and_copied(collection, models, kind):
    index, queries = collection
    engine = LearnedSearch(index, models[kind], depth=40)
    expected = [bits(engine.search(text)) for text in queries]
    for other in (pickle.loads(pickle.dumps(engine)), copy.deepcopy(engine), copy.copy(engine)):
        assert other is not engine
        assert [bits(other.search(text)) for text in queries] == expected
    assert copy.deepcopy(engine).model is not engine.model
    assert copy.deepcopy(engine).index is index


def test_settings_travel_with_the_engine(collection):
    index, queries = collection
    model = LinearModel(np.ones(2), ("bm25[plain]", "pagerank"))
    engine = LearnedSearch(index, model, depth=3, missing_as_zero=True)
    again = pickle.loads(pickle.dumps(engine))
    assert bits(again.search(queries[0])) == bits(engine.search(queries[0]))
    assert len(again.search(queries[0]).ids) == 3


def test_an_index_of_another_name_cannot_be_opened_again(tmp_path, models):
    index = build_index(made_up(20)[0], tmp_path / "old.index")
    pickled = pickle.dumps(LearnedSearch(index, models["linear"]))
    index.path.rename(tmp_path / "new.index")
    with pytest.raises(InputError, match=r"old\.index: cannot be read: No such file"):
        pickle.loads(pickled)


def first_three(word):
    return word[:3]


def test_analysers_of_your_own_travel_if_they_can_be_imported(tmp_path):
    own = Analyzer("short", map_term=first_three)
    index = build_index(made_up(20)[0], tmp_path / "own.index", analyzers=["plain", own])
    engine = LearnedSearch(index, LinearModel([1.0], ["bm25[short]"]))
    assert bits(pickle.loads(pickle.dumps(engine)).search("w12")) == bits(engine.search("w12"))


def _search_there(engine, queries):
    return [bits(engine.search(text)) for text in queries]


def test_another_process_finds_the_same(collection, models):
    index, queries = collection
    engine = LearnedSearch(index, models["sum"])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(_search_there, (engine, queries[:10]))
    assert there == _search_there(engine, queries[:10])


@pytest.fixture
def restless():
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work):
    """Run ``work(number)`` in threads that start at the same time; what each returned."""
    barrier, found, failed = threading.Barrier(N_THREADS), [None] * N_THREADS, []

    def run(number):
        barrier.wait()
        try:
            found[number] = work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_threads_find_what_one_finds(collection, models, restless, kind):
    path, queries = collection[0].path, collection[1]
    one = LearnedSearch(Index.open(path), models[kind], depth=50)
    expected = {text: bits(one.search(text, 20)) for text in queries}
    for seed in range(4):
        engine = LearnedSearch(Index.open(path), models[kind], depth=50)  # all impacts are missing

        def work(number, engine=engine, seed=seed):
            order = np.random.default_rng((seed, number)).permutation(len(queries)).tolist()
            return {queries[at]: bits(engine.search(queries[at], 20)) for at in order}

        for found in in_threads(work):
            assert found == expected


def test_threads_that_search_for_many_queries_find_the_same(collection, models, restless):
    path, queries = collection[0].path, collection[1]
    expected = LearnedSearch(Index.open(path), models["trees"]).search_all(queries, 9)
    engine, scorer = LearnedSearch(Index.open(path), models["trees"]), Scorer(Index.open(path).view(), "dirichlet")
    plain = Scorer(Index.open(path).view(), "dirichlet").search_all(queries, 9)

    def work(number):
        return engine.search_all(queries, 9, n_jobs=2), scorer.search_all(queries, 9)

    for learned, other in in_threads(work):
        assert (learned.docs.tobytes(), learned.scores.tobytes()) == (
            expected.docs.tobytes(),
            expected.scores.tobytes(),
        )
        assert (other.docs.tobytes(), other.scores.tobytes()) == (plain.docs.tobytes(), plain.scores.tobytes())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda index, model: LearnedSearch("docs.index", model), r"the index is of the type str; expected an Index"),
        (lambda index, model: LearnedSearch(index, "m.rkw"), "the model is of the type str; expected a model"),
        (lambda index, model: LearnedSearch(index, None), "the model is of the type NoneType; expected a model"),
        (lambda index, model: LearnedSearch(index, LambdaMART()), "expected a model, as from load_model, or a fitted"),
        (lambda index, model: LearnedSearch(index, model, depth=0), "depth is 0; expected a positive integer"),
        (lambda index, model: LearnedSearch(index, model, depth=2.5), r"depth is 2\.5; expected a positive integer"),
        (lambda index, model: LearnedSearch(index, model).search(None), "a query is None; expected a string"),
        (lambda index, model: LearnedSearch(index, model).search(["a"]), "a query is of the type list; expected"),
        (lambda index, model: LearnedSearch(index, model).search_all(["a", 5]), "a query is of the type int; expected"),
        (
            lambda index, model: LearnedSearch(index, model).search_all(None),
            "the queries are None; expected a sequence",
        ),
        (lambda index, model: LearnedSearch(index, model).search_all({"1": "a"}), "the queries are of the type dict"),
        (lambda index, model: Scorer(index.view()).search(b"a"), "a query is of the type bytes; expected a string"),
    ],
)
def test_wrong_input_gets_one_line(collection, models, wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        wrong(collection[0], models["linear"])
    assert "\n" not in str(caught.value)


def test_a_fitted_ranker_is_a_model(collection, models):
    index, queries = collection
    ranker = LambdaMART(n_trees=3).fit(drawn(np.random.default_rng(2)))
    expected = LearnedSearch(index, ranker.model_).search(queries[0])
    assert bits(LearnedSearch(index, ranker).search(queries[0])) == bits(expected)
