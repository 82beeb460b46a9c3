"""What was silent in daily use: an error or a warning that says so, never zeros with exit 0."""

import json

import numpy as np
import pytest

from rankwright import build_index, read_data
from rankwright.cli.main import main

DOCUMENTS = [(f"d{at}", f"wing lift{at} {'heat ' * (at % 5)}") for at in range(300)]
TABLE = "ID,Shop Query,Title,Stars\n" + "".join(f"d{at},wing heat,thing {at},{at % 2}\n" for at in range(12))


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.tsv").write_text("q1\twing heat\nq2\theat\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 1\n")
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 9 a\nq2 Q0 d1 2 7 a\n")
    (tmp_path / "shop.csv").write_text(TABLE)
    return tmp_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("silent") / "docs.index"
    build_index(DOCUMENTS, path)
    return str(path)


def run(capsys, *args):
    code = main([*args])
    return code, *capsys.readouterr()


def test_columns_are_those_of_queries_and_of_judgements(folder, capsys, place):
    columns = "query=Shop Query,docid=ID,label=Stars"
    args = ["features", folder, "shop.csv", "--qrels", "shop.csv", "--candidates", "judged", "-o", "f.txt"]
    code, _, err = run(capsys, *args, "--columns", columns)
    assert code == 0
    assert "read shop.csv: 1 query; texts 'Shop Query'" in err
    data = read_data("f.txt")
    assert (data.n_queries, data.n_docs, int(data.labels.sum())) == (1, 12, 6)
    # Each file has some of the columns; TREC's have no names at all.
    (place / "own.csv").write_text("key,words\nq1,wing heat\nq2,heat\n")
    args = ["features", folder, "own.csv", "--qrels", "qrels", "-o", "g.txt"]
    code, _, err = run(capsys, *args, "--columns", "qid=key,query=words")
    assert code == 0, err
    assert read_data("g.txt").n_queries == 2
    code, _, err = run(capsys, *args, "--columns", "qid=key,query=word")
    assert code == 2
    assert "no column 'word', named for query by --columns; qrels has 'q1 0 d1 1'; own.csv has 'key', 'words'" in err
    (place / "named.csv").write_text("words,doc,stars\nwing heat,d1,1\nwing heat,d2,0\nheat,d3,1\n")
    options = ["--queries", "own.csv", "--columns", "qid=key,query=words,docid=doc,label=stars"]
    code, out, err = run(capsys, "evaluate", "named.csv", "a.run", "-m", "AP", "--json", *options)
    assert code == 0, err
    assert json.loads(out)["systems"][0]["means"] == {"AP": 0.5}


def test_the_judged_share_is_said_and_candidates_for_training_are_fewer(folder, capsys):
    args = ["features", folder, "q.tsv", "--feature", "bm25[plain]"]
    assert run(capsys, *args, "-o", "all.txt")[0] == 0
    code, _, err = run(capsys, *args, "--qrels", "qrels", "-o", "f.txt")
    assert code == 0
    assert "warning: 1 of 200 rows (0.5%) are judged, the others get label 0; only judged ones: --candidates jud" in err
    assert (read_data("all.txt").n_docs, read_data("f.txt").n_docs) == (540, 200)
    code, _, err = run(capsys, *args, "--qrels", "qrels", "--depth", "300", "-o", "g.txt")
    assert read_data("g.txt").n_docs == 540
    code, _, err = run(capsys, *args, "--qrels", "qrels", "--candidates", "judged", "-o", "h.txt")
    assert "judged, the others" not in err


def test_judged_documents_that_are_not_in_the_index(folder, capsys, place):
    (place / "lost").write_text("q1 0 x1 1\nq2 0 x2 0\n")
    code, _, err = run(capsys, "features", folder, "q.tsv", "--qrels", "lost", "-o", "f.txt")
    assert code == 2
    assert "none of the 2 judged documents (such as 'x1') is in the index (which has 'd0')" in err
    assert not (place / "f.txt").exists()


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_no_query_or_document_in_common(command, capsys, place):
    (place / "other.run").write_text("x1 Q0 d1 1 9 a\n")
    args = [command, "qrels", *(["a.run"] if command == "compare" else []), "other.run", "-m", "AP"]
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert "other.run: no query is judged (its first is 'x1', that of the judgements 'q1')" in err
    (place / "other.run").write_text("q1 Q0 D1 1 9 a\n")
    code, _, err = run(capsys, *args)
    assert code == 0
    assert "warning: other.run: none of its documents is judged, so that all values are 0" in err


@pytest.mark.parametrize("query", ["queries.tsv", "sub/topics", "topics.xml"])
def test_a_query_file_that_is_not_there_is_not_searched_as_words(query, folder, capsys, place):
    (place / "sub").mkdir()
    code, out, err = run(capsys, "search", folder, query)
    assert (code, out) == (2, "")
    assert err == f"rankwright: {query}: is not there; expected words, or with -o RUN a file of queries\n"


@pytest.mark.parametrize("query", ["wing", "and/or", "heat.5", "wing lift.tsv"])
def test_words_stay_words(query, folder, capsys):
    assert run(capsys, "search", folder, query)[0] == 0


def features(path, n_queries, doc_ids=True, leak=False, twice=False):
    rng = np.random.default_rng(0)
    lines = []
    for query in range(n_queries):
        for doc in range(80 // n_queries):
            label = int(rng.integers(0, 3))
            document = f" # docid = {query}-{doc}" if doc_ids else ""
            lines.append(
                f"{label} qid:{query} 1:{rng.random():.4f} 2:{label + 1 if leak else rng.random():.4f}{document}"
            )
    path.write_text("\n".join([*lines, *(lines[:16] if twice else [])]) + "\n")


TRAIN = ["train", "f.txt", "--method", "svm-map", "--C", "1", "--json", "-o", "m.rkw"]


def test_training_says_first_what_is_doubtful(capsys, place):
    features(place / "f.txt", 8, doc_ids=False, leak=True, twice=True)
    code, out, err = run(capsys, *TRAIN)
    assert code == 0
    assert err.startswith("warning: probable leak: 'f2' alone orders 100 % of the pairs of different labels as the ")
    features(place / "f.txt", 8, doc_ids=False)
    code, out, err = run(capsys, *TRAIN)
    assert (code, err, json.loads(out)["warnings"]) == (0, "", [])


@pytest.mark.parametrize("command", [TRAIN, ["evaluate", "f.txt", "s.txt"]])
def test_one_query_is_said_in_training_and_evaluation(command, capsys, place):
    features(place / "f.txt", 1)
    (place / "s.txt").write_text("1\n" * 80)
    code, _, err = run(capsys, *command)
    assert code == 0
    assert "warning: all 80 rows are of one query, '0'; if there are more, name the column of their ids" in err


def test_repeated_rows_are_counted_once_in_a_line(capsys, place):
    rows = "".join(f"q{at % 8},d{at // 8},{at % 3},{at * 7 % 11}\n" for at in range(48))
    (place / "f.csv").write_text("qid,docid,label,bm25\n" + rows + "".join(rows.splitlines(keepends=True)[:5]))
    code, _, err = run(capsys, "train", "f.csv", *TRAIN[2:])
    assert code == 0, err
    assert err.count("5 of 53 rows repeat a document of their query") == 1


def test_info_speaks_to_people(capsys, place):
    features(place / "f.txt", 8, leak=True)
    _, out, _ = run(capsys, "info", "f.txt")
    assert out.splitlines()[2].split()[:6] == ["warning", "probable", "leak:", "'f2'", "alone", "orders"]
    assert "contradicting pairs" not in out
    assert run(capsys, *TRAIN, "--set", "max_rounds=3")[0] == 0
    _, out, _ = run(capsys, "info", "m.rkw")
    lines = {line[2:17].strip(): line[17:] for line in out.splitlines()}
    assert lines["settings"] == "max_rounds 3 (the others are the defaults: --json)"
    assert lines["trained on"] == "7 queries; 1 more has nothing to order"
    assert "none" not in out
    assert len(json.loads(run(capsys, "info", "m.rkw", "--json")[1])["parameters"]) > 10
