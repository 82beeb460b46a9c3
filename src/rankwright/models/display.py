"""How models show themselves: the features that matter most, as a table and as bars."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rankwright.data.display import Displayed, Tabled, bars, cell

__all__ = ["DisplayedModel"]

_SHOWN = 15  # features
_PARTS = 6


class DisplayedModel(Displayed):
    """Base of models: shows weights or importances, the largest first."""

    def _ordered(self) -> tuple[Any, Any, str]:
        """Names and values of the features that are used, the largest first, and what the values are."""
        model: Any = self
        values = np.asarray(model.importance(), np.float64)
        order = np.argsort(-np.abs(values), kind="stable")
        what = "weight" if hasattr(model, "coef") else "importance"
        return [model.names[at] for at in order.tolist()], values[order], what

    def _words(self) -> str:
        """The size of the model."""
        model: Any = self
        words = [f"{model.n_features:,} features"]
        forests = [model.forest] if hasattr(model, "forest") else getattr(model, "forests", ())
        if forests:
            n_trees, n_leaves = (sum(counts) for counts in zip(*map(_counts, forests), strict=True))
            words += [f"{n_trees:,} trees", f"{n_leaves:,} leaves"]
        if hasattr(model, "n_units"):
            words.append(f"{model.n_units} hidden units")
        if hasattr(model, "thresholds"):
            words.append(f"{len(model.thresholds):,} thresholds")
        if hasattr(model, "parts"):
            parts = [
                f"{weight:.4g} × {type(part).__name__}" for weight, part in zip(model.weights, model.parts, strict=True)
            ]
            words += [*parts[:_PARTS], *(["…"] if len(parts) > _PARTS else [])]
        if model.query_scaling is not None:
            words.append(f"{model.query_scaling} within queries")
        return ", ".join(words)

    def _shown_table(self) -> Tabled:
        names, values, what = self._ordered()
        used = int((values != 0).sum())
        rows = tuple((name, cell(float(value))) for name, value in zip(names[:_SHOWN], values[:used], strict=False))
        notes = [f"and {used - len(rows):,} smaller"] if used > len(rows) else []
        unused = len(names) - used
        notes += [f"{unused:,} {'of weight 0' if what == 'weight' else 'not used'}"] if unused else []
        return Tabled(("feature", what), rows, tuple(notes), title=repr(self))

    def to_frame(self) -> Any:
        """All features with their weights or importances, the largest first, as a pandas data frame."""
        names, values, what = self._ordered()
        return importlib.import_module("pandas").DataFrame({"feature": names, what: values})

    def _drawing(self) -> Callable[[], Any]:
        names, values, what = self._ordered()
        used = int((values != 0).sum())
        return lambda: bars(names[:used], values[:used].tolist(), what)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._words()})"

    def __str__(self) -> str:
        return self.to_text()


def _counts(forest: Any) -> tuple[int, int]:
    """Trees and leaves."""
    return len(forest.roots), int((forest.feature < 0).sum())
