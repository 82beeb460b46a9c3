"""`--clean` of convert, train, adapt and diagnose, and what info says about it."""

import json

import numpy as np
import pytest
from tests.cli.training_files import made, one_line, run

from rankwright import Cleaner, QueryScaler, RankingData, load_model, read_data, write_data


def unclean(seed, n_queries):
    """Training data in which some documents are all zero and some contradict each other."""
    data = made(seed, n_queries)
    X, labels = data.X.copy(), data.labels.copy()
    X[::17] = 0
    X[3::24], labels[3::24], labels[4::24] = X[4::24] * 2, 2, 0
    return RankingData.from_arrays(X, labels, data.qid, doc_ids=data.doc_ids)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed, n_queries in (("train", 0, 10), ("vali", 1, 6)):
        write_data(unclean(seed, n_queries), tmp_path / f"{name}.txt")
    return tmp_path


def dropped(path, cleaner):
    return cleaner.clean(read_data(path, dtype=np.float64))


def test_convert(files, capsys):
    clean, found = dropped("train.txt", Cleaner())
    assert min(found.all_zero, found.relevant, found.others) > 3
    code, out, err = run(capsys, "convert", "train.txt", "-o", "a.rank", "--clean")
    assert (code, out) == (0, "")
    first, second = err.splitlines()
    assert first == f"cleaned train.txt: dropped {found.text}"
    assert second == f"wrote a.rank: 10 queries, {clean.n_docs} documents, 5 dense float64 features"
    written = read_data("a.rank")
    assert written.doc_ids.tolist() == clean.doc_ids.tolist()
    np.testing.assert_array_equal(written.X, clean.X)


@pytest.mark.parametrize("form", ["--sparse", "--dense"])
def test_convert_with_other_settings(files, capsys, form):
    cleaner = Cleaner(0.8, 2, scaled=True)
    options = ("--clean", "--clean-above", "0.8", "--relevant-from", "2")
    clean, found = dropped("train.txt", cleaner)
    code, _, err = run(capsys, "convert", "train.txt", "-o", "a.rank", *options, "--clean-scaled", form)
    assert code == 0
    assert f"dropped {found.text}\n" in err
    assert read_data("a.rank").doc_ids.tolist() == clean.doc_ids.tolist()
    # Scaled first, then cleaned by what is written.
    assert run(capsys, "convert", "train.txt", "-o", "b.rank", *options, "--scale", "minmax", form)[0] == 0
    scaled = QueryScaler("minmax").transform(read_data("train.txt", dtype=np.float64))
    both = read_data("b.rank", sparse=False)
    np.testing.assert_array_equal(both.X, scaled.X[cleaner.find(read_data("train.txt", dtype=np.float64)).kept])


def test_train_cleans_training_and_validation_data(files, capsys):
    for name in ("train", "vali"):
        write_data(dropped(f"{name}.txt", Cleaner())[0], files / f"{name}-clean.txt")
    common = ("--method", "svm-map", "--C", "1", "-o")
    code, out, err = run(
        capsys, "train", "train.txt", *common, "a.rkw", "--valid", "vali.txt", "--clean", "--threads", "2", "--json"
    )
    assert code == 0
    lines = err.splitlines()
    assert [line.partition(": dropped ")[0] for line in lines[:2]] == ["cleaned train.txt", "cleaned vali.txt"]
    facts = json.loads(out)
    for part, name in (("training", "train"), ("validation", "vali")):
        assert facts["cleaning"][part] == dropped(f"{name}.txt", Cleaner())[1].to_dict()
    assert run(capsys, "train", "train-clean.txt", *common, "b.rkw", "--valid", "vali-clean.txt")[0] == 0
    np.testing.assert_array_equal(load_model("a.rkw").model.coef, load_model("b.rkw").model.coef)


def test_train_without_validation_data_or_cleaning(files, capsys):
    common = ("train", "train.txt", "--method", "rank-svm", "--C", "1", "-o", "a.rkw", "--json")
    facts = json.loads(run(capsys, *common)[1])
    assert facts["cleaning"] == {"training": None, "validation": None}
    # rank-svm has no relevant_from of its own: here it is for cleaning only.
    code, out, _ = run(capsys, *common, "--clean", "--relevant-from", "2")
    assert code == 0
    assert json.loads(out)["cleaning"]["training"]["relevant_from"] == 2
    one_line(run(capsys, *common, "--relevant-from", "2"), "--relevant-from does not go with the method rank-svm")


@pytest.fixture
def same_as_clean(files, capsys):
    """Runs a command on files with ``--clean``, and on files that were cleaned before; what each wrote to ``out``."""

    def check(command, out, read):
        cleaner = Cleaner(0.98)
        said = []
        for name in ("train", "vali"):
            clean, found = dropped(f"{name}.txt", cleaner)
            write_data(clean, files / f"{name}-clean.txt")
            said.append(f"cleaned {name}.txt: dropped {found.text}")
        on_raw = [*command, "train.txt", "--valid", "vali.txt"]
        code, _, err = run(capsys, *on_raw, "--clean", "--clean-above", "0.98")
        assert code == 0, err
        assert err.splitlines()[:2] == said
        first = read(files / out)
        assert run(capsys, *command, "train-clean.txt", "--valid", "vali-clean.txt")[0] == 0
        assert first == read(files / out)
        assert run(capsys, *on_raw)[0] == 0
        assert first != read(files / out)
        one_line(run(capsys, *on_raw, "--clean-scaled"), "--clean-scaled is for --clean")
        one_line(run(capsys, *on_raw, "--relevant-from", "2"), "--relevant-from is for --clean")

    return check


def test_diagnose_cleans_training_and_validation_data(same_as_clean, monkeypatch):
    monkeypatch.setattr("rankwright.cli.diagnose.must_compile", lambda: False)
    command = ("diagnose", "--losses", "map", "--C-grid", "1", "--tol", "0.01", "--csv", "out.csv")
    same_as_clean(command, "out.csv", lambda path: [line.split(",")[:4] for line in path.read_text().splitlines()])


def test_adapt_cleans_training_and_validation_data(same_as_clean, capsys):
    assert run(capsys, "train", "train.txt", "--method", "rank-svm", "--C", "1", "-o", "web.rkw")[0] == 0
    command = ("adapt", "-o", "out.rkw", "--method", "in-domain", "web.rkw")
    same_as_clean(command, "out.rkw", lambda path: load_model(path).model.coef.tolist())


def test_relevant_from_is_for_cleaning_and_training(files, capsys):
    common = ("train", "train.txt", "--method", "svm-map", "--C", "1", "-o", "a.rkw", "--json")
    code, out, _ = run(capsys, *common, "--clean", "--relevant-from", "2")
    assert code == 0
    assert json.loads(out)["cleaning"]["training"]["relevant_from"] == 2
    assert load_model("a.rkw").parameters["relevant_from"] == 2


def test_large_features_are_warned_of(files, capsys):
    X = np.column_stack([np.arange(1000.0, 1008), np.linspace(0, 1, 8)])
    write_data(RankingData.from_arrays([*X, [1, 0], [0, 1]], [0, 1] * 5, group=[8, 2]), "raw.txt")
    code, _, err = run(capsys, "convert", "raw.txt", "-o", "a.txt", "--clean")
    assert code == 0
    assert err.splitlines()[1].startswith("warning: raw.txt: more than half of the documents were dropped")
    code, _, err = run(capsys, "convert", "raw.txt", "-o", "a.txt", "--clean", "--clean-scaled")
    assert (code, "warning" in err) == (0, False)


def test_mistakes(files, capsys):
    convert = ("convert", "train.txt", "-o", "a.rank")
    one_line(run(capsys, *convert, "--clean-above", "0.5"), "--clean-above is for --clean, which is not given")
    one_line(run(capsys, *convert, "--clean-scaled"), "--clean-scaled is for --clean")
    one_line(run(capsys, *convert, "--relevant-from", "2"), "--relevant-from is for --clean")
    for value in ("1", "0", "-1", "nan"):
        one_line(run(capsys, *convert, "--clean", "--clean-above", value), "expected a cosine between 0 and 1")
    one_line(run(capsys, *convert, "--clean", "--relevant-from", "0"), "--relevant-from is 0; expected a number above")
    (files / "zero.txt").write_text("1 qid:1 1:0\n0 qid:1 1:0\n")
    one_line(run(capsys, "convert", "zero.txt", "-o", "a.rank", "--clean"), "zero.txt: cleaning leaves nothing")
    (files / "a.qrels").write_text("1 0 d 1\n")
    one_line(run(capsys, "convert", "a.qrels", "-o", "b.qrels", "--clean"), "--clean is for feature data")
    assert not (files / "a.rank").exists()


def test_info_counts_what_cleaning_would_drop(files, capsys):
    data = read_data("train.txt", dtype=np.float64)
    out = run(capsys, "info", "train.txt")[1]
    lines = [" ".join(line.split()) for line in out.splitlines() if "would drop" in line]
    as_given, scaled = (Cleaner(scaled=scaled).find(data).report() for scaled in (False, True))
    share = f"{scaled.dropped / scaled.documents:.1%}"
    words = f"cleaning --clean --clean-scaled would drop {share} of the documents, all-zero or contradicting each other"
    assert lines == [words]
    found = json.loads(run(capsys, "info", "train.txt", "--json")[1])
    assert found["cleaning"] == as_given.to_dict()
    assert found["cleaning_scaled"] == scaled.to_dict()
    write_data(QueryScaler("minmax").transform(data), "scaled.txt")
    assert json.loads(run(capsys, "info", "scaled.txt", "--json")[1])["cleaning_scaled"] is None
