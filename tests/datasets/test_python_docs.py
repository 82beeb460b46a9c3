"""The collection of Python's standard library: real queries, fair judgements, and no answer given away."""

import difflib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

import rankwright
from rankwright import InputError, read_qrels
from rankwright.datasets import Collection
from rankwright.datasets.collection import _parts, python_docs, split_summary, standard_library, summary_of_module


@pytest.fixture(scope="module")
def everything():
    """All that the standard library documents, which takes seconds to read."""
    return list(standard_library())


@pytest.fixture(scope="module")
def collection(everything):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[python_docs.__module__], "standard_library", lambda *_: everything)
        return rankwright.datasets.python_docs()


@pytest.fixture(scope="module")
def items(everything):
    return {item.id: item for item in everything}


def judgements(collection):
    table = collection.qrels
    return {
        str(query): {
            document.decode(): grade
            for document, grade in zip(
                table.doc_ids[start:stop].tolist(), table.values[start:stop].tolist(), strict=True
            )
        }
        for query, start, stop in zip(table.query_ids, table.indptr[:-1], table.indptr[1:], strict=True)
    }


def plain(text):
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def test_there_are_enough_documents_and_queries(collection):
    ids = [document for document, _ in collection.documents]
    assert len(ids) == len(set(ids)) > 3000
    assert ids == sorted(ids)
    assert {tuple(fields) for _, fields in collection.documents} == {("name", "text", "arguments")}
    assert all(fields["name"] for _, fields in collection.documents)
    kinds = list(collection.kinds.values())
    assert list(collection.queries) == list(collection.kinds)
    assert kinds.count("navigational") == 300
    assert 80 <= kinds.count("informational") <= 150
    assert collection.name.startswith("python-docs-3.")
    assert "difflib.get_close_matches" in ids
    assert "io.TextIOWrapper" in ids
    private = re.compile(r"(^|\.)(_|test\.|tests\.|idlelib|lib2to3|site-packages)")
    assert not any(private.search(document) for document in ids)


def test_no_query_stands_in_a_document_that_answers_it(collection):
    documents, judged = dict(collection.documents), judgements(collection)
    assert set(judged) == set(collection.queries)
    for query, text in collection.queries.items():
        words = plain(text).split()
        runs = [" ".join(words[at : at + 5]) for at in range(max(1, len(words) - 4))]
        for document in judged[query]:
            for field in documents[document].values():
                assert " ".join(text.lower().split()) not in " ".join(field.lower().split())
                assert not any(f" {run} " in f" {plain(field)} " for run in runs)


def test_grades(collection, items):
    documents, judged = dict(collection.documents), judgements(collection)
    for query, kind in collection.kinds.items():
        grades = judged[query]
        assert set(grades.values()) <= {1, 2}
        assert set(grades) <= set(documents)
        if kind == "navigational":
            (answer,) = (document for document, grade in grades.items() if grade == 2)
            item = items[answer]
            assert split_summary(item.docstring, item.name)[0].startswith(collection.queries[query])
            assert len(documents[answer]["text"].split()) >= 10
            assert all(document.split(".")[-1] == answer.split(".")[-1] for document in grades)
            for other in set(grades) - {answer}:
                assert items[other].kind == item.kind
                assert item.kind != "method" or other.split(".")[0] == answer.split(".")[0]
        else:
            assert 5 <= len(grades) <= 100
            module = items[next(iter(grades))].module
            while module not in items or collection.queries[query] not in summary_of_module(items[module]):
                assert module
                module = module.rpartition(".")[0]
            expected = {
                item.id: 1 if item.kind == "method" else 2
                for item in items.values()
                if item.kind != "module" and (item.module == module or item.module.startswith(module + "."))
            }
            assert grades == expected


def test_queries_say_something_and_differ(collection):
    texts = list(collection.queries.values())
    assert len(texts) == len({plain(text) for text in texts})
    content = [set(plain(text).split()) for text in texts]
    for at, words in enumerate(content):
        assert 3 <= len(words) <= 30
        assert all(len(words & other) < len(words | other) for other in content[:at])


def test_a_document_is_its_docstring_without_the_summary(collection):
    documents = dict(collection.documents)
    text = " ".join(inspect.getdoc(difflib.get_close_matches).split())
    found = documents["difflib.get_close_matches"]
    assert found["name"] == "difflib get close matches"
    assert found["arguments"] == "word possibilities n cutoff"
    assert text == f'Use SequenceMatcher to return list of the best "good enough" matches. {found["text"]}'
    ratio = inspect.getdoc(difflib.SequenceMatcher.ratio)
    assert documents["difflib.SequenceMatcher.ratio"]["text"] == " ".join(ratio.partition("\n\n")[2].split())
    assert documents["difflib.SequenceMatcher.real_quick_ratio"]["name"] == "difflib sequence matcher real quick ratio"
    assert documents["shutil.copyfileobj"]["text"] == ""


def test_split_is_by_kind_and_the_same_every_time(collection):
    parts = collection.split(random_state=3)
    assert sorted(query for part in parts for query in part) == sorted(collection.queries)
    for kind in ("navigational", "informational"):
        sizes = [sum(collection.kinds[query] == kind for query in part) for part in parts]
        for size, share in zip(sizes, (0.5, 0.2, 0.3), strict=True):
            assert abs(size - share * sum(sizes)) <= 1
    assert collection.split(random_state=3) == parts
    assert collection.split(random_state=4) != parts
    assert collection.split() == collection.split(0)


LIBRARY = {
    "weather.py": '''
        """weather -- forecasts of rain and storm for sailors.

        Not in any document.
        """
        raise SystemExit("nothing is run")

        class SailForecast:
            """Forecast wind gusts near the coastal harbour.

            An instance holds one prediction and knows nothing about the tide of the sea or its salt."""
            def __init__(self, harbour_name): ...
            def update(self, now, *, untilDate=None, **more):
                """Ask every lighthouse keeper again, slowly.

                May take hours, since the keepers have to climb up all of the stairs first."""
            def _secret(self):
                """Private things are left out of the collection."""
        class CloudForecast:
            """One."""
            def update(self):
                """Two."""
        if True:
            def update():
                """update(a) -> b

                Read barometers once more.  Then we sit down and wait for the next ship to come into port."""
        else:
            def update():
                """Never seen, the first one counts."""
        def leak():
            """Paint lighthouse towers in stripes of red.

            We paint lighthouse  TOWERS in stripes of red and of white, at any time of the year."""
        def paint_towers():
            """Call paint_towers whenever harbour paint is wet.

            There is a lot of text in here, and all of it is about something else altogether."""
        def few():
            """Return the value.

            There is a lot of text in here, and all of it is about something else altogether."""
        def twin_a():
            """Count seagulls sitting along railings.

            There is a lot of text in here, and all of it is about something else altogether."""
        def twin_b():
            """Counts seagulls sitting along the railing.

            There is a lot of text in here, and all of it is about something else altogether."""
        def main():
            """Run the program that forecasts weather."""
        ''',
    "harbour/__init__.py": '"""Ropes, anchors and other gear of ships.\n\nMore."""\n',
    "harbour/gear.py": '''
        async def update(rope):
            """Splice frayed hemp ropes together again.

            There is a lot of text in here, and all of it is about something else altogether."""
        def one():
            """."""
        def two():
            """-"""
        def three():
            """a"""
        def four():
            """b"""
        ''',
    "_hidden.py": 'def seen():\n    """A private module has no documents."""\n',
    "_pyio.py": '"""Stands in."""\ndef read():\n    """Read."""\n',
    "io.py": '"""The io module provides streams."""\n',
    "test/test_weather.py": 'def seen():\n    """A test has no documents."""\n',
    "broken.py": "def oops(:\n",
    "latin.py": '# -*- coding: latin-1 -*-\ndef cafe():\n    """Ouvre le caf\xe9."""\n',
    "odd.py": 'def odd():\n    """Has a bad \\q escape."""\n',
    "not-a-module.py": 'def seen():\n    """Not importable."""\n',
    "data.txt": "no source",
}  # fmt: skip


@pytest.fixture
def library(tmp_path):
    for name, source in LIBRARY.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(textwrap.dedent(source).encode("latin-1"))
    return tmp_path / "lib"


def test_a_small_library(library):
    seen = []
    made = python_docs(folder=library, progress=lambda done, total: seen.append((done, total)))
    documents, judged = dict(made.documents), judgements(made)
    assert sorted(documents) == [
        "harbour.gear.four", "harbour.gear.one", "harbour.gear.three", "harbour.gear.two", "harbour.gear.update",
        "io.read", "latin.cafe", "odd.odd", "weather.CloudForecast", "weather.CloudForecast.update",
        "weather.SailForecast", "weather.SailForecast.update", "weather.few", "weather.leak", "weather.paint_towers",
        "weather.twin_a", "weather.twin_b", "weather.update",
    ]  # fmt: skip
    assert documents["weather.SailForecast"]["arguments"] == "harbour name"
    assert documents["weather.SailForecast.update"]["arguments"] == "now until date more"
    assert documents["weather.update"]["text"].startswith("Then we sit down")
    by_text = {text: (made.kinds[query], judged[query]) for query, text in made.queries.items()}
    assert by_text == {
        "Forecast wind gusts near the coastal harbour": ("navigational", {"weather.SailForecast": 2}),
        "Ask every lighthouse keeper again, slowly": (
            "navigational", {"weather.SailForecast.update": 2, "weather.CloudForecast.update": 1},
        ),
        "Read barometers once more": ("navigational", {"weather.update": 2, "harbour.gear.update": 1}),
        "Splice frayed hemp ropes together again": ("navigational", {"harbour.gear.update": 2, "weather.update": 1}),
        "Ropes, anchors and other gear of ships": (
            "informational", {f"harbour.gear.{name}": 2 for name in ("four", "one", "three", "two", "update")},
        ),
        "forecasts of rain and storm for sailors": (
            "informational",
            {document: 1 if document.count(".") == 2 else 2 for document in documents if document[:8] == "weather."},
        ),
    }  # fmt: skip
    assert seen[-1][0] == seen[-1][1]
    few = python_docs(folder=library, navigational=2, informational=0)
    assert len(few.queries) == 2
    assert set(few.queries.values()) <= set(made.queries.values())


def test_the_same_for_any_order_of_hashes(library):
    code = "import sys; from rankwright.datasets import python_docs; c = python_docs(folder=sys.argv[1]);"
    code += "print(c.documents, c.queries, c.kinds, c.split(1), c.qrels.doc_ids.tolist(), c.qrels.values.tolist())"
    shown = {
        subprocess.run(
            [sys.executable, "-c", code, library],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1


def test_without_sources(tmp_path, library):
    with pytest.raises(InputError, match="contains no Python sources with docstrings"):
        python_docs(folder=tmp_path / "nowhere")
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "a.py").write_text('def a():\n    """Do it."""\n')
    with pytest.raises(InputError, match="too few docstrings"):
        python_docs(folder=tmp_path / "few")


@pytest.mark.parametrize(
    ("docstring", "name", "summary", "rest"),
    [
        ("One.", "", "One.", ""),
        ("One\ntwo.\nThree.\n\nFour.", "", "One two.", "Three.\n\nFour."),
        ("See e.g. Alpha, i.e. Beta. Gamma", "", "See e.g. Alpha, i.e. Beta.", "Gamma"),
        ("Version 3.11 of it. next", "", "Version 3.11 of it. next", ""),
        ("f(x) -> y\n\nDo it.", "f", "Do it.", ""),
        ("s.f(x)\nDo it.", "f", "Do it.", ""),
        ("f(x)", "f", "", ""),
        ("\n\n  ", "", "", ""),
    ],
)
def test_summaries(docstring, name, summary, rest):
    assert split_summary(docstring, name) == (summary, rest)


def test_identifiers_become_words():
    assert _parts("xml.sax.saxutils.XMLGenerator.startElementNS") == [
        "xml", "sax", "saxutils", "xml", "generator", "start", "element", "ns",
    ]  # fmt: skip
    assert _parts("base64.b64decode_all") == ["base", "64", "b", "64", "decode", "all"]


def test_written_files(library, tmp_path):
    made = python_docs(folder=library)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "note").write_text("mine")
    for _ in range(2):
        made.write(tmp_path / "deep")
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == [
        "docs.jsonl", "note", "qrels.txt", "queries.jsonl",
    ]  # fmt: skip
    docs, queries = (
        [json.loads(line) for line in (tmp_path / "deep" / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in ("docs", "queries")
    )
    assert [(entry.pop("id"), entry) for entry in docs] == made.documents
    assert {entry["id"]: entry["text"] for entry in queries} == made.queries
    assert {entry["id"]: entry["kind"] for entry in queries} == made.kinds
    again = Collection(made.name, made.documents, made.queries, made.kinds, read_qrels(tmp_path / "deep" / "qrels.txt"))
    assert judgements(again) == judgements(made)
    assert repr(made) == f"Collection(python-docs: 18 documents, 6 queries, {made.qrels.n_docs} judgements)"


def test_a_failure_leaves_nothing(library, tmp_path, monkeypatch):
    made = python_docs(folder=library)
    with pytest.raises(InputError, match="cannot be created"):
        made.write(library / "io.py" / "x")

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankwright.datasets.collection.write_qrels", broken)
    with pytest.raises(OSError, match="No space"):
        made.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()
