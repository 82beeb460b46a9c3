"""Launches that are made again and again, recorded as one: numba needs 80 µs for each, the card a few to repeat it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwright.gpu import card

__all__ = ["Recorded"]


class Recorded:
    """Makes launches on the card; from the second time on with the same arguments, in one go.

    Parameters
    ----------
    launch : callable
        ``launch(stream, *given)`` launches kernels, always the same ones for the same arguments, and waits for nothing.
        It should not belong to an object that keeps this one: arrays on the card would stay until that cycle is found.
    """

    def __init__(self, launch: Callable[..., None]) -> None:
        self._launch, self._graph = launch, None
        self._given: tuple[Any, ...] | None = None

    def __call__(self, *given: Any) -> None:
        """Make the launches; arguments are the same if they are the same objects."""
        if card.is_simulated() or not self._knows(given):
            self.close()
            self._given = given
            self._launch(0, *given)  # kernels are compiled on the way, which cannot be recorded
            return
        from numba.cuda.cudadrv.driver import binding as driver

        if self._graph is None:
            self._graph = self._record(driver)
        _checked(driver.cuGraphLaunch(self._graph, driver.CUstream(0)))

    def _knows(self, given: tuple[Any, ...]) -> bool:
        known = self._given
        return known is not None and all(one is other for one, other in zip(given, known, strict=True))

    def _record(self, driver: Any) -> Any:
        from numba import cuda

        assert self._given is not None
        # A stream that the default one does not wait for: other threads may launch there meanwhile.
        handle = _checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _checked(driver.cuStreamBeginCapture(handle, relaxed))
        try:
            self._launch(cuda.external_stream(int(handle)), *self._given)
        finally:
            graph = _checked(driver.cuStreamEndCapture(handle))
            _checked(driver.cuStreamDestroy(handle))
        made = _checked(driver.cuGraphInstantiate(graph, 0))
        _checked(driver.cuGraphDestroy(graph))
        return made

    def close(self) -> None:
        """Forget the arguments, and what was recorded for them."""
        self._given = None
        if self._graph is not None:
            from numba.cuda.cudadrv.driver import binding as driver

            _checked(driver.cuGraphExecDestroy(self._graph))
            self._graph = None


def _checked(result: Any) -> Any:
    """What a call of the driver returns; raises if it failed."""
    status, *found = result
    if int(status) != 0:
        raise RuntimeError(f"the GPU's driver failed: {status!r}")
    return found[0] if found else None
