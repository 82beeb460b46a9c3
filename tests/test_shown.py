"""Runs every command and every piece of Python that the documentation shows, on small made-up files.

Each page runs from top to bottom in its own folder, so a command finds the output of the commands above it. Commands
that need data outside the repository are checked as far as possible without the data.
"""

import argparse
import ast
import json
import re
import shutil
from contextlib import nullcontext
from glob import glob
from pathlib import Path

import click
import pytest

import rankwright
from made_up import MadeUp, small_collection
from rankwright.cli.main import cli, main
from rankwright.cli.precompile import Precompiler
from rankwright.cluster.worker import Processes
from rankwright.experiments.checks import check_text
from rankwright.measures import REGISTRY
from shown import DOCS, FILES, LANGUAGES, PAGES, ROOT, languages, name_of, shown, text_of

COMMANDS = DOCS / "reference" / "commands.md"  # generated from the help of every command
PAGES_TO_READ = [page for page in (*FILES, *PAGES) if page != COMMANDS]
EXEMPT = ("git clone", "pip install")  # they install the program

ENGINE = "text/docs.jsonl text/train.jsonl text/qrels.txt text/logged.txt"
# The files that exist before the first command of a page or, in a dictionary, below one of its headings.
MATERIAL: dict[str, str | dict[str, str]] = {
    "README.md": {
        "Rankwright": "letor/train.csv letor/test.csv letor/old.scores",
        "What it does": "text/qrels.txt text/broken.run",
    },
    "docs/adaptation.md": (
        "letor/web.rkw letor/news.rkw letor/web.txt letor/train.txt letor/valid.txt letor/test.txt letor/later.txt"
    ),
    "docs/comparing.md": "text/qrels.txt text/bm25.run text/mine.run letor/test.txt letor/old.scores letor/new.scores",
    "docs/formats.md": {
        "CSV and other tables": "letor/train.csv letor/shop.csv",
        "Judgements": "text/docs.index text/ratings.csv text/queries.tsv text/bm25.run",
    },
    "docs/demo.md": {
        "What it leaves behind": "text/demo",
        "The same, step by step": "text/docs.jsonl text/train.jsonl text/valid.jsonl text/test.jsonl text/qrels.txt",
    },
    "docs/howto/adapt.md": (
        "letor/web.txt letor/web-valid.txt letor/news.txt letor/news-valid.txt letor/train.txt letor/vali.txt "
        "letor/test.txt"
    ),
    "docs/howto/auto.md": "letor/train.txt letor/test.txt",
    "docs/howto/certificate.md": "letor/train.txt letor/vali.txt",
    "docs/howto/clicks.md": (
        "logs/log.csv logs/ubi_events.jsonl logs/ubi_queries.jsonl text/docs.index text/queries.jsonl "
        "text/person.qrels text/model.qrels text/bm25.run text/mine.run"
    ),
    "docs/howto/clicks-to-judgements.md": (
        "logs/log.csv text/docs.index text/queries.jsonl text/train.jsonl text/train.qrels text/test.jsonl "
        "text/test.qrels"
    ),
    "docs/howto/cross-validation.md": "letor/train.txt letor/web.rkw",
    "docs/howto/deploy.md": "letor/train.txt letor/test.txt",
    "docs/howto/deploy-elasticsearch.md": ENGINE,
    "docs/howto/deploy-opensearch.md": ENGINE,
    "docs/howto/deploy-solr.md": ENGINE,
    "docs/howto/deploy-vespa.md": ENGINE,
    "docs/howto/explain.md": "letor/train.txt letor/vali.txt letor/test.txt",
    "docs/howto/export.md": "letor/train.txt letor/vali.txt letor/test.txt",
    "docs/howto/from-lightgbm.md": "letor/train.txt letor/vali.txt letor/test.txt",
    "docs/howto/from-ranklib.md": "letor/train.txt letor/vali.txt letor/test.txt letor/ranklib.txt",
    "docs/howto/fuse.md": "text/bm25.run text/dense.run text/qrels.txt text/train.qrels text/valid.qrels "
    "text/test.qrels",
    "docs/howto/judge.md": "text/docs.index text/queries.jsonl text/model.rkw text/bm25.run text/mine.run "
    "text/judgements",
    "docs/howto/letor.md": {
        "": "letor/train.txt letor/vali.txt letor/test.txt",
        "Five folds": "letor/S1.txt letor/S2.txt letor/S3.txt letor/S4.txt letor/S5.txt",
    },
    "docs/howto/no-judgements.md": "text/docs.jsonl text/train.jsonl text/test.jsonl text/judgements text/compared",
    "docs/howto/pairs.md": "letor/train.txt letor/vali.txt letor/test.txt",
    "docs/howto/own-rankers.md": "letor/train.txt letor/vali.txt letor/test.txt letor/mine.py letor/baselines.toml",
    "docs/howto/partitions.md": "letor/big",
    "docs/howto/pyterrier.md": "text/docs.jsonl text/queries.jsonl text/qrels.txt",
    "docs/howto/scale.md": "letor/test.txt letor/big.partitions",
    "docs/howto/serve.md": "text/demo",
    "docs/howto/website.md": "website/site website/ratings.csv",
    "docs/lambda-family.md": "letor/train.txt letor/vali.txt letor/test.txt",
    "docs/max-margin-family.md": "letor/train.txt letor/valid.txt",
    "docs/max-margin.md": "letor/train.txt letor/valid.txt letor/test.txt",
    "docs/adding-a-measure.md": "letor/train.txt letor/test.txt letor/nrbp.py",
    "docs/experiments.md": "text/python-docs-results",
    "docs/measures.md": "text/bm25.run text/sampled.qrels text/diversity.qrels",
    "docs/report.md": "text/python-docs-results text/results-old text/results-new",
    "docs/retrieval.md": "text/docs.index text/queries.jsonl text/qrels.txt",
    "docs/splits-and-scaling.md": "letor/train.txt",
    "docs/text.md": {
        "Documents": "text/site text/products.csv",
        "The index on disk": "text/more.jsonl",
        "Numbers of documents": "text/shop.jsonl text/clicks.csv text/queries.jsonl text/qrels.txt",
        "Other systems' runs as features": "text/train/bm25.run text/train/dirichlet.run text/train/jm.run "
        "text/train/names.run text/valid-fusion.txt text/test-fusion.txt text/test/bm25.run text/test/dirichlet.run "
        "text/test/jm.run text/test/names.run",
    },
    "docs/training-health.md": {
        "": "letor/train.txt letor/vali.txt",
        "Example: OHSUMED, fold 1": "letor/trainingset.txt.gz letor/validationset.txt.gz",
    },
}
# In the reference every section, one per command, has its own folder.
REFERENCE = {
    "rankwright": "letor/train.txt letor/test.txt text/qrels.txt text/bm25.run text/mine.run",
    "rankwright adapt": "letor/web.rkw letor/news.rkw letor/train.txt letor/valid.txt letor/test.txt letor/later.txt",
    "rankwright agreement": "text/judgements text/qrels.txt text/others.qrels",
    "rankwright clicks": "logs/log.csv logs/f.rank",
    "rankwright compare": "text/qrels.txt text/bm25.run text/mine.run text/yours.run letor/test.txt letor/old.scores "
    "letor/new.scores",
    "rankwright convert": "letor/train.txt.gz letor/rank.train letor/rank.train.query letor/shop.csv letor/big",
    "rankwright diagnose": "letor/train.txt letor/vali.txt",
    "rankwright evaluate": "text/qrels.txt text/bm25.run text/mine.run.gz letor/test.txt letor/scores.txt "
    "letor/big.partitions letor/big.scores",
    "rankwright experiment": "text/python-docs-results",
    "rankwright experiment check": "text/exp.toml",
    "rankwright experiment report": "text/python-docs-results text/results-old text/results-new",
    "rankwright experiment run": "text/exp.toml text/python-docs-results",
    "rankwright experiment table": "text/python-docs-results",
    "rankwright explain": "letor/model.rkw letor/test.txt",
    "rankwright export": "letor/model.rkw letor/trees.rkw letor/test.txt",
    "rankwright features": "text/docs.index text/shop.index text/queries.tsv text/qrels.txt text/bm25.run "
    "text/dense.run",
    "rankwright fuse": "text/bm25.run text/dirichlet.run text/qrels.txt text/valid.qrels",
    "rankwright import": "letor/lightgbm.txt letor/ranklib.txt letor/test.txt",
    "rankwright index": "text/docs.jsonl.gz text/docs.tsv text/more.jsonl text/shop.jsonl text/clicks.csv text/site "
    "text/products.csv",
    "rankwright info": "letor/train.txt.gz text/qrels.txt letor/model.rkw",
    "rankwright judge": "text/docs.index text/queries.jsonl text/model.rkw text/bm25.run text/mine.run",
    "rankwright rank": "letor/model.rkw letor/test.txt letor/big.partitions",
    "rankwright search": "text/docs.index text/model.rkw text/queries.jsonl text/qrels.txt",
    "rankwright serve": "text/docs.index text/model.rkw",
    "rankwright train": "letor/train.txt letor/vali.txt letor/test.txt letor/shop.csv letor/big.partitions "
    "logs/pages.rank logs/p.csv",
}


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        yield MadeUp(tmp_path_factory.mktemp("made_up"))


FEW = {"n_trees": 30, "n_rounds": 30, "epochs": 20, "patience": 5}  # defaults of rankers instead of their own


def small(patch):
    """Use a small demo collection and few rounds, run and compile everything in this process, and skip plotting."""
    patch.setattr("rankwright.cli.train.precompiling", lambda method, *_: nullcontext(Precompiler(method, None)))
    patch.setattr("rankwright.cluster.dask.connect", lambda address: Processes(1))
    patch.setattr("rankwright.cluster.dask.local_cluster", lambda n: Processes(1))
    patch.setattr("rankwright.datasets.python_docs", lambda **_: small_collection())
    patch.setattr("rankwright.experiments.running.usable_cores", lambda: 1)
    patch.setattr("matplotlib.figure.Figure.savefig", lambda figure, target, **_: save_nothing(target))
    for name in dir(rankwright):
        defaults = getattr(getattr(getattr(rankwright, name), "__init__", None), "__kwdefaults__", None) or {}
        for parameter in set(FEW) & set(defaults):
            patch.setitem(defaults, parameter, FEW[parameter])
    patch.delenv("RANKWRIGHT_DATA", raising=False)


def save_nothing(target):
    """Write an empty file instead of a plot."""
    target.write(b"") if hasattr(target, "write") else Path(target).write_bytes(b"")


class Reader:
    """A user who types what a page shows."""

    def __init__(self, page, material, folder, made_up, patch, capsys):
        self.page, self.folder, self.made_up, self.capsys = page, folder, made_up, capsys
        self.material = {"": material} if isinstance(material, str) else dict(material)
        self.names = None
        patch.chdir(folder)
        for name, measure in REGISTRY.items():  # a page that shows how to add one registers it again
            patch.setitem(REGISTRY, name, measure)

    def read(self, text):
        self.lay_out("")
        for thing in shown(text):
            if thing.kind == "heading":
                self.lay_out(thing.text)
            elif thing.kind == "python":
                self.execute(thing.text)
            elif not thing.text.startswith(EXEMPT):
                program, *arguments = thing.words
                self.follow(program, arguments, thing.kind == "mention", thing.error)
        assert not self.material, f"no such headings: {list(self.material)}"

    def lay_out(self, heading):
        for name in self.material.pop(heading, "").split():
            self.made_up.lay_out(name, self.folder)

    def execute(self, code):
        if self.names is None:
            self.names = self.made_up.names()
        exec(compile(code, self.page, "exec"), self.names)

    def follow(self, program, arguments, mention, error):
        if program == "make":
            assert set(arguments) <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        elif program == "python":
            check_script(*arguments)
        elif "DATA" in arguments:
            self.prepare_experiment(arguments)
        elif "cuda" in arguments or (mention and isinstance(find_command(arguments[:-1]), click.Group)):
            # A command that needs a GPU, or only the name of a command.
            assert find_command(arguments) is not None, arguments
        else:
            if arguments[0] in ("serve", "judge"):  # which do not end by themselves
                arguments = [*arguments, "--port", "0", "--try"]
            self.capsys.readouterr()
            arguments = [name for word in arguments for name in (sorted(glob(word)) or [word])]  # as a shell does
            code = main(arguments)
            said = self.capsys.readouterr().err
            assert (code, error) == (0, None) or (code, said) == (2, f"{error}\n"), f"{arguments}: {said}"

    def prepare_experiment(self, arguments):
        """Check the file of an experiment whose data are not available, and substitute other results for its own."""
        command = find_command(arguments)
        assert command is not None, arguments
        (self.folder / "DATA").mkdir(exist_ok=True)
        shutil.copytree(ROOT / "experiments", self.folder / "experiments", dirs_exist_ok=True)
        given = command.make_context("", arguments[2:]).params
        file = given["file"]
        check_experiment(file)
        results = given.get("output") or file.parent / f"{file.stem}-results"
        shutil.copytree(self.made_up.path("text/python-docs-results"), self.folder / results, dirs_exist_ok=True)


def find_command(words):
    """Return the command or group that the words start with, or None."""
    command = cli
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word)
    return command


def check_experiment(file):
    """Check that the missing data are the only problem of a file."""
    _, problems = check_text(file.read_text(), file)
    others = [str(problem) for problem in problems if not re.search(r": no (folder )?\S+ in ", str(problem))]
    assert not others


def check_script(script, *arguments):
    """Check that the script exists and, as far as its source shows, accepts these arguments."""
    parser = argparse.ArgumentParser(conflict_handler="resolve")  # of the script, and of those beside it
    sources = [ROOT / script]
    for source in sources:  # which grows
        beside = [source.parent / f"{name}.py" for name in re.findall(r"^from (\w+) import", source.read_text(), re.M)]
        sources += [path for path in beside if path.exists() and path not in sources]
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                options = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg == "nargs"}
                parser.add_argument(*(ast.literal_eval(argument) for argument in node.args), **options)
    parser.parse_args(arguments)


TUTORIAL = DOCS / "tutorial.md"
PAGES_TO_RUN = [
    page
    for page in PAGES_TO_READ
    if page != TUTORIAL and any(thing.kind != "heading" for thing in shown(text_of(page)))
]


@pytest.mark.parametrize("page", PAGES_TO_RUN, ids=name_of)
def test_everything_shown_runs(page, made_up, tmp_path, monkeypatch, capsys):
    small(monkeypatch)
    Reader(name_of(page), MATERIAL.get(name_of(page), ""), tmp_path, made_up, monkeypatch, capsys).read(text_of(page))


def test_blocks_are_in_languages_that_the_site_knows():
    problems = {name_of(page): languages(text_of(page)) - set(LANGUAGES) for page in PAGES_TO_READ}
    assert not {name: unknown for name, unknown in problems.items() if unknown}


def test_the_tutorial_ends_with_the_value_of_its_comparison(made_up, tmp_path, monkeypatch, capsys):
    small(monkeypatch)
    reader = Reader(name_of(TUTORIAL), "", tmp_path, made_up, monkeypatch, capsys)
    reader.read(text_of(TUTORIAL))
    capsys.readouterr()
    runs = ["python-docs/qrels.txt", "bm25.run", "svm-map.run"]
    assert main(["compare", *runs, "--missing", "skip", "-m", "AP", "--json"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert reader.names["result"].means["AP"] == pytest.approx(difference["mean"], abs=1e-12)


def test_the_figures_of_the_tutorial_agree_from_step_to_step():
    text = text_of(TUTORIAL)
    steps = dict(part.split("\n", 1) for part in re.split(r"^## \d. ", text, flags=re.MULTILINE)[1:])
    alone = re.search(r"^ +bm25 +(\S+) +\S+ +(\S+)", steps["How good is BM25?"], re.MULTILINE)
    compared = re.findall(r"bm25 \(baseline\) +(\S+)\n +svm-map +(\S+)", steps["Is it better?"])
    assert [baseline for baseline, _ in compared] == [alone[1], alone[2]]  # AP and RR
    assert re.search(r"^ +svm-map +(\S+)", steps["The same in Python"], re.MULTILINE)[1] == compared[0][1]
    chosen = re.search(r"C +(\S+), the best of", steps["Train"])[1]
    tried = dict(re.findall(r"(\S+): (0\.\d{4})", steps["Train"]))
    assert tried[chosen] == max(tried.values()) == re.search(r"AP +(\S+) on valid.rank", steps["Train"])[1]
    blocks = [line for line in text.splitlines() if line.startswith("    ")]
    known = [abs(float(number)) for number in re.findall(r"-?\d+\.\d+", " ".join(blocks))]
    prose = " ".join(line for line in text.splitlines() if not line.startswith("    "))
    for number in re.findall(r"(?<![\w.])0\.\d+", prose):  # rounded, or as it was printed
        half = 0.5 * 10.0 ** -len(number.partition(".")[2])
        assert any(abs(float(number) - one) <= half + 1e-12 for one in known), number


SECTIONS = re.split(r"^## ", text_of(COMMANDS), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_every_example_in_the_help_runs(section, made_up, tmp_path, monkeypatch, capsys):
    command = section.partition("\n")[0]
    assert any(thing.kind == "command" for thing in shown(section)), "the help has no example"
    small(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    Reader(command, REFERENCE.get(command, ""), tmp_path, made_up, monkeypatch, capsys).read(section)


def test_no_command_is_overlooked():
    known = "|".join(cli.list_commands(click.Context(cli)))
    problems = []
    for page in PAGES_TO_READ:
        text = text_of(page)
        seen = [thing.text for thing in shown(text) if thing.kind in ("command", "mention")]
        n_seen = sum(command.startswith("rankwright ") for command in seen)
        n_there = len(re.findall(rf"(?<![\w/.])(?<!from )rankwright (?:{known})\b", text))
        if n_seen != n_there:
            problems.append(f"{name_of(page)}: {n_there} commands, {n_seen} of them seen")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("options", re.findall(r"`(--method [^`]+)`", (DOCS / "max-margin-family.md").read_text()))
def test_options_in_tables_train(options, made_up, tmp_path):
    data = made_up.path("letor/train.txt")
    assert main(["train", str(data), *options.split(), "-o", str(tmp_path / "model.rkw")]) == 0


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda file: file.stem)
def test_commands_that_need_data_are_checked_as_far_as_possible(file, made_up, tmp_path, monkeypatch, capsys):
    small(monkeypatch)
    reader = Reader("a page", "", tmp_path, made_up, monkeypatch, capsys)
    run = f"rankwright experiment run experiments/{file.name} --data DATA"
    reader.read(f"    {run}\n    rankwright experiment table experiments/{file.stem}-results\n")
    for mistaken in (run.replace(file.stem, "nothing"), f"{run} --job 2", run.replace("run", "ran")):
        with pytest.raises((AssertionError, OSError, click.UsageError)):
            reader.read(f"```sh\n{mistaken}\n```\n")
    with pytest.raises(SystemExit):
        reader.read("    python benchmarks/study_criteria.py DATA --markup criteria.md\n")


@pytest.mark.parametrize(
    "text",
    [
        "    rankwright info nothing.txt\n",
        "```\n$ rankwright info nothing.txt --jason\n```\n",
        "The command `rankwright info nothing.txt` fails.\n",
        "The command `rankwright inform` does not exist.\n",
        "```sh\nls nothing.txt\n```\n",
        "    make nothing\n",
        "```python\nassert nothing\n```\n",
        "    rankwright info nothing.txt\n    rankwright: nothing.txt: something else\n",
    ],
)
def test_mistakes_are_found(text, made_up, tmp_path, monkeypatch, capsys):
    with pytest.raises((AssertionError, NameError)):
        Reader("a page", "", tmp_path, made_up, monkeypatch, capsys).read(text)


def test_material_belongs_to_existing_pages():
    assert set(MATERIAL) <= {name_of(page) for page in PAGES_TO_RUN}
    assert set(REFERENCE) <= {section.partition("\n")[0] for section in SECTIONS}
