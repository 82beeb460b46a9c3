"""Memory left to this process, as far as the system reports it."""

from __future__ import annotations

from pathlib import Path

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

__all__ = ["free_memory"]

_STATUS, _SYSTEM, _GROUPS = Path("/proc/self/status"), Path("/proc/meminfo"), Path("/proc/self/cgroup")
_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes still available by the system, the limits of the process and its control group; None if unknown.

    Examples
    --------
    >>> free = free_memory()
    >>> free is None or free > 0
    True
    """
    limits = [_entry(_SYSTEM, "MemAvailable:"), *_of_limits(), *_of_groups()]
    return min((max(0, free) for free in limits if free is not None), default=None)


def _of_limits() -> list[int | None]:
    if resource is None:
        return []
    free: list[int | None] = []
    for kind, used in (("RLIMIT_DATA", "VmData:"), ("RLIMIT_AS", "VmSize:")):
        limit = resource.getrlimit(getattr(resource, kind))[0] if hasattr(resource, kind) else resource.RLIM_INFINITY
        in_use = _entry(_STATUS, used)
        free.append(None if limit == resource.RLIM_INFINITY or in_use is None else limit - in_use)
    return free


def _of_groups() -> list[int | None]:
    """Memory left to the process by its control group, version 1 or 2; page cache counts as free."""
    free: list[int | None] = []
    for line in _text(_GROUPS).splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            folder, limit, used, files = _CGROUP / place.lstrip("/"), "memory.max", "memory.current", "file"
        elif "memory" in controllers.split(","):
            folder, limit, used = (
                _CGROUP / "memory" / place.lstrip("/"),
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
            files = "total_cache"
        else:
            continue
        bound, in_use = _text(folder / limit).strip(), _text(folder / used).strip()
        if bound.isdecimal() and in_use.isdecimal():
            free.append(int(bound) - int(in_use) + (_entry(folder / "memory.stat", f"{files} ", 1) or 0))
    return free


def _entry(path: Path, name: str, unit: int = 1024) -> int | None:
    """The number on the line that starts with ``name``."""
    for line in _text(path).splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * unit
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
