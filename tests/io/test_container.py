"""The container's checks hold for all three uses: model files, data folders and indexes."""

import io
import json
import shutil
import zipfile

import numpy as np
import pytest
from container_uses import USES, contents_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rankwright
from rankwright import InputError
from rankwright.io.container import Container, Format, write_folder


@pytest.fixture(scope="module", params=USES)
def original(request, tmp_path_factory):
    """Each use, written once."""
    use, path = USES[request.param], tmp_path_factory.mktemp(request.param) / "stored"
    use.write(path)
    return use, path


@pytest.fixture
def stored(original, tmp_path):
    """Each use, in a place of its own."""
    use, path = original
    (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / "stored")
    return use, tmp_path / "stored"


def put(path, contents):
    """Write other contents in the form that is there."""
    if not path.is_dir():
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, content)
        return
    for file in path.iterdir():
        file.unlink()
    for name, content in contents.items():
        (path / name).write_bytes(content)


def change_header(use, path, **changes):
    contents = contents_of(path)
    header = json.loads(contents[use.format.header]) | changes
    put(path, contents | {use.format.header: json.dumps(header).encode()})


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def fails(use, path, message, read=None):
    with pytest.raises(InputError) as caught:
        (read or use.read)(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert message in line
    assert "\n" not in line
    return line


def test_anybody_can_read_it(stored):
    use, path = stored
    contents = contents_of(path)
    header = json.loads(contents[use.format.header])
    assert (header["format"], header["version"]) == (use.format.name, 1)
    assert header["rankwright"] == rankwright.__version__
    assert set(contents) == {use.format.header, *(f"{name}.npy" for name in header["arrays"])}
    opened = Container.open(path, use.format)
    assert opened.header == header
    assert opened.n_bytes == sum(map(len, contents.values()))
    for name, described in header["arrays"].items():
        array = np.load(io.BytesIO(contents[f"{name}.npy"]))
        assert described.keys() == {"dtype", "shape", "bytes", "crc32"}
        assert (described["dtype"], described["shape"]) == (array.dtype.str, list(array.shape))
        assert described["bytes"] == len(contents[f"{name}.npy"])
        found = opened.array(name, np.generic, None)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
        assert not found.flags.writeable
        assert found.flags.aligned
    opened.verify()


def test_the_same_content_gives_the_same_bytes(stored, tmp_path):
    use, path = stored
    use.write(tmp_path / "again")
    assert contents_of(tmp_path / "again") == contents_of(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 9, "arrays": 7}, "written by a newer Rankwright: version 9, this one reads {version}"),
        ({"version": "1"}, "the version in {header} is '1'; expected {version}"),
        ({"version": 0}, "the version in {header} is 0; expected {version}"),
        ({"format": "other"}, "not a Rankwright {what}: the format in {header} is not '{name}'; expected one written"),
        ({"arrays": None}, "damaged {what}: {header} lists no arrays"),
        ({"arrays": []}, "damaged {what}: {header} lists no arrays"),
        ({"arrays": {}}, "damaged {what}: "),
        (
            {"arrays": {"../x": {"dtype": "<f8", "shape": [1], "bytes": 136, "crc32": "0"}}},
            "describes the array '../x'",
        ),
        ({"arrays": {"x": {"bytes": 1}}}, "describes the array 'x' incompletely"),
        ({"arrays": {"x": 3}}, "describes the array 'x' incompletely"),
        ({"arrays": {"x": {"dtype": 8, "shape": [], "bytes": 136, "crc32": "0"}}}, "array 'x' incompletely"),
        ({"arrays": {"x": {"dtype": "<f8", "shape": [], "bytes": 136, "crc32": "0"}}}, "x.npy is missing"),
    ],
)
def test_changed_headers(stored, changes, message):
    use, path = stored
    change_header(use, path, **changes)
    told = {key: getattr(use.format, key) for key in ("header", "what", "name", "version")}
    fails(use, path, message.format(**told))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_unreadable_headers(stored, text):
    use, path = stored
    put(path, contents_of(path) | {use.format.header: text})
    fails(use, path, use.format.header)


def damaged_arrays(array):
    """Each kind of damage with what the message says, apart from the size."""
    other = DIFFERENT_TYPE.get(array.dtype.kind, np.ones(3))
    return {
        "empty": (b"", "cannot be read|is not a plain array"),
        "text": (b"hello there", "is not a plain array"),
        "zeros": (bytes(len(npy(array))), "is not a plain array"),
        "cut": (npy(array)[:-3], "bytes for "),
        "longer": (npy(array) + b"\0", "bytes for "),
        "objects": (npy(np.array([{"run": "code"}], object), allow_pickle=True), "is not a plain array"),
        "fortran": (npy(np.asfortranarray(np.ones((2, 3)))), "is not a plain array"),
        "big-endian": (npy(np.ones(3, ">f8")), "is not a plain array"),
        "complex": (npy(np.ones(3, complex)), "is not a plain array"),
        "archive": (b"PK\x03\x04" + bytes(60), "is not a plain array"),
        "expression": (npy(np.ones(20)).replace(b"(20,), }  ", b"(4*5,), }"), "is not a plain array"),
        "huge": (npy(np.ones(20)).replace(b"(20,), }       ", b"(200000000,), }"), "bytes for float64 of shape"),
        "type": (npy(other), "says otherwise"),
        "shape": (npy(array[None]), "says otherwise"),
    }


DIFFERENT_TYPE = {"f": np.ones(3, np.int64), "i": np.ones(3)}
DAMAGES = list(damaged_arrays(np.ones(3)))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("size_is_known", [False, True])
def test_damaged_arrays(stored, damage, size_is_known):
    use, path = stored
    contents = contents_of(path)
    file = f"{use.array}.npy"
    content, message = damaged_arrays(np.load(io.BytesIO(contents[file])))[damage]
    same_size = len(content) == len(contents[file])
    put(path, contents | {file: content})
    header = json.loads(contents[use.format.header])
    if size_is_known:
        header["arrays"][use.array]["bytes"] = len(content)
        change_header(use, path, arrays=header["arrays"])
    line = fails(use, path, f"damaged {use.format.what}: {file} ")
    if size_is_known or same_size:
        assert any(part in line for part in message.split("|"))
    else:
        assert f"has {len(content):,} bytes; expected" in line


def test_missing_arrays(stored):
    use, path = stored
    contents = contents_of(path)
    for name in contents:
        if name != use.format.header:
            put(path, {other: content for other, content in contents.items() if other != name})
            fails(use, path, f"damaged {use.format.what}: {name} is missing")


def test_changed_values_are_found_by_their_checksum(stored):
    use, path = stored
    contents = contents_of(path)
    for name, content in contents.items():
        if name == use.format.header:
            continue
        put(path, contents | {name: content[:-1] + bytes([content[-1] ^ 1])})
        line = fails(use, path, f"the checksum of {name} is ", lambda path: Container.open(path, use.format).verify())
        assert line.startswith(f"{path}: damaged {use.format.what}: ")
        if not use.format.is_folder:  # read whole, and so checked whenever it is read
            fails(use, path, f"the checksum of {name} is ")


def test_arrays_of_another_type_or_shape(stored):
    use, path = stored
    opened = Container.open(path, use.format)
    found = opened.array(use.array, (np.floating, np.integer), (None,))
    opened.array(use.array, found.dtype.type, found.shape)
    with pytest.raises(InputError, match=f"{use.array}.npy holds {found.dtype}; expected int8 or str_"):
        opened.array(use.array, (np.int8, np.str_), (None,))
    with pytest.raises(InputError, match=r"has the shape \(\d+,\); expected \(any, 3\)"):
        opened.array(use.array, found.dtype.type, (None, 3))
    with pytest.raises(InputError, match=r"has the shape \(\d+,\); expected \(1000\)"):
        opened.array(use.array, found.dtype.type, (1000,))
    with pytest.raises(InputError, match=f"damaged {use.format.what}: other.npy is missing"):
        opened.array("other", np.float64, (None,))


def test_text_that_is_no_text(tmp_path):
    format = Format("some", "some.json", "thing", "nobody", is_folder=True)
    with write_folder(tmp_path / "a", format) as writer:
        writer.save("x", np.array([0x61, 0x110000], np.uint32).view("<U2"))
        writer.finish({})
    with pytest.raises(InputError, match=r"damaged thing: x\.npy holds something that is not text"):
        Container.open(tmp_path / "a", format).array("x", np.str_, (1,))


@pytest.mark.parametrize("content", [b"", b"1 qid:1 1:1\n", b"PK\x03\x04", bytes(range(256))])
def test_other_files(original, tmp_path, content):
    use, _ = original
    (tmp_path / "other").write_bytes(content)
    fails(use, tmp_path / "other", f"Rankwright {use.format.what}" if content != b"PK\x03\x04" else use.format.what)


def test_nothing_and_other_folders(original, tmp_path):
    use, _ = original
    fails(use, tmp_path / "none", "cannot be read: No such file or directory")
    (tmp_path / "folder").mkdir()
    fails(use, tmp_path / "folder", f"not a Rankwright {use.format.what}: ")


def test_one_is_not_the_other(stored):
    use, path = stored
    for other in USES.values():
        if other.format != use.format:
            fails(other, path, f"not a Rankwright {other.format.what}: ")


def test_every_truncation_of_a_file(tmp_path):
    use, path = USES["model"], tmp_path / "m"
    use.write(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        fails(use, path, "not a Rankwright model" if length < 4 else "damaged model: it is not complete")


def test_packed_entries_and_sizes_beyond_the_file_are_refused(tmp_path):
    use, path = USES["model"], tmp_path / "m"
    use.write(path)
    contents = contents_of(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", contents["model.json"])
        archive.writestr("coef.npy", bytes(10**6))
    fails(use, path, "model.json is compressed or encrypted")
    put(path, contents)
    whole = path.read_bytes()
    at = whole.rindex(b"PK\x01\x02") + 20  # the sizes in the central entry of coef.npy
    path.write_bytes(whole[:at] + (4 * 10**9).to_bytes(4, "little") * 2 + whole[at + 8 :])
    fails(use, path, "its entries claim more than")
    put(path, {"coef.npy": contents["coef.npy"]})
    fails(use, path, "not a Rankwright model: it is a zip archive without model.json")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    part=st.floats(0, 1),
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=3),
    whole=st.booleans(),
)
def test_mutated_bytes_give_one_line_or_something_sound(original, tmp_path_factory, part, cuts, whole):
    use, source = original
    path = tmp_path_factory.mktemp("mutated") / "stored"
    (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
    contents = contents_of(path)
    if whole and not path.is_dir():
        path.write_bytes(mutated(path.read_bytes(), cuts))
    else:
        # Half of the time in the header, and with sizes to match, so that not all stops at the first check.
        name = use.format.header if part < 0.5 else sorted(contents)[int((part - 0.5) * 1.99 * len(contents))]
        contents[name] = mutated(contents[name], cuts)
        if name != use.format.header:
            header = json.loads(contents[use.format.header])
            header["arrays"][name.removesuffix(".npy")]["bytes"] = len(contents[name])
            contents[use.format.header] = json.dumps(header).encode()
        put(path, contents)
    try:
        use.read(path)
    except InputError as error:
        assert str(error).startswith(f"{path}: ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    shutil.rmtree(path.parent)


def mutated(content, cuts):
    for start, length, noise in cuts:
        at = int(start * len(content))
        content = content[:at] + noise + content[at + length :]
    return content
