"""The kinds of input that are fuzzed: a good file of each, how it is damaged, and the commands that read it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_mutations import (
    Files,
    container,
    damaged_bytes,
    damaged_json,
    damaged_lines,
    json_bytes,
    odd_table,
    unzipped,
    zipped,
)

__all__ = ["KINDS", "Kind", "make_good", "words"]

_TOPICS = "<top>\n<num> Number: {id}\n<title> {text}\n\n<desc> Description:\n{text}\n\n</top>\n"
_WORDS = ["lift", "of", "a", "wing", "flow", "heat", "shock", "layer", "plate", "wave", "cone", "jet"]
_EXPERIMENT = """
[experiment]
name = "e"
seed = 1
measures = ["AP", "nDCG@5"]
baseline = "first"
tests = ["wilcoxon"]
output = "out-results"

[[data]]
name = "all"
features = "../good/letor.txt"

[protocol]
kind = "trials"
trials = 2
train = 2
valid = 2
test = 2

[[method]]
name = "first"
method = "feature:1"

[[method]]
method = "rank-svm"
parameters = { max_passes = 20 }
[method.grid]
C = [0.1, 1]

[[method]]
method = "lambdamart"
parameters = { n_trees = 3, max_leaves = 3 }
"""


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes
    ----------
    file : str
        The good file or folder, which is damaged.
    damage : callable
        ``damage(rng, content, others)``: from the bytes of the good file, or of each file of the folder.
    commands : tuple of str
        Commands that read it: ``@`` stands for the damaged input, ``+`` for the folder of good files, ``out`` for
        what is written.
    rare : tuple of str
        Commands that take longer, run once in a hundred times.
    weight : float
        How often the kind is drawn.
    """

    file: str
    damage: Callable[..., Any]
    commands: tuple[str, ...]
    rare: tuple[str, ...] = ()
    weight: float = 1.0


def _model(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """Damage a model file."""
    if rng.random() < 0.25:
        return damaged_bytes(rng, content, others)
    return zipped(container(rng, unzipped(content), "model.json", others), "model.json")


def _folder(header: str) -> Callable[..., Files]:
    return lambda rng, files, others: container(rng, files, header, others)


def _results(rng: random.Random, files: Files, others: list[bytes]) -> Files:
    """Damage one file of a results folder, or remove it."""
    name = rng.choice(sorted(files))
    if rng.random() < 0.05:
        return {other: content for other, content in files.items() if other != name}
    content = files[name]
    if name.endswith(".json") and rng.random() < 0.6:
        return files | {name: json_bytes(damaged_json(rng, json.loads(content)))}
    return files | {name: damaged_lines(rng, content, others)}


def _json_lines(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """Damage a value of a line, or the text."""
    if rng.random() < 0.5:
        return damaged_lines(rng, content, others)
    lines = content.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = json_bytes(damaged_json(rng, json.loads(lines[at])))
    return b"\n".join(lines)


def _parquet(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    return odd_table(rng) if rng.random() < 0.4 else damaged_bytes(rng, content, others)


def words(rng: random.Random, command: str) -> str:
    """Damage the words of a command line: the value of an option."""
    parts = command.split(" ")
    values = [at for at, part in enumerate(parts) if at > 1 and not re.match(r"[@+o-]|-", part)]
    if values:
        at = rng.choice(values)
        damaged = damaged_lines(rng, parts[at].encode(), [b"nDCG(dcg='x')@5", b"svm-map", b"1e9", b"-1", b"0.5,x"])
        parts[at] = damaged.decode(errors="replace").replace("\0", "").replace(" ", "\u00a0")
    return " ".join(parts)


def _toml(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    if rng.random() < 0.01:
        depth = rng.choice((50, 500, 5000))
        return content + b"\nx = " + b"[" * depth + b"]" * depth
    return damaged_lines(rng, content, others)


_READ = ("info @", "info @ --json", "convert @ -o out.rank", "convert @ -o out.txt", "convert @ -o out.parquet")
_LETOR = (
    *_READ,
    "convert @ -o out.qrels",
    "evaluate @ +scores.txt",
    "rank +linear.rkw @",
    "rank +trees.rkw @ -o out.run",
    "explain +linear.rkw @ --query 1",
    "convert @ -o out.rank --scale zscore",
    "convert @ -o out.rank --sparse",
)
_TRAIN = (
    "train @ --method rank-svm --C 1 -o out.rkw",
    "train @ --method svm-map --valid +valid.txt --C-grid 0.1,1 -o out.rkw",
    "train +letor.txt --method svm-ndcg@5 --valid @ --C-grid 0.1,1 -o out.rkw",
    "train @ --method lambdamart --set n_trees=3 --set max_leaves=3 -o out.rkw",
    "train @ --method mcrank --set n_trees=2 --set max_leaves=3 -o out.rkw",
    "train @ --method lambdarank --set epochs=2 -o out.rkw",
    "train @ --method rank-svm --C 1 --bins 3 -o out.rkw",
    "train @ --method svm-acc --C 1 -o out.rkw",
    "diagnose @ --losses map --C-grid 1",
)
_USE = (
    "info @",
    "rank @ +letor.txt",
    "explain @ +letor.txt --query 1",
    "rank @ +data.rank -o out.run",
    "info @ --json",
)
_USE_RARE = ("adapt @ +letor.txt --valid +valid.txt -o out.rkw --method interpolate",)
_SEARCH = (
    "search @ lift",
    "search @ wing --function dirichlet --analyzer plain",
    "search @ wing --field title",
    "search @ heat --json",
    "search @ +queries.jsonl -o out.run",
    "search @ wing --model +text.rkw",
    "search @ layer --analyzer porter --function jm",
    "info @",
    "index +more.jsonl -o @ --add",
    "features @ +queries.jsonl --qrels +qrels.txt -o out.txt",
    "search @ jet --function cosine",
    "features @ +queries.jsonl --feature bm25[porter] -o out.rank",
)

KINDS: dict[str, Kind] = {
    "letor": Kind("letor.txt", damaged_lines, _LETOR, _TRAIN, 5),
    "letor without qid": Kind(
        "plain.txt", damaged_lines, ("info @ --group +group.txt", "convert @ -o out.rank --group +group.txt")
    ),
    "group": Kind("group.txt", damaged_lines, ("info +plain.txt --group @", "rank +linear.rkw +plain.txt --group @")),
    "qrels": Kind(
        "qrels.txt",
        damaged_lines,
        (
            "evaluate @ +a.run",
            "info @",
            "convert @ -o out.qrels",
            "evaluate @ +a.run -q --json -m AP -m ERR@5",
            "compare @ +a.run +b.run --resamples 20",
        ),
        (),
        2,
    ),
    "run": Kind(
        "a.run",
        damaged_lines,
        (
            "evaluate +qrels.txt @",
            "info @",
            "convert @ -o out.run",
            "fuse @ +b.run -o out.run",
            "fuse +a.run @ -o out.run --method combmnz --normalize sum",
            "features --runs @ +b.run --qrels +qrels.txt -o out.txt",
            "features +docs.index +queries.jsonl --candidates @ -o out.txt",
            "compare +qrels.txt +a.run @ --resamples 20",
        ),
        (),
        2,
    ),
    "scores": Kind("scores.txt", damaged_lines, ("evaluate +letor.txt @", "info @")),
    "parquet": Kind("data.parquet", _parquet, (*_READ, "rank +linear.rkw @"), (), 1),
    "parquet with text": Kind("text.parquet", _parquet, (*_READ, "rank +categories.rkw @"), _TRAIN, 1),
    "folder with text": Kind("text.rank", _folder("rankwright.json"), (*_READ, "rank +categories.rkw @"), _TRAIN, 1),
    "data folder": Kind("data.rank", _folder("rankwright.json"), (*_READ, "rank +linear.rkw @"), _TRAIN, 2),
    "sparse folder": Kind("sparse.rank", _folder("rankwright.json"), (*_READ, "rank +linear.rkw @"), _TRAIN, 2),
    "linear model": Kind(
        "linear.rkw", _model, _USE, (*_USE_RARE, "train +letor.txt --method rank-svm --continue @ -o out.rkw"), 2
    ),
    "scaled model": Kind("scaled.rkw", _model, _USE, _USE_RARE),
    "net": Kind("net.rkw", _model, _USE, _USE_RARE),
    "trees": Kind("trees.rkw", _model, _USE, _USE_RARE, 2),
    "trees of categories": Kind(
        "categories.rkw", _model, ("info @", "rank @ +text.parquet", "rank @ +letor.txt"), (), 2
    ),
    "sum": Kind("sum.rkw", _model, _USE, _USE_RARE, 2),
    "binned model": Kind("binned.rkw", _model, _USE, _USE_RARE),
    "text model": Kind("text.rkw", _model, ("search +docs.index wing --model @", "info @")),
    "index": Kind("docs.index", _folder("index.json"), _SEARCH, (), 6),
    "index of words": Kind("words.index", _folder("index.json"), _SEARCH, (), 3),
    "documents": Kind(
        "docs.jsonl", _json_lines, ("index @ -o out.index", "index @ -o out.index --errors replace"), (), 2
    ),
    "tsv documents": Kind("docs.tsv", damaged_lines, ("index @ -o out.index --format tsv",)),
    "sgml documents": Kind("docs.trec", damaged_lines, ("index @ -o out.index", "index @ -o out.index --format trec")),
    "queries": Kind(
        "queries.jsonl", _json_lines, ("search +docs.index @ -o out.run", "features +docs.index @ -o out.txt")
    ),
    "tsv queries": Kind("queries.tsv", damaged_lines, ("search +docs.index @ -o out.run",)),
    "topics": Kind(
        "topics.txt",
        damaged_lines,
        ("search +docs.index @ -o out.run", "search +docs.index @ -o out.run --part title+description"),
    ),
    "document table": Kind("table.tsv", damaged_lines, ("features +docs.index +queries.jsonl --table @ -o out.txt",)),
    "experiment": Kind("exp.toml", _toml, ("experiment check @",), ("experiment run @",), 2),
    "results": Kind(
        "e-results",
        _results,
        ("experiment table @", "experiment report @ -o out.html", "experiment table @ --format latex"),
        (),
        2,
    ),
    "command line": Kind(
        "letor.txt",
        lambda rng, content, others: content,
        (
            "evaluate +qrels.txt +a.run -m nDCG@5 -m RBP(p=0.8) --empty skip",
            "search +docs.index wing --function bm25(k1=0.9,b=0.4) -k 3",
            "features +docs.index +queries.jsonl --feature bm25(b=0.4)[porter] --depth 3 -o out.txt",
            "compare +qrels.txt +a.run +b.run --test t --confidence 0.9 --resamples 20 --seed 1",
            "fuse +a.run +b.run -k 60 --depth 3 -o out.run",
            "explain +linear.rkw +letor.txt --query 1 --documents #1 #2 -n 3",
            "rank +linear.rkw +letor.txt --tag x --format trec",
            "train +letor.txt --method svm-combo --losses map,mrr@10 --loss-weights 1,0.5 --max-passes 3 -o out.rkw",
            "train +letor.txt --method rsvm-ir --rank-weights ndcg@3 --C 1 --tol 0.1 -o out.rkw",
            "train +letor.txt --method dorm@5 --feature-map dorm:sqrt@5 --C 1 --max-passes 3 -o out.rkw",
            "train +letor.txt --method lambdamart --set n_trees=3 --threads 1 --measure AP -o out.rkw",
            "search +docs.index wing --analyzer porter --field title",
            "convert +letor.txt -o out.rank --dtype float32 --scale minmax",
        ),
    ),
}


def _with_text(folder: Path) -> None:
    """text.parquet: the data of data.parquet with a column of text."""
    from rankwright.io.frames import from_frame, to_frame
    from rankwright.io.parquet import read_parquet, write_parquet

    frame = to_frame(read_parquet(folder / "data.parquet"))
    frame["lang"] = [_WORDS[int(7 * value) % 4] for value in frame["f2"]]
    write_parquet(from_frame(frame), folder / "text.parquet")


def make_good(folder: Path) -> None:
    """Write a good file of every kind. Experiments then train in this process, where they can be watched."""
    from concurrent.futures import ThreadPoolExecutor

    from rankwright.cli.main import main
    from rankwright.experiments import running

    running.ProcessPoolExecutor = lambda n, *_: ThreadPoolExecutor(1)  # type: ignore[assignment,attr-defined]
    rng = random.Random(0)

    def run(command: str) -> None:
        arguments = [str(folder / word[1:]) if word[0] == "+" else word for word in command.split()]
        if main(arguments) != 0:
            raise SystemExit(f"cannot make the good files: {command}")

    def rows(first: int, n_queries: int, qid: bool = True) -> str:
        lines = []
        for query in range(first, first + n_queries):
            for doc in range(5):
                values = [round(rng.random(), 3) for _ in range(3)]
                label = int(values[0] + 0.3 * rng.random() > 0.6) + int(values[0] > 0.9)
                features = " ".join(f"{at}:{value}" for at, value in enumerate(values, 1))
                lines.append(f"{label} {f'qid:{query} ' * qid}{features}{f' # docid = d{doc}' * qid}")
        return "\n".join(lines) + "\n"

    def text() -> str:
        return " ".join(rng.choices(_WORDS, k=8))

    docs = [{"id": f"d{at}", "title": rng.choice(_WORDS), "text": text()} for at in range(12)]
    queries = {str(at): text() for at in range(1, 7)}
    trec = "<DOC>\n<DOCNO>{id}</DOCNO>\n<TITLE>{title}</TITLE>\n<TEXT>{text}</TEXT>\n</DOC>\n"
    facts = [f"{doc['id']}\t{rng.random():.3f}\t{1990 + at}\n" for at, doc in enumerate(docs)]
    written = {
        "letor.txt": rows(1, 6),
        "valid.txt": rows(7, 4),
        "plain.txt": rows(1, 3, qid=False),
        "group.txt": "5\n5\n5\n",
        "qrels.txt": "".join(f"{q} 0 d{d} {rng.randrange(3)}\n" for q in queries for d in range(5)),
        "scores.txt": "".join(f"{rng.random():.3f}\n" for _ in range(30)),
        "docs.jsonl": "".join(json.dumps(doc) + "\n" for doc in docs),
        "more.jsonl": json.dumps(docs[0] | {"id": "more"}) + "\n",
        "docs.tsv": "id\ttitle\ttext\n" + "".join("\t".join(doc.values()) + "\n" for doc in docs),
        "docs.trec": "".join(trec.format(**doc) for doc in docs),
        "queries.jsonl": "".join(json.dumps({"id": key, "text": value}) + "\n" for key, value in queries.items()),
        "queries.tsv": "".join(f"{key}\t{value}\n" for key, value in queries.items()),
        "topics.txt": "".join(_TOPICS.format(id=key, text=value) for key, value in queries.items()),
        "table.tsv": "id\tlinks\tyear\n" + "".join(facts),
        "exp.toml": _EXPERIMENT,
    }
    for run_name in ("a", "b"):
        written[f"{run_name}.run"] = "".join(
            f"{q} Q0 d{d} 1 {rng.random():.3f} {run_name}\n" for q in queries for d in range(6)
        )
    for name, content in written.items():
        (folder / name).write_text(content)
    (folder / "case").mkdir()
    run("convert +letor.txt -o +data.parquet")
    _with_text(folder)
    run("convert +text.parquet -o +text.rank")
    run("convert +letor.txt -o +data.rank")
    run("convert +letor.txt -o +sparse.rank --sparse")
    run("train +letor.txt --method rank-svm --C 1 -o +linear.rkw")
    run("train +letor.txt --method svm-acc --C 1 --set query_scaling=minmax -o +scaled.rkw")
    run("train +letor.txt --method lambdarank --set hidden=3 --set epochs=2 -o +net.rkw")
    run("train +letor.txt --method lambdamart --set n_trees=4 --set max_leaves=4 -o +trees.rkw")
    run("train +text.parquet --method lambdamart --set n_trees=4 --set min_rows=2 --monotone f1=+1 -o +categories.rkw")
    run("train +letor.txt --method rank-svm --C 1 --bins 3 -o +binned.rkw")
    run("train +letor.txt --method lambdamart --set n_trees=2 --set max_leaves=3 --background +linear.rkw -o +sum.rkw")
    run("index +docs.jsonl -o +docs.index")
    run("index +docs.jsonl -o +words.index --analyzer plain --field-views --fields title,text")
    run("features +docs.index +queries.jsonl --qrels +qrels.txt -o +text.txt")
    run("train +text.txt --method rank-svm --C 1 -o +text.rkw")
    (folder / "case" / "exp.toml").write_text(_EXPERIMENT.replace("../good/", f"{folder}/"))
    run("experiment run +case/exp.toml")
    (folder / "case" / "out-results").rename(folder / "e-results")
