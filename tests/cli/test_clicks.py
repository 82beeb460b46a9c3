"""`rankwright clicks`: from a log to judgements that other commands take."""

import csv
import json

import numpy as np
import pytest

from made_up_clicks import write_log
from rankwright import (
    ClickLog,
    InputError,
    LambdaMART,
    RankingData,
    RankingSVM,
    click_pages,
    evaluate,
    load_model,
    read_data,
    read_propensities,
    read_qrels,
    write_data,
)
from rankwright.cli.main import main
from rankwright.rankers.cross_validation import validation_value

LABELS = {f"q{query}": {f"d{query}.{at}": 1 + at % 2 for at in range(3)} for query in range(20)}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "log.csv"
    write_log(path, LABELS)
    return path


@pytest.mark.parametrize("model", ["pbm", "coec", "cascade", "sdbn", "dbn"])
def test_judgements_are_written(log, tmp_path, capsys, model):
    target, estimates, looks = tmp_path / "qrels.txt", tmp_path / "e.csv", tmp_path / "p.csv"
    options = ["--model", model, "--write-estimates", str(estimates), "--write-propensities", str(looks)]
    assert main(["clicks", str(log), "-o", str(target), *options]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "ignored columns: device" in err
    assert "dropped 1 of" in err
    assert f"wrote {target}, {estimates}, {looks}: grades 0: " in err
    qrels = read_qrels(target)
    assert set(qrels.values.tolist()) == {0.0, 1.0, 2.0, 3.0}
    with estimates.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == qrels.n_docs
    assert all(float(row["lower"]) <= float(row["estimate"]) <= float(row["upper"]) for row in rows)
    assert len(looks.read_text().splitlines()) == 9
    assert main(["info", str(target)]) == 0


def test_known_propensities_thresholds_and_caution(log, tmp_path):
    target, known = tmp_path / "qrels.txt", tmp_path / "known.csv"
    known.write_text("position,propensity\n" + "".join(f"{at},{1 / at}\n" for at in range(1, 9)))
    base = ["clicks", str(log), "-o", str(target), "--propensities", str(known), "--thresholds", "0.2,0.4"]
    assert main(base) == 0
    bold = read_qrels(target).values
    assert main([*base, "--cautious"]) == 0
    assert bold.max() == 2
    assert np.all(read_qrels(target).values <= bold)
    assert (read_qrels(target).values < bold).any()


def test_texts_of_queries_are_numbered(tmp_path, capsys):
    path, target, queries = tmp_path / "log.csv", tmp_path / "qrels.txt", tmp_path / "queries.tsv"
    rows = [("red shoes", "a", 1), ("red shoes", "b", 2), ("hat", "a", 1), ("red shoes", "b", 1), ("red shoes", "a", 2)]
    lines = [f"{query},{document},{position},{clicked}" for query, document, position in rows for clicked in [1, 0] * 9]
    path.write_text("\n".join(["query,doc,position,clicked", *lines]) + "\n")
    assert main(["clicks", str(path), "-o", str(target)]) == 2
    assert "'red shoes' is text, and qrels need ids of one word; expected --write-queries" in capsys.readouterr().err
    assert not target.exists()
    assert main(["clicks", str(path), "-o", str(target), "--write-queries", str(queries)]) == 0
    assert queries.read_text() == "1\tred shoes\n2\that\n"
    assert read_qrels(target).query_ids.tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "query"], "--columns is 'query'; expected ROLE=NAME"),
        (["--quantiles", "a"], "--quantiles is 'a'; expected numbers"),
        (["--quantiles", "0.5", "--thresholds", "0.5"], "both given"),
        (["--quantiles", "0.9,0.5"], "ascending"),
        (["--min-impressions", "1000000"], "log.csv: no document with at least 1000000 impressions"),
        (["--model", "coec", "--min-impressions", "1000000"], "log.csv: no document has 1,000,000 impressions"),
        (["--ubi-queries", "QUERIES"], "has no UBI events"),
        (["--propensities", "none.csv"], "none.csv: cannot be read"),
        (["--write-estimates", "TARGET"], "is given twice"),
    ],
)
def test_one_line_for_what_is_wrong(log, tmp_path, capsys, options, message):
    target = tmp_path / "qrels.txt"
    options = [{"TARGET": str(target), "QUERIES": str(log)}.get(option, option) for option in options]
    assert main(["clicks", str(log), "-o", str(target), *options]) == 2
    err = capsys.readouterr().err
    assert message in err.splitlines()[-1]
    assert not target.exists()


def test_the_log_is_not_overwritten(log, capsys):
    assert main(["clicks", str(log), "-o", str(log)]) == 2
    assert "is also an input" in capsys.readouterr().err


@pytest.fixture(scope="module")
def features(log):
    """Features of all pairs of the log: the first says how good a document is, the second nothing."""
    with log.open() as file:
        pairs = sorted({(row["query_id"], row["doc_id"]) for row in csv.DictReader(file)})
    rng = np.random.default_rng(0)
    grades = np.array([LABELS[query].get(document, 0) for query, document in pairs])
    X = np.stack([grades + 0.1 * rng.normal(size=len(pairs)), rng.normal(size=len(pairs))], axis=1)
    queries, documents = zip(*pairs, strict=True)
    data = RankingData.from_arrays(X, grades, queries, doc_ids=documents, feature_names=["good", "noise"])
    write_data(data, log.parent / "f.rank")
    nameless = RankingData.from_arrays(X, grades, queries, doc_ids=documents)
    write_data(nameless, log.parent / "f.txt")
    return data


@pytest.fixture(scope="module")
def pages(log, features):
    """The folder of the log with pages.rank, pages.txt and p.csv."""
    options = ["--write-propensities", str(log.parent / "p.csv")]
    for kind in ("rank", "txt"):
        options += ["--features", str(log.parent / f"f.{kind}"), "--write-pages", str(log.parent / f"pages.{kind}")]
        assert main(["clicks", str(log), "-o", str(log.parent / "q.txt"), *options]) == 0
        options = []
    return log.parent


def test_pages_are_the_rows_of_the_log(log, features, pages):
    found = read_data(pages / "pages.rank")
    assert found.feature_names == ("good", "noise", "position", "pair")
    with log.open() as file:
        rows = [row for row in csv.DictReader(file) if row["session_id"] != "bot"]
    values = dict(
        zip(zip(features.qid.tolist(), features.doc_ids.tolist(), strict=True), features.X.tolist(), strict=True)
    )
    wanted = sorted(
        (
            row["query_id"],
            row["doc_id"],
            float(row["rank"]),
            float(row["clicked"]),
            *values[row["query_id"], row["doc_id"]],
        )
        for row in rows
    )
    queries = [page.partition(":")[0] for page in found.qid.tolist()]
    columns = (found.doc_ids.tolist(), found.X[:, 2], found.labels, found.X[:, 0], found.X[:, 1])
    assert sorted(zip(queries, *columns, strict=True)) == wanted
    assert found.n_queries == len({(row["session_id"], row["query_id"]) for row in rows})
    pairs = set(zip(queries, found.doc_ids.tolist(), found.X[:, 3].tolist(), strict=True))
    assert len(pairs) == len(set(found.X[:, 3])) == features.n_docs


@pytest.mark.parametrize("method", ["rank-svm", "lambdamart"])
@pytest.mark.parametrize("kind", ["rank", "txt"])
def test_from_a_log_to_a_model(pages, features, tmp_path, capsys, method, kind):
    model, how = tmp_path / "m.rkw", ["--C", "1"] if method == "rank-svm" else ["--set", "n_trees=5", "--cv", "2"]
    columns = ["--position", "position"] if kind == "rank" else ["--position", "3", "--pair", "4"]
    options = ["--method", method, *how, *columns, "--propensities", str(pages / "p.csv")]
    assert main(["train", str(pages / f"pages.{kind}"), "-o", str(model), *options]) == 0
    err = capsys.readouterr().err
    assert "2 features" in err
    assert "over clicks: each as the only relevant document of its page" in err
    saved = load_model(model)
    data = features if kind == "rank" else read_data(pages / "f.txt")
    assert evaluate(features, saved.predict(data), measures=["nDCG@10"]).means["nDCG@10"] > 0.95
    ranker = RankingSVM(C=1.0) if method == "rank-svm" else LambdaMART(5, cv=2)
    table = read_data(pages / f"pages.{kind}")
    shown = {"position": table.X[:, 2], "pair": table.X[:, 3], "propensities": read_propensities(pages / "p.csv")}
    ranker.fit(table.X[:, :2], table.labels, table.qid, **shown)
    np.testing.assert_allclose(saved.predict(data), ranker.predict(data.X), rtol=1e-9)


def test_validation_data_with_positions_is_weighted(pages, tmp_path, capsys):
    table = read_data(pages / "pages.rank")
    half = np.arange(table.n_queries) % 2 == 0
    write_data(table.select(half), tmp_path / "one.rank")
    write_data(table.select(~half), tmp_path / "two.rank")
    options = ["--method", "rank-svm", "--position", "position", "--propensities", str(pages / "p.csv"), "--json"]
    files = [str(tmp_path / "one.rank"), "--valid", str(tmp_path / "two.rank"), "-o", str(tmp_path / "m.rkw")]
    assert main(["train", *files, "--C-grid", "0.1,1", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    valid = table.select(~half)
    weights = 1 / read_propensities(pages / "p.csv").of(valid.X[:, 2].astype(int))
    scores = load_model(tmp_path / "m.rkw").predict(valid)
    wanted = validation_value(valid, "nDCG@10", weights)(scores)
    assert facts["measures"]["validation nDCG@10"] == pytest.approx(wanted)
    assert max(row["nDCG@10"] for row in facts["C_tried"]) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--position", "position"], "--position needs the propensities of positions; expected --propensities FILE"),
        (["--pair", "pair"], "--pair is for --position, which is not given"),
        (["--propensities", "P"], "--propensities is for --position, which is not given"),
        (["--position", "position", "--propensities", "P"], "auto takes no --position; expected --method rank-svm or"),
        (
            ["--method", "rank-svm", "--position", "rank", "--propensities", "P"],
            "pages.rank: has no column 'rank'; expected one of good, noise, position, pair",
        ),
        (
            ["--method", "rank-svm", "--position", "pair", "--propensities", "P"],
            "pages.rank: position is 0; expected whole numbers from 1",
        ),
        (["--method", "rank-svm", "--position", "position", "--propensities", "none.csv"], "none.csv: cannot be read"),
    ],
)
def test_one_line_for_what_is_wrong_in_training(pages, tmp_path, capsys, options, message):
    options = [str(pages / "p.csv") if option == "P" else option for option in options]
    assert main(["train", str(pages / "pages.rank"), "-o", str(tmp_path / "m.rkw"), *options]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "m.rkw").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--write-pages", "pages.rank"], "--write-pages is given without --features; expected both"),
        (["--features", "F"], "--features is given without --write-pages; expected both"),
        (["--features", "F", "--write-pages", "pages.foo"], "pages.foo: unknown suffix"),
        (
            ["--features", "OTHER", "--write-pages", "pages.rank"],
            "no query and document of the log is among the features",
        ),
    ],
)
def test_one_line_for_what_is_wrong_with_pages(log, features, tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    write_data(RankingData.from_arrays([[1.0]], [0], ["x"], doc_ids=["y"]), tmp_path / "other.rank")
    names = {"F": str(log.parent / "f.rank"), "OTHER": str(tmp_path / "other.rank")}
    assert main(["clicks", str(log), "-o", "q.txt", *(names.get(option, option) for option in options)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "q.txt").exists()


def test_pages_need_a_row_per_impression(features):
    pair = (features.qid[0], features.doc_ids[0])
    counted = ClickLog.from_columns([pair[0]], [pair[1]], [1], [2], count=[5])
    with pytest.raises(InputError, match="the log has neither sessions nor pages; expected a row per impression"):
        click_pages(counted, features)
    alone = ClickLog.from_columns([pair[0]], [pair[1]], [1], [1], page=[1])
    with pytest.raises(InputError, match="no page of the log shows two documents that have features"):
        click_pages(alone, features)
