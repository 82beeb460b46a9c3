"""scipy.sparse, imported by whoever makes something sparse: before that nothing can be, and starting costs less."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from scipy import sparse


def issparse(X: Any) -> TypeGuard[sparse.csr_array]:
    """Whether X is a sparse table of scipy's."""
    scipys = sys.modules.get("scipy.sparse")
    return scipys is not None and bool(scipys.issparse(X))


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("scipy.sparse"), name)
