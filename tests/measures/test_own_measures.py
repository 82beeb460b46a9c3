"""Measures of users: from a file or a package, in commands and in Python; with an oracle, trained."""

from dataclasses import dataclass
from importlib import metadata

import numpy as np
import pytest
from tests.made_up import block_of_a_page

from rankwright import InputError, RankingData, StructuredSVM, load_plugin, parse_measure, plugins, train, write_letor
from rankwright.cli.main import main
from rankwright.measures import BinaryMeasure, Measure, parse_recorded, register

FIRST = """
from dataclasses import dataclass
from rankwright.measures import BinaryMeasure, register

@register
@dataclass(frozen=True)
class FirstIsGood(BinaryMeasure):
    def value(self, rankings):
        top = rankings.top(1)
        return top.max(self.worth(top.labels)) * {factor}
"""
DATA = RankingData.from_arrays(
    np.random.default_rng(0).normal(size=(48, 3)), np.tile([2, 0, 1, 0], 12), np.repeat(np.arange(12), 4)
)


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FIRST.format(factor=1.0))
    return path


def test_a_file_is_run_again_only_if_it_has_changed(plugin):
    module = load_plugin(plugin)
    first = plugins.code_of(type(parse_measure("FirstIsGood")))
    assert load_plugin(plugin) is module
    plugin.write_text(FIRST.format(factor=0.5))
    assert load_plugin(plugin) is not module
    assert DATA.n_queries == 12
    assert plugins.code_of(type(parse_measure("FirstIsGood"))) != first
    assert plugins.code_of(type(parse_measure("nDCG@10"))) == ""


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("x = 1\ny = nothing\n", 2, "NameError: name 'nothing' is not defined"),
        ("def f(:\n", 1, "SyntaxError"),
        (FIRST.format(factor=1).replace("FirstIsGood", "AP"), 5, "the name 'AP' is already taken by the measure AP"),
    ],
)
def test_what_fails_is_told_with_its_line(tmp_path, text, line, told):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(InputError, match=told) as error:
        load_plugin(path)
    assert (error.value.line, str(error.value.path)) == (line, str(path))
    for wrong, expected in (("nothing.py", "no such file"), ("bad.txt", "not a Python file")):
        with pytest.raises(InputError, match=expected):
            load_plugin(tmp_path / wrong)


def test_commands_know_the_measures_of_a_file(plugin, tmp_path, capsys):
    write_letor(DATA, tmp_path / "d.txt")
    (tmp_path / "scores.txt").write_text("\n".join(map(str, DATA.labels)))
    files = [str(tmp_path / name) for name in ("d.txt", "scores.txt")]
    assert main(["evaluate", *files, "-m", "FirstIsGood", "--plugin", str(plugin)]) == 0
    shown = capsys.readouterr().out
    assert "1.0000" in shown
    assert "FirstIsGood: relevant from label 1, " in shown


def test_an_unknown_measure_stays_unknown_without_the_file(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path), str(tmp_path), "-m", "FirstIsGood"]) == 2
    assert "unknown measure 'FirstIsGood'" in capsys.readouterr().err
    recorded = parse_recorded("FirstIsGood(rel=2)@3")
    assert (str(recorded), recorded.is_mean) == ("FirstIsGood(rel=2)@3", True)
    assert parse_recorded("ndcg@10") == parse_measure("nDCG@10")
    with pytest.raises(InputError):
        parse_recorded("nDCG@many")


def test_installed_packages_offer_measures_and_rankers(monkeypatch):
    @dataclass(frozen=True)
    class FromAfar(BinaryMeasure):
        def value(self, rankings):
            return np.ones(rankings.n_queries)

    class Far:
        def fit(self, X, y): ...

        def predict(self, X):
            return X[:, 0]

    class Point:
        def __init__(self, name, thing):
            self.name, self.value, self._thing = name, f"far:{name}", thing

        def load(self):
            if isinstance(self._thing, Exception):
                raise self._thing
            return self._thing

    offered = {plugins.MEASURES: [Point("m", FromAfar)], plugins.RANKERS: [Point("far", Far)]}
    real = metadata.entry_points  # numba has some, too
    monkeypatch.setattr(metadata, "entry_points", lambda **some: offered.get(some.get("group")) or real(**some))
    plugins.installed.cache_clear()
    try:
        assert isinstance(parse_measure("fromafar@5"), FromAfar)
        assert train("far", DATA).method == "far"
        offered[plugins.MEASURES] = [Point("broken", ImportError("no module"))]
        plugins.installed.cache_clear()
        with (
            pytest.warns(UserWarning, match="far:broken of the entry points .* cannot be loaded"),
            pytest.raises(InputError),
        ):
            parse_measure("nothing_like_it")
    finally:
        plugins.installed.cache_clear()


def test_a_class_that_was_typed_may_be_typed_again():
    for _ in range(2):
        made = type("Typed", (Measure,), {"__module__": "builtins", "__qualname__": "Typed"})
        assert register(made).name == "Typed"


def test_the_measure_with_an_oracle_is_trained(tmp_path):
    (tmp_path / "nrbp.py").write_text(block_of_a_page("nrbp.py"))
    load_plugin(tmp_path / "nrbp.py")
    measure = parse_measure("nRBP(p=0.7)@3")
    assert measure.swap_deltas([2, 0, 1, 0]) == pytest.approx(
        measure.brute_force_swap_deltas(*np.array([[2.0, 0, 1, 0]] * 2))
    )
    oracle = measure.oracle()
    _check_against_all_rankings(measure, oracle)
    trained = train("svm-nrbp", DATA, settings={"C": 1.0, "max_passes": 30})
    assert (trained.method, str(trained.measure)) == ("svm-nrbp", "nRBP")
    assert trained.facts.certificate is not None
    assert StructuredSVM(loss=measure, C=1.0, max_passes=30).fit(DATA).method_name() == "svm-nrbp@3"


def _check_against_all_rankings(measure, oracle):
    """The kernel's loss and coefficients are those of the best of all rankings, by margin and loss together."""
    from itertools import permutations

    from rankwright.measures import Rankings
    from rankwright.measures.oracles.common import BINS, WORK

    labels = np.array([2.0, 0.0, 1.0, 0.0])
    scores = np.array([0.1, 0.4, -0.2, 0.3])
    parameters, coef = oracle.parameters(4), np.zeros(4)
    order = np.argsort(-scores, kind="stable")
    labels.flags.writeable = False
    loss = oracle.kernel(scores, labels, order, parameters, coef, np.zeros(WORK * 4 + BINS))
    decay = measure.cut_discounts(4)
    found = loss - coef @ scores
    best = -np.inf
    ideal = np.array([decay[0], decay[2:].mean(), decay[1], decay[2:].mean()])
    for ranking in permutations(range(4)):
        weights = np.empty(4)
        weights[list(ranking)] = decay
        value = measure.value(Rankings(labels[list(ranking)], np.array([0, 4])))[0]
        best = max(best, 1 - value - (ideal - weights) @ scores)
    assert found == pytest.approx(best, abs=1e-12)
