"""Test collections that need no download."""

from rankwright.datasets.collection import Collection, python_docs

__all__ = ["Collection", "python_docs"]
