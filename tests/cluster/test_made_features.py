"""Features made by the workers of an engine are those made here."""

import numpy as np
import pytest

from rankwright import InputError, TrecTable, build_index, make_features
from rankwright.cluster.worker import Processes

WORDS = ["lift", "wing", "walk", "tree", "read", "file", "line", "drag"]
QUERIES = {f"q{number}": " ".join(WORDS[number % 5 : number % 5 + 2]) for number in range(11)} | {"none": "nowhere"}
QRELS = TrecTable.from_dict({query: {"d1": 1, "d7": 2, "gone": 1} for query in list(QUERIES)[:9]})


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    rng = np.random.default_rng(0)
    documents = [(f"d{number}", {"text": " ".join(rng.choice(WORDS, 12))}) for number in range(60)]
    return build_index(documents, tmp_path_factory.mktemp("features") / "docs.index")


@pytest.fixture(scope="module")
def workers():
    found = Processes(2)
    yield found
    found.close()


@pytest.mark.parametrize(
    "options",
    [{"depth": 20}, {"qrels": QRELS, "depth": 5}, {"qrels": QRELS, "candidates": "judged"}],
    ids=["union", "judgements", "judged"],
)
def test_features_are_the_same(index, workers, options, monkeypatch):
    for name in ("_BLOCK", "_BLOCKS"):
        monkeypatch.setattr(f"rankwright.text.features.{name}", 2)
    expected = make_features(index, QUERIES, **options)
    for engine in ("local", workers):
        steps = []
        found = make_features(
            index, QUERIES, engine=engine, progress=lambda *step, steps=steps: steps.append(step), **options
        )
        assert found.data.X.tobytes() == expected.data.X.tobytes()
        assert found.data.query_ids.tolist() == expected.data.query_ids.tolist()
        assert found.data.doc_ids.tolist() == expected.data.doc_ids.tolist()
        assert found.data.labels.tolist() == expected.data.labels.tolist()
        others = ("without_candidates", "without_judgements", "unknown_documents", "missed_documents")
        assert [getattr(found, name) for name in others] == [getattr(expected, name) for name in others]
        assert len(steps) > 1
        assert steps[-1][0] == steps[-1][1]


def test_numbers_that_are_not_in_the_index_are_refused(index):
    names = ["bm25[porter]", "price"]
    with pytest.raises(InputError, match="stay here; expected none with an engine"):
        make_features(index, QUERIES, features=names, numbers={"price": {"d1": 3.0, "d2": 4.0}}, engine="local")
