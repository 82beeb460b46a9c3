"""A place for numba's compiled code where it finds none of its own.

numba keeps compiled code beside the source or in the user's cache folder, and refuses to compile if neither can be
written: a package installed by somebody else, and a home that is read-only or missing. Only then is the environment
variable ``NUMBA_CACHE_DIR`` set, before numba is asked, to a private folder for temporary files; processes started from
this one inherit it. matplotlib, which would complain about the same home in every process, finds a folder in there.
Where no folder at all can be written, numba is told to keep nothing, and every process compiles what it uses. Nothing
is touched where numba finds a place.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

VARIABLE = "NUMBA_CACHE_DIR"
_PREFIX = "rankwright-compiled-"
_DISPATCHER = "numba.core.dispatcher"

INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only compiled functions of the same file call: no way in from Python, no own place in the
cache. A kernel made of such functions takes a quarter less to compile."""


def provide_cache() -> None:
    """Give numba a temporary folder if it would find no other; without one, have it keep nothing."""
    if os.name != "posix" or any(_is_writable(folder) for folder in _places()):
        return
    try:
        folder = _own_folder()
    except OSError:  # nowhere at all: numba would refuse to compile
        importlib.import_module(_DISPATCHER).Dispatcher.enable_caching = _keep_nothing
        return
    os.environ[VARIABLE] = folder
    os.environ.setdefault("MPLCONFIGDIR", os.path.join(folder, "matplotlib"))
    if "numba" in sys.modules:  # has read the variable already
        sys.modules["numba"].config.CACHE_DIR = folder


def keeps_code() -> bool:
    """Whether compiled code is kept for other processes."""
    module = sys.modules.get(_DISPATCHER)
    return module is None or module.Dispatcher.enable_caching is not _keep_nothing


def cache_refused() -> str | None:
    """The folder that ``NUMBA_CACHE_DIR`` names, if it cannot be written."""
    folder = os.environ.get(VARIABLE)
    return folder if folder and not _is_writable(folder) else None


def is_compiled(kernel: Any) -> bool:
    """Whether numba has code of a function on disk, for whatever types, that is newer than the source."""
    code = kernel.py_func.__code__
    source, python = Path(code.co_filename), f"py{sys.version_info.major}{sys.version_info.minor}"
    name = f"{source.stem}.{code.co_name}-{code.co_firstlineno}.{python}*.nbi"
    newest = max((index.stat().st_mtime for index in Path(kernel.stats.cache_path).glob(name)), default=0.0)
    return bool(newest >= source.stat().st_mtime)


def temporary_cache() -> str | None:
    """The temporary folder that numba uses, if it has no better one."""
    folder = os.environ.get(VARIABLE, "")
    return folder if os.path.basename(folder).startswith(_PREFIX) else None


def _places() -> list[str]:
    """Where numba would look, as in ``numba.core.caching``."""
    package = os.path.dirname(os.path.abspath(__file__))
    home = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    chosen = os.environ.get(VARIABLE)
    own = os.path.join(os.path.expanduser(home), "numba")
    return [*([chosen] if chosen else []), os.path.join(package, "__pycache__"), own]


def _keep_nothing(dispatcher: Any) -> None:
    """Takes the place of numba's ``enable_caching``."""


def _is_writable(folder: str) -> bool:
    """Whether files can be made in a folder, or the folder itself be made: rights alone do not tell."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _own_folder() -> str:
    """A folder that only this user can write to: loading compiled code runs it."""
    folder = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if not (stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077):
            folder = tempfile.mkdtemp(prefix=_PREFIX)  # somebody else's: another, for this process only
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
