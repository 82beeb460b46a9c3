"""How results, rankers, models and data show themselves: text, HTML, LaTeX, frames and plots, and what that loads."""

import json
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

import rankwright
from rankwright import (
    AutoRanker,
    LambdaMART,
    LambdaRank,
    LinearModel,
    McRank,
    RankingData,
    RankingSVM,
    StructuredSVM,
    SumModel,
    TrecTable,
    compare,
    evaluate,
    load_model,
)
from rankwright.cli.main import main
from rankwright.errors import InputError
from rankwright.text.search import Hits

EVIL = "<script>alert('x')</script>"
NAMES = ("bm25", EVIL, "a&b", "price", "age", "clicks", "length", "pagerank")


def made(n_queries=12, n_docs=8):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * n_docs, len(NAMES)))
    labels = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X)) > 0.5).astype(int)
    ids = [f"d{at}" for at in range(len(X))]
    return RankingData.from_arrays(X, labels, np.repeat(np.arange(n_queries), n_docs), doc_ids=ids, feature_names=NAMES)


DATA = made()
HITS = Hits(np.array([0, 11, 12]), np.arange(12), np.linspace(3, 1, 12), [EVIL, *(f"d{at}" for at in range(1, 12))])
THINGS = (
    *("data", "svm", "trees", "linear model", "tree model"),
    *("evaluation", "comparison", "run", "found", "hits"),
)


@cache
def things():
    """What is shown, by name; trained when it is first asked for, so that collecting the tests compiles nothing."""
    svm, trees = StructuredSVM("map", C=1.0).fit(DATA), LambdaMART(n_trees=3, min_rows=3).fit(DATA)
    old, new = evaluate(DATA, DATA.X[:, 0], name="old"), evaluate(DATA, svm.predict(DATA), name=EVIL)
    run = TrecTable.from_dict({"1": {EVIL: 0.5, "d2": 0.25}, "2": {"d1": 2}}, "a.run")
    made = (DATA, svm, trees, svm.model_, trees.model_, new, compare([old, new], n_resamples=99), run, HITS[0], HITS)
    return dict(zip(THINGS, made, strict=True))


class Page(HTMLParser):
    """Tags that are open, those that were there, and the text of cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells = [], set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.mark.parametrize("name", THINGS)
def test_html_is_whole_and_holds_what_the_text_holds(name):
    thing = things()[name]
    page = Page(thing._repr_html_())
    assert page.tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    text = thing.to_text()
    for shown in filter(None, page.cells[:12]):
        assert shown.strip() in text


@pytest.mark.parametrize(
    "name", ["data", "linear model", "tree model", "evaluation", "comparison", "run", "found", "hits"]
)
def test_names_from_files_are_escaped(name):
    html = things()[name]._repr_html_()
    assert "<script" not in html
    assert EVIL in "".join(Page(html).cells)


@pytest.mark.parametrize("name", THINGS)
def test_latex_and_plots_are_there(name, tmp_path):
    thing = things()[name]
    assert thing.to_latex().rstrip().endswith(r"\end{tabular}")
    picture = thing.plot(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<?xml")
    png, size = picture._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert size["width"] > 400
    assert picture.figure.axes
    with pytest.raises(InputError, match=r"plots end in \.png or \.svg"):
        thing.plot(tmp_path / "plot.pdf")


def test_evaluations_are_the_table_of_the_command(tmp_path, capsys):
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n")
    (tmp_path / "x.run").write_text("1 Q0 b 1 2 x\n1 Q0 a 2 1 x\n2 Q0 a 1 1 x\n")
    assert main(["evaluate", str(tmp_path / "qrels"), str(tmp_path / "x.run")]) == 0
    table = capsys.readouterr().out.split("\n\n")[0]
    found = rankwright.evaluate_run(rankwright.read_qrels(tmp_path / "qrels"), rankwright.read_run(tmp_path / "x.run"))
    assert found.to_text().splitlines()[0].split() == table.splitlines()[0].split()
    assert found.to_text().splitlines()[2].split()[1:] == table.splitlines()[2].split()[1:]
    assert repr(found) == str(found) == found.to_text()
    assert "mean over 2 queries" in str(found)
    left_out = evaluate([1, 0, 0, 0], [2, 1, 2, 1], [1, 1, 2, 2], measures=["AP"], empty="skip")
    assert "mean over 1 query\n" in str(left_out)


def test_frames_have_all_digits():
    evaluated, compared, svm = (things()[name] for name in ("evaluation", "comparison", "svm"))
    frame = evaluated.to_frame()
    assert frame.index.name == "query"
    assert np.array_equal(frame.to_numpy(), evaluated.values)
    assert list(frame) == list(map(str, evaluated.measures))
    frame.iloc[0, 0] = 7.0  # a copy
    assert evaluated.values[0, 0] != 7.0
    rows = compared.to_frame()
    assert rows["difference"].tolist() == [row.difference for row in compared.differences]
    assert rows["low"].tolist() == [row.interval[0] for row in compared.differences]
    names = list(rows)
    wanted = ["measure", "system", "mean", "difference", "low", "high", "p_t", "p_corrected_wilcoxon", "wins"]
    assert sorted(wanted, key=names.index) == wanted
    weights = svm.model_.to_frame().set_index("feature")["weight"]
    assert weights.to_dict() == dict(zip(NAMES, svm.coef_.tolist(), strict=True))
    assert np.all(np.diff(weights.abs()) <= 0)
    assert DATA.to_frame().shape == (96, 3 + len(NAMES))
    facts = svm.to_frame().set_index("name")["value"]
    assert (facts["queries trained on"], facts["C"]) == (svm.n_queries_, 1.0)


def test_long_evaluations_fold_and_end():
    n = 450
    found = evaluate(np.tile([1, 0], n), np.tile([2, 1], n), np.repeat(np.arange(n), 2), measures=["AP"])
    page = Page(found._repr_html_())
    assert "details" in page.tags
    assert len(page.cells) == 2 + 2 + 3 + 3 * 200
    assert "and 250 more queries" in found._repr_html_()
    assert "scores" in str(found)


def test_rankers_print_as_calls_and_show_what_was_learnt():
    ranker = RankingSVM(C=3.0)
    assert str(ranker) == repr(ranker) == "RankingSVM(C=3.0)"
    assert "not fitted" in ranker.to_text()
    with pytest.raises(InputError, match="RankingSVM is not fitted; there is nothing to plot"):
        ranker.plot()
    bundle = things()["svm"]._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == repr(things()["svm"])
    assert "queries trained on" in bundle["text/html"]
    assert "gap to the optimum" in things()["svm"].to_text()


@pytest.mark.parametrize(
    ("ranker", "validated", "words"),
    [
        (StructuredSVM("map", C="auto"), True, "C, the best of 8"),
        (StructuredSVM("map", C="auto", cv=3), False, "AP, cross-validated"),
        (LambdaMART(n_trees=4, min_rows=3), True, "nDCG@10, validation"),
        (LambdaRank(hidden=2, epochs=3), True, "epochs"),
        (McRank(n_trees=2, min_rows=3), False, "trees"),
        (AutoRanker(members=["lambdamart-4", "svm-map"], cv=2), False, "members"),
    ],
)
def test_every_kind_of_training_is_shown_and_drawn(ranker, validated, words):
    ranker.fit(DATA, **({"eval_set": made(6)} if validated else {}))
    assert words in ranker.to_text()
    assert ranker.plot().figure.axes
    assert type(ranker.model_).__name__ in str(ranker.model_)


def test_models_in_one_line_and_as_tables(tmp_path):
    many = LinearModel(np.arange(40.0) - 3)
    assert repr(many) == "LinearModel(40 features)"
    lines = str(many).splitlines()
    assert lines[4].split() == ["f40", "36.0000"]
    assert lines[-2:] == ["and 24 smaller", "1 of weight 0"]
    both = SumModel((things()["svm"].model_, things()["trees"].model_), np.array([1.0, 0.5]))
    assert repr(both).endswith(" features, 1 × LinearModel, 0.5 × TreeModel)")
    things()["svm"].save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    assert repr(saved) == f"SavedModel(svm-map: {things()['svm'].model_!r})"
    assert "weight" in str(saved)
    assert saved.to_frame().equals(things()["svm"].model_.to_frame())


def test_a_training_by_name():
    found = rankwright.train("rank-svm", DATA, settings={"C": 1.0})
    assert repr(found) == f"Trained(rank-svm: {found.model!r})"
    assert re.search(rf"nDCG@10, training +{found.values['training']:.4f}\n", str(found))
    assert Page(found._repr_html_()).cells[0] == ""
    assert found.plot().figure.axes


def test_scikit_learn_draws_pipelines_with_rankers():
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    for whole in (make_pipeline(StandardScaler(), RankingSVM(C=2.0)), GridSearchCV(RankingSVM(), {"C": [1.0]})):
        assert "RankingSVM" in whole._repr_html_()


def test_data_of_every_kind():
    from scipy import sparse

    assert repr(DATA) == "RankingData(12 queries, 96 documents, 8 dense float64 features)"
    assert "and 90 more documents" in str(DATA)
    assert "labels: 0 × " in str(DATA)
    assert "2 features are not shown" in str(DATA)
    thin = RankingData.from_arrays(sparse.csr_array(np.eye(3)), [1, 0, 2], [7, 7, 8])
    assert str(thin).splitlines()[4].split() == ["7", "1", "1.0000", "0.0000", "0.0000"]
    missing = RankingData.from_arrays([[np.nan], [1.0]], [1, 0], [1, 1], feature_names=["label"], allow_missing=True)
    assert str(missing).splitlines()[2].split() == ["query", "label", "label", "(feature)"]
    assert str(missing).splitlines()[4].split() == ["1", "1", "–"]
    empty = DATA.select([])
    assert "0 documents" in str(empty)
    assert Page(empty._repr_html_()).cells[:3] == ["query", "document", "label"]
    assert empty.plot().figure.axes


def test_judgements_and_runs():
    run = things()["run"]
    assert repr(run) == "TrecTable('a.run': 2 queries, 3 documents)"
    assert str(run).splitlines()[4].split()[-1] == "0.5000"
    assert "values: 0.25 × 1, 0.5 × 1, 2 × 1" in str(run)
    many = TrecTable.from_columns(np.repeat([1, 2], 50), np.arange(100), np.arange(100.0))
    assert repr(many) == "TrecTable(2 queries, 100 documents)"
    assert str(many).splitlines()[4:6] == ["1      0             0", "1      1             1"]  # whole numbers
    assert "and 94 more documents" in str(many)
    assert "values: from 0.0000 to 99.0000" in str(many)
    frame = many.to_frame()
    assert frame["value"].tolist() == many.values.tolist()
    assert frame.iloc[60].tolist() == ["2", "60", 60.0]
    assert many.plot().figure.axes
    empty = many.select([])
    assert "0 documents" in str(empty)
    assert empty.plot().figure.axes


def test_what_a_search_found():
    found = things()["found"]
    assert (repr(HITS), repr(found)) == ("Hits(2 queries, 12 documents)", "QueryHits(11 documents)")
    assert "and 1 more documents" in str(found)
    assert "and 2 more documents" in str(HITS)
    docs, scores = found  # still a pair
    assert found.to_frame()["document"].tolist() == found.ids
    assert found.to_frame()["score"].tolist() == scores.tolist()
    frame = HITS.to_frame()
    assert frame["document"].tolist() == HITS.ids
    assert frame["rank"].tolist() == [*range(1, 12), 1]
    assert frame["query"].tolist() == [0] * 11 + [1]
    numbers = Hits(HITS.indptr, HITS.docs, HITS.scores)[1]  # without ids
    assert str(numbers).splitlines()[4].split() == ["1", "11", "1.0000"]
    nothing = Hits(np.array([0, 0]), docs[:0], scores[:0])
    assert "0 documents" in str(nothing)
    assert "QueryHits(0 documents)" in str(nothing[0])


def test_categories_are_shown_by_value():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"qid": [1, 1], "label": [1, 0], "lang": ["de", "<en>"]})
    data = rankwright.from_frame(frame)
    assert [line.split()[-1] for line in str(data).splitlines()[4:6]] == ["de", "<en>"]
    assert "&lt;en&gt;" in data._repr_html_()


def test_text_cannot_control_a_terminal():
    found = evaluate([1, 0], [2, 1], [1, 1], measures=["AP"], name="a\x1b[31mb")
    assert "\x1b" not in repr(found)
    assert "\\u001b" in repr(found)


def test_showing_loads_neither_pandas_nor_matplotlib_nor_numba():
    code = (
        "import json, sys, rankwright as rw\n"
        "one = rw.evaluate([1, 0, 1, 0], [1, 2, 2, 1], [1, 1, 2, 2], measures=['AP'])\n"
        "data = rw.RankingData.from_arrays([[1.0], [2.0]], [1, 0], [1, 1])\n"
        "run = rw.TrecTable.from_dict({'1': {'d': 1}})\n"
        "for thing in (one, data, run, rw.LinearModel([1.0])):\n"
        "    repr(thing), str(thing), thing._repr_html_(), thing.to_latex()\n"
        "print(json.dumps(sorted({'pandas', 'matplotlib', 'numba', 'sklearn', 'IPython'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
