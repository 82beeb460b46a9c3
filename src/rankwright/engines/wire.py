"""Calls and answers as bytes: pickle protocol 5, with the memory of arrays beside it instead of copied into it.

The arrays of what arrives can be written to, wherever it came from: code sees the same kind of array with any engine.
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
    """The value of frames."""
    head, *rest = frames
    writable = [bytearray(frame) if memoryview(frame).readonly else frame for frame in rest]
    return pickle.loads(head, buffers=writable)


def answer(host: Host, frames: Sequence[Any]) -> list[Frame]:
    """Do what frames ask of a host: its result, or the error, as frames."""
    try:
        method, arguments, options = unpack(frames)
        return pack((True, getattr(host, method)(*arguments, **options)))
    except Exception as error:
        return pack((False, _portable(error)))


def result_of(frames: Sequence[Any]) -> Any:
    """What an answer says; raises the error if it is one."""
    good, value = unpack(frames)
    if good:
        return value
    raise value


def _portable(error: Exception) -> Exception:
    """An error that can be raised in another process, with what led to it."""
    where = "".join(traceback.format_exception(error))
    try:
        error.add_note(f"Where it was raised:\n{where}")
        pickle.loads(pickle.dumps(error, protocol=_PROTOCOL))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}\nWhere it was raised:\n{where}")
    return error
