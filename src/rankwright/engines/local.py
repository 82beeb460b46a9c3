"""The engine that is always there: one host, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankwright.engines.host import Host

__all__ = ["Local"]


@dataclass(frozen=True)
class _Done:
    value: Any

    def result(self) -> Any:
        return self.value


class Local:
    """Everything here, one part after the other."""

    is_here = True

    def __init__(self) -> None:
        self.host = Host()

    def hosts(self) -> Sequence[Any]:
        """The one host."""
        return [0]

    def start(self, host: Any, method: str, *arguments: Any, **options: Any) -> _Done:
        """Call a method now."""
        return _Done(getattr(self.host, method)(*arguments, **options))

    def close(self) -> None:
        """Forget all."""
        self.host.close()
