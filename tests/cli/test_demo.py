"""`rankwright demo` on a small collection: every step, the files it leaves, and the same again."""

import shlex

import numpy as np
import pytest

from rankwright.cli.main import main
from rankwright.data.trec_table import TrecTable
from rankwright.datasets import Collection
from rankwright.models.saving import load_model

LEFT = {
    *(f"{name}.rkw" for name in ("auto", "svm-map", "svm-mrr", "svm-ndcg", "svm-combo", "lambdamart")),
    *(f"{name}.run" for name in ("bm25", "auto", "svm-map", "svm-mrr", "svm-ndcg", "svm-combo", "lambdamart")),
    *("collection", "docs.index", "train.rank", "valid.rank", "test.rank", "qrels.txt", "means.png", "differences.png"),
}


def small_collection():
    """Documents about one of forty things; a query of one kind names a thing, one of the other kind a group of them."""
    rng = np.random.default_rng(0)
    noise = [f"word{number}" for number in range(60)]
    documents, queries, kinds, labels = [], {}, {}, {}
    for thing in range(40):
        for number in range(3):
            others = " ".join(rng.choice(noise, 12))
            text = f"thing{thing} group{thing % 8} {others}" if number else f"{others} group{thing % 8}"
            documents.append((f"t{thing:02d}.{number}", {"name": f"Thing{thing}", "text": text}))
        queries[f"n{thing:02d}"], kinds[f"n{thing:02d}"] = f"where is thing{thing}", "navigational"
        labels[f"n{thing:02d}"] = {f"t{thing:02d}.{number}": 2 if number else 1 for number in range(3)}
    for group in range(8):
        query = f"i{group}"
        queries[query], kinds[query] = f"all of group{group} {noise[group]}", "informational"
        labels[query] = {f"t{thing:02d}.{number}": 1 for thing in range(group, 40, 8) for number in range(3)}
    return Collection("small", documents, queries, kinds, TrecTable.from_dict(labels))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("rankwright.datasets.python_docs", lambda **_: small_collection())


def test_every_step_and_what_it_leaves(small, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert {path.name for path in (tmp_path / "demo").iterdir()} >= LEFT
    for number in range(1, 7):
        assert f"[{number}/6]" in out
    assert "$ rankwright compare demo/qrels.txt demo/bm25.run" in out
    assert "navig. AP" in out
    assert "Three held-out queries" in out
    assert load_model("demo/svm-map.rkw").model.feature_names[0] == "cosine[plain]"
    suggested = [line.strip() for line in out.splitlines() if line.startswith("  rankwright ")]
    assert len(suggested) == 6
    for line in suggested[:-1]:  # what is suggested works
        assert main(shlex.split(line)[1:]) == 0, line
    run = (tmp_path / "demo" / "svm-map.run").read_bytes()
    assert main(["demo", "--threads", "1"]) == 0
    assert (tmp_path / "demo" / "svm-map.run").read_bytes() == run


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file" / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
