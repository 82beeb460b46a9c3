"""Indexes that are damaged, not complete, or no indexes at all; disks that are full."""

import errno
import json
import shutil

import numpy as np
import pytest
from toy_documents import files_of, make_documents

import rankwright.data.container_write as container_write
from rankwright import Index, InputError, build_index
from rankwright.text.analysis.analyzers import BUILT_IN, analyzer
from rankwright.text.index.contents import INDEX
from rankwright.text.index.writer import IndexWriter


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
        ({"version": 2}, "written by a newer Rankwright: version 2, this one reads 1"),
        ({"version": "x"}, "damaged index: the version in index.json is 'x'"),
        ({"documents": "many"}, "index.json is incomplete"),
        ({"documents": 7}, "has the shape"),
        ({"fields": None}, "index.json is incomplete"),
        ({"fields": []}, "damaged index"),
        ({"views": [{}]}, "index.json is incomplete"),
        ({"analyzers": 3}, "index.json is incomplete"),
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


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda array: array[:, ::-1]),
        ("indptr", lambda array: array.astype(np.int32)),
        ("docs", lambda array: array + 1_000_000),
        ("docs", lambda array: -1 - array),
        ("counts", lambda array: array[:-1]),
        ("lengths", lambda array: array.T.copy()),
        ("term_offsets", lambda array: array + 1),
        ("doc_id_offsets", lambda array: array[1:]),
        ("view-1.indptr", lambda array: array[::-1].copy()),
        ("view-1.term_offsets", lambda array: array * 2),
        ("view-1.lengths", lambda array: array[1:]),
    ],
)
def test_arrays_that_do_not_fit(built, name, change):
    """Also where the sizes were made to agree: compiled code never sees them."""
    file = built.path / f"{name}.npy"
    array = change(np.load(file))
    np.save(file, array)
    header = json.loads((built.path / "index.json").read_text())
    size = file.stat().st_size
    header["arrays"][name] |= {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": size}
    (built.path / "index.json").write_text(json.dumps(header))
    with pytest.raises(InputError, match="damaged index: "):
        open_all(built.path)


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


def test_builders_close_their_files(tmp_path):
    writer = container_write.FolderWriter(tmp_path, tmp_path, INDEX)
    with pytest.raises(RuntimeError), IndexWriter(writer, (analyzer("plain"),), None, True, False, 9):
        raise RuntimeError
