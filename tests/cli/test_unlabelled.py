"""Scoring needs no labels, anywhere; training and evaluation say that they are missing."""

import csv
import json

import numpy as np
import pytest

from rankwright import InputError, LambdaMART, LinearModel, evaluate, from_frame, load_model, read_data
from rankwright.cli.main import main
from rankwright.data.dataset import RankingData

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, rows with labels, and the same rows without them in many containers."""
    folder = tmp_path_factory.mktemp("unlabelled")
    rng = np.random.default_rng(1)
    n = 60
    label = rng.integers(0, 3, n)
    frame = pandas.DataFrame(
        {
            "query_id": [f"q{row // 6}" for row in range(n)],
            "doc_id": [f"d{row}" for row in range(n)],
            "label": label,
            "rating": label + rng.random(n).round(3),  # looks like labels, and is a feature of the model
            "price": rng.integers(1, 90, n).astype(float),
            "stock": rng.choice(["yes", "no", "maybe"], n),
        }
    )
    frame.to_csv(folder / "train.csv", index=False)
    options = ["--columns", "label=label,feature=rating,feature=price,feature=stock", "--set", "n_trees=5", "--cv", "0"]
    model = str(folder / "m.rkw")
    assert main(["train", str(folder / "train.csv"), "--method", "lambdamart", "-o", model, *options]) == 0
    rows = frame.drop(columns="label").assign(note="new, and odd: 3", other=[*["7"] * (n - 1), "x"])
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_csv(folder / "rows.tsv", index=False, sep="\t", encoding="utf-16")
    rows.to_parquet(folder / "rows.parquet")
    rows.to_excel(folder / "rows.xlsx", index=False)
    rows.to_json(folder / "rows.jsonl", orient="records", lines=True)
    return folder


NAMES = ["rows.csv", "rows.tsv", "rows.parquet", "rows.xlsx", "rows.jsonl"]


@pytest.mark.parametrize("name", NAMES)
def test_rank_and_predict(folder, tmp_path, capsys, name):
    model = load_model(folder / "m.rkw")
    columns = {"label": "label", "feature": "rating\nprice\nstock"}
    expected = model.predict(read_data(folder / "train.csv", columns=columns))
    assert main(["rank", str(folder / "m.rkw"), str(folder / name), "-o", str(tmp_path / "a.scores")]) == 0
    assert "no labels, 3 features" in capsys.readouterr().err
    assert np.loadtxt(tmp_path / "a.scores").tolist() == expected.tolist()
    assert model.predict(str(folder / name)).tolist() == expected.tolist()


def test_frames(folder):
    model = load_model(folder / "m.rkw")
    frame = pandas.read_csv(folder / "rows.csv")
    expected = model.predict(folder / "rows.csv").tolist()
    assert model.predict(frame).tolist() == expected
    few = frame[frame.stock == "yes"]  # a category of the model, though all that there is are yes and no
    assert model.predict(few).tolist() == [expected[at] for at in few.index]


def test_rows_with_one_category_only(folder, tmp_path):
    model = load_model(folder / "m.rkw")
    frame = pandas.read_csv(folder / "rows.csv")
    expected = model.predict(frame)
    few = frame[frame.stock != "maybe"]
    for name, write in (("a.csv", few.to_csv), ("a.parquet", few.to_parquet)):
        write(tmp_path / name, index=False)
        assert model.predict(tmp_path / name).tolist() == expected[few.index].tolist()


def test_estimators_take_files(folder):
    data = read_data(folder / "train.csv", columns={"label": "label", "feature": "rating\nprice"})
    ranker = LambdaMART(n_trees=3).fit(data)
    assert ranker.predict(folder / "rows.csv").tolist() == ranker.predict(data).tolist()


def test_a_table_of_the_ranking_has_no_labels(folder, tmp_path):
    assert main(["rank", str(folder / "m.rkw"), str(folder / "rows.csv"), "-o", str(tmp_path / "a.csv")]) == 0
    with open(tmp_path / "a.csv") as file:
        assert next(csv.reader(file)) == ["query_id", "doc_id", "rank", "score"]


def test_explain(folder, capsys):
    arguments = ["explain", str(folder / "m.rkw"), str(folder / "rows.csv")]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main([*arguments, "--query", "q1"]) == 0
    out = capsys.readouterr().out
    assert "  label" not in out
    assert "nan" not in out
    assert main([*arguments, "--query", "q1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"][0]["label"] is None
    assert main([*arguments, "--permute", "2"]) == 2
    assert "rows.csv: has no labels, by which --permute measures" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["train"], ["evaluate"], ["info"], ["diagnose"]])
def test_other_commands_say_that_labels_are_missing(folder, tmp_path, capsys, command):
    more = {"train": ["-o", str(tmp_path / "x.rkw")], "evaluate": [str(folder / "rows.csv")]}.get(command[0], [])
    plain = str(folder / "plain.csv")
    pandas.read_csv(folder / "rows.csv").drop(columns="rating").to_csv(plain, index=False)
    assert main([*command, plain, *more]) == 2
    assert "no column for label (label, rating, grade" in capsys.readouterr().err


def test_python_says_so_where_labels_are_needed(folder):
    data = read_data(folder / "rows.csv", labels="optional", columns={"feature": "price", "skip": "rating"})
    frame = pandas.read_csv(folder / "train.csv")
    assert from_frame(frame, columns={"label": "label", "feature": "price"}).is_labelled
    unlabelled = RankingData.from_arrays(data.X, None, data.qid)
    assert not unlabelled.is_labelled
    assert "labels: none" in str(unlabelled)
    for use in (lambda: LambdaMART(n_trees=1).fit(unlabelled), lambda: evaluate(unlabelled, np.zeros(60))):
        with pytest.raises(InputError, match="the data has no labels"):
            use()
    joined = RankingData.concatenate([unlabelled, unlabelled.select([0])])
    assert not joined.is_labelled
    with pytest.raises(InputError, match="labels is 'no'; expected 'required' or 'optional'"):
        read_data(folder / "rows.csv", labels="no")


def test_a_model_that_needs_every_value_names_a_way_that_works(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{n // 2},{n % 2},{n % 2},{n}\n" for n in range(8))
    (tmp_path / "train.csv").write_text("qid,label,a,b\n" + rows)
    (tmp_path / "rows.csv").write_text("qid,a,b\n1,2,\n1,0,3\n")
    assert main(["train", "train.csv", "--method", "svm-map", "-o", "m.rkw", "--cv", "0"]) == 0
    assert main(["rank", "m.rkw", "rows.csv"]) == 2
    assert "rankwright convert rows.csv -o filled.csv --fill 0" in capsys.readouterr().err
    assert main(["convert", "rows.csv", "-o", "filled.csv", "--fill", "0"]) == 0
    assert main(["rank", "m.rkw", "filled.csv"]) == 0
    for name in ("x.rank", "x.txt"):
        assert main(["convert", "rows.csv", "-o", name, "--fill", "0"]) == 2
        assert "no column for label" in capsys.readouterr().err


def test_letor_lines_without_labels_say_what_to_write(tmp_path):
    (tmp_path / "t.txt").write_text("qid:1 1:0.5\n")
    with pytest.raises(InputError, match="LETOR lines start with a label: write 0 where there is none"):
        LinearModel([1.0]).predict(tmp_path / "t.txt")


def test_a_missing_folder_is_named_by_every_writer(folder, tmp_path, capsys):
    target = tmp_path / "ex" / "out"
    for arguments in (
        ["rank", str(folder / "m.rkw"), str(folder / "rows.csv"), "-o", f"{target}.run"],
        ["train", str(folder / "train.csv"), "-o", f"{target}.rkw", "--columns", "label=label"],
        ["convert", str(folder / "train.csv"), "-o", f"{target}.rank", "--columns", "label=label"],
        ["convert", str(folder / "train.csv"), "-o", f"{target}.parquet", "--columns", "label=label"],
    ):
        assert main(arguments) == 2
        assert f"cannot be written: the folder {target.parent} does not exist; make it first" in capsys.readouterr().err
