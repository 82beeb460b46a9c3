"""Writing containers: whole or not at all, for models, data folders and indexes alike."""

import errno
import shutil

import numpy as np
import pytest
from container_uses import USES, contents_of

import rankwright.io.container as container_write
from rankwright import InputError
from rankwright.io.container import Container, Format, write_file, write_folder
from rankwright.io.folder import FOLDER
from rankwright.models.saving import MODEL


@pytest.mark.parametrize("name", USES)
def test_a_full_disk(tmp_path, monkeypatch, name):
    """Whichever write fails: one clear line, nothing left behind, and the old one untouched."""
    use, path = USES[name], tmp_path / "stored"
    use.write(path)
    before, write, room = contents_of(path), container_write._write, [0]

    def fill(file, data):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, data)

    monkeypatch.setattr(container_write, "_write", fill)
    failed = 0
    for n_writes in range(100):
        room[0] = n_writes
        try:
            use.write(path)
            break
        except InputError as error:
            failed += 1
            assert str(error) == f"{path}: cannot be written: No space left on device"  # noqa: PT017
        assert contents_of(path) == before
        assert list(tmp_path.iterdir()) == [path]
    assert failed >= (1 if name == "model" else 6)


@pytest.mark.parametrize("name", ["data", "index"])
def test_folders_with_other_files_are_not_replaced(tmp_path, name):
    use, path = USES[name], tmp_path / "stored"
    path.mkdir()
    (path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=f"exists and is not a Rankwright folder \\(no {use.format.header} in it\\)"):
        use.write(path)
    shutil.rmtree(path)
    use.write(path)
    for mine in ("thesis.tex", "mine.npy"):
        (path / mine).write_text("x")
        with pytest.raises(InputError, match=rf"files that are not part of the {use.format.what} \({mine}\)"):
            use.write(path)
        (path / mine).unlink()
    (path / f"{use.array}.npy").unlink()  # a damaged one can be written again
    use.write(path)
    use.read(path)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("../x", np.ones(1), "an array cannot be called '../x'"),
        ("", np.ones(1), "an array cannot be called ''"),
        ("x", np.array([None]), "the array x holds object; expected numbers of at most 8 bytes or text"),
        ("x", np.ones(1, complex), "the array x holds complex128"),
    ],
)
def test_arrays_that_cannot_be_stored(tmp_path, name, array, message):
    with pytest.raises(InputError, match=message):
        write_file(tmp_path / "a", MODEL, {}, {name: array})
    with pytest.raises(InputError, match=message), write_folder(tmp_path / "b", FOLDER) as writer:
        writer.save(name, array)
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_any_shape_go_round(tmp_path):
    arrays = {
        "one": np.float64(2.5),
        "none": np.empty((0, 2)),
        "flags": np.array([True, False]),
        "table": np.arange(6, dtype=np.uint16).reshape(2, 3).T,
        "big.endian": np.arange(3, dtype=">i4"),
        "text": np.array(["ä", "", "long"]),
    }
    folder = Format("some", "some.json", "thing", "nobody", is_folder=True)
    file = Format("some", "some.json", "thing", "nobody", is_folder=False)
    write_file(tmp_path / "file", file, {"half": "\udc80"}, arrays)
    with write_folder(tmp_path / "folder", folder) as writer:
        for name, array in arrays.items():
            writer.save(name, array)
        with writer.open("parts", np.int32) as out:
            for part in ([1, 2], [], [3]):
                out.append(np.array(part))
        assert writer.load("parts").tolist() == [1, 2, 3]
        writer.finish({"half": "\udc80"})
    for form, name in ((file, "file"), (folder, "folder")):
        opened = Container.open(tmp_path / name, form)
        opened.verify()
        assert opened.header["half"] == "\udc80"
        for key, array in arrays.items():
            for copy in (False, True):
                found = opened.array(key, np.generic, array.shape, copy=copy)
                np.testing.assert_array_equal(found, array)
                assert found.dtype == array.dtype.newbyteorder("=")
    assert opened.array("parts", np.int32, (3,)).tolist() == [1, 2, 3]
