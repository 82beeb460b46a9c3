"""Indexes that are damaged, not complete, or no indexes at all; disks that are full."""

import errno
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from toy_documents import files_of, make_documents

import rankwright.io.container as container_write
from altered import alter_array, alter_header, alterations
from rankwright import Index, InputError, build_index
from rankwright.cli.main import main
from rankwright.text.analysis import BUILT_IN
from rankwright.text.search import Scorer


@pytest.fixture
def built(tmp_path):
    return build_index(make_documents(), tmp_path / "a.index")


def test_not_an_index(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="none: cannot be read: No such file"):
        Index.open(tmp_path / "none")
    for name in ("file", "empty"):
        with pytest.raises(
            InputError, match=r"not a Rankwright index: there is no index\.json in it, or it is not complete"
        ):
            Index.open(tmp_path / name)
    (tmp_path / "empty" / "index.json").write_text("{}")
    with pytest.raises(InputError, match=r"the format in index\.json is not 'rankwright-index'"):
        Index.open(tmp_path / "empty")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "written by a newer Rankwright: version 3, this one reads 2"),
        ({"version": "x"}, "damaged index: the version in index.json is 'x'"),
        ({"documents": "many"}, "'documents' in index.json is 'many'; expected a number"),
        ({"documents": True}, "'documents' in index.json is True; expected a number"),
        ({"documents": -1}, "'documents' in index.json is -1; expected a number"),
        ({"empty": 61}, "numbers in index.json do not fit"),
        ({"terms": 10**30}, "numbers in index.json do not fit"),
        ({"tokens": [3]}, "expected a number"),
        ({"documents": 7}, "has the shape"),
        ({"fields": None}, "damaged index: the fields in index.json are not a list of names"),
        ({"fields": []}, "the fields in index.json are not"),
        ({"fields": ["a", "a", "b"]}, "the fields in index.json are not"),
        ({"fields": [[], "a", "b"]}, "the fields in index.json are not"),
        ({"fields": ["a", "b", "\x1b"]}, "the fields in index.json are not"),
        ({"views": [{}]}, "index.json is incomplete"),
        ({"analyzers": 3}, "index.json is incomplete"),
        ({"analyzers": []}, "the analysers in index.json are ''"),
        ({"analyzers": [{"name": "x", "own": False}]}, "the analysers in index.json are 'x'"),
        ({"views": [{"analyzer": [], "field": None, "file": "x"}]}, "index.json is incomplete"),
    ],
)
def test_damaged_headers(built, change, message):
    header = json.loads((built.path / "index.json").read_text())
    (built.path / "index.json").write_text(json.dumps(header | change))
    with pytest.raises(InputError, match=message) as error:
        Index.open(built.path)
    assert str(error.value).startswith(str(built.path))
    (built.path / "index.json").write_text(json.dumps(header)[:-20])
    with pytest.raises(InputError, match=r"damaged index: index.json cannot be read"):
        Index.open(built.path)


def test_every_missing_truncated_or_changed_file_is_found(tmp_path, built):
    for name in sorted(files_of(built.path)):
        if name == "index.json":
            continue
        copy = tmp_path / "copy"
        shutil.copytree(built.path, copy)
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data[:-1])
        with pytest.raises(InputError, match=f"damaged index: {name} has .* bytes; expected"):
            Index.open(copy)
        (copy / name).unlink()
        with pytest.raises(InputError, match=f"damaged index: {name} is missing"):
            Index.open(copy)
        (copy / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(InputError, match=f"damaged index: (the checksum of {name} is|{name}.* end|the bound)"):
            Index.open(copy).verify()
        (copy / name).write_bytes(bytes(len(data)))
        with pytest.raises(InputError, match=f"damaged index: {name} is not a plain array"):
            open_all(copy)
        shutil.rmtree(copy)
    built.verify()


def open_all(path):
    index = Index.open(path)
    for name in BUILT_IN:
        for field in (None, *index.fields):
            index.view(name, field)


@pytest.mark.parametrize("file", ["../other/view-1", "/etc/view", "view-1/../view-1", "", "view-9"])
def test_files_of_views_stay_inside_the_folder(built, file):
    header = json.loads((built.path / "index.json").read_text())
    views = [one | {"file": file} for one in header["views"]]
    alter_header(built.path, views=views)
    with pytest.raises(InputError, match=r"damaged index: .* is missing"):
        Index.open(built.path).view("porter")
    name = f"{file}.docs"
    alter_header(built.path, arrays=header["arrays"] | {name: header["arrays"]["docs"]})
    with pytest.raises(InputError, match=r"damaged index: (index\.json describes|.* is missing)"):
        Index.open(built.path)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small index with two fields and a stored view, queries, and a document to add."""
    folder = tmp_path_factory.mktemp("small")
    build_index(make_documents(40, fields=("title", "text")), folder / "a.index", analyzers=["porter", "plain"])
    (folder / "queries.tsv").write_text("1\trunning wings été\n2\tthe runner of x1 漢字 café\n")
    (folder / "more.tsv").write_text("n1\tsome running words\n")
    return folder


SEARCH = "search a.index running wings of été -k 60"
SEARCH_FIELD = "search a.index the wing --function cosine --field title --analyzer plain"
FEATURES = (
    "features a.index queries.tsv -o a.txt --set sigir06 --feature dirichlet[porter] --feature cosine[porter,text]"
)
ADD = "index more.tsv -o a.index --add"
COMMANDS = {
    **dict.fromkeys(("indptr", "docs", "counts", "lengths", "terms", "term_offsets"), (SEARCH_FIELD, ADD)),
    **dict.fromkeys(("doc_ids", "doc_id_offsets", "texts", "text_offsets"), (SEARCH, ADD)),
    **{
        f"view-0.{name}": (SEARCH, FEATURES)
        for name in ("indptr", "docs", "counts", "lengths", "term_offsets", "terms")
    },
}


@pytest.mark.parametrize("name", COMMANDS)
def test_arrays_of_an_enemy(small, tmp_path, monkeypatch, capsys, name):
    """Sizes and checksums agree: every command does its work or says in one line why not."""
    monkeypatch.chdir(tmp_path)
    for file in ("queries.tsv", "more.tsv"):
        shutil.copy(small / file, file)
    codes = []
    for kind, values in alterations(np.load(small / "a.index" / f"{name}.npy")):
        shutil.copytree(small / "a.index", "a.index", dirs_exist_ok=True)
        alter_array(tmp_path / "a.index", name, values)
        for command in COMMANDS[name]:
            codes.append(main(command.split()))
            shown = capsys.readouterr().err
            assert codes[-1] in (0, 2), (kind, command)
            if codes[-1]:
                assert shown.count("\n") == 1, (kind, command, shown)
                assert "damaged index: " in shown, (kind, command, shown)
            else:
                assert "Warning" not in shown, (kind, command, shown)
    assert codes.count(2) > 2


def test_a_word_with_more_postings_than_documents(tmp_path):
    """Such a word made the merging of terms write behind the end of its space."""
    path = tmp_path / "a.index"
    build_index([(str(i), "run runs") for i in range(5)], path, analyzers=["plain"])
    n = 3_000_000
    alter_array(path, "docs", np.zeros(2 * n, np.int32))
    alter_array(path, "counts", np.ones(2 * n, np.int32))
    alter_array(path, "indptr", np.array([[0, n, 2 * n]]))
    for name, field in (("porter", None), ("plain", None), ("plain", "text")):
        with pytest.raises(InputError, match=r"a\.index: damaged index: "):
            Scorer(Index.open(path).view(name, field)).search("run")
    with pytest.raises(InputError, match="damaged index: the postings of a word are not sound"):
        Index.open(path).add([("new", "run")])


def test_words_and_ids_that_are_not_different(tmp_path):
    path = tmp_path / "a.index"
    build_index([("a", "x y"), ("b", "x")], path, analyzers=["plain"])
    kept = np.load(path / "terms.npy")
    for words in (b"y\nx\n", b"x\nx\n"):
        alter_array(path, "terms", np.frombuffer(words, np.uint8))
        with pytest.raises(InputError, match="damaged index: the words are not different and in byte order"):
            Index.open(path).add([("new", "run")])
    alter_array(path, "terms", kept)
    alter_array(path, "doc_ids", np.frombuffer(b"x\nx\n", np.uint8))
    with pytest.raises(InputError, match="damaged index: 1 different document ids; expected 2"):
        Index.open(path).add([("new", "run")])
    with pytest.raises(InputError, match="1 different document ids; expected 2"):
        Index.open(path).find("x")


def test_one_long_id_does_not_fill_the_memory(tmp_path):
    path = build_index([(str(i), "x") for i in range(3000)], tmp_path / "a.index", analyzers=["plain"]).path
    ids = b"\n".join([b"x" * 400_000, *(b"%d" % i for i in range(2999))]) + b"\n"
    data = np.frombuffer(ids, np.uint8)
    alter_array(path, "doc_ids", data)
    alter_array(path, "doc_id_offsets", np.r_[0, np.flatnonzero(data == ord("\n")) + 1])
    with pytest.raises(InputError, match="damaged index: a document id has 400,000 bytes"):
        _ = Index.open(path).doc_ids


def test_damage_is_not_handed_on_with_a_new_checksum(tmp_path):
    documents = [(str(i), f"w{i} some words {'and more of them ' * 50}") for i in range(400)]
    path = build_index(documents, tmp_path / "a.index", analyzers=["plain"]).path
    data = bytearray((path / "texts.npy").read_bytes())
    data[-5] ^= 1
    (path / "texts.npy").write_bytes(data)
    index = Index.open(path)
    with pytest.raises(InputError, match=r"the checksum of texts\.npy"):
        index.add([("new", "run")])


def test_two_that_add_at_once(tmp_path):
    """The second starts from what the first has written; in Python it is told that its index is an old one."""
    path = build_index([("a", "x")], tmp_path / "a.index").path
    old = Index.open(path)
    names = [f"d{i}" for i in range(4)]
    for name in names:
        (tmp_path / f"{name}.tsv").write_text(f"{name}\tsome words\n")

    def add(name):
        return main(["index", str(tmp_path / f"{name}.tsv"), "-o", str(path), "--add"])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(add, names)) == [0] * 4
    assert sorted(Index.open(path).doc_ids.tolist()) == [b"a", *(name.encode() for name in names)]
    with pytest.raises(InputError, match="has changed since it was opened"):
        old.add([("b", "y")])


def test_a_full_disk(tmp_path, monkeypatch, built):
    """Whichever write fails: one clear line, no part of an index left behind, and the old one untouched."""
    before = files_of(built.path)
    write, room = container_write._write, [0]

    def fill(file, data):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")
        write(file, data)

    monkeypatch.setattr(container_write, "_write", fill)
    failed = 0
    for n_writes in range(100):
        room[0] = n_writes
        try:
            built.add([("new", {"title": "some words", "text": "and more"})], segment_postings=2)
            break
        except InputError as error:
            failed += 1
            assert str(error) == f"{built.path}: cannot be written: No space left on device"  # noqa: PT017
        assert files_of(built.path) == before
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.index"]
    assert failed > 20


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def documents():
        yield "a", "x"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(documents(), tmp_path / "a.index")
    assert list(tmp_path.iterdir()) == []


def test_builders_close_their_files(tmp_path, monkeypatch):
    opened = []

    class Recorded(container_write.ArrayFile):
        def __init__(self, *args):
            super().__init__(*args)
            opened.append(self)

    def documents():
        yield "a", "x"
        raise RuntimeError

    monkeypatch.setattr(container_write, "ArrayFile", Recorded)
    with pytest.raises(RuntimeError):
        build_index(documents(), tmp_path / "a.index")
    assert opened
    assert all(file._file.closed for file in opened)
