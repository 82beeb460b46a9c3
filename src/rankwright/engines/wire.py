"""Calls and answers as bytes: pickle protocol 5, with the memory of arrays beside it instead of copied into it.

Arrays arrive writable, so code sees the same kind of array with any engine. Pickling here rather than in Dask makes
what a worker cannot load an error of the call, not a broken connection.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from typing import Any

from rankwright.engines.host import Host

__all__ = ["Frame", "answer", "pack", "result_of", "unpack"]

Frame = bytes | bytearray | memoryview
_PROTOCOL = 5


def pack(value: Any) -> list[Frame]:
    """A value as frames: the pickle, then the memory of its arrays.

    Examples
    --------
    >>> import numpy as np
    >>> frames = pack(("mean", np.zeros(1000)))
    >>> [len(frame) for frame in frames[1:]], unpack(frames)[1].flags.writeable
    ([8000], True)
    """
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=_PROTOCOL, buffer_callback=buffers.append)
    return [head, *(buffer.raw() for buffer in buffers)]


def unpack(frames: Sequence[Any]) -> Any:
    head, *rest = frames
    writable = [bytearray(frame) if memoryview(frame).readonly else frame for frame in rest]
    return pickle.loads(head, buffers=writable)


def answer(host: Host, frames: Sequence[Any]) -> list[Frame]:
    """Carry out the request in frames: its result, or the error, as frames."""
    try:
        method, arguments, options = unpack(frames)
        return pack((True, getattr(host, method)(*arguments, **options)))
    except Exception as error:
        return pack((False, _portable(error)))


def result_of(frames: Sequence[Any]) -> Any:
    """The result in an answer; raises the error if it holds one."""
    succeeded, value = unpack(frames)
    if succeeded:
        return value
    raise value


def _portable(error: Exception) -> Exception:
    """An error with its traceback, in a form that another process can raise."""
    where = "".join(traceback.format_exception(error))
    try:
        error.add_note(f"Where it was raised:\n{where}")
        pickle.loads(pickle.dumps(error, protocol=_PROTOCOL))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}\nWhere it was raised:\n{where}")
    return error
