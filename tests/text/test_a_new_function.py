"""A retrieval function that is registered is found everywhere: search, features, names, help, messages, engines."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import rankwright
from rankwright import Columns, InputError, build_index
from rankwright.cli.main import main
from rankwright.exporting import counterparts
from rankwright.exporting.counterparts import Similarities, Similarity
from rankwright.exporting.targets import ENGINES, engine_features
from rankwright.text import functions
from rankwright.text.functions import SATURATED, Function, parse_function, plain_words, register
from rankwright.text.search import Scorer

DOCUMENTS = [("d1", "wing wing lift"), ("d2", "wing heat"), ("d3", "heat")]


@dataclass(frozen=True)
class Toy(Function):
    """Σ_t q · 2 c / (c + s)."""

    s: float = 1.0

    name: ClassVar[str] = "toy"
    label: ClassVar[str] = "toy score"
    form: ClassVar[int] = SATURATED

    def term_weights(self, view, terms):
        return np.full(len(terms), 2.0)

    def doc_factors(self, view):
        return np.full(view.n_docs, self.s)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(functions, "FUNCTIONS", dict(functions.FUNCTIONS))
    register(Toy)


@pytest.fixture
def index(tmp_path):
    return build_index(DOCUMENTS, tmp_path / "docs.index")


def test_it_is_searched_with_and_is_a_feature(index):
    scorer = Scorer(index.view("plain"), "toy(s=3)")
    found = scorer.search("wing lift", 5)
    assert found.ids == ["d1", "d2"]
    np.testing.assert_allclose(found.scores, [2 * 2 / 5 + 2 / 4, 2 / 4], rtol=1e-6)
    columns = Columns(index, ["toy[plain]", "bm25[plain]", "toy(s=3)[plain,text]"])
    assert list(columns.functions) == list(columns.names)
    assert columns.values("wing lift", [0, 1])[:, 2].tolist() == found.scores.tolist()
    assert columns.candidates("lift", 5).tolist() == [0]


def test_its_name_is_known(index):
    assert parse_function("TOY(s=2)") == Toy(2.0)
    assert plain_words("toy(s=2)[porter,title]") == "toy score, s=2 in title (stemmed)"
    with pytest.raises(InputError, match=r"expected one of bm25, tfidf, cosine, dirichlet, jm, toy$"):
        parse_function("none")
    with pytest.raises(InputError, match=r"expected one of bm25, .*, toy, log-tf"):
        Columns(index, ["none[plain]"])


def test_the_commands_know_it(index, capsys):
    for command in ("search", "serve"):
        assert main([command, "--help"]) == 0
        assert "dirichlet, jm or toy" in " ".join(capsys.readouterr().out.split())
    assert main(["search", str(index.path), "lift", "--function", "toy", "--json"]) == 0
    assert '"function": "toy"' in capsys.readouterr().out


class OfToy(Similarities):
    """The same formula in Lucene."""

    def lucene(self, origin):
        return Similarity({"type": "scripted", "script": {"source": f"return {origin.function.s!r};"}}, "exact", "same")


def test_engines_have_what_is_said_beside_each_other(monkeypatch):
    name = "toy(s=3)[porter,title]"
    assert {engine_features(engine, [name]).counterparts[0].status for engine in ENGINES} == {"none"}
    monkeypatch.setattr(counterparts, "SIMILARITIES", {**counterparts.SIMILARITIES, Toy: OfToy()})
    made = {engine: engine_features(engine, [name]) for engine in ENGINES}
    assert {engine: one.counterparts[0].status for engine, one in made.items()} == {
        "opensearch": "exact",
        "elasticsearch": "exact",
        "solr": "none",
        "vespa": "none",
    }
    assert "return 3.0;" in made["opensearch"].files["index.json"]


def test_a_name_is_taken_once():
    with pytest.raises(InputError, match="the name 'toy' is already taken"):
        register(Toy)


def test_a_function_is_in_three_files():
    sources = Path(rankwright.__file__).parent
    named = {path.name for path in sources.rglob("*.py") if "JelinekMercer" in path.read_text()}
    assert named == {"functions.py", "counterparts.py", "__init__.py"}
