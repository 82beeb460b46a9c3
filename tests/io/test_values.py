"""What columns hold, by one rule for every container: dates, yes and no, decimal commas, grades, labels."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from rankwright import InputError, InputWarning, from_frame, read_data, read_qrels, read_run, write_data
from rankwright.cli.main import main
from rankwright.io import csv
from rankwright.io.partitions import read_manifest

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

FRAMES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.table}
CONTAINERS = ["csv", "compiled", "jsonl", "parquet", "folder", *FRAMES]
DATES = ["2024-05-31", None, "1970-01-02", "2024-05-31", "1969-12-31", "2000-01-01T12:00Z"]
DAYS = [19874.0, np.nan, 1.0, 19874.0, -1.0, 10957.5]
YES = ["yes", "NO", None, "true", "false", "Yes"]


def read(folder, container, values, monkeypatch=None, **options):
    columns = {"qid": list("aabbab"), "label": [2, 0, 1, 0, 1, 2], **values}
    if container in FRAMES:
        return from_frame(FRAMES[container](columns), **options)
    rows = list(zip(*columns.values(), strict=True))
    path = folder / container
    if container == "parquet":
        parquet.write_table(pyarrow.table(columns), path)
    elif container == "folder":  # what a text holds is decided by all files together
        path.mkdir(exist_ok=True)
        table = pyarrow.table(columns)
        parquet.write_table(table[:2], path / "0.parquet")
        parquet.write_table(table[2:], path / "1.parquet")
    elif container == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        lines = [",".join("" if value is None else str(value) for value in row) for row in [list(columns), *rows]]
        path.write_text("\n".join(lines) + "\n")
        if container == "compiled":
            monkeypatch.setattr(csv, "_LARGE", 0)
            monkeypatch.setattr(csv, "_LARGE_IF_LOADED", 0)
    return read_data(path, dtype="float64", **options)


def in_given_order(data, at=0):
    return data.to_caller_order(np.asarray(data.X)[:, at]).tolist()


@pytest.mark.parametrize("container", CONTAINERS)
def test_dates_are_days_and_said_to_be(tmp_path, monkeypatch, container):
    with pytest.warns(InputWarning, match="'made' holds dates and became days since 1970-01-01; --columns skip=made"):
        data = read(tmp_path, container, {"made": DATES}, monkeypatch)
    np.testing.assert_array_equal(in_given_order(data), DAYS)
    assert not data.categories


@pytest.mark.parametrize("container", ["parquet", *FRAMES])
def test_dates_by_their_type_are_the_same(tmp_path, container):
    typed = [None if text is None else pandas.Timestamp(text.removesuffix("Z")) for text in DATES]
    typed = [None if moment is None else moment.to_pydatetime() for moment in typed]
    with pytest.warns(InputWarning, match="holds dates"):
        data = read(tmp_path, container, {"made": typed})
    np.testing.assert_array_equal(in_given_order(data), DAYS)
    days = [None if moment is None else moment.date() for moment in typed]
    with pytest.warns(InputWarning, match="holds dates"):
        data = read(tmp_path, container, {"made": days})
    np.testing.assert_array_equal(in_given_order(data), np.floor(DAYS))


@pytest.mark.parametrize("container", CONTAINERS)
def test_yes_and_no_are_1_and_0_where_all_of_a_column_is(tmp_path, monkeypatch, container):
    data = read(tmp_path, container, {"stock": YES, "x": [1, 2, 3, 4, 5, 6]}, monkeypatch)
    np.testing.assert_array_equal(in_given_order(data), [1, 0, np.nan, 1, 0, 1])
    values = ["yes", "no", None, "yes", "no", "maybe"]
    mixed = read(tmp_path, container, {"stock": values, "x": [1, 2, 3, 4, 5, 6]}, monkeypatch)
    assert set(mixed.categories[0]) == {"yes", "no", "maybe"}


@pytest.mark.parametrize("container", CONTAINERS)
def test_one_word_makes_dates_categories(tmp_path, monkeypatch, container):
    data = read(tmp_path, container, {"made": [*DATES[:-1], "soon"]}, monkeypatch)
    assert "soon" in data.categories[0]
    asked = read(tmp_path, container, {"made": DATES}, monkeypatch, columns={"categorical": "made"})
    assert "2024-05-31" in asked.categories[0]


def test_dates_that_could_be_read_in_two_ways_stay_texts_and_are_said_to(tmp_path):
    with pytest.warns(InputWarning, match="'made' seems to hold dates, such as '5/4/2024', and became categories"):
        data = read(tmp_path, "csv", {"made": ["5/4/2024", "6/4/2024"] * 3})
    assert data.categories[0] == ("5/4/2024", "6/4/2024")
    with pytest.warns(InputWarning, match="holds dates"):
        data = read(tmp_path, "csv", {"made": ["2.1.1970", "03.01.1970"] * 3})
    assert in_given_order(data) == [1, 2] * 3


def test_partitions_decide_as_a_whole(tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(tmp_path, "csv", {"made": DATES, "stock": YES})
        read(tmp_path, "folder", {"made": DATES, "stock": YES})
    for name in ("csv", "folder"):
        assert (
            main(["convert", str(tmp_path / name), "--by-query", "2", "-o", str(tmp_path / f"{name}.partitions")]) == 0
        )
        assert main(["convert", str(tmp_path / f"{name}.partitions"), "-o", str(tmp_path / f"{name}.rank")]) == 0
    first, second = (read_data(tmp_path / f"{name}.rank") for name in ("csv", "folder"))
    np.testing.assert_array_equal(first.X, second.X)
    assert sorted(first.X[~np.isnan(first.X[:, 0]), 0].tolist()) == sorted(DAYS[:1] + DAYS[2:])
    assert read_manifest(tmp_path / "csv.partitions").n_docs == 6
    capsys.readouterr()


def test_decimal_commas_where_semicolons_separate(tmp_path):
    (tmp_path / "a.csv").write_text("qid;label;x;title;docid\na;1,0;-1,5;2,25;1,5\na;0;3;7;d\n")
    data = read_data(tmp_path / "a.csv")
    assert data.feature_names == ("x", "title")
    assert data.X.tolist() == [[-1.5, 2.25], [3.0, 7.0]]
    assert data.doc_ids.tolist() == ["1,5", "d"]  # an id is no number
    (tmp_path / "q.csv").write_text("query;docid;rating\na;d;1,5\n")
    assert read_qrels(tmp_path / "q.csv").values.tolist() == [1.5]


def test_decimal_commas_are_the_same_in_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "_LARGE", 0)
    monkeypatch.setattr(csv, "_LARGE_IF_LOADED", 0)
    test_decimal_commas_where_semicolons_separate(tmp_path)


GRADES = {"Bad": 0, "fair": 1, "perfect": 4.5}
WORDS = ["perfect", "Bad", "FAIR", "bad", "fair", "Perfect"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_grades_that_are_words(tmp_path, monkeypatch, container):
    columns = {"label": WORDS, "x": [1, 2, 3, 4, 5, 6]}
    data = read(tmp_path, container, columns, monkeypatch, grades=GRADES)
    assert data.to_caller_order(data.labels).tolist() == [4.5, 0, 1, 0, 1, 4.5]
    with pytest.raises(InputError, match=r"label has words \('perfect', .*--grades perfect=NUMBER,bad=NUMBER"):
        read(tmp_path, container, columns, monkeypatch)
    with pytest.raises(InputError, match=r"perfect.*expected a number, or a word that --grades has: bad, fair"):
        read(tmp_path, container, columns, monkeypatch, grades={"bad": 0, "fair": 1})


def test_judgements_whose_grades_are_words(tmp_path, capsys):
    (tmp_path / "q.csv").write_text("query,docid,rating\na,d,Fair\na,e,bad\n")
    (tmp_path / "q.txt").write_text("a 0 d Fair\na 0 e bad\n")
    (tmp_path / "a.run").write_text("a Q0 d 1 2 t\na Q0 e 2 1 t\n")
    for name in ("q.csv", "q.txt"):
        assert read_qrels(tmp_path / name, grades=GRADES).values.tolist() == [1, 0]
        with pytest.raises(InputError, match=r"words .*Fair.*--grades fair=NUMBER,bad=NUMBER"):
            read_qrels(tmp_path / name)
        arguments = ["evaluate", str(tmp_path / name), str(tmp_path / "a.run"), "-m", "AP"]
        assert main(arguments) == 2
        assert "--grades fair=NUMBER" in capsys.readouterr().err
        assert main([*arguments, "--grades", "bad=0,fair=1"]) == 0
    assert main([*arguments, "--grades", "bad"]) == 2
    assert "expected WORD=NUMBER, separated by commas" in capsys.readouterr().err


@pytest.mark.parametrize("container", CONTAINERS)
def test_two_columns_that_look_like_labels_are_refused(tmp_path, monkeypatch, container):
    columns = {"relevance": [0, 1, 2, 0, 1, 2], "x": [1, 2, 3, 4, 5, 6]}
    with pytest.raises(InputError, match=r"'label', 'relevance'; .*--columns label=label,skip=relevance"):
        read(tmp_path, container, columns, monkeypatch)
    data = read(tmp_path, container, columns, monkeypatch, columns={"label": "relevance"})
    assert data.feature_names == ("x",)  # never a feature by itself
    assert data.to_caller_order(data.labels).tolist() == [0, 1, 2, 0, 1, 2]
    chosen = {"label": "label", "feature": "x\nrelevance"}
    assert set(read(tmp_path, container, columns, monkeypatch, columns=chosen).feature_names) == {"x", "relevance"}


def test_several_files_become_one_data_set(tmp_path):
    (tmp_path / "a.csv").write_text("qid,label,x,y\na,1,1,2\nb,0,3,4\n")
    (tmp_path / "b.csv").write_text("qid,label,y,x\nc,1,6,5\n")
    data = read_data([tmp_path / "a.csv", str(tmp_path / "b.csv")])
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.query_ids.tolist() == ["a", "b", "c"]
    (tmp_path / "c.csv").write_text("qid,label,y,x\nb,1,6,5\n")
    with pytest.raises(InputError, match=r"c.csv: has the query 'b', and so has .*a.csv; expected every query in one"):
        read_data([tmp_path / "a.csv", tmp_path / "c.csv"])
    (tmp_path / "d.csv").write_text("qid,label,y,z\nd,1,6,5\n")
    with pytest.raises(InputError, match=r"d.csv: has other features: 'x' is in this file or in"):
        read_data([tmp_path / "a.csv", tmp_path / "d.csv"])
    with pytest.raises(InputError, match="no files"):
        read_data([])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_missing_values_and_categories_go_round(tmp_path, suffix):
    rng = np.random.default_rng(3)
    values = rng.standard_normal(12).astype(np.float32)
    values[[2, 7]] = np.nan
    columns = {"qid": list("aaabbbcccddd"), "docid": [f"d,{n}" for n in range(12)], "label": [n % 3 for n in range(12)]}
    colours = ["red", None, 'a "b", c'] * 4
    data = from_frame(pandas.DataFrame({**columns, "x": values, "colour": colours}))
    write_data(data, tmp_path / f"t{suffix}")
    again = read_data(tmp_path / f"t{suffix}", dtype="float64")
    np.testing.assert_array_equal(again.X, data.X)
    assert again.categories == data.categories
    assert (again.labels.tolist(), again.doc_ids.tolist()) == (data.labels.tolist(), data.doc_ids.tolist())


def test_what_text_would_change_is_not_written(tmp_path):
    frame = pandas.DataFrame({"qid": ["a", "a"], "label": [0, 1], "size": pandas.Categorical(["7", "8"])})
    with pytest.raises(InputError, match=r"categories of 'size' would not be read as such from text; exp"):
        write_data(from_frame(frame), tmp_path / "t.csv")
    named = from_frame(pandas.DataFrame({"qid": ["a"], "label": [0], "x": [1.0]}))

    with pytest.raises(InputError, match="columns that look like labels, 'label', 'rating'"):
        write_data(replace(named, feature_names=("rating",)), tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())


RUN = "q Q0 d1 1 2.5 my best run\nq Q0 d2 2 1.5 my best run\nq Q0 d1 3 9 my best run\nr Q0 d1 1 1 t\n"


def test_duplicates_and_tags_with_blanks(tmp_path):
    (tmp_path / "a.run").write_text(RUN)
    with pytest.raises(InputError, match=r":3: duplicate document 'd1' in query 'q' \(first on line 1\).*--duplicates"):
        read_run(tmp_path / "a.run")
    first = read_run(tmp_path / "a.run", duplicates="keep-first")
    assert (first.documents, first.values.tolist()) == ([b"d1", b"d2", b"d1"], [2.5, 1.5, 1])
    best = read_run(tmp_path / "a.run", duplicates="keep-best")
    assert sorted(zip(best.documents, best.values.tolist(), strict=True)) == [(b"d1", 1), (b"d1", 9), (b"d2", 1.5)]
    (tmp_path / "t.csv").write_text("query,docid,score\nq,d,1\nq,d,3\nq,d,3\n")
    assert read_run(tmp_path / "t.csv", duplicates="keep-best").values.tolist() == [3]
    with pytest.raises(InputError, match="duplicates is 'best'; expected 'error', 'keep-first' or 'keep-best'"):
        read_run(tmp_path / "a.run", duplicates="best")


def test_kept_duplicates_are_those_of_a_loop(tmp_path):
    rng = np.random.default_rng(5)
    rows = [(f"q{rng.integers(4)}", f"d{rng.integers(6)}", float(rng.integers(5))) for _ in range(120)]
    (tmp_path / "a.run").write_text("".join(f"{q} Q0 {d} 1 {score} t\n" for q, d, score in rows))
    first, best = {}, {}
    for q, d, score in rows:
        first.setdefault((q, d), score)
        best[q, d] = max(best.get((q, d), score), score)
    for kept, expected in (("keep-first", first), ("keep-best", best)):
        run = read_run(tmp_path / "a.run", duplicates=kept)
        queries = np.repeat(run.query_ids, np.diff(run.indptr)).tolist()
        found = {
            (q, d.decode()): value for q, d, value in zip(queries, run.documents, run.values.tolist(), strict=True)
        }
        assert found == expected


def test_duplicates_on_the_commands(tmp_path, capsys):
    (tmp_path / "a.run").write_text(RUN)
    (tmp_path / "q.txt").write_text("q 0 d1 1\nr 0 d1 1\n")
    run, qrels = str(tmp_path / "a.run"), str(tmp_path / "q.txt")
    (tmp_path / "b.run").write_text(RUN.replace("2.5", "3.5"))
    for arguments in (
        ["evaluate", qrels, run, "-m", "AP"],
        ["compare", qrels, run, str(tmp_path / "b.run"), "-m", "AP"],
        ["fuse", run, "-o", str(tmp_path / "f.run")],
        ["features", "--runs", run, "--qrels", qrels, "-o", str(tmp_path / "f.txt")],
    ):
        assert main(arguments) == 2
        assert "--duplicates keep-first or keep-best" in capsys.readouterr().err
        assert main([*arguments, "--duplicates", "keep-best"]) == 0
        capsys.readouterr()
    (tmp_path / "c.run").write_text("q Q0 d1 1 2.5 my best run\n")
    assert main(["convert", str(tmp_path / "c.run"), "-o", str(tmp_path / "d.run")]) == 0
    assert (tmp_path / "d.run").read_text() == "q Q0 d1 1 2.5 my_best_run\n"
