"""What other commands make of a folder of judgements; and that nothing is trained for how much is judged."""

import json
from pathlib import Path

import pytest

from rankwright import InputError, LambdaMART, LambdaRank, RankingSVM, StructuredSVM, adapt, read_data, read_qrels
from rankwright.cli.main import main
from rankwright.judging.pool import make_pool
from rankwright.judging.records import Action
from rankwright.judging.session import JudgingPlan, Session
from rankwright.serving.service import Service
from rankwright.text.queries import read_queries

TOPICS = ("wing", "heat", "flow", "plate", "shock", "drag")
REFUSED = "Judged@10 does not say how good a ranking is (share of the first documents that have a judgement)"


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A folder with an index, queries, and what two judges said of the first five documents of two rankers."""
    folder = tmp_path_factory.mktemp("judged-training")
    documents, queries = [], []
    for number in range(60):
        first, second = TOPICS[number % 6], TOPICS[(number // 6 + number) % 6]
        text = f"{first} {second} {'of the body ' * (number % 4)}{first if number % 2 else ''}"
        documents.append({"id": f"d{number:02}", "title": f"{second} {number}", "text": text})
    for number in range(12):
        texts = f"{TOPICS[number % 6]} {TOPICS[(number + 1 + number // 6) % 6]}"
        queries.append({"id": f"q{number:02}", "text": texts})
    for name, rows in (("docs.jsonl", documents), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["index", str(folder / "docs.jsonl"), "-o", str(folder / "docs.index")]) == 0
    asked = read_queries(folder / "queries.jsonl")
    service = Service(folder / "docs.index", [], ("bm25", "dirichlet"))
    pool = make_pool(service.state.index, asked, service.state.rankers, {}, 5)
    wanted = dict(asked)
    titles = {one["id"]: one["title"] for one in documents}
    for judge in ("ann", "bob"):
        session = Session(folder / "judgements", judge, JudgingPlan(pool))
        for at, (query, document) in enumerate(session.pairs):
            grade = 3 if titles[document].split()[0] in wanted[query] else int(document[1:]) % 2
            session.act(at, Action("grade", query, document, grade))
        session.close()
    service.close()
    return folder


@pytest.fixture
def within(judged, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("docs.index", "queries.jsonl", "judgements"):
        (tmp_path / name).symlink_to(judged / name)

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main(list(arguments)) == code, capsys.readouterr().err
        return capsys.readouterr()

    return run


QRELS = "judgements/qrels.txt"
FEATURES = ("features", "docs.index", "queries.jsonl", "--qrels", QRELS, "-o", "train.txt")


def test_from_a_folder_of_judgements_to_an_adapted_ranker(within):
    """features, train, adapt and compare take the qrels of `judge` as they are."""
    within(*FEATURES)
    n_relevant = int((read_qrels(QRELS).values > 0).sum())
    assert (read_data("train.txt").labels > 0).sum() == n_relevant
    within("train", "train.txt", "--method", "rank-svm", "--C", "0.1", "-o", "background.rkw")
    told = within("adapt", "background.rkw", "train.txt", "--in-domain", "rank-svm", "--method", "interpolate",
                  "-o", "adapted.rkw", "--json")  # fmt: skip
    assert json.loads(told.out)["chosen"]
    for name, options in (("bm25", ("--function", "bm25")), ("adapted", ("--model", "adapted.rkw"))):
        within("search", "docs.index", "queries.jsonl", *options, "-o", f"{name}.run")
    told = within("compare", QRELS, "bm25.run", "adapted.run", "-m", "nDCG@5", "-m", "Judged@5", "--json")
    found = json.loads(told.out)
    assert "Judged@5" in str(found)
    within("agreement", "judgements")


def test_nothing_is_trained_for_how_much_is_judged(within):
    within(*FEATURES)
    within("train", "train.txt", "--method", "rank-svm", "--C", "0.1", "-o", "b.rkw")
    train = ("train", "train.txt", "-o", "m.rkw", "--method")
    for arguments in (
        (*train, "rank-svm", "-m", "Judged@10"),
        (*train, "auto", "--measure", "judged@10"),
        (*train, "lambdamart", "--valid", "train.txt", "-m", "Judged@10"),
        (*train, "lambdamart", "--set", "measure=Judged@10"),
        (*train, "lambdarank", "--set", "measure=Judged@10"),
        (*train, "svm-combo", "--losses", "map,judged@10"),
        ("adapt", "b.rkw", "train.txt", "-o", "m.rkw", "-m", "Judged@10"),
        ("diagnose", "train.txt", "--losses", "judged@10"),
    ):
        told = within(*arguments, code=2)
        assert told.err.count("\n") == 1
        assert REFUSED in told.err
    assert not Path("m.rkw").exists()


def test_refused_in_python_too(within):
    within(*FEATURES)
    data = read_data("train.txt")
    for ranker in (
        LambdaMART(measure="Judged@10"),
        LambdaMART(eval_measure="Judged@10"),
        LambdaRank(eval_measure="Judged@10"),
        StructuredSVM(loss="judged@10"),
        StructuredSVM(eval_measure="Judged@10"),
    ):
        with pytest.raises(InputError, match="does not say how good a ranking is"):
            ranker.fit_data(data)
    background = RankingSVM(C=0.1).fit(data.X, data.labels, qid=data.qid)
    with pytest.raises(InputError, match="does not say how good a ranking is"):
        adapt(background, data, measure="Judged@10")


def test_an_experiment_does_not_choose_by_it(within, tmp_path):
    within(*FEATURES)
    (tmp_path / "e.toml").write_text(
        '[experiment]\nname = "e"\nmeasures = ["Judged@10", "AP"]\nchoose_by = "Judged@10"\n'
        '[[data]]\nname = "d"\nfeatures = "train.txt"\n[[method]]\nname = "rank-svm"\n'
    )
    told = within("experiment", "check", "e.toml", code=2)
    assert f"e.toml:4: {REFUSED}" in told.err
    assert "e.toml:3" not in told.err
