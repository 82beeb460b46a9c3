"""Compiled functions as values: a kernel that calls one is compiled once for all of them, and cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.types import WrapperAddressProtocol

__all__ = ["FirstClass", "compiled"]


class FirstClass(WrapperAddressProtocol):
    """A compiled function of a fixed signature, to be passed to compiled functions.

    In a tuple it must not come first: numba warns about those.
    """

    def __init__(self, kernel: Any, signature: Any) -> None:
        kernel.compile(signature.args)
        self._compiled, self._signature = kernel.overloads[signature.args], signature

    def __wrapper_address__(self) -> int:
        name = self._compiled.fndesc.llvm_cfunc_wrapper_name
        address: int = self._compiled.library.get_pointer_to_function(name)
        return address

    def signature(self) -> Any:
        """The types of the arguments and of the result."""
        return self._signature


def compiled(function: Callable[..., Any], signature: Any) -> FirstClass:
    """A plain function, compiled; from the disk cache where it was compiled before and comes from a file."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return FirstClass(njit(cache=True, **options)(function), signature)
    except RuntimeError:  # typed in by hand: there is no file to keep the cache next to
        return FirstClass(njit(**options)(function), signature)
