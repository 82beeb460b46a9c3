"""`rank --format csv`: a table for a spreadsheet."""

import csv
import io

import pytest
from training_files import made, run

from rankwright import LinearModel, read_data, read_run, write_data
from rankwright.models.saving import save_model


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(made(0, 4), "f.txt")
    text = (tmp_path / "f.txt").read_text()
    (tmp_path / "noids.txt").write_text("".join(line.split(" #")[0] + "\n" for line in text.splitlines()))
    save_model(LinearModel([2.0, 1.0, 0.5, -1.0, 0.0]), tmp_path / "m.rkw", method="svm-map", parameters={})
    return tmp_path


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))


def test_the_rows_of_a_run_with_labels(folder, capsys):
    assert run(capsys, "rank", "m.rkw", "f.txt", "-o", "t.csv") == (
        0, "", "wrote t.csv: a table of 4 queries, 48 documents\n",
    )  # fmt: skip
    assert run(capsys, "rank", "m.rkw", "f.txt", "-o", "t.run")[0] == 0
    header, *rows = rows_of((folder / "t.csv").read_text())
    assert header == ["query_id", "doc_id", "rank", "score", "label"]
    of_run = [line.split() for line in (folder / "t.run").read_text().splitlines()]
    assert [(q, d, r, float(s)) for q, d, r, s, _ in rows] == [(q, d, r, float(s)) for q, _, d, r, s, _ in of_run]
    data = read_data("f.txt")
    labels = dict(zip(data.doc_ids.tolist(), data.labels.tolist(), strict=True))
    assert [float(row[4]) for row in rows] == [labels[row[1]] for row in rows]
    assert read_run("t.run").n_docs == len(rows)


def test_without_ids_the_numbers_of_the_rows(folder, capsys):
    scores = [float(line) for line in run(capsys, "rank", "m.rkw", "noids.txt")[1].splitlines()]
    header, *rows = rows_of(run(capsys, "rank", "m.rkw", "noids.txt", "--format", "csv")[1])
    assert header[1] == "row"
    assert [scores[int(row[1]) - 1] for row in rows] == [float(row[3]) for row in rows]
    assert sorted(int(row[1]) for row in rows) == list(range(1, 49))


def test_quotes_and_mistakes(folder, capsys):
    (folder / "q.csv").write_text('qid,label,docid,a,b,c,d,e\n"red, ""new""",1,x,1,2,3,4,5\n')
    assert run(capsys, "rank", "m.rkw", "q.csv", "-o", "t.csv")[0] == 0
    assert rows_of((folder / "t.csv").read_text())[1][:3] == ['red, "new"', "x", "1"]
    assert "--tag is for TREC runs" in run(capsys, "rank", "m.rkw", "f.txt", "-o", "t.csv", "--tag", "x")[2]
