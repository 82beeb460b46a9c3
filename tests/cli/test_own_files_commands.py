"""From people's files to a ranking, on the command line."""

import json

import pytest
from training_files import made, one_line, run

from rankwright import read_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f'd{n},Thing {n},"red wing {n}, ""new""\nlift"' for n in range(12)]
    (tmp_path / "docs.csv").write_text("\n".join(["id,title,text", *rows]))
    (tmp_path / "queries.csv").write_text("qid,query\nq1,red wing\nq2,lift 3\n")
    (tmp_path / "ratings.csv").write_text("query,docid,rating\nred wing,d1,2\nred wing,d2,0\nlift 3,d3,3\nno one\n")
    data = made(0, 8)
    lines = [
        f"{q},{y:g},{d}," + ",".join(f"{x:.9g}" for x in row)
        for q, y, d, row in zip(data.qid, data.labels, data.doc_ids, data.X, strict=True)
    ]
    (tmp_path / "train.csv").write_text("\n".join(["query_id,grade,doc_id,a,b,c,d,e", *lines]) + "\n")
    return tmp_path


def test_from_tables_to_features(folder, capsys):
    assert run(capsys, "index", "docs.csv", "-o", "i")[0] == 0
    code, _, err = run(capsys, "features", "i", "queries.csv", "--qrels", "ratings.csv", "-o", "f.rank")
    assert code == 0
    assert "skipped 1 row without a document or a rating" in err
    assert "note: 2 of 2 queries of ratings.csv matched by their text" in err
    data = read_data("f.rank")
    labels = dict(zip(zip(data.qid, data.doc_ids, strict=True), data.labels, strict=True))
    assert labels["q1", "d1"] == 2
    assert labels["q2", "d3"] == 3


def test_ratings_alone_are_enough_to_evaluate(folder, capsys):
    run(capsys, "index", "docs.csv", "-o", "i")
    (folder / "rated.csv").write_text((folder / "ratings.csv").read_text().replace("no one\n", ""))
    assert run(capsys, "search", "i", "rated.csv", "-o", "words.run")[0] == 0
    assert run(capsys, "search", "i", "queries.csv", "-o", "ids.run")[0] == 0
    by_text = json.loads(run(capsys, "evaluate", "rated.csv", "words.run", "--json")[1])
    code, out, err = run(capsys, "evaluate", "rated.csv", "ids.run", "--queries", "queries.csv", "--json")
    assert code == 0
    assert "matched by their text" in err
    assert [one["means"] for one in _systems(by_text)] == [one["means"] for one in _systems(json.loads(out))]


def _systems(found):
    return found["systems"] if isinstance(found, dict) and "systems" in found else found


def test_training_on_a_table_is_training_on_text(folder, capsys):
    assert run(capsys, "convert", "train.csv", "-o", "train.txt")[0] == 0
    for name in ("train.csv", "train.txt"):
        code, _, err = run(capsys, "train", name, "--method", "rank-svm", "--C", "0.1", "-o", f"{name}.rkw")
        assert code == 0
        assert ("reading train.csv: queries 'query_id', documents 'doc_id', labels 'grade', 5 features" in err) == (
            name == "train.csv"
        )
        assert run(capsys, "rank", f"{name}.rkw", name, "-o", f"{name}.run")[0] == 0
    assert (folder / "train.csv.run").read_text() == (folder / "train.txt.run").read_text()
    assert run(capsys, "evaluate", "train.csv", "train.csv.run")[0] == 0
    code, out, _ = run(capsys, "info", "train.csv", "--json")
    assert (code, json.loads(out)["format"]) == (0, "csv")


def test_missing_values_need_a_folder(folder, capsys):
    (folder / "m.csv").write_text("qid,label,x\n1,1,2\n1,0,\n")
    result = run(capsys, "convert", "m.csv", "-o", "m.txt")
    assert result[0] == 2
    assert "the number 'x' is missing in 1 of 2 rows; expected a folder (.rank)" in result[2]
    assert not (folder / "m.txt").exists()
    assert run(capsys, "convert", "m.csv", "-o", "m.rank")[0] == 0


def test_named_columns(folder, capsys):
    (folder / "shop.csv").write_text("search,stars,name,x\na,1,n1,2\na,0,n2,3\n")
    one_line(run(capsys, "convert", "shop.csv", "-o", "s.rank"), "shop.csv:1: has the columns 'search', 'stars'")
    code, _, err = run(capsys, "convert", "shop.csv", "-o", "s.rank", "--columns", "qid=search,label=stars")
    assert (code, "skipped 'name'" in err) == (0, True)
    one_line(run(capsys, "info", "shop.csv", "--columns", "stars"), "--columns is 'stars'; expected ROLE=NAME")
    one_line(run(capsys, "info", "shop.csv", "--columns", "label=no"), "shop.csv:1: no column 'no', named for label")


def test_a_site(folder, capsys):
    (folder / "site").mkdir()
    (folder / "site" / "a.html").write_text("<title>Wings</title><nav>home</nav><p>lift of a wing")
    (folder / "site" / "a.js").write_text("track()")
    code, _, err = run(capsys, "index", "site", "-o", "s.index")
    assert code == 0
    assert "warning: site: skipped 1 file that is not a page (1 .js)" in err
    assert "1 documents, 5 tokens" in err
    assert run(capsys, "search", "s.index", "home")[1] == ""


def test_judgements_become_trec(folder, capsys):
    (folder / "j.json").write_text(
        json.dumps({"judgmentRatings": [{"query": "red wing", "ratings": [{"docId": "d1", "rating": "2.000"}]}]})
    )
    assert run(capsys, "convert", "j.json", "-o", "j.qrels")[0] == 0
    assert (folder / "j.qrels").read_text() == "red_wing 0 d1 2\n"


def test_what_was_read_and_skipped_is_said(folder, capsys):
    """One line for each table: documents, queries, judgements; none of it on stdout."""
    (folder / "queries.csv").write_text("qid,query,market\nq1,red wing,de\nq2,lift 3,us\n")
    (folder / "ratings.csv").write_text("query,docid,rating,page\nred wing,d1,2,x\nlift 3,d3,3,y\n")
    err = run(capsys, "index", "docs.csv", "-o", "i", "--fields", "text")[2]
    assert "reading docs.csv: ids 'id', fields 'text'; skipped 'title'\n" in err
    code, _, err = run(capsys, "search", "i", "queries.csv", "-o", "r.run")
    assert (code, "read queries.csv: 2 queries; texts 'query', ids 'qid'; skipped 'market'\n" in err) == (0, True)
    (folder / "copy.run").write_bytes((folder / "r.run").read_bytes())
    read = "2 judgements of 2 queries; queries 'query', documents 'docid', grades 'rating'; skipped 'page'\n"
    for command in (
        ("evaluate", "ratings.csv", "r.run", "--queries", "queries.csv", "--json"),
        ("compare", "ratings.csv", "r.run", "copy.run", "--queries", "queries.csv", "--json"),
        ("info", "ratings.csv", "--json"),
        ("convert", "ratings.csv", "-o", "r.qrels"),
        ("features", "i", "queries.csv", "--qrels", "ratings.csv", "-o", "f.rank"),
        ("agreement", "ratings.csv", "r.qrels", "--json"),
    ):
        code, out, err = run(capsys, *command)
        assert code == 0, err
        assert err.count(f"read ratings.csv: {read}") == 1
        assert "skipped" not in out
    assert "read" not in run(capsys, "evaluate", "r.qrels", "r.run")[2]  # TREC files have no columns to tell


def test_a_table_that_could_be_either(folder, capsys):
    (folder / "r.run").write_text("a Q0 d1 1 2 x\na Q0 d2 2 1 x\n")
    (folder / "sure.csv").write_text("query,docid,rating,sure\na,d1,2,.5\na,d2,0,.9\n")
    code, out, err = run(capsys, "evaluate", "sure.csv", "r.run", "-m", "nDCG@2")
    assert (code, "gain 2^rel" in out) == (0, True)
    assert "note: sure.csv: taken for features, as 'sure' holds numbers; for judgements, use --columns skip=sure" in err
    code, out, err = run(capsys, "evaluate", "sure.csv", "r.run", "-m", "nDCG@2", "--columns", "skip=sure")
    assert (code, "gain rel" in out, "note" in err) == (0, True, False)
    one_line(
        run(capsys, "train", "sure.csv", "-o", "m.rkw", "--columns", "skip=sure"), "contains judgements, not features"
    )


def test_columns_of_every_command_that_reads_features(folder, capsys):
    """The same table under other names gives the same model, ranking, explanation and the like."""
    text = (folder / "train.csv").read_text()
    (folder / "own.csv").write_text(text.replace("query_id,grade,doc_id,a", "search,stars,item,a"))
    columns = ("--columns", "qid=search,label=stars,docid=item")
    train = ("--method", "rank-svm", "--C", "0.1", "-o")
    assert run(capsys, "train", "train.csv", *train, "a.rkw")[0] == 0
    one_line(run(capsys, "train", "own.csv", *train, "b.rkw"), "own.csv:1: has the columns 'search', 'stars'")
    code, _, err = run(capsys, "train", "own.csv", "--valid", "own.csv", *train, "b.rkw", *columns)
    assert (code, err.count("reading own.csv: queries 'search', documents 'item', labels 'stars', 5 features")) == (
        0,
        2,
    )
    assert run(capsys, "train", "own.csv", *train, "b.rkw", *columns)[0] == 0
    for name, model, more in (("train.csv", "a.rkw", ()), ("own.csv", "b.rkw", columns)):
        assert run(capsys, "rank", model, name, "-o", f"{name}.run", *more)[0] == 0
    assert (folder / "train.csv.run").read_bytes() == (folder / "own.csv.run").read_bytes()
    for command in (
        ("explain", "b.rkw", "own.csv"),
        ("diagnose", "own.csv", "--losses", "map", "--C-grid", "0.1"),
        ("export", "b.rkw", "--to", "python", "-o", "out", "--verify", "own.csv"),
        ("adapt", "a.rkw", "own.csv", "--method", "interpolate", "--in-domain", "rank-svm", "-o", "c.rkw"),
    ):
        code, _, err = run(capsys, *command, *columns)
        assert (code, "reading own.csv: queries 'search'" in err) == (0, True), err
    one_line(
        run(capsys, "export", "b.rkw", "--to", "python", "-o", "o", *columns), "--columns is for the data of --verify"
    )
    run(capsys, "convert", "train.csv", "-o", "train.rank")
    one_line(run(capsys, "rank", "b.rkw", "train.rank", *columns), "has no columns to name; expected CSV or Parquet")
