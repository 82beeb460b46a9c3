"""Launches that are made again and again, recorded as one: numba needs 80 µs for each, the card a few to repeat it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwright.gpu import card

__all__ = ["Recorded"]


class Recorded:
    """Makes launches on the card; from the second time on, in one go.

    Parameters
    ----------
    launch : callable
        ``launch(stream)`` launches kernels, always the same ones on the same arrays, and waits for nothing.
    """

    def __init__(self, launch: Callable[[Any], None]) -> None:
        self._launch, self._compiled, self._graph = launch, False, None

    def __call__(self) -> None:
        """Make the launches."""
        if card.is_simulated() or not self._compiled:
            self._launch(0)
            self._compiled = True
            return
        from numba.cuda.cudadrv.driver import binding as driver

        if self._graph is None:
            self._graph = self._record(driver)
        _checked(driver.cuGraphLaunch(self._graph, driver.CUstream(0)))

    def _record(self, driver: Any) -> Any:
        from numba import cuda

        stream = cuda.stream()
        handle = driver.CUstream(int(stream.handle))
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _checked(driver.cuStreamBeginCapture(handle, relaxed))
        try:
            self._launch(stream)
        finally:
            graph = _checked(driver.cuStreamEndCapture(handle))
        made = _checked(driver.cuGraphInstantiate(graph, 0))
        _checked(driver.cuGraphDestroy(graph))
        return made

    def close(self) -> None:
        """Forget the launches, and the arrays that they are for."""
        self._launch = _launch_nothing
        if self._graph is not None:
            from numba.cuda.cudadrv.driver import binding as driver

            _checked(driver.cuGraphExecDestroy(self._graph))
            self._graph = None


def _launch_nothing(stream: Any) -> None:
    """What is launched after `Recorded.close`."""


def _checked(result: Any) -> Any:
    """What a call of the driver returns; raises if it failed."""
    status, *found = result
    if int(status) != 0:
        raise RuntimeError(f"the GPU's driver failed: {status!r}")
    return found[0] if found else None
