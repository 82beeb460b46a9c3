"""The default engine: one host, in this process."""

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
    """All parts in this process, one after the other."""

    is_here = True

    def __init__(self) -> None:
        self.host = Host()

    def hosts(self) -> Sequence[Any]:
        return [0]

    def start(self, host: Any, method: str, *arguments: Any, **options: Any) -> _Done:
        return _Done(getattr(self.host, method)(*arguments, **options))

    def close(self) -> None:
        self.host.close()
