"""Features by name: sums against dictionaries, retrieval functions against search, candidates against sets."""

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from toy_documents import WORDS, make_documents

from rankwright import BM25, Columns, Dirichlet, InputError, build_index, feature_set
from rankwright.text.analysis import Analyzer
from rankwright.text.features import FEATURE_SETS
from rankwright.text.search import Scorer

FIELDS = ("title", "text", "note")
TEXTS = [
    "running wings",
    "the café of the runner",
    "x1 été x1 naïve the of",
    "nowhere",
    "",
    "漢字 winged unknown run run",
]
SUMS = ("log-tf", "log-cf", "log-idf", "log-share", "log-share-idf", "log-share-cf", "log-bm25")
DOCUMENTS = make_documents(80, fields=FIELDS)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return build_index(DOCUMENTS, tmp_path_factory.mktemp("columns") / "docs.index")


def seven_sums(query, doc, name, fields):
    """The features of SIGIR'06, term by term from the texts."""
    analyze = Analyzer(name)
    texts = [Counter(term for field in fields for term in analyze(own.get(field, ""))) for _, own in DOCUMENTS]
    total = sum(text.total() for text in texts)
    own, length = texts[doc], texts[doc].total()
    times = Counter(term for term in analyze(query) if any(term in text for text in texts))
    found, bm25 = [0.0] * 6, 0.0
    for term, q in times.items():
        if term not in own:
            continue
        c, cf = own[term], sum(text[term] for text in texts)
        df = sum(term in text for text in texts)
        idf, share = len(texts) / df, c / length
        for at, value in enumerate((c, total / cf, idf - 1, share, share * idf, share * total / cf)):
            found[at] += math.log(value + 1)
        weight = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        norm = 1.2 * (0.25 + 0.75 * length / (total / len(texts)))
        bm25 += 8 * q / (7 + q) * weight * c / (c + norm)
    return [*found, math.log(max(bm25, 0.001))]


@pytest.mark.parametrize(("name", "field"), [("porter+stop", None), ("porter", "text"), ("plain", "title")])
def test_the_sums_against_dictionaries(index, name, field):
    view = name if field is None else f"{name},{field}"
    columns = Columns(index, [f"{one}[{view}]" for one in SUMS])
    docs = [3, 60, 7, 0, 41, 79, 22]
    for text in TEXTS:
        expected = [seven_sums(text, doc, name, (field,) if field else FIELDS) for doc in docs]
        np.testing.assert_allclose(columns.values(text, docs), expected, rtol=2e-6, atol=1e-7)
    everything = [seven_sums(TEXTS[1], doc, name, (field,) if field else FIELDS) for doc in range(80)]
    np.testing.assert_allclose(columns.values(TEXTS[1], np.arange(80)), everything, rtol=2e-6, atol=1e-7)


def test_some_of_the_sums_in_any_order(index):
    names = ["log-bm25[plain]", "log-idf[plain,title]", "cosine[plain]", "log-tf[plain]"]
    whole = Columns(index, [f"{one}[plain]" for one in SUMS]).values(TEXTS[1], [1, 2, 3])
    table = Columns(index, names).values(TEXTS[1], [1, 2, 3])
    assert table[:, 0].tolist() == whole[:, 6].tolist()
    assert table[:, 3].tolist() == whole[:, 0].tolist()


def test_functions_are_the_bits_of_search(index):
    names = [*feature_set("base", FIELDS), "bm25(k1=0.5,b=0.1)[porter]", "Dirichlet(mu=3)[plain,note]"]
    columns = Columns(index, names)
    assert columns.names == tuple(names)
    assert list(columns.functions) == names
    docs = np.array([5, 1, 79, 33])
    for text in TEXTS:
        table = columns.values(text, docs)
        assert table.dtype == np.float32
        for column, name in enumerate(names):
            function, _, view = name.removesuffix("]").partition("[")
            scorer = Scorer(index.view(*view.split(",")), function)
            assert table[:, column].astype(np.float64).tolist() == scorer.scores(text, docs).tolist()
    assert columns.functions[names[-1]].function == Dirichlet(mu=3)
    assert columns.functions[names[-2]].function == BM25(k1=0.5, b=0.1)


def test_documents_in_any_order_and_twice(index):
    columns = Columns(index, [*feature_set("base"), *feature_set("sigir06")])
    docs = [9, 2, 9, 70, 2]
    table = columns.values(TEXTS[0], docs)
    for row, doc in zip(table, docs, strict=True):
        assert row.tolist() == columns.values(TEXTS[0], [doc])[0].tolist()
    assert columns.values(TEXTS[0], []).shape == (0, 22)


@pytest.mark.parametrize("depth", [1, 4, 1000])
def test_candidates_are_the_union_of_the_first(index, depth):
    columns = Columns(index, [*feature_set("base", ["title"]), *feature_set("sigir06")])
    for text in TEXTS:
        expected = set()
        for scorer in columns.functions.values():
            expected.update(Scorer(scorer.view, scorer.function).search(text, depth)[0].tolist())
        assert columns.candidates(text, depth).tolist() == sorted(expected)
    assert columns.candidates("nowhere", depth).tolist() == []


def test_many_queries_are_as_one_by_one(index):
    columns = Columns(index, [*feature_set("base", FIELDS), *feature_set("sigir06", FIELDS)])
    rng = np.random.default_rng(0)
    texts = [*TEXTS, *(" ".join(rng.choice(WORDS, 3)) for _ in range(30)), *TEXTS]
    indptr, docs = columns.candidates_all(texts, 5)
    table = columns.values_all(texts, indptr, docs)
    alone = Columns(index, columns.names)
    for q, text in enumerate(texts):
        own = docs[indptr[q] : indptr[q + 1]]
        assert own.tolist() == alone.candidates(text, 5).tolist()
        assert table[indptr[q] : indptr[q + 1]].tobytes() == alone.values(text, own).tobytes()
    out = np.full((len(docs), len(columns.names) + 1), 7, np.float32)
    columns.values_all(texts, indptr, docs, out)
    assert (out[:, :-1] == table).all()
    assert (out[:, -1] == 7).all()


def test_documents_that_do_not_exist(index):
    columns = Columns(index, ["bm25[porter]", "log-tf[porter]"])
    for docs in ([80], [-1], [0, 10**12]):
        with pytest.raises(InputError, match="a document number is outside the 80 documents"):
            columns.values("run", docs)
    docs = np.arange(3)
    for indptr in ([0, 2], [1, 3], [0, 4, 3], [0]):
        with pytest.raises(InputError, match="the boundaries of the queries do not increase from 0 to 3"):
            columns.values_all(["run"] * max(1, len(indptr) - 1), np.array(indptr), docs)
    for shape in ((2, 2), (3, 1), (3,)):
        with pytest.raises(InputError, match="the output has the shape"):
            columns.values_all(["run"], np.array([0, 3]), docs, np.empty(shape, np.float32))


def test_threads_share_columns(index):
    columns, alone = Columns(index, feature_set("base")), Columns(index, feature_set("base"))
    texts = [f"{one} {other}" for one in WORDS for other in WORDS]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: columns.values(text, range(80)), texts))
    for text, table in zip(texts, found, strict=True):
        assert table.tobytes() == alone.values(text, range(80)).tobytes()


def test_the_sets():
    assert len(feature_set("base")) == 15
    assert len(set(feature_set("base", FIELDS))) == 60
    assert feature_set("sigir06") == [f"{name}[porter+stop]" for name in SUMS]
    assert feature_set("sigir06", ["title"])[7:] == [f"{name}[porter+stop,title]" for name in SUMS]
    assert set(FEATURE_SETS) == {"base", "sigir06"}
    with pytest.raises(InputError, match="unknown feature set 'all'; expected one of base, sigir06"):
        feature_set("all")
    with pytest.raises(InputError, match=r"a single string, 'title'; expected a list"):
        feature_set("base", "title")


def test_any_name_of_a_field(tmp_path):
    documents = [("d1", {"a]b[": "wing lift", "c d": "heat"}), ("d2", {"a]b[": "wing"})]
    index = build_index(documents, tmp_path / "odd.index")
    names = feature_set("base", index.fields)
    table = Columns(index, names).values("wing heat", [0, 1])
    assert table[0, names.index("bm25[plain,c d]")] > 0
    assert table[1, names.index("bm25[plain,a]b[]")] > 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["bm25"], "feature 'bm25' cannot be computed from an index; expected a name like bm25[porter]"),
        (["f1"], "feature 'f1' cannot be computed"),
        ([3], "feature 3 cannot be computed"),
        (["bm25[]"], "feature 'bm25[]' cannot be computed"),
        (["[plain]"], "feature '[plain]' cannot be computed"),
        (["bm52[plain]"], "feature 'bm52[plain]': unknown function 'bm52'; expected one of bm25, tfidf, cosine"),
        (["log-tf(k=1)[plain]"], "feature 'log-tf(k=1)[plain]': log-tf takes no parameters"),
        (["bm25(k=1)[plain]"], "feature 'bm25(k=1)[plain]': bm25 has no parameter 'k'; its parameters: k1, b, k3, idf"),
        (["bm25(b=2)[plain]"], "feature 'bm25(b=2)[plain]': b of bm25 is 2; expected a number from 0 to 1"),
        (
            ["bm25[german]"],
            "feature 'bm25[german]': unknown analyser 'german'; expected plain, porter, porter+stop",
        ),
        (["bm25[plain,body]"], "feature 'bm25[plain,body]': unknown field 'body'; expected "),
        (["jm[plain]", "jm[plain]"], "duplicate feature 'jm[plain]'"),
        ("bm25[plain]", "the features are a single string, 'bm25[plain]'; expected a list of names"),
    ],
)
def test_bad_names(index, names, message):
    with pytest.raises(InputError) as error:
        Columns(index, names)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
