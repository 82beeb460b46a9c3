"""Compiling is announced: the first use of a method on a machine waits for numba, and silence looks like a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["COMPILING", "announce", "told_of_compiling"]

COMPILING = "compiling the training code, once on this machine: 5 to 40 seconds …"


def announce() -> None:
    """Say that code is compiled."""
    click.echo(COMPILING, err=True)


@contextmanager
def told_of_compiling(what: str = COMPILING, *, told: bool = False) -> Iterator[Callable[[], bool]]:
    """Say, unless ``told``, when numba compiles what its cache lacks; yields a function that tells whether it did."""
    from numba.core import event

    class Teller(event.Listener):
        did = False

        def on_start(self, event: Any) -> None:
            if not self.did:
                self.did = True
                if not told:
                    click.echo(what, err=True)

        def on_end(self, event: Any) -> None:
            pass

    teller = Teller()
    with event.install_listener("numba:compile", teller):
        yield lambda: teller.did
