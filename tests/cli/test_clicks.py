"""`rankwright clicks`: from a log to judgements that other commands take."""

import csv

import numpy as np
import pytest

from made_up_clicks import write_log
from rankwright import read_qrels
from rankwright.cli.main import main

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
        (["--columns", "query"], "--columns has 'query'; expected NAME=COLUMN"),
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
