"""Several backgrounds, in-domain methods and grids of adaptations in experiments: against `adapt` by hand."""

import json

import numpy as np
import pytest
from tests.experiments.experiment_files import FIXED, HEAD, SEVERAL, made, write_all, write_experiment, write_rich
from tests.experiments.test_experiment_adapting import counting_trainings, narrower, renamed, values_of
from tests.experiments.test_experiment_runs import TIMES, replaced, rows

from rankwright import LambdaMART, LambdaRank, RankingData, adapt, evaluate, read_data
from rankwright.errors import InputError
from rankwright.experiments import check_text, run_experiment
from rankwright.io.letor import write_letor
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model, save_model

NET = {"in_domain": "lambdarank", "in_domain_settings": {"hidden": 2, "epochs": 3}}
ONE, TWO = {"backgrounds": "one"}, {"backgrounds": ["two"]}
GRID = {"leaves": [2, 3], "rate": [0.1, 0.5]}
# By name: the adaptation, its parameters, its grid.
WAYS = {
    "back 1": ("background", ONE, {}),
    "back 2": ("background", TWO, {}),
    "both": ("background", {}, {}),
    "in-domain": ("in-domain", NET, {}),
    "2-way": ("interpolate", NET | ONE, {}),
    "3-way": ("interpolate", NET, {}),
    "3-way, lambdarank": ("interpolate", {"weights": "lambdarank"}, {}),
    "neighbours": ("augment", NET, {}),
    "4-way": ("interpolate-3", NET, {}),
    "boost": ("lambdaboost", TWO | {"trees": 5}, {"rate": [0.1, 0.5]}),
    "smart": ("lambdamart", {"trees": 5}, GRID),
    "auto": ("auto", NET | {"trees": 5}, GRID),
}


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def entries(*names):
    text = ""
    for name in names or WAYS:
        way, parameters, grid = WAYS[name]
        text += f'[[method]]\nname = "{name}"\nmethod = "adapt:{way}"\nparameters = {toml(parameters)}\n'
        text += f"grid = {toml(grid)}\n" if grid else ""
    return text


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    write_rich(tmp_path)
    return tmp_path


def test_every_way_is_that_of_adapt(folder):
    results = run_experiment(write_experiment(folder, HEAD + FIXED + SEVERAL + entries()))
    assert results.failures == []
    rich = [renamed(folder / f"rich{number}.txt", at) for number, at in ((1, 1), (3, 2), (2, 1))]
    forest = LambdaMART(6, min_rows=2, max_leaves=4, patience=4, eval_measure="AP").fit(rich[0], eval_set=rich[1])
    models = {"one": forest, "two": LambdaRank(hidden=3, epochs=4, eval_measure="AP").fit(rich[2])}
    data = {"one": RankingData.concatenate(rich[:2]), "two": rich[2]}
    train, valid, test = (read_data(folder / f"{name}.txt") for name in ("train", "vali", "test"))
    runs = {row["method"]: row for row in rows(results, "runs")}
    for name, (way, parameters, grid) in WAYS.items():
        given = {**parameters, **grid}
        used = given.pop("backgrounds", ["one", "two"])
        found = adapt(
            {key: model for key, model in models.items() if key in used}, train, valid, method=way, measure="AP",
            background_data=[some for key, some in data.items() if key in used], **given,
        )  # fmt: skip
        scores = found.model.predict(test)
        saved = load_model(results.folder / runs[name]["model"]).model
        assert np.array_equal(saved.predict(test), scores), name
        expected = evaluate(test, scores, measures=["AP"]).values[:, 0].tolist()
        assert list(values_of(results, name, "AP").values()) == expected
        chosen = json.loads(runs[name]["parameters"])
        assert chosen == ({"method": found.chosen.name} if way == "auto" else {}) | found.chosen.facts
        assert float(runs[name]["validation"]) == found.chosen.value
        if grid and way != "auto":
            path = [row for row in rows(results, "paths") if row["method"] == name]
            assert [json.loads(row["parameters"]) for row in path] == [point for point, _ in found.chosen.tried]
            assert [float(row["validation"]) for row in path] == [value for _, value in found.chosen.tried]
    about = results.manifest["data"][0]["backgrounds"]
    assert [(one["name"], one["method"], one["queries"]) for one in about] == [
        ("one", "lambdamart", 18),
        ("two", "lambdarank", 12),
    ]


def test_test_queries_cannot_influence_an_adaptation(folder):
    later = FIXED.replace("fixed", "later") + 'open_test = "later.txt"\n' + SEVERAL
    write_letor(made(7, 9), folder / "later.txt")
    some = ("4-way", "smart", "boost", "auto")
    path = write_experiment(folder, HEAD + FIXED + SEVERAL + later + entries(*some))
    before = run_experiment(path, output=folder / "before")
    assert before.failures == []
    for name in ("test", "later"):
        write_letor(replaced(read_data(folder / f"{name}.txt"), 99), folder / f"{name}.txt")
    after = run_experiment(path, output=folder / "after")
    assert rows(before, "per_query") != rows(after, "per_query")
    assert rows(before, "paths") == rows(after, "paths")
    for one, other in zip(rows(before, "runs"), rows(after, "runs"), strict=True):
        assert (folder / "before" / one["model"]).read_bytes() == (folder / "after" / other["model"]).read_bytes()
        assert {k: one[k] for k in one if k not in (*TIMES, "model")} == {
            k: other[k] for k in other if k not in (*TIMES, "model")
        }
    # Validation queries do choose, so this test would see a leak.
    write_letor(replaced(read_data(folder / "vali.txt"), 98), folder / "vali.txt")
    path = write_experiment(folder, HEAD + FIXED + SEVERAL + entries("4-way"))
    other = run_experiment(path, output=folder / "other")
    assert rows(other, "runs")[0]["parameters"] not in [row["parameters"] for row in rows(before, "runs")]


def test_only_the_backgrounds_in_use_are_trained_and_count(folder, monkeypatch):
    trained = counting_trainings(monkeypatch)
    path = write_experiment(folder, HEAD + FIXED + SEVERAL + entries("back 1"))
    first = run_experiment(path)
    assert trained == ["lambdamart"]
    assert [one["name"] for one in first.manifest["data"][0]["backgrounds"]] == ["one"]
    cells = set((first.folder / "cells").iterdir())
    path.write_text((HEAD + FIXED + SEVERAL + entries("back 1", "back 2")).replace("hidden = 3", "hidden = 4"))
    run_experiment(path)
    assert trained == ["lambdamart", "lambdarank"]
    assert cells < set((first.folder / "cells").iterdir())  # the first is as it was
    path.write_text((HEAD + FIXED + SEVERAL + entries("back 1", "3-way")).replace("hidden = 3", "hidden = 5"))
    run_experiment(path)
    assert trained == ["lambdamart", "lambdarank", "lambdarank"]


def test_two_rankers_of_the_same_data_give_its_neighbours_once(folder):
    same = SEVERAL.replace('"rich2.txt"', '"rich1.txt"\nvalid = "rich3.txt"')
    results = run_experiment(write_experiment(folder, HEAD + FIXED + same + entries("neighbours")))
    assert results.failures == []
    only = entries("neighbours").replace("{ in_domain =", "{ backgrounds = 'one', in_domain =")
    alone = write_experiment(folder, HEAD + FIXED + SEVERAL + only)
    taken = [json.loads(row["parameters"]) for found in (results, run_experiment(alone)) for row in rows(found, "runs")]
    assert taken[0] == taken[1]


def test_features_that_a_background_lacks(folder):
    text = HEAD + FIXED + SEVERAL + entries("4-way", "smart")
    narrower(folder / "rich2.txt", 3)
    with pytest.raises(InputError, match=r"the background two of fixed: its data has 3 features, but fixed has 4"):
        run_experiment(write_experiment(folder, text))
    text = text.replace('name = "fixed"\n', 'name = "fixed"\nmissing_as_zero = true\n')
    assert run_experiment(write_experiment(folder, text)).failures == []


GOOD = HEAD + FIXED + SEVERAL + entries("back 1", "4-way", "boost", "smart")
ONE_MODEL = '[[data.background]]\nname = "one"\nmodel = "b.rkw"\n'
MODELS = ONE_MODEL + ONE_MODEL.replace("one", "two").replace("b.rkw", "c.rkw")
TWICE = SEVERAL.partition("\n[[")[0] + "\n[[" + SEVERAL.partition("\n[[")[2].partition("\n[[")[0] + "\n"
# What is replaced in the good file, by what, where it is said, and what.
MISTAKES = {
    "no name": ('name = "two"\n', "", "[[data.background]]", "one of several [[data.background]] has no name"),
    "same name": ('name = "two"', 'name = "one"', 'name = "one"', "duplicate name 'one'"),
    "a way": ('name = "two"', 'name = "augment"', 'name = "augment"', "'augment' is a way to adapt; expected another"),
    "same": (SEVERAL, TWICE + TWICE.replace("one", "two"), "[[data.b", "the backgrounds one and two are the same"),
    "same model": (SEVERAL, MODELS.replace("c.rkw", "b.rkw"), "[[data.b", "one and two are the same; expected other"),
    "which": ('backgrounds = "one"', 'backgrounds = "on"', '"on"', "fixed has no background 'on'; did you mean one?"),
    "none": ('backgrounds = "one"', "backgrounds = []", "backgrounds = []", "backgrounds is empty; expected at least"),
    "no data": (SEVERAL, MODELS, "adapt:interpolate-3", "takes neighbours from the background"),
    "in_domain": (
        '"lambdarank", in',
        '"lambdarnk", in',
        "lambdarnk",
        "unknown method 'lambdarnk'; did you mean lambda",
    ),
    "setting": ("hidden = 2", "hiden = 2", "hiden", "lambdarank has no parameter 'hiden'; did you mean hidden?"),
    "value": ("hidden = 2", "hidden = -2", "hidden = -2", "hidden is -2; expected"),
    "not set": ("hidden = 2", "n_jobs = 2", "n_jobs = 2", "n_jobs cannot be set here: use --threads"),
    "its background": ("hidden = 2", "background = 2", "background = 2", "trained on the in-domain data alone"),
    "weights": (
        "epochs = 3 } }",
        'epochs = 3 }, weights = "same" }',
        "same",
        "unknown kind of weights 'same'; expected",
    ),
    "grid": (
        "leaves = [2, 3]",
        "leafs = [2, 3]",
        "leafs",
        "adapt:lambdamart chooses no 'leafs'; expected one of leaves",
    ),
    "grid value": (
        "leaves = [2, 3]",
        "leaves = [2, 1]",
        "leaves = [2, 1]",
        "leaves is 1; expected an integer of at le",
    ),
    "no list": ("leaves = [2, 3]", "leaves = 2", "leaves = 2", "the grid of leaves is 2; expected a list"),
    "twice": ("{ trees = 5 }", "{ trees = 5, rate = 0.1 }", "leaves = [2", "rate is also among the parameters"),
    "boost": ("grid = { rate =", "grid = { leaves =", "grid = { leaves", "adapt:lambdaboost chooses no 'leaves'; exp"),
    "random": (
        "grid = { leaves",
        "random = { n = 3 }\ngrid = { leaves",
        "random",
        "adapt:lambdamart does not take random",
    ),
}


@pytest.mark.parametrize("which", MISTAKES)
def test_every_mistake_has_its_line(folder, which):
    save_model(LinearModel(np.ones(4)), folder / "b.rkw", method="linear", parameters={})
    save_model(LinearModel(np.ones(4)), folder / "c.rkw", method="linear", parameters={})
    old, new, where, said = MISTAKES[which]
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    experiment, problems = check_text(text, write_experiment(folder, text))
    assert experiment is None
    lines = [number for number, line in enumerate(text.splitlines(), 1) if where in line]
    assert {problem.line for problem in problems if said in problem.message} & set(lines), problems
