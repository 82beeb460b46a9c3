"""Test collections that need no download."""

from rankwright.datasets.collection import Collection
from rankwright.datasets.python_docs import python_docs

__all__ = ["Collection", "python_docs"]
