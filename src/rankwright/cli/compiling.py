"""Compiling is announced: the first use of a method on a machine waits for numba, and silence looks like a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import click

__all__ = ["COMPILING", "announce", "told_of_compiling"]

COMPILING = "compiling the training code, once on this machine: 5 to 40 seconds …"


def announce() -> None:
    """Say that code is compiled."""
    click.echo(COMPILING, err=True)


@contextmanager
def told_of_compiling(
    what: str = COMPILING, *, told: bool = False, device: str = "cpu"
) -> Iterator[Callable[[], bool]]:
    """Say, unless ``told``, when numba compiles what its cache lacks; yields a function that tells whether it did."""
    from numba.core import event

    began: list[Any] = []

    def begin(_: Any) -> None:
        if not began and not told:
            click.echo(what, err=True)
        began.append(True)

    with ExitStack() as listening:
        listening.enter_context(event.install_listener("numba:compile", _listener(event.Listener, begin)))
        if device == "cuda":
            with suppress(ImportError, ValueError):  # of other versions, which then compile in silence
                from numba.cuda.core import event as of_card

                # Taken once to look for a kernel in the cache, and once more to compile it.
                teller = _listener(of_card.Listener, begin, 2)
                listening.enter_context(of_card.install_listener("numba-cuda:compiler_lock", teller))
        yield lambda: bool(began)


def _listener(kind: Any, begin: Callable[[Any], None], deep: int = 1) -> Any:
    """A listener to events of numba, or of numba-cuda, that calls a function when so many have begun within another."""
    under_way: list[Any] = []

    def on_start(_: Any, event: Any) -> None:
        under_way.append(event)
        if len(under_way) == deep:
            begin(event)

    return type("Teller", (kind,), {"on_start": on_start, "on_end": lambda _, event: under_way and under_way.pop()})()
