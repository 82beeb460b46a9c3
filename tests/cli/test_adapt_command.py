"""`rankwright adapt` end to end, and every bad input with its one line."""

import json
import re

import numpy as np
import pytest

from rankwright import RankingData, RankingSVM
from rankwright.cli.main import main
from rankwright.io.letor import write_letor
from rankwright.models.saving import load_model


def domain(weights, n_queries, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * 10, 3))
    good = X @ np.array(weights) + 0.4 * rng.normal(size=len(X))
    return RankingData.from_arrays(X, np.digitize(good, [0.5, 1.5]), np.repeat(np.arange(n_queries), 10) + 100 * seed)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rich, new = (1.0, 0.3, 0.0), (0.5, 0.3, 1.0)
    RankingSVM(C=1.0).fit(domain(rich, 30, 0)).save("web.rkw")
    for name, (weights, n, seed) in {
        "rich": (rich, 30, 0), "train": (new, 12, 1), "valid": (new, 12, 2), "test": (new, 20, 3), "later": (new, 8, 4),
    }.items():  # fmt: skip
        write_letor(domain(weights, n, seed), f"{name}.txt")
    return tmp_path


BASE = ["adapt", "web.rkw", "train.txt", "--valid", "valid.txt", "-o", "m.rkw"]


def test_everything_at_once(files, capsys):
    further = ["--background-data", "rich.txt", "--test", "test.txt", "--open-test", "later.txt", "--curve", "3,6,50"]
    assert main([*BASE, *further, "--repeats", "2", "--plot", "curve.png"]) == 0
    out, err = capsys.readouterr()
    assert "chosen: " in out
    assert "→ " in out
    for word in ("closed", "open", "harm", "lambdamart", "in-domain queries"):
        assert word in out
    assert err.splitlines() == ["wrote m.rkw", "wrote curve.png"]
    assert load_model("m.rkw").method.startswith("adapted-")
    assert main(["rank", "m.rkw", "test.txt", "-o", "test.scores"]) == 0
    assert main(["info", "m.rkw"]) == 0


def test_without_validation_data(files, capsys):
    words = ["adapt", "web.rkw", "train.txt", "-o", "m.rkw", "--trees", "10", "--leaves", "2,4"]
    assert main([*words, "--cv", "3", "--test", "test.txt"]) == 0
    out, err = capsys.readouterr()
    assert "on train.txt, 3-fold cross-validation: 12 queries; differences from the background ranker" in out
    assert "the best of 2 settings by nDCG@10 on train.txt, 3-fold cross-validation" in out
    assert "12 held-out queries" in out
    assert err == "wrote m.rkw\n"
    assert list(load_model("m.rkw").measures) == ["cross-validated nDCG@10"]
    assert main([*words, "--json", "--method", "interpolate"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["folds"] == 5
    assert facts["candidates"][facts["chosen"]]["value"] > 0.5
    assert main([*words, "--cv", "3", "--valid", "valid.txt"]) == 2
    assert "expected either --cv or --valid" in capsys.readouterr().err


def test_queries_that_are_in_several_files_are_told(files, capsys):
    further = ["--background-data", "rich.txt", "--test", "copy.txt", "--open-test", "later.txt"]
    both = RankingData.concatenate([domain((0.5, 0.3, 1.0), 12, 1).select([2, 5]), domain((1.0, 0.3, 0.0), 30, 0)])
    write_letor(both.select(np.arange(3)), "copy.txt")
    assert main([*BASE[:4], "train.txt", "-o", "m.rkw", *further]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[:4] == [
        "warning: 2 of 3 test queries are also in the training data (first: 102): results on them are too good",
        "warning: 2 of 3 test queries are also in the validation data (first: 102): results on them are too good",
        "warning: 1 of 3 test queries is also in the background data (0): results on it are too good",
        "warning: 12 of 12 validation queries are also in the training data (first: 100): results on them are too good",
    ]
    assert "validation queries are also in the data trained on, which makes results too good" in out


def test_features_that_the_data_lacks(files, capsys):
    narrow = domain((0.5, 0.3, 1.0), 12, 1)
    write_letor(narrow.with_features(narrow.X[:, :2]), "narrow.txt")
    fewer = ["adapt", "web.rkw", "narrow.txt", "--valid", "valid.txt", "-o", "m.rkw", "--method", "interpolate"]
    assert main(fewer) == 2
    expected = "narrow.txt: the data has 2 features, but the model has 3; to take missing features as 0, which text"
    assert expected in capsys.readouterr().err
    assert main([*fewer, "--missing-as-zero"]) == 0
    assert load_model("m.rkw").model.n_features == 3
    assert main([*BASE, "--method", "background", "--test", "narrow.txt"]) == 2
    assert expected in capsys.readouterr().err
    assert main([*BASE[:4], "narrow.txt", "-o", "m.rkw", "--method", "background"]) == 0  # a part of the new data


def test_json(files, capsys):
    assert main([*BASE, "--method", "interpolate", "--test", "test.txt", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["chosen"] == "interpolate"
    assert set(facts["candidates"]) == {"background", "interpolate"}
    assert [row["method"] for row in facts["tests"]] == ["background", "interpolate"]


SEVERAL = ["adapt", "web.rkw", "news.rkw", *BASE[2:]]


@pytest.fixture
def news(files):
    RankingSVM(C=1.0).fit(domain((0.0, 0.2, 1.0), 30, 5)).save("news.rkw")
    write_letor(domain((0.0, 0.2, 1.0), 30, 5), "more.txt")
    return files


def test_several_backgrounds_another_in_domain_method_and_settings_to_choose_from(news, capsys):
    rich = ["--background-data", "rich.txt", "--background-data", "more.txt", "--test", "test.txt"]
    net = ["--in-domain", "lambdarank", "--set", "hidden=4", "--set", "epochs=5"]
    boosting = ["--leaves", "2,4", "--rate", "0.1,0.5", "--trees", "5"]
    assert main([*SEVERAL, *rich, *net, *boosting]) == 0
    out, err = capsys.readouterr()
    for name in ("background (web.rkw)", "background (news.rkw)", "background ", "in-domain", "interpolate-3"):
        assert f" {name}" in out
    assert re.search(
        r"lambdamart: leaves [24], rate 0\.[15], \d trees, the best of 4 settings by nDCG@10 on valid", out
    )
    assert re.search(
        r"lambdaboost: rate 0\.[15], \d rounds, the best of 2 settings by nDCG@10 on valid\.txt \(0\.", out
    )
    assert err.splitlines() == ["wrote m.rkw"]
    assert main([*SEVERAL, *net, "--method", "interpolate", "--weights", "lambdarank"]) == 0
    assert re.search(
        r"weights of scaled scores: [-.\d]+ web.rkw [-+] [.\d]+ news.rkw [-+] [.\d]+ in-dom", capsys.readouterr().out
    )
    assert main([*SEVERAL, *net, "--method", "interpolate", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["candidates"]["interpolate"]["weights"]) == ["web.rkw", "news.rkw", "in-domain"]
    assert main(["rank", "m.rkw", "test.txt", "-o", "test.scores"]) == 0
    assert main(["explain", "m.rkw", "test.txt", "--query", "300"]) == 0
    capsys.readouterr()
    assert main([*BASE, "--method", "lambdamart", *boosting, "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)["candidates"]["lambdamart"]["tried"]
    assert [(point["leaves"], point["rate"]) for point in tried] == [(2, 0.1), (2, 0.5), (4, 0.1), (4, 0.5)]


def test_settings_are_those_of_what_is_trained(files, capsys):
    paper = ["--set", "gain=squared", "--set", "nearness=0", "--set", "background_spread=none"]
    boosted = [*BASE, "--method", "lambdamart", "--trees", "5", "--leaves", "3"]
    assert main([*boosted, "--json"]) == 0
    assert main(["rank", "m.rkw", "test.txt", "-o", "ours"]) == 0
    assert main([*boosted, *paper, "--set", "normalize_queries=false"]) == 0
    assert main(["rank", "m.rkw", "test.txt", "-o", "paper"]) == 0
    assert (files / "ours").read_text() != (files / "paper").read_text()
    net = ["--in-domain", "lambdarank", "--set", "hidden=3", "--set", "epochs=3"]
    assert main([*BASE, "--trees", "5", *net, *paper]) == 0  # auto trains both
    capsys.readouterr()


def test_one_of_several_backgrounds_has_other_features(news, capsys):
    wide = domain((1.0, 0.3, 0.0), 30, 0)
    X = np.hstack([wide.X, wide.X[:, :1]])
    RankingSVM(C=1.0).fit(wide.with_features(X)).save("wide.rkw")
    several = ["adapt", "web.rkw", "wide.rkw", *BASE[2:], "--method", "interpolate"]
    assert main(several) == 2
    expected = "train.txt: the data has 3 features, but the model wide.rkw has 4; to take missing features as 0, which"
    assert expected in capsys.readouterr().err
    assert main([*several, "--missing-as-zero"]) == 2  # without names, one model's features are not the other's
    assert "the data has 4 features, but the model web.rkw has 3" in capsys.readouterr().err


def test_files_of_the_same_name_are_called_by_their_paths(news, capsys):
    (news / "old").mkdir()
    RankingSVM(C=1.0).fit(domain((1.0, 0.0, 0.1), 30, 6)).save("old/web.rkw")
    assert main(["adapt", "web.rkw", "old/web.rkw", *BASE[2:], "--method", "background"]) == 0
    assert "background (old/web.rkw)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BASE, "--curve", "10"], "expected --test"),
        (["adapt", "web.rkw", "./web.rkw", *BASE[2:]], "web.rkw: is given twice as MODEL; expected different files"),
        (["adapt", "web.rkw", "no.rkw", *BASE[2:]], "no.rkw"),
        (["adapt", "web.rkw", "rich.txt", *BASE[2:]], "rich.txt: not a Rankwright model"),
        ([*BASE, *["--background-data", "rich.txt"] * 2], "rich.txt: is given twice as --background-data"),
        ([*BASE, "--background-data", "no.txt"], "no.txt"),
        ([*BASE, "--in-domain", "lambdarnk"], "unknown method 'lambdarnk'; did you mean lambdarank"),
        ([*BASE, "--set", "hidden=3"], "--set is 'hidden=3'; expected NAME=VALUE with one of"),
        ([*BASE, "--in-domain", "lambdarank", "--set", "hidden=-3"], "hidden is -3; expected"),
        ([*BASE, "--method", "lambdaboost", "--set", "gain=squared"], "expected NAME=VALUE with one of background_spr"),
        ([*BASE, "--method", "lambdamart", "--set", "max_leaves=3"], "expected NAME=VALUE with one of background_spr"),
        ([*BASE, "--method", "interpolate", "--set", "gain=squared"], "expected NAME=VALUE with one of "),
        ([*BASE, "--method", "lambdamart", "--set", "gain=square"], "gain is 'square'; expected newton or squared"),
        ([*BASE, "--leaves", "2,x"], "--leaves is '2,x'; expected whole numbers, separated by commas"),
        ([*BASE, "--leaves", "1"], "max_leaves is 1; expected"),
        ([*BASE, "--rate", "0.1,0"], "--rate is '0'; expected numbers above 0"),
        ([*BASE, "--plot", "x.png"], "expected --curve"),
        ([*BASE, "--curve", "ten", "--test", "test.txt"], "numbers of queries"),
        ([*BASE, "--curve", "3", "--test", "test.txt", "--plot", "x.pdf"], ".png or .svg"),
        ([*BASE, "--method", "augment"], "background_data"),
        ([*BASE, "--measure", "nonsense"], "nonsense"),
        ([*BASE[:-1], "missing/m.rkw"], "missing/m.rkw"),
        (["adapt", "train.txt", *BASE[2:]], "train.txt"),
        ([*BASE[:2], "nothing.txt", *BASE[3:]], "nothing.txt"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(files, capsys, arguments, message):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not (files / "m.rkw").exists()
