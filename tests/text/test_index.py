"""The index against dictionaries, however it was built."""

import threading
import warnings
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_documents import files_of, make_documents

import rankwright.text.postings as postings
from rankwright import Analyzer, Index, InputError, InputWarning, build_index
from rankwright.text.analysis import BUILT_IN


def postings_of(documents, analyze, fields):
    """Per term: document and count, by dictionaries; and the lengths."""
    found = defaultdict(dict)
    lengths = []
    for number, (_, own) in enumerate(documents):
        terms = [term for name in fields for term in analyze(own.get(name, ""))]
        lengths.append(len(terms))
        for term, count in Counter(terms).items():
            found[term][number] = count
    return dict(found), lengths


def content(view):
    """A view as dictionaries."""
    found = {}
    for term, number in view.terms.items():
        span = slice(int(view.indptr[number]), int(view.indptr[number + 1]))
        docs = view.docs[span].tolist()
        assert docs == sorted(set(docs))
        found[term] = dict(zip(docs, view.counts[span].tolist(), strict=True))
    return found


def fields_of(documents):
    return list(dict.fromkeys(name for _, own in documents for name in own))


@pytest.fixture
def built(tmp_path):
    return build_index(make_documents(), tmp_path / "a.index")


@pytest.mark.parametrize("field_views", [False, True])
@pytest.mark.parametrize("analyzers", [BUILT_IN, ("plain",), ("porter",)])
def test_every_view_against_dictionaries(tmp_path, field_views, analyzers):
    documents = make_documents()
    build_index(documents, tmp_path / "a.index", analyzers=analyzers, field_views=field_views)
    index = Index.open(tmp_path / "a.index")
    assert index.fields == tuple(fields_of(documents))
    assert index.analyzers == tuple(analyzers)
    for name in BUILT_IN:
        for field in (None, *index.fields):
            view = index.view(name, field)
            expected, lengths = postings_of(documents, Analyzer(name), index.fields if field is None else [field])
            assert content(view) == expected
            assert view.lengths.tolist() == lengths
            assert list(view.terms) == sorted(expected)
            assert view.n_terms == len(view.terms) == len(expected)
            assert view.name == (name if field is None else f"{name},{field}")
            assert view.analyze("The runners") == Analyzer(name)("The runners")
            kinds = [array.dtype for array in (view.indptr, view.docs, view.counts, view.lengths)]
            assert kinds == [np.int64, np.int32, np.int32, np.int32]
            assert not any(array.flags.writeable for array in (view.indptr, view.docs, view.counts, view.lengths))
            assert index.view(name, field) is view


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=30), min_size=1, max_size=30), st.data())
def test_merging_of_any_groups(tmp_path_factory, rows, data):
    """Terms merged in any way, from few to most of the documents: runs, dense sums and single ones."""
    groups = {letter: data.draw(st.sampled_from(["x", "y", "z", None])) for letter in "abcdefgh"}
    mine = Analyzer("mine", map_term=groups.get)
    documents = [(f"d{i}", {"a": " ".join(row), "b": " ".join(row[::3])}) for i, row in enumerate(rows)]
    index = build_index(documents, tmp_path_factory.mktemp("x") / "a.index", analyzers=[mine])
    for field in (None, "a", "b"):
        expected, lengths = postings_of(documents, mine, ["a", "b"] if field is None else [field])
        assert content(index.view("mine", field)) == expected
        assert index.view("mine", field).lengths.tolist() == lengths


def test_merging_in_blocks(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    documents = [(f"d{i}", {"text": " ".join(f"w{k}" for k in rng.geometric(0.02, 40))}) for i in range(300)]
    build_index(documents, tmp_path / "a.index")
    for function in (postings.merged, postings.joined):
        monkeypatch.setattr(function, "__defaults__", (64,))  # postings in a block
    build_index(documents, tmp_path / "b.index")
    assert files_of(tmp_path / "a.index") == files_of(tmp_path / "b.index")
    expected, _ = postings_of(documents, Analyzer("porter"), ["text"])
    assert content(Index.open(tmp_path / "b.index").view("porter")) == expected


@pytest.mark.parametrize("limit", [1, 40, 300, 1 << 25])
def test_segments_change_nothing(tmp_path, monkeypatch, limit):
    documents = make_documents(80)
    build_index(documents, tmp_path / "a.index", field_views=True)
    monkeypatch.setattr("rankwright.text.writer._BATCH_DOCS", 7)
    build_index(documents, tmp_path / "b.index", field_views=True, segment_postings=limit)
    assert files_of(tmp_path / "a.index") == files_of(tmp_path / "b.index")
    monkeypatch.setattr("rankwright.text.writer._BATCH_CHARACTERS", 50)
    build_index(iter(documents), tmp_path / "b.index", field_views=True, segment_postings=limit)
    assert files_of(tmp_path / "a.index") == files_of(tmp_path / "b.index")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.index", "b.index"]


@pytest.mark.parametrize("cuts", [(30,), (1, 2, 59), (10, 20, 30, 40)])
@pytest.mark.parametrize("options", [{}, {"store": False, "fields": ["text", "title"]}, {"field_views": True}])
def test_adding_is_building_at_once(tmp_path, cuts, options):
    documents = make_documents()
    build_index(documents, tmp_path / "a.index", **options)
    bounds = [0, *cuts, len(documents)]
    parts = [documents[a:b] for a, b in pairwise(bounds)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # the first part alone may lack a field
        index = build_index(parts[0], tmp_path / "b.index", **options)
        for part in parts[1:]:
            before = index
            index = index.add(part)
            assert before.doc_id(0) == "d0"  # what was opened stays usable
    assert files_of(tmp_path / "a.index") == files_of(tmp_path / "b.index")
    assert index.n_docs == len(documents)


def test_adding_in_segments(tmp_path):
    documents = make_documents()
    build_index(documents, tmp_path / "a.index")
    index = build_index(documents[:5], tmp_path / "b.index")
    index.add(documents[5:], segment_postings=9)
    assert files_of(tmp_path / "a.index") == files_of(tmp_path / "b.index")


def test_adding_brings_new_fields(tmp_path):
    documents = [("a", {"x": "one"}), ("b", {"y": "two"}), ("c", {"z": "three", "x": "four"})]
    build_index(documents, tmp_path / "a.index")
    index = build_index(documents[:1], tmp_path / "b.index").add(documents[1:2]).add(documents[2:])
    assert index.fields == ("x", "y", "z")
    assert files_of(tmp_path / "a.index") == files_of(tmp_path / "b.index")


def test_a_failed_addition_changes_nothing(built):
    before = files_of(built.path)
    with pytest.raises(InputError, match=r"duplicate document 'd7' .first as document 8."):
        built.add([("new", "text"), ("d7", "again")])
    with pytest.raises(InputError, match="no documents"):
        built.add([])
    assert files_of(built.path) == before
    assert len(list(built.path.parent.iterdir())) == 1
    built.add([("new", "text")])
    with pytest.raises(InputError, match="has changed since it was opened"):
        built.add([("newer", "text")])


def test_ids_and_texts(tmp_path):
    documents = [("é1", {"a": "Ünïcode text\n", "b": "second"}), ("2", {"b": "only"}), ("empty", {})]
    index = build_index(documents, tmp_path / "a.index")
    assert [index.doc_id(i) for i in range(3)] == ["é1", "2", "empty"]
    assert index.doc_ids.tolist() == [b"\xc3\xa91", b"2", b"empty"]
    assert [index.find(doc_id) for doc_id in ("2", "é1", "empty", "none")] == [1, 0, 2, None]
    assert [index.text(0, "a"), index.text(0, "b"), index.text(1, "a")] == ["Ünïcode text\n", "second", ""]
    assert [index.text(i) for i in range(3)] == ["Ünïcode text\n\nsecond", "only", ""]
    assert (len(index), index.n_docs, index.n_empty, index.n_tokens, index.n_terms) == (3, 3, 1, 4, 4)
    assert index.n_bytes == sum(len(data) for data in files_of(index.path).values())
    assert "3 documents, 4 tokens, 4 terms, fields a, b" in repr(index)
    assert dict(index.terms) == {"only": 0, "second": 1, "text": 2, "ünïcode": 3}
    for bad in (-1, 3):
        with pytest.raises(IndexError):
            index.doc_id(bad)
        with pytest.raises(IndexError):
            index.text(bad)
    with pytest.raises(InputError, match="unknown field 'c'; expected a, b"):
        index.text(0, "c")
    with pytest.raises(InputError, match="unknown field 'c'; expected a, b"):
        index.view("plain", "c")
    with pytest.raises(InputError, match="unknown analyser 'c'; expected plain, porter"):
        index.view("c")
    bare = build_index(documents, tmp_path / "b.index", store=False)
    assert not bare.has_text
    assert "texts.npy" not in files_of(bare.path)
    with pytest.raises(InputError, match="has no texts"):
        bare.text(0)


def test_documents_of_any_kind(tmp_path):
    same = [("a", {"text": "one two"}), ("7", {"text": "three"})]
    kinds = [
        same,
        [("a", "one two"), (7, "three")],
        [{"id": "a", "text": "one two"}, {"_id": 7, "text": "three"}],
        [["a", "one two"], ("7", {"text": "three", "title": None})],
        (document for document in same),
        dict(same).items(),
    ]
    for number, documents in enumerate(kinds):
        build_index(documents, tmp_path / str(number))
        assert files_of(tmp_path / str(number)) == files_of(tmp_path / "0")
    path = tmp_path / "docs.tsv"
    path.write_text("a\tone two\n7\tthree\n")
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text('{"id": "a", "text": "one two"}')
    two.write_text('{"id": 7, "text": "three"}')
    for documents in (path, str(path), [path], [one, two]):
        seen = []
        build_index(documents, tmp_path / "x", progress=lambda done, total: seen.append((done, total)))  # noqa: B023
        assert files_of(tmp_path / "x") == files_of(tmp_path / "0")
        assert seen[-1][0] == seen[-1][1] > 0
        assert seen == sorted(seen)
    with pytest.warns(InputWarning, match="ignored keys that are not text: year$"):
        build_index([{"id": "a", "text": "one", "year": 1}], tmp_path / "x")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "no documents"),
        (["text"], "document 1: 'text' is not a document; expected .id, text.,"),
        ([("a", "x"), ("b", 3)], "document 2: 3 is not text; expected"),
        ([("a", "x", "y")], "document 1: .* is not a document"),
        ([{"text": "x"}], "document 1: document without an id"),
        ([("a b", "x")], "document 1: the document id 'a b' contains whitespace"),
        ([("", "x")], "document 1: empty document id"),
        ([(None, "x")], "document 1: the document id is None"),
        ([("a", "x"), ("b", "y"), ("a", "z")], "duplicate document 'a' .first as document 1."),
        ([("a", "x\ud800")], "the text of document 'a' contains a lone surrogate"),
        ([("a\ud800", "x")], "is not valid Unicode"),
        ([("a", {"x,y": "z"})], "bad field name 'x,y'"),
        ([("a", {"": "z"})], "bad field name ''"),
        ([("a", {f"f{i}": "z" for i in range(40)})], "more than 32 fields: f0, f1, f2"),
    ],
)
def test_documents_that_cannot_be(tmp_path, documents, message):
    with pytest.raises(InputError, match=message):
        build_index(documents, tmp_path / "a.index")
    assert list(tmp_path.iterdir()) == []


def test_duplicates_are_told_with_file_and_line(tmp_path):
    one, two = tmp_path / "one.tsv", tmp_path / "two.tsv"
    one.write_text("a\tx\nb\ty\n")
    two.write_text("c\tx\n\nb\ty\n")
    with pytest.raises(InputError) as error:
        build_index([one, two], tmp_path / "a.index")
    assert str(error.value).startswith(f"{two}:3: duplicate document 'b' (first as document 2)")


def test_fields_can_be_chosen(tmp_path):
    documents = [("a", {"x": "one", "y": "two"}), ("b", {"z": "three"})]
    index = build_index(documents, tmp_path / "a.index", fields=["z", "x"])
    assert index.fields == ("z", "x")
    assert dict(index.terms) == {"one": 0, "three": 1}
    assert index.add([("c", {"y": "four", "x": "five"})]).fields == ("z", "x")
    with pytest.warns(InputWarning, match="no document has words in w; other fields: y, z$"):
        build_index(documents, tmp_path / "a.index", fields=["x", "w"])
    with pytest.raises(InputError, match=r"no document has words in w; other fields: x, y, z$"):
        build_index(documents, tmp_path / "b.index", fields="w")
    for fields, message in (
        ([], "no fields"),
        (["x", "x"], "duplicate field 'x'"),
        ([3], "bad field name 3"),
    ):
        with pytest.raises(InputError, match=message):
            build_index(documents, tmp_path / "b.index", fields=fields)


@pytest.mark.parametrize("documents", [[("a", {}), ("b", {})], [("a", ""), ("b", "...")], [("a", {}), ("b", "")]])
def test_empty_documents(tmp_path, documents):
    index = build_index(documents, tmp_path / "a.index")
    assert (index.n_docs, index.n_empty, index.n_tokens, index.fields) == (2, 2, 0, ("text",))
    for name in BUILT_IN:
        view = index.view(name)
        assert (view.n_docs, view.n_terms, len(view.docs), view.lengths.tolist()) == (2, 0, 0, [0, 0])
    index.verify()
    assert index.add([("c", "word")]).view().n_terms == 1


def test_own_analysers_are_asked_for_again(tmp_path):
    mine = Analyzer("mine", map_term=lambda word: word[:2], tokenize=lambda text: text.split("|"))
    documents = [("a", "One|Only|two"), ("b", "Two||")]
    index = build_index(documents, tmp_path / "a.index", analyzers=["plain", mine])
    assert content(index.view("plain")) == {"One": {0: 1}, "Only": {0: 1}, "two": {0: 1}, "Two": {1: 1}}
    assert content(index.view("mine")) == {"On": {0: 2}, "tw": {0: 1}, "Tw": {1: 1}}
    with pytest.raises(InputError, match=r"a.index: was built with a tokeniser of your own; expected it again"):
        Index.open(tmp_path / "a.index")
    again = Index.open(tmp_path / "a.index", analyzers={"mine": mine, "first": lambda word: word[0]})
    assert content(again.view("first")) == {"O": {0: 2}, "t": {0: 1}, "T": {1: 1}}
    assert again.view("mine").analyze("Onward|x") == ["On", "x"]
    assert content(again.add([("c", "Once")]).view("mine"))["On"] == {0: 2, 2: 1}

    build_index(documents, tmp_path / "b.index", analyzers=Analyzer("upper", map_term=str.upper))
    with pytest.raises(InputError, match=r"b.index: was built with an analyser of your own; .*{'upper': …}"):
        Index.open(tmp_path / "b.index")
    assert content(Index.open(tmp_path / "b.index", {"upper": str.upper}).view("upper"))["TWO"] == {0: 1, 1: 1}


def test_identifiers_in_documents_and_queries(tmp_path):
    index = build_index([("a", "parseHTTPHeaders été naïveBayes")], tmp_path / "a.index", split_identifiers=True)
    assert list(index.terms) == ["bayes", "headers", "http", "naïve", "parse", "été"]
    assert Index.open(tmp_path / "a.index").view("porter").analyze("HTTPHeader") == ["http", "header"]


def test_what_was_there_is_replaced_only_if_it_is_an_index(tmp_path, built):
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    with pytest.raises(InputError, match="exists and is not a Rankwright folder"):
        build_index([("a", "x")], other)
    (built.path / "precious").write_text("x")
    with pytest.raises(InputError, match=r"contains files that are not part of the index \(precious\)"):
        build_index([("a", "x")], built.path)
    (built.path / "precious").unlink()
    assert build_index([("a", "x")], built.path).n_docs == 1
    with pytest.raises(InputError, match="cannot be written: the folder "):
        build_index([("a", "x")], tmp_path / "none" / "a.index")
    with pytest.raises(InputError, match="is inside the folder of the documents"):
        build_index(other, other / "a.index")


def test_too_many_documents(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwright.text.writer.MAX_DOCS", 2)
    with pytest.raises(InputError, match="more than 2 documents"):
        build_index([("a", "x"), ("b", "x"), ("c", "x")], tmp_path / "a.index")


def test_texts_are_mapped_not_read(tmp_path):
    index = build_index([(f"d{i}", "word " * 100) for i in range(50)], tmp_path / "a.index")
    array = index.contents.texts[0]
    while isinstance(array.base, np.ndarray):
        array = array.base
    assert isinstance(array, np.memmap)


def test_views_from_many_threads(built):
    index = Index.open(built.path)
    found = []

    def look():
        view = index.view("porter+stop", "title")
        found.append([view.analyze("running wings") for _ in range(200)])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[["run", "wing"]] * 200] * 4
