"""The exported SQL: run by SQLite it gives our scores, NULL is missing, and what would not fit is refused."""

import json
import sqlite3

import numpy as np
import pytest

from exporting.small_models import EXPECTED_GRADES, MODELS, N_FEATURES, ODD_NAMES, SCALED, forest, with_categories
from rankwright import InputError, LinearModel
from rankwright.boosting.tree_model import TreeModel
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.export import export_model
from rankwright.exporting.target import Options
from rankwright.exporting.to_sql import SQL
from rankwright.exporting.verify import probe_rows, verify

REFUSED = ("net", "with net", "same names", *SCALED, *EXPECTED_GRADES)


def ask(folder, names, X):
    """Return the rows that query.sql gives for a table of documents."""
    columns = ", ".join('"' + name.replace('"', '""') + '" REAL' for name in names)
    base = sqlite3.connect(":memory:")
    base.execute(f'CREATE TABLE "documents" (id INTEGER, {columns})')
    values = [[at, *(None if np.isnan(value) else value for value in row)] for at, row in enumerate(X.tolist())]
    base.executemany(f'INSERT INTO "documents" VALUES ({", ".join("?" * (len(names) + 1))})', values)
    found = base.execute((folder / "query.sql").read_text()).fetchall()
    base.close()
    return [(row[0], row[-1]) for row in found]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_sqlite_gives_our_scores_and_order(tmp_path, name):
    model = MODELS[name]
    done = export_model(model, "sql", tmp_path / "out")
    assert done.made.off == 0
    X = probe_rows(ensemble_of(model), np.float64)
    found = ask(tmp_path / "out", model.names, X)
    scores = np.array([score for _, score in sorted(found)])
    np.testing.assert_allclose(scores, model.score(X), rtol=1e-13, atol=1e-13)
    assert [score for _, score in found] == sorted(scores.tolist(), reverse=True)


def test_golden_rows(tmp_path):
    export_model(MODELS["odd names"], "sql", tmp_path / "out")
    golden = json.loads((tmp_path / "out" / "golden.json").read_text())
    X = np.array([[row["features"].get(name) for name in ODD_NAMES] for row in golden["rows"]], float)
    assert np.isnan(X).any()
    scores = [score for _, score in sorted(ask(tmp_path / "out", ODD_NAMES, X))]
    np.testing.assert_allclose(scores, [row["score"] for row in golden["rows"]], rtol=0, atol=golden["tolerance"])


@pytest.mark.parametrize(
    ("old", "new"),
    [(b" <= ", b" < "), (b" IS NULL", b" IS NOT NULL"), (b"1e-07", b"1.01e-07"), (b" OR ", b" AND ")],
)
def test_a_wrong_expression_is_found(old, new):
    model = MODELS["trees"]
    ensemble, options = ensemble_of(model), Options()
    written = SQL.write(ensemble, options)
    assert verify(SQL, written, model, ensemble, options).off == 0
    altered = type(written)({name: text.replace(old, new) for name, text in written.files.items()})
    assert verify(SQL, altered, model, ensemble, options).off > 0


def test_missing_values_of_weights_are_null(tmp_path):
    export_model(LinearModel([2.0, 1.0], ("a", "b")), "sql", tmp_path / "out")
    found = ask(tmp_path / "out", ("a", "b"), np.array([[1.0, 1.0], [np.nan, 1.0]]))
    assert sorted(found) == [(0, 3.0), (1, None)]


def test_a_deep_tree_and_many_trees_are_parsed(tmp_path):
    deep = TreeModel(N_FEATURES, None, forest(1, n_trees=1, leaves=200))
    assert export_model(deep, "sql", tmp_path / "deep").made.off == 0
    many = TreeModel(N_FEATURES, None, forest(1, n_trees=1200, leaves=3))
    assert export_model(many, "sql", tmp_path / "many").made.off == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MODELS["net"], "sql cannot hold this model: it is a net"),
        (MODELS["minmax"], "it scales features within each query"),
        (MODELS["softmax"], "its score is an expected grade"),
        (with_categories(), "it splits on categories"),
        (TreeModel(N_FEATURES, None, forest(1, n_trees=1000)), "it has 9,000 leaves, more than the 5,000"),
        (LinearModel(np.ones(1001)), "it uses 1,001 features, more than the 1,000 columns"),
        (LinearModel([1.0, 2.0], ("Price", "price")), "'Price' and 'price' would be one column"),
        (LinearModel([1.0, 2.0], ("a", "a")), "several features of the name 'a'"),
        (LinearModel([1.0], ("a\0b",)), "a feature has no name, or one with the character NUL"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path, model, message):
    with pytest.raises(InputError, match=message):
        export_model(model, "sql", tmp_path / "out")
    assert not (tmp_path / "out").exists()
