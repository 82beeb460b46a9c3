"""`rankwright features`: from an index or from runs, what the names are good for, and every bad input with its line."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from rankwright import (
    Index,
    TrecTable,
    build_index,
    feature_set,
    load_model,
    make_features,
    read_data,
    read_document_table,
    read_qrels,
    read_queries,
    read_run,
    runs_to_data,
)
from rankwright.cli.main import main

WORDS = ["wing", "lift", "heat", "slab", "flow", "shock", "layer", "plate", "cone", "drag"]
QUERIES = "q1\twing lift\nq2\theat in slabs\nq3\txyzzy\nq4\tcone drag\nq5\tshock waves\n"
QRELS = "q1 0 d1 2\nq1 0 d2 0\nq1 0 d3 1\nq2 0 d4 1\nq2 0 lost 1\nq3 0 d1 1\nq4 0 d5 1\nq4 0 d6 1\n"


def documents():
    rng = np.random.default_rng(0)
    for i in range(40):
        yield f"d{i}", {name: " ".join(rng.choice(WORDS, rng.integers(1, 9))) for name in ("title", "text")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("features_command") / "docs.index"
    build_index(documents(), path)
    return str(path)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.tsv").write_text(QUERIES)
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 9 a\nq1 Q0 d2 2 7 a\nq1 Q0 gone 3 5 a\nq2 Q0 d1 1 1 a\n")
    (tmp_path / "b.run").write_text("q1 Q0 d4 1 0.2 b\nq1 Q0 d1 2 0.1 b\nq4 Q0 d9 1 4 b\n")
    return tmp_path


@pytest.fixture
def run(capsys):
    def run(*args):
        code = main(["features", *args])
        out, err = capsys.readouterr()
        assert out == ""
        return code, err

    return run


def made(folder, **options):
    return make_features(Index.open(folder), read_queries("q.tsv"), qrels=read_qrels("qrels"), **options).data


def assert_same(one, other):
    assert one.feature_names == other.feature_names
    assert one.X.astype(np.float32).tobytes() == other.X.tobytes()
    for part in ("labels", "indptr", "query_ids", "doc_ids"):
        assert getattr(one, part).tolist() == getattr(other, part).tolist()


@pytest.mark.parametrize("target", ["f.txt", "f.letor.gz", "f.rank", "f.parquet"])
def test_every_format_keeps_names_and_values(run, folder, target):
    expected = made(folder, depth=100)
    judged = 7 - 1  # one judged document is not among the candidates
    code, err = run(folder, "q.tsv", "--qrels", "qrels", "-o", target)
    assert code == 0
    share = f"{judged} of {expected.n_docs} rows ({judged / expected.n_docs:.1%}) are judged, the others get label 0"
    assert err == (
        "note: 1 query left out: no judgements (q5)\n"
        "note: 1 query left out: no document found (q3)\n"
        "note: 1 document left out: not in the index\n"
        "note: 1 relevant document is not among the candidates\n"
        f"note: {share}; only judged ones: --candidates judged\n"
        f"wrote {target}: 3 queries, {expected.n_docs} documents, 15 features, 5 documents with a label above 0\n"
    )
    assert expected.feature_names == tuple(feature_set("base"))
    assert_same(read_data(target, sparse=False), expected)


def test_sets_features_fields_and_tables(run, folder, place):
    index = Index.open(folder)
    rows = [f"d{i}\t{i}\t{i / 8}" for i in range(40)]
    (place / "table.tsv").write_text("\n".join(["id\tage\tshare", *rows]))
    options = ["--set", "base", "--set", "sigir06", "--per-field"]
    options += ["--table", "table.tsv", "--depth", "3", "--threads", "2"]
    code, _ = run(folder, "q.tsv", "--qrels", "qrels", *options, "--feature", "jm(lambda=0.9)[plain]", "-o", "f.rank")
    assert code == 0
    fields = ("title", "text")
    names = [*feature_set("base", fields), *feature_set("sigir06", fields), "jm(lambda=0.9)[plain]"]
    table = read_document_table("table.tsv", index)
    expected = made(folder, features=names, table=table, depth=3)
    assert expected.feature_names[-2:] == ("doc:age", "doc:share")
    assert_same(read_data("f.rank"), expected)
    code, _ = run(folder, "q.tsv", "--qrels", "qrels", "--feature", "bm25(b=0.4)[porter,title]", "-o", "g.rank")
    assert code == 0
    assert_same(read_data("g.rank"), made(folder, features=["bm25(b=0.4)[porter,title]"]))
    twice = ["--feature", "cosine[plain]", "--feature", "cosine[plain]", "--set", "base"]
    assert run(folder, "q.tsv", "--qrels", "qrels", *twice, "-o", "h.rank")[0] == 0
    assert_same(read_data("h.rank"), made(folder))


def test_one_field_needs_no_set_of_its_own(run, tmp_path):
    build_index([("d1", "wing lift"), ("d2", "wing")], tmp_path / "one.index")
    assert run("one.index", "q.tsv", "--per-field", "-o", "f.rank")[0] == 0
    assert read_data("f.rank").n_features == 15


def test_candidates(run, folder):
    assert run(folder, "q.tsv", "--qrels", "qrels", "--candidates", "judged", "-o", "j.rank")[0] == 0
    assert_same(read_data("j.rank"), made(folder, candidates="judged"))
    code, err = run(folder, "q.tsv", "--qrels", "qrels", "--candidates", "a.run", "-o", "r.rank")
    assert code == 0
    assert "note: 2 documents left out: not in the index\n" in err
    assert "note: 5 relevant documents are not among the candidates\n" in err
    assert_same(read_data("r.rank"), made(folder, candidates=read_run("a.run")))


def test_without_judgements(run, folder):
    code, err = run(folder, "q.tsv", "-o", "f.rank")
    data = read_data("f.rank")
    assert (code, data.query_ids.tolist(), set(data.labels.tolist())) == (0, ["q1", "q2", "q4", "q5"], {0.0})
    assert err == (
        "note: 1 query left out: no document found (q3)\n"
        f"wrote f.rank: 4 queries, {data.n_docs} documents, 15 features\n"
    )


def test_topics(run, folder, place):
    (place / "topics").write_text(
        "<top>\n<num> Number: 7\n<title> wing\n<desc> Description:\nheat and drag\n<narr> Narrative:\nslab\n</top>\n"
    )
    assert run(folder, "topics", "-o", "f.rank", "--part", "title+description")[0] == 0
    expected = make_features(Index.open(folder), {"7": "wing heat and drag"}).data
    assert_same(read_data("f.rank"), expected)


@pytest.mark.parametrize("suffix", ["txt", "rank"])
def test_names_survive_training_ranking_explaining_and_searching(run, folder, capsys, suffix):
    names = [name for one in ("sigir06", "base") for name in feature_set(one, ("title", "text"))]
    features = f"f.{suffix}"
    options = ["--set", "sigir06", "--set", "base", "--per-field"]
    assert run(folder, "q.tsv", "--qrels", "qrels", *options, "-o", features)[0] == 0
    assert main(["train", features, "--method", "svm-map", "-o", "m.rkw"]) == 0
    model = load_model("m.rkw").model
    assert model.feature_names == tuple(names)
    capsys.readouterr()
    assert main(["explain", "m.rkw", features, "--query", "q1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["feature"] for one in told["contributions"]} == set(model.feature_names)
    # Ranked by name: the same run from the same features in another order of columns.
    turned = [argument for name in reversed(model.feature_names) for argument in ("--feature", name)]
    assert run(folder, "q.tsv", "--qrels", "qrels", *turned, "-o", "turned.rank")[0] == 0
    for source, target in ((features, "one.run"), ("turned.rank", "other.run")):
        assert main(["rank", "m.rkw", source, "-o", target]) == 0
    one, other = read_run("one.run"), read_run("other.run")
    assert one.doc_ids.tolist() == other.doc_ids.tolist()
    np.testing.assert_allclose(one.values, other.values, rtol=1e-6)
    # Searched: the same documents, found and scored from the text alone.
    assert main(["search", folder, "q.tsv", "--model", "m.rkw", "-o", "found.run"]) == 0
    found = read_run("found.run")
    place = found.query_ids.tolist().index("q1")
    span = slice(found.indptr[place], found.indptr[place + 1])
    scores = dict(zip(found.documents[span], found.values[span].tolist(), strict=True))
    expected = dict(zip(one.documents[: one.indptr[1]], one.values[: one.indptr[1]].tolist(), strict=True))
    assert scores.keys() == expected.keys()
    for document, score in expected.items():
        assert scores[document] == pytest.approx(score, rel=1e-6)


def test_runs(run, place):
    code, err = run("--runs", "a.run", "b.run", "--qrels", "qrels", "-o", "f.rank")
    assert code == 0
    assert err == (
        "warning: left out 1 judged queries that no run has\n"
        "wrote f.rank: 3 queries, 6 documents, 4 features, 1 documents with a label above 0\n"
    )
    data = read_data("f.rank")
    assert data.feature_names == ("a:score", "a:rr", "b:score", "b:rr")
    runs = {"a": read_run("a.run"), "b": read_run("b.run")}
    assert_same(data, runs_to_data(runs, TrecTable.from_dict({"q1": {"d1": 2, "d3": 1}, "q2": {"d4": 1}, "q4": {}})))
    assert run("--runs", "a.run", "b.run", "--normalize", "zscore", "-o", "z.txt")[0] == 0
    assert_same(read_data("z.txt", sparse=False), runs_to_data(runs, normalize="zscore"))


def test_runs_of_the_same_name(run, place):
    for name in ("one", "two"):
        (place / name).mkdir()
        with gzip.open(place / name / "bm25.run.gz", "wb") as packed:
            packed.write((place / "a.run").read_bytes())
    assert run("--runs", "one/bm25.run.gz", "a.run", "-o", "f.rank")[0] == 0
    assert read_data("f.rank").feature_names == ("bm25:score", "bm25:rr", "a:score", "a:rr")
    assert run("--runs", "one/bm25.run.gz", "two/bm25.run.gz", "-o", "f.rank")[0] == 0
    assert read_data("f.rank").feature_names[::2] == ("one/bm25.run.gz:score", "two/bm25.run.gz:score")


def test_training_on_runs(run, folder, capsys):
    assert run("--runs", "a.run", "b.run", "--qrels", "qrels", "-o", "f.txt")[0] == 0
    assert main(["train", "f.txt", "--method", "svm-map", "-o", "m.rkw"]) == 0
    assert load_model("m.rkw").model.feature_names == ("a:score", "a:rr", "b:score", "b:rr")
    capsys.readouterr()
    assert main(["search", folder, "wing", "--model", "m.rkw"]) == 2
    assert "m.rkw: the index lacks 4 of the model's 4 features: feature 'a:score' cannot be" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["INDEX", "-o", "f.txt"], "1 arguments; expected an index and a file of queries, or --runs"),
        (["INDEX", "q.tsv", "more", "-o", "f.txt"], "3 arguments; expected an index and a file of queries, or --runs"),
        (["-o", "f.txt"], "Missing argument"),
        (["INDEX", "q.tsv"], "Missing option"),
        (["INDEX", "q.tsv", "-o", "f.xlsx"], "f.xlsx: unknown suffix"),
        (["INDEX", "q.tsv", "-o", "f.qrels"], "f.qrels: has the suffix of judgements, which have no features"),
        (["INDEX", "q.tsv", "-o", "none/f.txt"], "none/f.txt: cannot be written: the folder none does"),
        (["INDEX", "q.tsv", "-o", "taken.txt"], "taken.txt: is a folder; expected a file name to write to"),
        (["INDEX", "q.tsv", "-o", "taken.rank"], "taken.rank: exists and is not a Rankwright folder"),
        (["INDEX", "q.txt", "-o", "q.txt"], "q.txt: is also an input; expected another name to write to"),
        (["INDEX", "q.tsv", "--candidates", "r.txt", "-o", "r.txt"], "r.txt: is also an input"),
        (["none.index", "q.tsv", "-o", "f.txt"], "none.index: "),
        (["q.tsv", "INDEX", "-o", "f.txt"], "q.tsv: "),
        (["INDEX", "none.tsv", "-o", "f.txt"], "none.tsv: cannot be read"),
        (["INDEX", "qrels", "-o", "f.txt"], "qrels:1: no tab in "),
        (["INDEX", "q.tsv", "--part", "abstract", "-o", "f.txt"], "unknown topic part 'abstract'"),
        (["INDEX", "q.tsv", "--qrels", "none", "-o", "f.txt"], "none: cannot be read"),
        (["INDEX", "q.tsv", "--qrels", "a.run", "-o", "f.txt"], "a.run:1: "),
        (["INDEX", "q.tsv", "--qrels", "far", "-o", "f.txt"], "none of the 5 queries (the first is"),
        (["INDEX", "q.tsv", "--candidates", "judged", "-o", "f.txt"], "but there are no judgements"),
        (["INDEX", "q.tsv", "--candidates", "none", "-o", "f.txt"], "none: cannot be read"),
        (["INDEX", "q.tsv", "--candidates", "qrels", "-o", "f.txt"], "qrels:1: "),
        (["INDEX", "q.tsv", "--set", "letor", "-o", "f.txt"], "'letor' is not one of"),
        (["INDEX", "q.tsv", "--set", "sigir06", "-o", "f.txt"], "no feature is a retrieval function"),
        (["INDEX", "q.tsv", "--feature", "bm25", "-o", "f.txt"], "feature 'bm25' cannot be computed from an index"),
        (["INDEX", "q.tsv", "--feature", "bm25[x]", "-o", "f.txt"], "feature 'bm25[x]': unknown analyser 'x'"),
        (
            ["INDEX", "q.tsv", "--table", "q.tsv", "-o", "f.txt"],
            "q.tsv:2: the number 'wing lift' of document 'q2' is 'heat in slabs'",
        ),
        (["INDEX", "q.tsv", "--table", "none", "-o", "f.txt"], "none: cannot be read"),
        (["INDEX", "q.tsv", "--depth", "0", "-o", "f.txt"], "0 is not in the range"),
        (["INDEX", "q.tsv", "--normalize", "sum", "-o", "f.txt"], "--normalize needs --runs"),
        (["INDEX", "nothing.tsv", "-o", "f.txt"], "no query has candidates; expected queries with words that"),
        (["--runs", "a.run", "a.run", "-o", "f.txt"], "duplicate run a.run"),
        (["--runs", "a.run", "none.run", "-o", "f.txt"], "none.run: cannot be read"),
        (["--runs", "a.run", "q.tsv", "-o", "f.txt"], "q.tsv:1: "),
        (["--runs", "a.run", "--qrels", "far", "-o", "f.txt"], "the runs and the judgements have no query in common"),
        *(
            (
                ["--runs", "a.run", *option, "-o", "f.txt"],
                f"{option[0]} needs an index; with --runs, expected only runs",
            )
            for option in (
                ["--set", "base"],
                ["--feature", "bm25[plain]"],
                ["--per-field"],
                ["--table", "q.tsv"],
                ["--candidates", "union"],
                ["--depth", "1000"],
                ["--part", "title"],
                ["--threads", "1"],
            )
        ),
    ],
)
def test_bad_input_is_one_line(run, folder, place, arguments, message):
    (place / "taken.txt").mkdir()
    (place / "taken.rank").mkdir()
    (place / "q.txt").write_text(QUERIES)
    (place / "r.txt").write_text("q1 Q0 d1 1 9 a\n")
    (place / "far").write_text("17 0 d1 1\n")
    (place / "nothing.tsv").write_text("1\txyzzy\n")
    code, err = run(*(folder if argument == "INDEX" else argument for argument in arguments))
    assert code == 2
    assert message in err
    assert err.startswith("rankwright: ")
    assert err.count("\n") == 1
    assert not (place / "f.txt").exists()
    assert (place / "q.txt").read_text() == QUERIES


def test_help_needs_neither_numba_nor_sklearn():
    script = (
        "import sys; from rankwright.cli.main import main; main(['features', '--help']);"
        "print([name for name in ('numba', 'sklearn', 'Stemmer', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
