"""Containers altered on purpose, with sizes and checksums made to agree: what somebody who means harm would write."""

import json
import zlib

import numpy as np


def alter_array(folder, name, values):
    """Replace an array of a folder, and what its header says about it."""
    file = folder / f"{name}.npy"
    values = np.ascontiguousarray(values)
    np.save(file, values)
    about = {"dtype": values.dtype.str, "shape": list(values.shape), "bytes": file.stat().st_size}
    about["crc32"] = f"{zlib.crc32(values.tobytes()):08x}"
    header = header_of(folder)
    text = json.loads(header.read_text())
    text["arrays"][name] = about
    header.write_text(json.dumps(text))


def alter_header(folder, **changes):
    """Change entries of the header of a folder."""
    header = header_of(folder)
    header.write_text(json.dumps(json.loads(header.read_text()) | changes))


def header_of(folder):
    return next(folder.glob("*.json"))


def alterations(array):
    """The array with bad values in every way, by name; whatever its type."""
    flat, most = array.reshape(-1), np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.inf
    least = np.iinfo(array.dtype).min if array.dtype.kind in "iu" else np.nan

    def put(place, value):
        changed = flat.copy()
        changed[place] = value
        return changed.reshape(array.shape)

    some = slice(len(flat) // 3, 2 * len(flat) // 3 + 1)
    yield "zeros", np.zeros_like(array)
    yield "most", put(slice(None), most)
    yield "last", put(slice(-1, None), least)
    yield "some least", put(some, least)
    yield "reversed", np.ascontiguousarray(flat[::-1]).reshape(array.shape)
    yield "more", (array + array.dtype.type(1)).astype(array.dtype)
    yield "wrapped", put(some, np.resize(np.array([most, least], array.dtype), len(flat[some])))
    yield "repeated", np.repeat(flat[:1], len(flat)).reshape(array.shape)
    yield "shorter", array[..., :-1]
    yield "longer", np.concatenate([array, array[..., -1:]], axis=-1)
