"""PyTerrier: search, features and reranking as transformers, and rankers as learners; no Java is started."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import rankwright
from rankwright.errors import InputError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that PyTerrier imports
    import pyterrier as pt

    from rankwright.pyterrier import Features, Rerank, Search

WORDS = ["lift", "wing", "stream", "heat", "flow", "drag", "jet", "shock", "layer", "plate"]
NAMES = ("bm25[porter+stop]", "dirichlet[plain]", "log-tf[porter+stop]")


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    rng = np.random.default_rng(0)
    documents = [(f"d{at}", {"text": " ".join(rng.choice(WORDS, 12))}) for at in range(60)]
    return rankwright.build_index(documents, tmp_path_factory.mktemp("pyterrier") / "docs.index")


@pytest.fixture(scope="module")
def topics():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"qid": [str(at) for at in range(12)], "query": [" ".join(rng.choice(WORDS, 2)) for _ in range(12)]}
    )


@pytest.fixture(scope="module")
def qrels(index, topics):
    rng = np.random.default_rng(2)
    rows = [(qid, f"d{at}", int(rng.integers(0, 3))) for qid in topics["qid"] for at in range(60)]
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


@pytest.fixture(autouse=True)
def no_java():
    yield
    assert not pt.java.started()


def test_search_is_the_search_of_the_package(index, topics):
    found = Search(index, "dirichlet", num_results=5)(topics)
    assert list(found.columns) == ["qid", "query", "docno", "score", "rank"]
    for query in topics.itertuples():
        own = found[found["qid"] == query.qid].sort_values("rank")
        assert list(zip(own["docno"], own["score"], strict=True)) == rankwright.search(
            index, query.query, "dirichlet", k=5
        )
    assert len(Search(index)(topics.iloc[:0])) == 0


def test_features_are_those_of_the_package(index, topics):
    found = (Search(index, num_results=7) >> Features(index, NAMES))(topics)
    run = rankwright.TrecTable.from_columns(found["qid"], found["docno"], found["score"])
    queries = dict(zip(topics["qid"], topics["query"], strict=True))
    data = rankwright.make_features(index, queries, features=NAMES, candidates=run).data
    expected = {(q, d): row for q, d, row in zip(data.qid.astype(str), data.doc_ids.astype(str), data.X, strict=True)}
    for row in found.itertuples():
        assert np.array_equal(row.features, expected[row.qid, row.docno])
    assert (Search(index) >> Features(index))(topics).iloc[0]["features"].shape == (15,)


def test_reranking(index, topics, tmp_path):
    model = rankwright.LinearModel([0.5, -1.0, 2.0], NAMES)
    rankwright.save_model(model, tmp_path / "model.rkw", method="hand", parameters={})
    first = Search(index, num_results=20)
    with_features = (first >> Features(index, NAMES) >> Rerank(model))(topics)
    by_index = (first >> Rerank(tmp_path / "model.rkw", index))(topics)
    pd.testing.assert_frame_equal(with_features.drop(columns="features"), by_index)
    for row in with_features.itertuples():
        assert row.score == pytest.approx(np.dot(row.features.astype(float), [0.5, -1.0, 2.0]))
    ranked = by_index.sort_values(["qid", "rank"]).groupby("qid")["score"]
    assert all(scores.is_monotonic_decreasing for _, scores in ranked)
    learned = Search(index, model=model, num_results=3)(topics)
    assert set(learned.groupby("qid").size()) == {3}


def test_features_are_scaled_within_queries(index, topics):
    model = rankwright.LinearModel([1.0, 0.0, 0.0], NAMES, "minmax")
    found = (Search(index, num_results=20) >> Rerank(model, index))(topics)
    assert found.groupby("qid")["score"].max().tolist() == [1.0] * len(topics)


@pytest.mark.parametrize(
    "ranker",
    [
        rankwright.LambdaMART(n_trees=5, min_rows=2),
        rankwright.RankingSVM(C="auto", C_grid=(0.1, 1.0)),
        rankwright.StructuredSVM("map", C=0.1),
        rankwright.LambdaRank(epochs=2),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
@pytest.mark.filterwarnings("ignore:the model learnt next to nothing")
def test_rankers_are_learners(ranker, index, topics, qrels):
    """Validation data and sizes of queries come as LightGBM gets them."""
    features = Search(index, num_results=30) >> Features(index, NAMES)
    pipeline = features >> pt.ltr.apply_learned_model(ranker, form="ltr")
    pipeline.fit(topics[:6], qrels, topics[6:9], qrels)
    found = pipeline(topics[9:])
    expected = ranker.predict(np.stack(features(topics[9:])["features"].tolist()))
    assert sorted(found["score"]) == pytest.approx(sorted(expected))
    again = (features >> Rerank(ranker))(topics[9:])
    pd.testing.assert_series_equal(found["score"], again["score"])


def test_results_are_evaluated(index, topics, qrels):
    found = Search(index)(topics)
    table = rankwright.evaluate_run(qrels, found, ["AP", "nDCG@10"])
    theirs = pt.Experiment([Search(index)], topics, qrels, ["map", "ndcg_cut_10"], names=["bm25"])
    assert table.means["AP"] == pytest.approx(theirs["map"][0])
    assert table.means["nDCG@10"] == pytest.approx(theirs["ndcg_cut_10"][0])


def test_mistakes_are_one_line(index, topics):
    results = Search(index, num_results=2)(topics)
    with pytest.raises(InputError, match="document 'nowhere' is not in the index"):
        Features(index, NAMES)(results.assign(docno="nowhere"))
    with pytest.raises(InputError, match="has a document twice"):
        Features(index, NAMES)(results.assign(docno="d1"))
    with pytest.raises(InputError, match="the model has no feature names"):
        Rerank(rankwright.LinearModel([1.0]), index)
    with pytest.raises(Exception, match="features"):
        Rerank(rankwright.LinearModel([1.0]))(results)


def test_the_package_does_not_load_pyterrier():
    code = "import sys, rankwright; assert 'pyterrier' not in sys.modules and 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_pyterrier_one_line_says_what_to_install():
    code = "import sys; sys.modules['pyterrier'] = None\nimport rankwright.pyterrier"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    expected = "rankwright.pyterrier needs PyTerrier; install it with: pip install 'rankwright[pyterrier]'"
    assert done.stderr.splitlines()[-1] == f"ImportError: {expected}"
