"""A parameter declared at a ranker is an option of `train`, a key of experiment files and a parameter in Python."""

from dataclasses import dataclass

import pytest
from tests.cli.training_files import one_line, run
from tests.experiments.experiment_files import write_all

import rankwright
from rankwright import InputError, RankNet
from rankwright.cli.main import cli
from rankwright.cli.options import settings_of
from rankwright.cli.train import command
from rankwright.experiments import check_text
from rankwright.rankers.parameters import FLAG, NONE, SHARE, TREES_AND_NETS, Option, Rule, integer, one_of, parameter
from rankwright.training.methods import METHODS, Method, declared_options, set_elsewhere


def toys(text):
    return None if text == "none" else text.split(",")


@dataclass(eq=False, repr=False, kw_only=True)
class ToyRanker(RankNet):
    """A ranker with parameters of its own."""

    zeal: float = parameter(0.5, SHARE, option=Option(TREES_AND_NETS, "toy: how eager it is.", after="background"))
    mood: str = parameter("calm", one_of("calm", "wild"), option=Option("Toys", "How it feels."))
    toy_box: tuple | None = parameter(
        ("ball",), Rule("toys", lambda value: True), option=Option("Toys", "The toys, or none.", read=toys)
    )
    naps: bool = parameter(True, FLAG, option=Option("Toys", "Stay awake.", after="mood"))
    blocks: int | None = parameter(None, integer(2), NONE, option=Option("Toys", "What it builds.", metavar="N"))
    patience_with_cats: int = parameter(3, integer(1))
    only_here: int = parameter(1, integer(1), instead="ask the owner")


EXPERIMENT = """\
[experiment]
measures = ["AP"]

[[data]]
name = "d"
train = "train.txt"
valid = "vali.txt"
test = "test.txt"

[[method]]
method = "toy"
[method.parameters]
zeal = 0.25
"""


@pytest.fixture
def toy(monkeypatch, tmp_path):
    monkeypatch.setattr(rankwright, "ToyRanker", ToyRanker, raising=False)
    monkeypatch.setitem(METHODS, "toy", Method("toy", "ToyRanker"))
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path)
    return METHODS["toy"]


def test_it_is_a_parameter_of_the_estimator(toy):
    assert ToyRanker().get_params()["zeal"] == 0.5
    assert toy.defaults()["mood"] == "calm"
    with pytest.raises(InputError, match=r"zeal is 2; expected a share above 0 and up to 1"):
        ToyRanker(zeal=2).check_parameters()


def test_it_is_in_the_help(toy, capsys):
    code, out, err = run(capsys, "train", "--help")
    assert (code, err) == (0, "")
    nets = out[out.index("Trees and nets:") : out.index("Toys:")]
    assert nets.index("--background") < nets.index("--learning-rate") < nets.index("--zeal FLOAT") < nets.index("--set")
    assert "toy: how eager it is.  [default: 0.5]" in " ".join(nets.split()).replace(". [", ".  [")
    toys = out[out.index("Toys:") : out.index("Other options:")]
    assert toys.index("--mood [calm|wild]") < toys.index("--no-naps") < toys.index("--blocks N")
    assert "[default: calm]" in toys


def test_without_the_toy_there_is_no_trace(capsys):
    _, out, _ = run(capsys, "train", "--help")
    assert "--zeal" not in out
    assert "zeal" not in declared_options()


def test_it_is_an_option_and_a_setting_with_type_and_range(toy, capsys):
    context = command.make_context("train", ["train.txt", "-o", "m", "--zeal", "0.75", "--no-naps", "--blocks", "7"])
    names = ("zeal", "naps", "blocks", "mood")
    given = {name: context.params[name] for name in names}
    with context:
        assert settings_of(toy, given, ["patience_with_cats=4"]) == {
            "zeal": 0.75,
            "naps": False,
            "blocks": 7,
            "patience_with_cats": 4,
        }
        with pytest.raises(InputError, match=r"--zeal does not go with the method svm-map; it is for toy"):
            settings_of(METHODS["svm-map"], given, [])
    train = ("train", "train.txt", "--method", "toy", "--valid", "vali.txt", "-o", "m")
    one_line(run(capsys, *train, "--zeal", "two"), "'--zeal'", "'two' is not a valid float")
    one_line(run(capsys, *train, "--zeal", "2"), "zeal is 2.0; expected a share above 0 and up to 1")
    one_line(run(capsys, *train, "--mood", "sad"), "'--mood'", "'calm', 'wild'")
    one_line(run(capsys, *train, "--blocks", "1"), "'--blocks'", "x>=2")
    one_line(run(capsys, *train, "--set", "patience_with_cats=0"), "patience_with_cats is 0; expected a whole number")
    code, out, err = run(capsys, *train, "--set", "only_here=2")
    assert (code, out) == (2, "")
    assert "patience_with_cats" in err
    assert "only_here," not in err.partition("expected")[2]


@pytest.mark.parametrize(
    ("typed", "value"), [("false", False), ("True", True), ("TRUE", True), ("none", None), ("0", 0)]
)
def test_true_false_and_none_are_set_in_any_case(typed, value):
    (kept,) = settings_of(METHODS["lambdamart"], {}, [f"randomize_nodes={typed}"]).values()
    assert kept is value


@pytest.mark.parametrize(("typed", "value"), [("none", None), ("car,doll", ["car", "doll"])])
def test_what_is_typed_may_mean_none(toy, typed, value):
    context = command.make_context("train", ["train.txt", "-o", "m", "--toy-box", typed])
    with context:
        assert settings_of(toy, {"toy_box": context.params["toy_box"]}, []) == {"toy_box": value}


def test_it_trains(toy, capsys):
    options = ("--zeal", "0.75", "--mood", "wild", "--set", "epochs=2", "--set", "hidden=0")
    code, _, err = run(capsys, "train", "train.txt", "--method", "toy", "--valid", "vali.txt", "-o", "m.rkw", *options)
    assert code == 0, err


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("zeal = 0.25", "zeal = 2", 13, "zeal is 2; expected a share above 0 and up to 1"),
        ("zeal = 0.25", 'zeal = 0.5\nmood = "sad"', 14, "mood is 'sad'; expected calm or wild"),
        ("zeal = 0.25", "zeel = 0.25", 13, "toy has no parameter 'zeel'; did you mean zeal?"),
        ("zeal = 0.25", "only_here = 1", 13, "only_here cannot be set here: ask the owner"),
        ("[method.parameters]\nzeal = 0.25", "[method.grid]\nzeal = [0.5, 7]", 13, "zeal is 7; expected a share"),
    ],
)
def test_it_is_checked_in_experiment_files_with_its_line(toy, tmp_path, old, new, line, message):
    assert check_text(EXPERIMENT, tmp_path / "e.toml")[1] == []
    _, problems = check_text(EXPERIMENT.replace(old, new), tmp_path / "e.toml")
    assert [problem.line for problem in problems] == [line]
    assert problems[0].message.startswith(message)


def test_every_option_has_help_and_every_own_option_exists():
    own = {name for param in command.params for name in param.opts} | {"--help"}
    for name, declared in declared_options().items():
        assert declared.option.help.endswith((".", "]")), name
    for method in METHODS.values():
        for name, declared in method.parameters().items():
            assert not declared.set_by or declared.set_by in own, name
    assert set(set_elsewhere()) == {"loss", "eval_measure", "n_jobs", "callback", "warm_start"}
    assert cli.get_command(None, "train") is command
