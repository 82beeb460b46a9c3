"""Small made-up files under the names that the documentation uses, created on first request.

A name is ``KIND/FILE``. Files of ``letor/`` are feature files and their companions; files of ``text/`` belong to one
small collection of documents, queries and judgements; files of ``logs/`` are clicks on its documents.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from functools import cache
from pathlib import Path

import numpy as np

from made_up_clicks import write_log
from rankwright import load_model, read_data, to_frame
from rankwright.cli.main import main
from rankwright.data.trec_table import TrecTable
from rankwright.datasets import Collection
from rankwright.io.trec import write_qrels, write_run
from rankwright.judging.records import Action, JudgeFile, JudgeState, read_actions, update_qrels

THINGS = 40
WORDS = ["lift", "of", "a", "wing", "walk", "directory", "tree", "read", "file", "line", "by"]
QUERIES = {"test.txt": ["12", "17", "18219"], "train.txt": ["12", "50"]}  # queries that pages mention
FEATURES = ["bm25[porter]", "dirichlet[porter]", "jm[plain]", "links", "length", "year"]
LOGGED = [f"bm25(k3=inf)[{view}]" for view in ("porter,title", "porter,text", "porter")]  # as logged by an engine
SYSTEMS = {"bm25": 1.0, "dense": 1.2, "dirichlet": 1.1, "jm": 1.4, "names": 2.0, "mine": 0.8, "yours": 1.5}  # noise


def small_collection() -> Collection:
    """Return a collection of things and groups of things; queries share some words with their documents."""
    return _small()[0]


@cache
def _small() -> tuple[Collection, dict[str, dict[str, int]]]:
    """Return the collection and its judgements."""
    rng = np.random.default_rng(0)
    noise = [*WORDS, *(f"word{number}" for number in range(60 - len(WORDS)))]
    documents, queries, kinds, labels = [], {}, {}, {}
    for thing in range(THINGS):
        for number in range(3):
            text = f"thing{thing} group{thing % 8} {' '.join(rng.choice(noise, 12))}"
            documents.append((f"t{thing:02d}.{number}", {"name": f"Thing{thing % 20}", "text": text}))
        query = f"n{thing + 1:03d}"
        queries[query], kinds[query] = f"where is thing{thing} {noise[thing % 60]}", "navigational"
        labels[query] = {f"t{thing:02d}.{number}": 2 if number else 1 for number in range(3)}
    for group in range(8):
        query = f"i{group + 1:03d}"
        queries[query], kinds[query] = f"all of group{group} {noise[group]}", "informational"
        labels[query] = {f"t{thing:02d}.{number}": 1 for thing in range(group, THINGS, 8) for number in range(3)}
    return Collection("small", documents, queries, kinds, TrecTable.from_dict(labels)), labels


def letor_lines(name: str, n_queries: int, n_docs: int = 12, n_features: int = 6) -> list[str]:
    """Return the feature lines of the file of this name; labels roughly follow the first two features."""
    seed = sum(name.encode())
    rng = np.random.default_rng(seed)
    queries = [*QUERIES.get(name, []), *(str(seed * 1000 + query) for query in range(n_queries))][:n_queries]
    lines = ["\t".join(["# features:", *FEATURES])] if n_features == len(FEATURES) else []
    for query in queries:
        X = rng.normal(size=(n_docs, n_features))
        hidden = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n_docs)
        labels = np.digitize(hidden, np.quantile(hidden, [0.6, 0.85]))
        X[:, 5] = np.rint(X[:, 5])  # the year, which pages take as a category
        for d, (label, row) in enumerate(zip(labels, X, strict=True)):
            features = " ".join(f"{at}:{value:.4f}" for at, value in enumerate(row, 1))
            lines.append(f"{label} qid:{query} {features} # docid = d{4 * d}")
    return lines


SHOWN_FILES = {  # by name: the page that shows the file, and what it contains
    "mine.py": ("howto/own-rankers.md", "class Ridge"),
    "baselines.toml": ("howto/own-rankers.md", 'name = "baselines"'),
    "nrbp.py": ("adding-a-measure.md", "class nRBP"),
}


def block_of_a_page(name):
    """The file of this name as a page shows it."""
    page, content = SHOWN_FILES[name]
    text = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")
    return next(block for block in re.findall(r"^```\w+\n(.*?)^```$", text, re.M | re.S) if content in block)


class MadeUp:
    """Files that are created in a folder on first request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lay_out(self, name: str, where: Path) -> None:
        """Copy a file or folder into ``where``, under its name without the kind."""
        target = where / name.partition("/")[2]
        target.parent.mkdir(parents=True, exist_ok=True)
        made = self.path(name)
        if made.is_dir():
            shutil.copytree(made, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(made, target)

    def path(self, name: str) -> Path:
        """Return the path of this file or folder, after creating it if necessary."""
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            kind, _, rest = name.partition("/")
            kinds = {"letor": self._letor, "text": self._text, "logs": self._logs, "website": _own_file}
            kinds[kind](rest, path)
        return path

    def names(self) -> dict[str, object]:
        """Return the variables that pieces of Python assume: data, arrays, models, texts."""
        given: dict[str, object] = {}
        files = {"train": "train.txt", "valid": "vali.txt", "test": "test.txt", "rich": "web.txt", "later": "later.txt"}
        for name, file in files.items():
            data = read_data(self.path(f"letor/{file}"))
            given |= {name: data, f"X_{name}": data.X, f"y_{name}": data.labels, f"qid_{name}": data.qid}
        given |= {name: given[f"{name}_train"] for name in ("X", "y", "qid")}
        given |= {"data": given["train"], "X_new": given["X_test"]}
        given |= {f"S{part}": read_data(self.path(f"letor/S{part}.txt")) for part in range(1, 6)}
        given |= {"background": load_model(self.path("letor/web.rkw")), "texts": ["lift of a wing", "a tree"]}
        return given | {"in_domain": load_model(self.path("letor/model.rkw"))}

    def _letor(self, name: str, path: Path) -> None:
        """Create a feature file, scores or a model."""
        if name == "trees.rkw":
            few = ("--set", "n_trees=5", "--set", "min_rows=5")
            run("train", self.path("letor/train.txt"), "--method", "lambdamart", *few, "-o", path)
        elif path.suffix == ".rkw":
            data = "web.txt" if name == "web.rkw" else "train.txt"
            run("train", self.path(f"letor/{data}"), "--method", "rank-svm", "--C", "0.1", "-o", path)
        elif path.suffix == ".partitions":
            run("convert", self.path("letor/test.txt"), "--by-query", 3, "-o", path)
        elif path.suffix in (".py", ".toml"):
            path.write_text(block_of_a_page(name), encoding="utf-8")
        elif name == "lightgbm.txt":
            self._lightgbm(path)
        elif name == "ranklib.txt":
            path.write_text("## Coordinate Ascent\n## Restart = 5\n1:0.5 2:0.25 3:-0.05 5:0.2\n")
        elif "scores" in name:
            rng = np.random.default_rng(sum(name.encode()))
            n_docs = read_data(self.path("letor/test.txt")).n_docs
            path.write_text("".join(f"{score:.4f}\n" for score in rng.normal(size=n_docs)))
        elif path.suffix == ".csv":
            data = read_data(self.path("letor/test.txt" if name == "test.csv" else "letor/train.txt"))
            head = (
                "search,stars,name,bm25,price,colour"
                if name == "shop.csv"
                else "query_id,grade,doc_id,bm25,price,colour"
            )
            rows = zip(data.qid, data.labels, data.X.tolist(), strict=True)
            colours = ("red", "green", "")
            lines = [f"{q},{y:g},thing{n},{x[0]},{x[1]},{colours[n % 3]}" for n, (q, y, x) in enumerate(rows)]
            write(path, [head, *lines])
        elif name == "big":  # a folder of Parquet files that cut through a query
            path.mkdir()
            frame = to_frame(read_data(self.path("letor/train.txt")), "polars")
            for number, start in enumerate(range(0, frame.height, 250)):
                frame[start : start + 250].write_parquet(path / f"partition-{number}.parquet")
        elif name == "rank.train.query":
            path.write_text("12\n" * 30)
        else:
            lines = letor_lines(path.name, 50 if name == "train.txt" else 30, n_features=46 if "mq2008" in name else 6)
            if name == "rank.train":  # in LightGBM's format
                lines = [re.sub(r"qid:\S+ | #.*", "", line) for line in lines[1:]]
            write(path, lines)

    def _lightgbm(self, path: Path) -> None:
        """Create a model of LightGBM."""
        import lightgbm

        data = read_data(self.path("letor/train.txt"))
        table = lightgbm.Dataset(data.X, data.labels, group=np.diff(data.indptr))
        lightgbm.train(
            {"objective": "lambdarank", "verbose": -1, "num_leaves": 7, "num_threads": 1}, table, 10
        ).save_model(path)

    def _logs(self, name: str, path: Path) -> None:
        """Create a log of clicks on documents of the collection, or what is made from it."""
        qrels = self.folder / "logs/clicks.qrels"
        if name == "f.rank":
            run("clicks", self.path("logs/log.csv"), "-o", qrels)
            run("features", self.path("text/docs.index"), self.path("text/queries.jsonl"), "--qrels", qrels, "-o", path)
        elif name in ("pages.rank", "p.csv"):
            made = ("--write-pages", path.parent / "pages.rank", "--write-propensities", path.parent / "p.csv")
            run("clicks", self.path("logs/log.csv"), "-o", qrels, "--features", self.path("logs/f.rank"), *made)
        else:
            write_log(path, _small()[1])

    def _text(self, name: str, path: Path) -> None:
        """Create a file of the collection, or one made from it."""
        part = path.name.partition(".")[0]
        made_by = self._command(name, path, part)
        if made_by is not None:
            run(*made_by)
            return
        collection, labels = _small()
        queries = [json.dumps({"id": query, "text": text}) for query, text in collection.queries.items()]
        parts = {"train": slice(0, None, 2), "valid": slice(1, None, 4), "test": slice(3, None, 4)}
        if name == "python-docs":
            collection.write(path)
        elif name in ("judgements", "compared"):
            _judge(labels, path)
        elif name == "broken.run":
            write(path, [f"q Q0 d{rank} {rank} {20 - rank} x" for rank in range(1, 17)] + ["q Q0 d17 17 3"])
        elif ".run" in name:
            write_run(seen_through_noise(labels, SYSTEMS[part]), path, tag=part)
        elif name == "more.jsonl":
            write(path, [json.dumps({"id": "new.1", "name": "New", "text": "a new thing"})])
        elif name == "shop.jsonl":
            write(path, [json.dumps(_sold(number, *one)) for number, one in enumerate(collection.documents)])
        elif name == "clicks.csv":
            write(path, ["id,clicks", *(f"{document},{len(document)}" for document, _ in collection.documents[::2])])
        elif name in ("products.csv", "ratings.csv", "site"):
            _own_file(name, path)
        elif name.startswith("docs.tsv"):
            rows = [f"{document}\t{fields['name']}\t{fields['text']}" for document, fields in collection.documents]
            write(path, ["id\ttitle\tbody", *rows])
        elif name.startswith("docs.jsonl"):
            write(path, [json.dumps(_titled(document, fields)) for document, fields in collection.documents])
        elif name == "queries.tsv":
            write(path, [f"{query}\t{text}" for query, text in collection.queries.items()])
        elif name == "sampled.qrels":
            write(path, [f"{query} 0 {one} 1 {label:g}" for query, row in labels.items() for one, label in row.items()])
        elif name.endswith(".jsonl"):
            write(path, queries[parts.get(part, slice(None))])
        else:
            chosen = list(labels)[parts.get(part, slice(None))]
            write_qrels(TrecTable.from_dict({query: labels[query] for query in chosen}), path)

    def _command(self, name: str, path: Path, part: str) -> tuple[object, ...] | None:
        """Return the command that makes a file; None for one that is written directly."""
        if name == "exp.toml":
            return "experiment", "init", path
        if name in ("python-docs-results", "results-old", "results-new"):
            return "experiment", "run", self.path("text/exp.toml"), "-o", path
        if name == "demo":
            return "demo", "-o", path
        if name == "docs.index":
            return "index", self.path("text/docs.jsonl"), "-o", path
        if name == "shop.index":
            return "index", self.path("text/shop.jsonl"), "-o", path, "--number", "price,clicks,added"
        if name == "model.rkw":
            return "train", self.path("text/train.txt"), "--method", "svm-map", "--C", "1", "-o", path
        if name in ("train.txt", "logged.txt"):
            sources = (self.path("text/docs.index"), self.path("text/train.jsonl"))
            chosen = [word for feature in LOGGED if name == "logged.txt" for word in ("--feature", feature)]
            return "features", *sources, "--qrels", self.path("text/qrels.txt"), *chosen, "-o", path
        if name.endswith(".txt") and "qrels" not in name:  # features of runs
            runs = [self.path(f"text/{system}.run") for system in ("bm25", "dirichlet", "jm", "names")]
            judged = self.path(f"text/{part.partition('-')[0]}.qrels")
            return "features", "--runs", *runs, "--qrels", judged, "-o", path
        return None


def _own_file(name: str, path: Path) -> None:
    """Write the collection as people have theirs."""
    collection, labels = _small()
    if name == "products.csv":
        rows = [f'{document},{fields["name"]},"<p>{fields["text"]}</p>"' for document, fields in collection.documents]
        write(path, ["sku,title,blurb", *rows])
    elif name == "ratings.csv":  # as Quepid writes them: queries by their text; of forty queries for pages of a website
        page, column, most = (".html", "url", 40) if path.parent.name == "website" else ("", "docid", None)
        judged = [(query, *one) for query in list(labels)[:most] for one in labels[query].items()]
        rows = [f'"{collection.queries[query]}",{document}{page},{grade}' for query, document, grade in judged]
        write(path, [f"query,{column},rating", *rows])
    else:
        path.mkdir()
        for document, fields in collection.documents:
            page = f"<title>{fields['name']}</title><nav>Home</nav><h1>{document}</h1><p>{fields['text']}"
            (path / f"{document}.html").write_text(page)
        (path / "style.css").write_text("nav { color: red }")


def _titled(document: str, fields: dict[str, str]) -> dict[str, str]:
    return {"id": document, "title": fields["name"], "text": fields["text"]}


def _sold(number: int, document: str, fields: dict[str, str]) -> dict[str, object]:
    """Return a document with numbers, some of which are missing."""
    numbers = {"price": 0.5 * (number % 30), "clicks": number % 7, "added": f"2024-05-{number % 28 + 1:02d}"}
    return _titled(document, fields) | (numbers if number % 5 else {"price": 4.5})


def _judge(labels: dict[str, dict[str, int]], folder: Path) -> None:
    """Write the files of two judges, one of whom has judged half of the queries and is stricter."""
    folder.mkdir()
    for judge, step, highest in (("ann", 1, 3), ("bob", 2, 1)):
        file = JudgeFile(folder / f"{judge}.jsonl")
        actions = [
            Action("grade", query, document, min(grade, highest))
            for query, judged in list(labels.items())[::step]
            for document, grade in {**dict.fromkeys(("t00.0", "t08.0", "t16.1"), 0), **judged}.items()
        ]
        for action in actions:
            file.append(action)
        file.close()
    update_qrels(folder, "ann", JudgeState.of(read_actions(folder / "ann.jsonl")))


def seen_through_noise(labels: dict[str, dict[str, int]], noise: float) -> TrecTable:
    """Return the run of a system that sees noisy grades, with all relevant documents and some others."""
    rng = np.random.default_rng(int(10 * noise))
    others = [f"t{thing:02d}.0" for thing in range(0, THINGS, 8)]
    grades = {query: dict.fromkeys(others, 0.0) | judged for query, judged in labels.items()}
    return TrecTable.from_dict(
        {
            query: {d: grade + noise * rng.normal() for d, grade in sorted(some.items())}
            for query, some in grades.items()
        }
    )


def write(path: Path, lines: list[str]) -> None:
    """Write lines, compressed if the name ends with .gz."""
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def run(*arguments: object) -> None:
    """Run a command that must succeed."""
    words = [str(argument) for argument in arguments]
    assert main(words) == 0, words
