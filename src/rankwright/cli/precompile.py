"""Precompiling: on the first use of a method, other processes compile parts of its code while data is read.

numba compiles one function at a time in a process. The parts of a training (`rankwright.training.warmup`) are shared
out through a folder of claims: a process that makes a part's file compiles it and leaves the code in numba's cache,
where the others find it. The process that trains takes part, too, once its data is read.

Workers are started as commands of their own, never forked, and end when their standard input does: with the process
that started them, however that ends. One that dies leaves its part to the training. None is started where numba's cache
has the largest functions of a method or cannot be written, or where no other core is free.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rankwright
from rankwright.caching import is_compiled, keeps_code
from rankwright.cli.printing import inform

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

_MAX_WORKERS = 3  # a method has hardly more parts of equal length
_LONGEST = 300.0  # seconds that a worker may take: then something is wrong with it
_LOAD = Path("/proc/loadavg")
_FORM = "form"  # the file that says how features are stored
_OBJECTS = (200_000, 50, 1000)  # thresholds of garbage collection
COMPILING = "compiling the training code, once on this machine: 5 to 40 seconds …"
COMPILING_SEARCH = "compiling the search code, once on this machine: 20 to 60 seconds …"


class Precompiler:
    """The processes that compile a method, which share a folder; without one, there is nothing to compile.

    `announced`: whether there is something to compile, and the user knows.
    """

    def __init__(self, method: str, folder: Path | None) -> None:
        self._method, self._folder, self.announced = method, folder, folder is not None
        self.workers: list[subprocess.Popen[bytes]] = []

    def finish(self, data: RankingData) -> None:
        """Compile what no worker has begun, for data like this, and wait for the workers."""
        from rankwright.training.warmup import form_of

        if self._folder is None:
            return
        unfinished = self._folder / f".{_FORM}"
        unfinished.write_text(form_of(data))
        unfinished.replace(self._folder / _FORM)
        _compile_parts(self._method, self._folder)
        ends = time.monotonic() + _LONGEST
        for worker in self.workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.0, ends - time.monotonic()))


@contextmanager
def precompiling(method: str, notify: Callable[[], Any], device: str = "cpu") -> Iterator[Precompiler]:
    """Start workers for a method that is not compiled yet, if there are cores to share with.

    ``notify`` is called if so. For another device nothing is precompiled: it needs little of the code.
    """
    from rankwright.training.warmup import warmups

    parts = warmups(method) if device == "cpu" else []
    workers = min(_cores() - 1, _MAX_WORKERS, len(parts))
    shared = None
    if workers >= 1 and sys.executable and keeps_code() and not all(part.is_compiled() for part in parts):
        with suppress(OSError):  # no folder for temporary files
            shared = tempfile.TemporaryDirectory(prefix="rankwright-precompile-")
    if shared is None:
        yield Precompiler(method, None)
        return
    notify()
    with _fewer_collections(), shared as folder:
        precompiler = Precompiler(method, Path(folder))
        try:
            with suppress(OSError):  # without workers, this process does it all
                for _ in range(workers):
                    precompiler.workers.append(_start(method, Path(folder)))
            yield precompiler
        finally:
            for worker in precompiler.workers:
                worker.kill()
                if worker.stdin is not None:
                    worker.stdin.close()
                worker.wait()


def _start(method: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process that compiles parts; nothing is imported from the current folder."""
    package = str(Path(rankwright.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "rankwright.cli.precompile", method, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )


def _compile_parts(method: str, folder: Path) -> None:
    """Run the warmups that no other process has claimed; those that depend on the form of the data come last."""
    from rankwright.training.warmup import few_documents, warmups

    form = "dense-float32"
    for part in warmups(method):
        if part.needs_form:
            form = _await_form(folder)
        if _claim(folder / part.name):
            with suppress(Exception):  # a part that fails here is left to the training
                part.run(few_documents(form))


@contextmanager
def _fewer_collections() -> Iterator[None]:
    """Look for garbage less often: compiling makes many objects, most of which stay."""
    usual = gc.get_threshold()
    gc.set_threshold(*_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _await_form(folder: Path) -> str:
    while not (folder / _FORM).exists():
        time.sleep(0.02)
    return (folder / _FORM).read_text()


def _claim(path: Path) -> bool:
    try:
        path.open("x").close()
    except FileExistsError:
        return False
    return True


def _cores() -> int:
    """Cores that this process may use, less those that are busy, where workers gain nothing."""
    from rankwright.data.threads import usable_cores

    return usable_cores() - _busy()


def _busy() -> int:
    """Cores that were busy in the last minute, but no more than are now, where that is known."""
    try:
        busy = int(os.getloadavg()[0])
    except (AttributeError, OSError):
        return 0
    with suppress(OSError, ValueError, IndexError):  # Linux: "0.98 1.79 4.27 3/85 27726", 3 running, this one included
        busy = min(busy, int(_LOAD.read_text().split()[3].partition("/")[0]) - 1)
    return max(busy, 0)


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing is ever written
    os._exit(1)


def _work(method: str, folder: str) -> None:
    threading.Thread(target=_end_with_input, daemon=True).start()
    with _fewer_collections():
        _compile_parts(method, Path(folder))


def must_compile() -> bool:
    """Whether numba has no compiled training code on disk; False if unknown."""
    try:
        from rankwright.maxmargin.hinge import _evaluate
        from rankwright.maxmargin.smoothed import minimise

        return not all(kernel.signatures or is_compiled(kernel) for kernel in (_evaluate, minimise))
    except (AttributeError, ImportError, OSError, TypeError):
        return False


@contextmanager
def noting_compilation(
    message: str = COMPILING, *, announced: bool = False, device: str = "cpu"
) -> Iterator[Callable[[], bool]]:
    """Say, unless ``announced``, when numba compiles what its cache lacks; yields a function: whether it did."""
    from numba.core import event

    began: list[Any] = []

    def begin(_: Any) -> None:
        if not began and not announced:
            inform(message)
        began.append(True)

    with ExitStack() as listening:
        listening.enter_context(event.install_listener("numba:compile", _listener(event.Listener, begin)))
        if device == "cuda":
            with suppress(ImportError, ValueError):  # of other versions, which then compile in silence
                from numba.cuda.core import event as of_device

                # Taken once to look for a kernel in the cache, and once more to compile it.
                listener = _listener(of_device.Listener, begin, 2)
                listening.enter_context(of_device.install_listener("numba-cuda:compiler_lock", listener))
        yield lambda: bool(began)


def _listener(kind: Any, begin: Callable[[Any], None], deep: int = 1) -> Any:
    """A listener to events of numba, or of numba-cuda, that calls a function when so many have begun within another."""
    under_way: list[Any] = []

    def on_start(_: Any, event: Any) -> None:
        under_way.append(event)
        if len(under_way) == deep:
            begin(event)

    return type("Listener", (kind,), {"on_start": on_start, "on_end": lambda _, event: under_way and under_way.pop()})()


if __name__ == "__main__":
    _work(*sys.argv[1:])
