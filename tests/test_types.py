"""What type checkers know of `rankwright`: mypy (strict) and pyright (strict, of basedpyright) over a user's code."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rankwright
from rankwright import experiments
from rankwright.rankers.base import Ranker

pytest.importorskip("mypy")
pytest.importorskip("basedpyright")

USER = """
import numpy as np
import rankwright
from rankwright import AutoRanker, Interpolation, LambdaMART, LinearModel, Measure, QueryKFold, RankingData, RankingSVM
from rankwright import StructuredSVM, ThresholdBins, compare, evaluate, nDCG
from rankwright import LambdaMRT  # wrong

X, y, qid = np.ones((4, 2)), np.array([0, 1, 0, 1]), np.array([1, 1, 2, 2])
trees: LambdaMART = LambdaMART(50, learning_rate=0.1, monotone={"bm25": 1}).fit(X, y, qid, eval_set=(X, y, qid))
scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = trees.predict(X)
value: float = trees.score(X, y, [1, 1, 2, 2], measure=nDCG(cutoff=10)) + trees.n_trees_
AutoRanker(members=["lambdamart"], random_state=np.random.RandomState(1)).fit(X, y, group=[2, 2])
Interpolation([0, 1], random_state=None).fit(X, y, qid).set_params(scale=False).get_params()
StructuredSVM("map", C="auto", n_jobs=2).fit(X, y, qid).gap_.is_integer()
RankingSVM(callback=lambda check: check.gap < 0.1).set_fit_request(sample_weight=True).fit(X, y, qid)
bins: ThresholdBins = ThresholdBins(20, spacing="even").fit(X)
bins.fit_transform(X).tocoo()
data: RankingData = RankingData.from_arrays(X, y, qid)
print(compare([evaluate(data, scores, name="a"), evaluate(y, scores, qid, measures=["AP", nDCG(gain="linear")])]))
measure: Measure = rankwright.parse_measure("nDCG@10")
print([len(train) for train, _ in QueryKFold(2).split(X, y, qid=qid)], rankwright.__version__)
rankwright.experiments.run_experiment("file.toml", n_jobs=2)
rankwright.datasets.python_docs(informational=3)

LambdaMART(n_estimators=3)  # wrong
LambdaMART(n_trees="many")  # wrong
LambdaMART(3, 0.1, 10, 255)  # wrong
LambdaMART(random_state="seed")  # wrong
LambdaMART().fit(X, y, qid, weights=[1])  # wrong
StructuredSVM(cost=1.0)  # wrong
StructuredSVM(C=[1.0])  # wrong
AutoRanker(member=["lambdamart"])  # wrong
RankingSVM(callback=3)  # wrong
ThresholdBins(bins=20)  # wrong
ThresholdBins(n_bins="20")  # wrong
nDCG(cut=10)  # wrong
QueryKFold(folds=3)  # wrong
text: str = trees.predict(X)  # wrong
other: RankingSVM = LambdaMART().fit(X, y, qid)  # wrong
print(trees.coef_, LinearModel)  # wrong
rankwright.ndcg  # wrong
rankwright.experiments.start  # wrong
"""
PLACE = re.compile(r"^(\w+)\.py:(\d+): (error|note): (.*)$", re.MULTILINE)
ESTIMATORS = sorted(
    name
    for name in rankwright.__all__
    if inspect.isclass(kind := getattr(rankwright, name)) and issubclass(kind, Ranker)
)
CONSTRUCTED = [*ESTIMATORS, "ThresholdBins", "nDCG", "QueryKFold"]


def attributes(kind):
    """The attributes that its docstring lists."""
    section = re.search(r"\nAttributes\n-+\n(.*?)(\n\n|\Z)", inspect.getdoc(kind), re.DOTALL)
    return re.findall(r"\w+_\b", " ".join(re.findall(r"^\S.*$", section[1], re.MULTILINE)))


def lines_of_names():
    """Everything that users import, the constructors, and what fitted estimators know."""
    names = [f"rankwright.{name}" for name in dir(rankwright)]
    names += [f"rankwright.experiments.{name}" for name in experiments.__all__]
    names += [f"rankwright.{name}().{known}" for name in ESTIMATORS for known in attributes(getattr(rankwright, name))]
    return names


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both tools say of both files: (file, line) → messages, of errors and of types that are revealed."""
    folder, python = tmp_path_factory.mktemp("types"), sys.executable
    names = "\n".join(f"reveal_type({name})" for name in lines_of_names())
    (folder / "names.py").write_text(f"import rankwright\n{names}\n", encoding="utf-8")
    (folder / "user.py").write_text(USER.lstrip(), encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "include": ["."], "reportUnusedExpression": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(Path(rankwright.__file__).parent.parent)}  # found as installed packages are

    def said_by(*command):
        done = subprocess.run(
            [python, "-m", *command], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stdout[-2000:] + done.stderr  # 0: nothing was found; 2: it did not run
        return done.stdout

    mypy, pyright = {}, {}
    for file, line, kind, text in PLACE.findall(
        said_by("mypy", "--strict", "--config-file=", "--no-pretty", "--cache-dir=cache", "user.py", "names.py")
    ):
        mypy.setdefault((file, int(line), kind), []).append(text)
    for row in json.loads(said_by("basedpyright", "--outputjson", "--pythonpath", python))["generalDiagnostics"]:
        kind = "note" if row["severity"] == "information" else "error"
        place = Path(row["file"]).stem, row["range"]["start"]["line"] + 1, kind
        pyright.setdefault(place, []).append(row["message"])
    return {"mypy": mypy, "pyright": pyright}


@pytest.mark.parametrize("tool", ["mypy", "pyright"])
def test_right_uses_pass_and_wrong_ones_are_found(found, tool):
    lines = USER.lstrip().split("\n")
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    errors = {line: texts for (file, line, kind), texts in found[tool].items() if (file, kind) == ("user", "error")}
    missed = [f"not found: {lines[number - 1]}" for number in sorted(wrong - set(errors))]
    refused = [f"refused: {lines[number - 1]} {errors[number]}" for number in sorted(set(errors) - wrong)]
    assert not missed + refused, "\n".join(missed + refused)
    assert len(wrong) > 15


@pytest.mark.parametrize("tool", ["mypy", "pyright"])
def test_every_public_name_and_attribute_has_a_type(found, tool):
    """A name that only `_HOMES` or a registered measure has is an error here: give it to the type checkers as well."""
    problems = []
    for number, name in enumerate(lines_of_names(), 2):
        problems += [f"{name}: {text}" for text in found[tool].get(("names", number, "error"), [])]
        revealed = found[tool].get(("names", number, "note"), ["nothing"])[0]
        if not name.endswith(".model_") and re.search(
            r"^nothing$|type is \"(Any|Unknown)|is \"(Any|Unknown)\"$", revealed
        ):
            problems.append(f"{name}: {revealed}")
    assert not problems, "\n".join(problems)


def test_type_checkers_know_no_more_names_than_there_are():
    problems = []
    for home, names in rankwright._HOMES.items():
        if home != "rankwright.measures":  # of which single names are imported
            problems += [f"{home}: {name}" for name in {*names} ^ {*importlib.import_module(home).__all__}]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructors_are_known_with_their_parameters_and_defaults(found, name):
    line = lines_of_names().index(f"rankwright.{name}") + 2
    (revealed,) = found["mypy"]["names", line, "note"]
    inside = revealed.partition("def (")[2].rpartition(") -> ")[0]
    parameters = re.findall(r"(?:^|, )(?:(\*)|(\w+): )", re.sub(r"\(def \(.*?\) -> \w+\)", "", inside))
    of_checker = [star or parameter for star, parameter in parameters]
    keyword_only = of_checker.index("*") if "*" in of_checker else len(of_checker)
    signature = inspect.signature(getattr(rankwright, name))
    positional = [key for key, given in signature.parameters.items() if given.kind is given.POSITIONAL_OR_KEYWORD]
    assert of_checker[:keyword_only] == positional
    assert [key for key in of_checker if key != "*"] == list(signature.parameters)
    assert inside.count(" =") == len(signature.parameters)  # all have defaults
