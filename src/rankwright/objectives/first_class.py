"""Compiled functions as values: a kernel that calls one is compiled once for all of them, and cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.types import WrapperAddressProtocol


class FirstClass(WrapperAddressProtocol):
    """A compiled function of a fixed signature, to be passed to compiled functions.

    Never put one first in a tuple: numba warns about that.
    """

    def __init__(self, kernel: Any, signature: Any) -> None:
        kernel.compile(signature.args)
        self._compiled, self._signature = kernel.overloads[signature.args], signature
        name = self._compiled.fndesc.llvm_cfunc_wrapper_name
        self._address: int = self._compiled.library.get_pointer_to_function(name)

    def __wrapper_address__(self) -> int:
        return self._address

    def signature(self) -> Any:
        """The types of the arguments and of the result."""
        return self._signature


def compiled(function: Callable[..., Any], signature: Any) -> FirstClass:
    """A plain function, compiled; cached on disk if it comes from a file."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return FirstClass(njit(cache=True, **options)(function), signature)
    except RuntimeError:  # typed interactively, so no file to cache beside
        return FirstClass(njit(**options)(function), signature)
