"""A worker process: one host that reads requests from standard input and writes answers to standard output.

A message is a number, the number of its frames and their lengths, then the frames (`rankwright.engines.wire`). The
process ends at once when its standard input does, and so when its parent ends.
"""

from __future__ import annotations

import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any

from rankwright.engines.host import Host
from rankwright.engines.wire import Frame, answer

__all__ = ["main", "read_message", "write_message"]

_HEAD = struct.Struct("<QQ")  # the message's number, its frames
_MOST = 1 << 30  # bytes that every system writes at once


def read_message(descriptor: int) -> tuple[int, list[bytearray]]:
    """The next message; EOFError at the end of the pipe."""
    number, n_frames = _HEAD.unpack(_read(descriptor, _HEAD.size))
    lengths = struct.unpack(f"<{n_frames}Q", _read(descriptor, 8 * n_frames))
    return number, [_read(descriptor, length) for length in lengths]


def write_message(descriptor: int, number: int, frames: Sequence[Frame]) -> None:
    """Write a message; OSError if nobody reads it."""
    lengths = [memoryview(frame).nbytes for frame in frames]
    head = _HEAD.pack(number, len(frames)) + struct.pack(f"<{len(frames)}Q", *lengths)
    for frame in (head, *frames):
        view = memoryview(frame).cast("B")
        while view:
            view = view[os.write(descriptor, view[:_MOST]) :]


def _read(descriptor: int, length: int) -> bytearray:
    message = bytearray(length)
    view = memoryview(message)
    while view:
        n_read = os.readv(descriptor, [view[:_MOST]]) if hasattr(os, "readv") else _read_into(descriptor, view)
        if not n_read:
            raise EOFError
        view = view[n_read:]
    return message


def _read_into(descriptor: int, view: memoryview) -> int:
    piece = os.read(descriptor, min(len(view), 1 << 20))
    view[: len(piece)] = piece
    return len(piece)


def main(threads: int) -> None:
    """Answer requests until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    requests, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    os.dup2(2, 1)  # output of print must not mix with the answers
    waiting: queue.SimpleQueue[tuple[int, list[Any]]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    host = Host(threads)
    while True:
        number, frames = waiting.get()
        write_message(answers, number, answer(host, frames))


def _receive(descriptor: int, waiting: queue.SimpleQueue[tuple[int, list[Any]]]) -> None:
    """Receive messages while the host works; end the process with the pipe."""
    while True:
        try:
            waiting.put(read_message(descriptor))
        except (EOFError, OSError):
            os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
