"""Ways to damage an input: bytes, JSON values, arrays, containers with checksums that fit, tables of odd types."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["container", "damaged_bytes", "damaged_json", "damaged_lines", "odd_table"]

Array = npt.NDArray[Any]
Files = dict[str, bytes]

_DEEP = "@deep@"
_NOISE = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b" ", b"\t", b"-", b"+", b".", b",", b":", b"#", b"\"", b"'", b"[", b"]", b"{",
    b"}", b"<", b">", b"</DOC>", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1b[31m", b"\x1b]0;x\x07",
    b"\xc2\x9b", b"\xe2\x80\xae", b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"NULL", b"null", b"true", b"0", b"-0",
    b"1", b"-1", b"1e300", b"1e-320", b"1e999", b"9" * 30, b"2147483647", b"2147483648", b"4294967296",
    b"9223372036854775807", b"0x10", b"1_000", b"1:", b":1", b"0:1", b"1:1 1:1", b"qid:", b"qid:1", b"# docid = ",
    b"# features:\t", b"\xe2\x88\x92\x31", b"\xd9\xa1", b"[red]", b"[/]", b"%s", b"{0}", b"../x", b"/etc/passwd",
]  # fmt: skip
_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 2**31, -(2**31), 2**53, 2**63, 2**70, 10**400, 0.5, -0.0, 1e-300, 1e300, 1e400,
    float("nan"), float("-inf"), "", "x", "0", "nan", "é\u202e", "\x1b[2J", "[/]", "\ud800", "a\nb", "../../x", "/",
    "x" * 5000, [], [[]], [None], [1, 2, 3], ["a", "b"], [1e300] * 3, {}, {"a": {}}, {"": 0}, _DEEP,
]  # fmt: skip


def damaged_bytes(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """Change some bytes: flipped bits, noise put in or written over, parts removed, doubled, swapped or cut off."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, length = rng.randrange(len(content) + 1), int(rng.paretovariate(0.8))
        way = rng.randrange(8)
        if way == 0 and content:
            at = rng.randrange(len(content))
            content = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        elif way == 1:
            content = content[:at] + rng.choice(_NOISE) + content[at:]
        elif way == 2:
            noise = rng.choice(_NOISE)
            content = content[:at] + noise + content[at + len(noise) :]
        elif way == 3:
            content = content[:at] + content[at + length :]
        elif way == 4:
            content = content[: at + length] + content[at:]
        elif way == 5:
            content = content[:at] + rng.randbytes(min(length, 64)) + content[at:]
        elif way == 6:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            content = content[:at] + other[start : start + 4 * length] + content[at:]
        else:
            content = content[:at] if rng.random() < 0.3 else content[:at] + content[at : at + 9] * rng.choice((2, 30))
    return content


def damaged_lines(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """Change text: a field of a line exchanged for noise, lines moved or doubled, or bytes as above; also gzip."""
    if rng.random() < 0.5:
        lines = content.split(b"\n")
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(lines))
            way = rng.randrange(5)
            if way < 3:
                gap = rng.choice((b" ", b" ", b"\t", b":", b",", b'"', b">", b"="))
                fields = lines[at].split(gap)
                fields[rng.randrange(len(fields))] = rng.choice(_NOISE)
                lines[at] = gap.join(fields)
            elif way == 3:
                lines.insert(at, rng.choice(lines))
            else:
                lines[at] = b""
        content = b"\n".join(lines)
    else:
        content = damaged_bytes(rng, content, others)
    if rng.random() < 0.02:
        content = gzip.compress(content, 1)
        if rng.random() < 0.5:
            content = damaged_bytes(rng, content, others)
    return content


def damaged_json(rng: random.Random, value: Any) -> Any:
    """Exchange, remove or add a value somewhere in a tree of lists and dictionaries."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = _places(value)
        if not places:
            return _value(rng)
        where, key = rng.choice(places)
        way = rng.randrange(8)
        if way == 0:
            del where[key]
        elif way == 1 and isinstance(where, list):
            where.insert(key, _value(rng))
        elif way == 1:
            where[rng.choice(("x", "", "format", "\x1b[0m"))] = _value(rng)
        elif way == 2:  # a value of the right type
            _, other = rng.choice(places)
            where[key] = other if isinstance(other, str) and isinstance(where[key], str) else _value(rng)
        elif way == 3 and isinstance(where[key], int | float) and not isinstance(where[key], bool):
            where[key] = rng.choice((where[key] + 1, where[key] - 1, -where[key], where[key] * 1000, 2**31, 2**62, 0.5))
        else:
            where[key] = _value(rng)
    return value


def _value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(_VALUES))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every list or dictionary with each of its keys, all levels down."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            keys = list(one) if isinstance(one, dict) else list(range(len(one)))
            found += [(one, key) for key in keys]
            waiting += [one[key] for key in keys]
    return found


def json_bytes(value: Any) -> bytes:
    """JSON text, with the nesting that :func:`damaged_json` asks for."""
    return json.dumps(value).encode().replace(f'"{_DEEP}"'.encode(), b"[" * 5000 + b"]" * 5000)


def container(rng: random.Random, files: Files, header_name: str, others: list[bytes]) -> Files:
    """Damage the header or the arrays of a container, mostly with sizes and checksums made to fit."""
    if rng.random() < 0.2:
        name = rng.choice(sorted(files))
        return files | {name: damaged_bytes(rng, files[name], others)}
    files = dict(files)
    header = json.loads(files[header_name])
    if rng.random() < 0.5:
        if rng.random() < 0.8:  # not the description of the arrays, which is most of the text
            arrays = header.pop("arrays")
            header = damaged_json(rng, header)
            if isinstance(header, dict):
                header.setdefault("arrays", arrays)
        else:
            header = damaged_json(rng, header)
        files[header_name] = json_bytes(header)
        return files
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(header["arrays"]))
        array = damaged_array(rng, np.load(io.BytesIO(files[f"{name}.npy"])))
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
        files[f"{name}.npy"] = stream.getvalue()
        header["arrays"][name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bytes": len(files[f"{name}.npy"]),
            "crc32": f"{zlib.crc32(array.tobytes()):08x}",
        }
    files[header_name] = json_bytes(header)
    return files


def damaged_array(rng: random.Random, array: Array) -> Array:
    """Change values, the order, the length, the shape or the type of an array."""
    array = np.ascontiguousarray(array).copy()
    flat = array.reshape(-1)
    way = rng.randrange(8)
    if way <= 3 and flat.size:
        for _ in range(rng.choice((1, 1, 2, 5))):
            flat[rng.randrange(flat.size)] = _element(rng, flat)
    elif way == 4 and flat.size:
        flat[:] = _element(rng, flat)
    elif way == 5 and flat.size:
        np.random.default_rng(rng.randrange(2**32)).shuffle(flat)
    elif way == 6:
        array = rng.choice(
            (flat[:-1], flat[: flat.size // 2], np.concatenate([flat, flat[:3]]), flat[:0], flat[:, None])
        )
    else:
        types = rng.choice(("<f8", "<f4", "<i8", "<i4", "|u1", "|b1", "<u8", "<U3"))
        with np.errstate(all="ignore"):
            array = array.astype(types) if array.dtype.kind != "U" else np.zeros(array.shape, types)
    return np.ascontiguousarray(array)


def _element(rng: random.Random, flat: Array) -> Any:
    kind, size = flat.dtype.kind, flat.size
    if kind == "f":
        return flat.dtype.type(rng.choice((np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e-40, 3e38, 0.5, 1e300)))
    if kind in "iu":
        limits = np.iinfo(flat.dtype)
        wanted = rng.choice((limits.max, limits.min, -1, 0, 1, size, size + 1, size - 1, int(flat.max()) + 1, 2**20))
        return flat.dtype.type(min(max(wanted, limits.min), limits.max))
    if kind == "b":
        return np.bool_(rng.random() < 0.5)
    return rng.choice(("", "x", "\x1b[1m", "\U0010ffff", "a\nb", " "))


def zipped(files: Files, first: str) -> bytes:
    """Files as an uncompressed archive."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name in [first, *(name for name in files if name != first)]:
            archive.writestr(zipfile.ZipInfo(name), files[name])
    return whole.getvalue()


def unzipped(content: bytes) -> Files:
    """The files of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def odd_table(rng: random.Random) -> bytes:
    """A Parquet file whose columns have odd names and types."""
    import pyarrow as pa
    from pyarrow import parquet

    n = rng.choice((0, 1, 2, 6))
    makers: list[Callable[[], Any]] = [
        lambda: pa.array([rng.randrange(3) for _ in range(n)]),
        lambda: pa.array([rng.random() for _ in range(n)], pa.float32()),
        lambda: pa.array([str(rng.randrange(2)) for _ in range(n)]),
        lambda: pa.array([rng.choice((None, 1.0, float("nan"), 1e300)) for _ in range(n)], pa.float64()),
        lambda: pa.array([rng.choice((None, "a", "", "\x1b[1m")) for _ in range(n)], pa.string()),
        lambda: pa.array([rng.randbytes(3) for _ in range(n)], pa.binary()),
        lambda: pa.array([[1, 2]] * n, pa.list_(pa.int64())),
        lambda: pa.array([{"a": 1}] * n, pa.struct([("a", pa.int64())])),
        lambda: pa.array([bool(rng.randrange(2)) for _ in range(n)]),
        lambda: pa.array(["a"] * n).dictionary_encode(),
        lambda: pa.array([rng.randrange(10**9) for _ in range(n)], pa.timestamp("us")),
        lambda: pa.array([rng.randrange(10**6) for _ in range(n)], pa.date32()),
        lambda: pa.array([2**64 - 1 - rng.randrange(2) for _ in range(n)], pa.uint64()),
        lambda: pa.nulls(n),
        lambda: pa.array([rng.choice((None, 1)) for _ in range(n)], pa.int64()),
    ]
    usual = {"qid": 2, "docid": 4, "label": 0, "f1": 1, "f2": 1}
    names = [*usual, rng.choice(("", "x", "qid", "\x1b[2J", "label", "f3"))][: rng.choice((1, 4, 5, 5, 6, 6))]
    columns = []
    for name in names:
        maker = makers[usual[name]] if name in usual and rng.random() < 0.7 else rng.choice(makers)
        columns.append(maker())
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns, names=names), stream)
    return stream.getvalue()
