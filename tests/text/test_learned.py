"""Search by a learned model: the model's scores of the candidates, best first."""

import numpy as np
import pytest

from rankwright.cli.main import main
from rankwright.errors import InputError
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model
from rankwright.models.sum import SumModel
from rankwright.text.features import Columns
from rankwright.text.index import build_index
from rankwright.text.learned import LearnedSearch

DOCUMENTS = [
    ("a", {"title": "Wings", "text": "lift of a wing in a stream"}),
    ("b", {"title": "Heat", "text": "heat transfer of wings and streams"}),
    ("c", {"title": "Lift", "text": "an elevator is a lift"}),
    ("d", {"title": "Other", "text": "nothing of the kind"}),
]
NAMES = ("bm25[porter+stop]", "dirichlet[plain,title]", "log-tf[porter+stop]")


@pytest.fixture
def index(tmp_path):
    return build_index(DOCUMENTS, tmp_path / "docs.index")


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.3, 1.0, -0.5), (0.0, 0.0, 0.0)])
def test_documents_are_ranked_by_the_model(index, weights):
    engine = LearnedSearch(index, LinearModel(np.array(weights), NAMES))
    docs, scores = engine.search("lift of wings", 10)
    columns = Columns(index, NAMES)
    candidates = columns.candidates("lift of wings", 1000)
    expected = columns.values("lift of wings", candidates).astype(np.float32).astype(np.float64) @ np.array(weights)
    order = np.lexsort((candidates, -expected))
    assert docs.tolist() == candidates[order].tolist()
    assert scores == pytest.approx(expected[order])
    assert engine.search("lift of wings", 1)[0].tolist() == docs[:1].tolist()
    hits = engine.search_all(["lift of wings", "unknown", "heat"], 2)
    assert hits[0][0].tolist() == docs[:2].tolist()
    assert len(hits[1][0]) == 0
    assert len(hits) == 3


def test_wrong_queries_and_depths_get_one_line(index):
    engine = LearnedSearch(index, LinearModel(np.ones(3), NAMES))
    with pytest.raises(InputError, match=r"the queries are a single string; expected a sequence"):
        engine.search_all("lift of wings")
    for k in (0, -1, 2.5):
        with pytest.raises(InputError, match=rf"k is {k}; expected a positive integer"):
            engine.search_all(["lift"], k)
        with pytest.raises(InputError, match=rf"k is {k}; expected a positive integer"):
            engine.search("lift", k)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (None, "has no feature names"),
        (("a", "b", "c"), "cannot be computed from an index"),
        (("log-tf[plain]", "log-cf[plain]", "log-idf[plain]"), "retrieval function"),
    ],
)
def test_models_that_an_index_cannot_serve(index, names, message):
    with pytest.raises(InputError, match=message):
        LearnedSearch(index, LinearModel(np.ones(3), names))


def test_features_that_the_index_lacks_are_zero_only_if_asked_for(index, tmp_path, capsys):
    names, weights = (*NAMES, "pagerank", "bm25[plain,anchor]"), np.array([0.3, 1.0, -0.5, 9.0, 9.0])
    with pytest.raises(InputError, match="the index lacks 2 of the model's 5 features: feature 'pagerank' cannot"):
        LearnedSearch(index, LinearModel(weights, names))
    engine = LearnedSearch(index, LinearModel(weights, names), missing_as_zero=True)
    docs, scores = engine.search("lift of wings")
    expected = LearnedSearch(index, LinearModel(weights[:3], NAMES)).search("lift of wings")
    assert (docs.tolist(), scores.tolist()) == (expected[0].tolist(), expected[1].tolist())
    save_model(LinearModel(weights, names), tmp_path / "m.rkw", method="test", parameters={})
    command = ["search", str(index.path), "lift", "--model", str(tmp_path / "m.rkw")]
    assert main(command) == 2
    assert "; to take them as 0, use --missing-as-zero" in capsys.readouterr().err
    assert main([*command, "--missing-as-zero"]) == 0
    assert main(["search", str(index.path), "lift", "--missing-as-zero"]) == 2


def test_a_sum_of_models_finds_the_features_of_all_parts(index):
    parts = LinearModel([1.0, 2.0], NAMES[:2]), LinearModel([0.5], NAMES[2:])
    docs, scores = LearnedSearch(index, SumModel(parts, [1.0, 1.0])).search("lift of wings")
    one = LearnedSearch(index, LinearModel([1.0, 2.0, 0.5], NAMES)).search("lift of wings")
    assert docs.tolist() == one[0].tolist()
    assert scores == pytest.approx(one[1])


def test_on_the_command_line(index, tmp_path, capsys):
    model = tmp_path / "model.rkw"
    save_model(LinearModel(np.array([1.0, 0.0, 0.0]), NAMES), model, method="test", parameters={}, training={})
    folder = str(tmp_path / "docs.index")
    assert main(["search", folder, "lift", "--model", str(model), "-k", "1"]) == 0
    assert "c" in capsys.readouterr().out.split()
    (tmp_path / "q.tsv").write_text("1\tlift\n2\theat\n")
    run = tmp_path / "mine.run"
    assert main(["search", folder, "--model", str(model), str(tmp_path / "q.tsv"), "-o", str(run)]) == 0
    assert run.read_text().split()[:3] == ["1", "Q0", "c"]
    assert run.read_text().split()[5] == "model"
    capsys.readouterr()
    assert main(["search", folder, "lift", "--model", str(model), "--function", "bm25"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    save_model(LinearModel(np.ones(1), ("x",)), model, method="test", parameters={}, training={})
    assert main(["search", folder, "lift", "--model", str(model)]) == 2
    assert "model.rkw" in capsys.readouterr().err


def test_info_shows_an_index_and_checks_it(index, tmp_path, capsys):
    folder = tmp_path / "docs.index"
    assert main(["info", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "title, text" in out
    assert main(["info", str(folder), "--json"]) == 0
    assert '"documents": 4' in capsys.readouterr().out
    largest = max(folder.glob("*.npy"), key=lambda path: path.stat().st_size)
    damaged = bytearray(largest.read_bytes())
    damaged[-1] ^= 1
    largest.write_bytes(damaged)
    assert main(["info", str(folder)]) == 2
    assert "damaged" in capsys.readouterr().err
