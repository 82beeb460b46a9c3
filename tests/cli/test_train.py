"""`train` end to end: every method, C by validation, continuing, Ctrl-C."""

import json
import os
import re
import signal
import sys

import numba
import numpy as np
import pytest
from tests.cli.training_files import facts_of, made, one_line, run

from rankwright import RankingData, evaluate, read_data, read_run, write_data
from rankwright.cli import precompile, train
from rankwright.cli.main import main
from rankwright.cli.precompile import noting_compilation
from rankwright.io.letor import write_letor
from rankwright.models.saving import load_model
from rankwright.rankers.base import Ranker

METHODS = {  # as asked for, as shown, default measure
    "svm-map": ("svm-map", "AP"),
    "svm-auc": ("svm-auc", "AUC"),
    "svm-ndcg": ("svm-ndcg@10", "nDCG@10"),
    "SVM-nDCG@3": ("svm-ndcg@3", "nDCG@3"),
    "svm-ndcg-nc": ("svm-ndcg-nc", "nDCG"),
    "svm-mrr": ("svm-mrr@10", "RR@10"),
    "svm-mrr@5": ("svm-mrr@5", "RR@5"),
    "rank-svm": ("rank-svm", "nDCG@10"),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_ranks_and_is_good(files, capsys, method):
    shown, measure = METHODS[method]
    code, out, err = run(capsys, "train", "train.txt", "--method", method, "--valid", "vali.txt", "-o", "m.rkw")
    assert (code, out) == (0, "")
    lines = err.splitlines()
    assert lines[0] == f"trained {shown} on 19 queries of train.txt, 5 features"
    assert lines[1].startswith("  skipped     1 query with nothing to order")
    if method.lower() in ("svm-map", "svm-auc", "svm-ndcg-nc", "rank-svm"):
        assert f", the best of 8 by {measure} on vali.txt" in lines[2]
    else:
        assert re.fullmatch(rf"  C           1, with {measure} of 0\.\d{{4}} on vali\.txt", lines[2])
    assert "of the best possible" in err
    assert f"\n  {measure:<12}0." in err
    assert f"\n              {measure}: " in err
    assert "validation: queries without a relevant document: 1 of 8, counted 0\n" in err
    assert lines[-1] == "wrote m.rkw"

    saved = load_model("m.rkw")
    assert set(saved.measures) == {f"training {measure}", f"validation {measure}"}
    assert saved.training["gap"] <= 1e-3
    assert main(["rank", "m.rkw", "test.txt", "-o", "t.run"]) == 0
    assert read_run("t.run").n_docs == 96
    capsys.readouterr()
    assert main(["evaluate", "test.txt", "t.run", "-m", "AUC", "--json"]) == 0
    (system,) = json.loads(capsys.readouterr().out)["systems"]
    assert system["means"]["AUC"] > 0.7
    assert main(["info", "m.rkw"]) == 0
    assert f"validation {measure} 0." in capsys.readouterr().out


def test_the_values_are_those_of_evaluate(files, capsys):
    facts = facts_of(capsys, "--method", "svm-map", "--valid", "vali.txt", "--measure", "ndcg@3")
    for part, name in (("training", "train.txt"), ("validation", "vali.txt")):
        assert main(["rank", "m.rkw", name, "-o", "s"]) == 0
        capsys.readouterr()
        assert main(["evaluate", name, "s", "-m", "nDCG@3", "--json"]) == 0
        (system,) = json.loads(capsys.readouterr().out)["systems"]
        assert facts["measures"][f"{part} nDCG@3"] == system["means"]["nDCG@3"]


def test_people_get_one_training_value(files, capsys):
    """Of all training queries by the rules of evaluation; what is proved is about those with something to order."""
    code, _, err = run(capsys, "train", "train.txt", "--method", "svm-map", "--C", "1", "-o", "m.rkw")
    assert (code, "skipped     1 query" in err) == (0, True)
    (proved,) = re.findall(r"^  proved +(.*)$", err, re.MULTILINE)
    assert re.fullmatch(r"AP ≥ 0\.\d{4} over the queries trained on", proved)
    facts = facts_of(capsys, "--method", "svm-map", "--C", "1")
    (value,) = re.findall(r"(0\.\d{4}) on train.txt \(training\)", err)
    assert value == f"{facts['measures']['training AP']:.4f}"
    assert facts["proof"]["value"] == pytest.approx(facts["measures"]["training AP"] * 20 / 19)


def test_json_holds_the_facts(files, capsys):
    facts = facts_of(capsys, "--method", "svm-ndcg", "--valid", "vali.txt", "--C-grid", "0.1, 1,10")
    assert (facts["model"], facts["features"], facts["valid"]) == ("m.rkw", "train.txt", "vali.txt")
    assert (facts["queries"], facts["queries_skipped"], facts["documents"], facts["n_features"]) == (19, 1, 240, 5)
    assert [row["C"] for row in facts["C_tried"]] == [0.1, 1.0, 10.0]
    best = max(facts["C_tried"], key=lambda row: row["nDCG@10"])
    assert (facts["C"], facts["measures"]["validation nDCG@10"]) == (best["C"], best["nDCG@10"])
    assert facts["passes_total"] > sum(row["passes"] for row in facts["C_tried"])  # and those of the start
    assert (facts["bound"], facts["start"][:14]) == ("ramp", "svm-map with C")
    assert facts["proof"]["value"] >= facts["proof"]["at_least"]
    assert not facts["interrupted"]
    assert facts["definitions"][0].startswith("nDCG@10: gain 2^rel−1, discount log2")


def test_what_C_is_unless_given(files, capsys):
    assert facts_of(capsys, "--method", "svm-auc", "--cv", "0")["C"] == 1.0
    assert facts_of(capsys, "--method", "svm-auc", "--C", "3", "--valid", "vali.txt")["C"] == 3.0
    assert len(facts_of(capsys, "--method", "svm-auc", "--C", "auto", "--valid", "vali.txt")["C_tried"]) == 8
    code, _, err = run(
        capsys,
        "train",
        "train.txt",
        "--method",
        "svm-auc",
        "-o",
        "m.rkw",
        "--valid",
        "vali.txt",
        "--C-grid",
        "1e-9,1e-8",
    )
    assert code == 0
    assert "end: --C-grid can go further" in err


PAPER = ("--bound", "hinge", "--feature-map", "mrr")


def noisy(files):
    """A file from which MRR cannot be learnt, but MAP can."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * 14, 5))
    labels = np.digitize(X @ np.linspace(2, -1, 5) + 4.0 * rng.normal(size=len(X)), [1.0, 3.0])
    write_letor(RankingData.from_arrays(X, labels, group=[14] * 20), files / "noisy.txt")


def test_weights_no_better_than_0_are_said_first_and_nothing_is_praised(files, capsys):
    noisy(files)
    for options in ((), ("--valid", "vali.txt")):
        code, _, err = run(capsys, "train", "noisy.txt", "--method", "svm-mrr", *PAPER, "-o", "m.rkw", *options)
        assert code == 0
        assert err.startswith("warning: the model learnt nothing: its loss is 100.0 % of")
        first = err.splitlines()[0]
        assert "a larger --C does not change that. svm-map, svm-ndcg-nc and rank-svm do learn from this data" in first
        assert "% of that at weights of 0\n" in err
        assert "proved" not in err
        assert "can go further" not in err
    assert main(["info", "m.rkw"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found[2].split() == ["warning", *first.replace("--C", "C").split()[1:]]
    assert main(["train", "noisy.txt", "--method", "svm-mrr", *PAPER, "-o", "m.rkw", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["no_better_than_zero"]["learn"] == ["svm-map", "svm-ndcg-nc", "rank-svm"]
    assert err.startswith("warning: ")
    assert "proved to be" in run(capsys, "train", "noisy.txt", "--method", "svm-map", "-o", "m.rkw")[2]


def test_a_larger_C_is_recommended_only_where_it_lowers_the_loss(files, capsys):
    (files / "same.txt").write_text("1 qid:1 1:5\n0 qid:1 1:5\n")
    _, _, err = run(capsys, "train", "same.txt", "--method", "svm-auc", "-o", "m.rkw")
    assert "a larger --C does not change that. svm-map, svm-ndcg-nc and rank-svm do not learn from this data" in err
    _, _, err = run(capsys, "train", "train.txt", "--method", "svm-auc", "--C", "1e-6", "-o", "m.rkw")
    assert err.startswith("warning: the model learnt next to nothing with C = 1e-06: its loss is ")
    assert ". A larger --C lowers it\n" in err


def test_options_reach_the_ranker(files, capsys):
    options = ("--relevant-from", "2", "--no-standardize", "--tol", "0.01", "--solver", "one-slack-cutting-plane")
    facts = facts_of(capsys, "--method", "svm-map", *options, "--max-passes", "150")
    assert facts["measure"] == "AP(rel=2)"
    kept = load_model("m.rkw").parameters
    assert (kept["relevant_from"], kept["standardize"], kept["tol"]) == (2, False, 0.01)
    assert (kept["solver"], kept["max_passes"]) == ("one-slack-cutting-plane", 150)
    assert facts_of(capsys, "--method", "svm-map", "--relevant-from", "2", "--measure", "AP")["measure"] == "AP"


def test_solvers_agree(files, capsys):
    one, other = (
        facts_of(capsys, "--method", "svm-map", "--solver", solver, "--tol", "1e-5")["objective"]
        for solver in ("bundle", "one-slack-cutting-plane")
    )
    assert one == pytest.approx(other, rel=2e-5)


def test_the_same_training_gives_the_same_bytes(files, capsys):
    write_letor(made(7, 900), files / "large.txt")  # enough documents for more than one task
    for number, threads in enumerate(("1", "2", "2")):
        options = ("--method", "svm-ndcg", "--valid", "vali.txt", "--threads", threads)
        assert main(["train", "large.txt", *options, "-o", f"{number}.rkw"]) == 0
    first, *others = (files.joinpath(f"{number}.rkw").read_bytes() for number in range(3))
    assert all(other == first for other in others)


def test_continuing_takes_fewer_passes(files, capsys):
    options = ("--method", "svm-map", "--tol", "1e-4")
    first = facts_of(capsys, *options, "--C", "100")
    again = facts_of(capsys, *options, "--continue", "m.rkw")
    assert again["C"] == 100.0
    assert again["passes"] < first["passes"]
    assert again["objective"] == pytest.approx(first["objective"], rel=2e-4)


@pytest.mark.parametrize("name", ["train.rank", "train.parquet"])
def test_other_formats_give_the_same_model(files, capsys, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    write_data(read_data("train.txt"), name)
    for source, target in (("train.txt", "a.rkw"), (name, "b.rkw")):
        assert main(["train", source, "--method", "svm-map", "--valid", "vali.txt", "-o", target]) == 0
    a, b = load_model("a.rkw"), load_model("b.rkw")
    assert a.model.coef.tolist() == b.model.coef.tolist()
    assert a.measures == b.measures


def test_features_are_matched_by_name(files, capsys):
    pytest.importorskip("pyarrow")
    data, vali = read_data("train.txt"), read_data("vali.txt")
    names = list("abcde")
    write_data(data.with_features(data.X, names), "named.parquet")
    write_data(vali.with_features(vali.X[:, ::-1], names[::-1]), "vali.parquet")
    write_data(data.with_features(data.X[:, ::-1], names[::-1]), "turned.parquet")
    write_data(data.with_features(data.X, list("abcdx")), "other.parquet")
    train_on = ("train", "named.parquet", "--method", "svm-map")
    assert main([*train_on, "--valid", "vali.parquet", "-o", "named.rkw"]) == 0
    assert main(["train", "train.txt", "--method", "svm-map", "--valid", "vali.txt", "-o", "m.rkw"]) == 0
    assert load_model("named.rkw").measures == load_model("m.rkw").measures
    turned = ("train", "turned.parquet", "--method", "svm-map", "-o", "t.rkw", "--continue", "named.rkw")
    assert main(list(turned)) == 0
    capsys.readouterr()
    one_line(
        run(capsys, *train_on, "-o", "x.rkw", "--valid", "other.parquet"), "other.parquet: the data lacks 1 of the"
    )
    one_line(run(capsys, "train", "other.parquet", *turned[2:]), "named.rkw: was trained on features of other names")


def test_groups_and_negative_labels(files, capsys):
    lines = [line.split() for line in (files / "train.txt").read_text().splitlines()]
    text = "".join(f"{'-1' if words[0] == '0' else words[0]} {' '.join(words[2:-4])}\n" for words in lines)
    text = "\n".join(line.split(" #")[0] for line in text.splitlines()) + "\n"
    (files / "plain.txt").write_text(text)
    (files / "sizes").write_text("12\n" * 20)
    options = ("train", "plain.txt", "--method", "svm-map", "-o", "g.rkw", "--group", "sizes")
    one_line(run(capsys, *options), "plain.txt:")
    assert main([*options, "--negative-as-zero", "--valid", "plain.txt", "--valid-group", "sizes"]) == 0
    assert load_model("g.rkw").training["queries"] == 19


def test_missing_zeros_at_the_end_of_validation_lines(files, capsys):
    data = read_data("vali.txt")
    write_letor(data.with_features(data.X[:, :3]), files / "short.txt")
    code, out, err = run(
        capsys, "train", "train.txt", "-o", "m.rkw", "--json", "--method", "svm-map", "--valid", "short.txt"
    )
    assert (code, json.loads(out)["valid"]) == (0, "short.txt")
    width = read_data("train.txt").n_features
    what = f"the validation data has 3 of the training data's {width} features"
    assert err == f"warning: {what}; the others count as 0, as text leaves zeros out\n"


def test_validation_on_training_data_is_told_before_training(files, capsys):
    n = read_data("train.txt").n_queries
    code, _, err = run(capsys, "train", "train.txt", "-o", "m.rkw", "--method", "svm-map", "--valid", "train.txt")
    expected = f"warning: {n} of {n} validation queries are also in the training data (first: q0): results on them"
    assert (code, err.startswith(expected)) == (0, True)


def test_a_gap_that_is_left_is_one_warning(files, capsys):
    options = ("train", "train.txt", "--method", "svm-map", "-o", "m.rkw", "--C", "100", "--max-passes", "2")
    code, _, err = run(capsys, *options)
    assert code == 0
    assert err.startswith("warning: stopped at --max-passes 2 with a gap of ")
    assert err.splitlines()[0].endswith("; --tol 0.0001 was not reached")
    assert err.count("warning") == 1
    assert ".py" not in err


@pytest.fixture
def keyboard():
    """Ctrl-C works as in a terminal, also where tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(monkeypatch, at_pass, times=1):
    """Press Ctrl-C during a pass."""
    watched = train.Watch.__call__

    def pressed(self, check):
        if check.passes == at_pass:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
        watched(self, check)

    monkeypatch.setattr(train.Watch, "__call__", pressed)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_keeps_the_best_so_far(files, keyboard, capsys, monkeypatch, times):
    press(monkeypatch, 3, times)
    options = ("train", "train.txt", "--method", "svm-map", "--tol", "1e-9", "--C", "100", "-o", "m.rkw")
    code, _, err = run(capsys, *options)
    assert code == 130
    assert err.startswith("stopping after this pass")
    assert err.endswith("wrote m.rkw, the best model so far\nrankwright: interrupted\n")
    assert "warning" not in err
    saved = load_model("m.rkw")
    assert saved.training["passes"] == 3
    assert saved.model.coef.any()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_choosing_C(files, keyboard, capsys, monkeypatch):
    press(monkeypatch, 4)
    options = ("train", "train.txt", "--method", "svm-map", "--tol", "1e-6", "--valid", "vali.txt", "-o", "m.rkw")
    code, out, _ = run(capsys, *options, "--json")
    facts = json.loads(out)
    assert (code, facts["interrupted"]) == (130, True)
    assert facts["C_left"] + len(facts["C_tried"]) == 8
    assert facts["C_left"] > 0
    code, _, err = run(capsys, *options)
    assert (code, f"; {facts['C_left']} more not tried" in err) == (130, True)


def test_ctrl_c_in_the_first_pass_waits_for_weights(files, keyboard, capsys, monkeypatch):
    press(monkeypatch, 1)
    assert main(["train", "train.txt", "--method", "svm-map", "--C", "100", "-o", "m.rkw"]) == 130
    assert load_model("m.rkw").model.coef.any()


def test_progress_is_one_line_that_is_rewritten(files, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("rankwright.cli.train._INTERVAL", 0.0)
    code, _, err = run(capsys, "train", "train.txt", "--method", "svm-map", "--valid", "vali.txt", "-o", "m.rkw")
    assert code == 0
    live, closing = err.rsplit("\r", 1)
    assert "\n" not in live
    shown = live.split("\r")
    assert re.match(r"pass 1  gap \d[\d.]* %  objective 7\.\S+  bound \d\S*  C 0\.0001 \(1 of 8\) *$", shown[1])
    assert shown[-1].strip() == ""
    assert "trained svm-map" in closing


def test_it_says_when_it_has_to_compile(files, capsys, monkeypatch):
    monkeypatch.setattr(train, "noting_compilation", noting_compilation)
    fit = Ranker.fit_data

    def compiling(*given, **settings):
        for function in (lambda: 1, lambda: 2):  # that no cache has
            numba.njit(function)()
        return fit(*given, **settings)

    said = "compiling the training code, once on this machine: 5 to 40 seconds …\n"
    for method in ("svm-map", "lambdamart"):
        options = ["--valid", "vali.txt"] if method == "lambdamart" else ["--C", "1"]
        run(capsys, "train", "train.txt", "--method", method, *options, "-o", "m.rkw")  # is compiled now
        _, _, err = run(capsys, "train", "train.txt", "--method", method, *options, "-o", "m.rkw")
        assert "compiling" not in err
        with monkeypatch.context() as patched:
            patched.setattr(Ranker, "fit_data", compiling)
            code, _, err = run(capsys, "train", "train.txt", "--method", method, *options, "-o", "m.rkw")
        assert code == 0
        assert err.startswith(said)
        assert err.count("compiling the") == 1
        assert method == "lambdamart" or ", compiling included\n" in err


def test_what_is_compiled_is_seen_on_disk(tmp_path, monkeypatch):
    from rankwright.maxmargin import smoothed

    code = smoothed.minimise.py_func.__code__

    class Kernel:
        py_func = smoothed.minimise.py_func
        signatures = ()

        class stats:
            cache_path = str(tmp_path)

    monkeypatch.setattr("rankwright.maxmargin.hinge._evaluate", Kernel)
    monkeypatch.setattr(smoothed, "minimise", Kernel)
    assert precompile.must_compile()
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    index = tmp_path / f"smoothed.minimise-{code.co_firstlineno}.{version}.nbi"
    index.write_bytes(b"")
    assert not precompile.must_compile()
    os.utime(index, (0, 0))  # older than the source
    assert precompile.must_compile()
    monkeypatch.setattr(Kernel.stats, "cache_path", None)  # unknown: say nothing
    assert not precompile.must_compile()


def test_bins_make_a_model_over_the_raw_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = (np.abs(X[:, 0]) < 0.6).astype(int)  # in the middle is good: no linear model of the raw features says so
    rows = [f"{label} qid:{i // 12} 1:{a} 2:{b}" for i, (label, (a, b)) in enumerate(zip(y, X.tolist(), strict=True))]
    (tmp_path / "train.txt").write_text("\n".join(rows) + "\n")
    assert main(["train", "train.txt", "--method", "svm-map", "--C", "10", "--bins", "20", "-o", "m.rkw"]) == 0
    assert main(["rank", "m.rkw", "train.txt", "-o", "m.scores"]) == 0
    scores = np.loadtxt("m.scores")
    assert evaluate(y, scores, np.arange(120) // 12, measures=["AP"]).means["AP"] > 0.9
    assert load_model("m.rkw").model.n_features == 2
    for refused in (
        ["--method", "lambdamart", "--bins", "9"],
        ["--method", "svm-map", "--bins", "9", "--continue", "m.rkw"],
    ):
        capsys.readouterr()
        assert main(["train", "train.txt", *refused, "-o", "x.rkw"]) == 2
        assert "--bins" in capsys.readouterr().err
    assert main(["train", "train.txt", "--method", "svm-map", "--continue", "m.rkw", "-o", "x.rkw"]) == 2
    assert "m.rkw: not a linear model" in capsys.readouterr().err
