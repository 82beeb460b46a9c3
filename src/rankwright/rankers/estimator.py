"""scikit-learn's interface of an estimator, without importing scikit-learn, which takes as long as a small training.

Parameters are read and set here. Tags are made when scikit-learn asks for them, and whatever else it expects of an
estimator (routing of metadata, display in notebooks) is its own code, borrowed once it is imported.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from rankwright.rankers.display import DisplayedRanker
from rankwright.rankers.other_names import hint

_SHOWN = 700  # characters of a printed estimator


class Estimator(DisplayedRanker):
    """Base of a dataclass of parameters that scikit-learn may clone, search over and put into a pipeline."""

    def __new__(cls, *_: Any, **params: Any) -> Self:
        """An estimator without parameters yet; unknown ones are an error that names them as they are called here."""
        names = cls._get_param_names()
        unknown = next((name for name in params if name not in names), None)
        if unknown is not None:
            told = hint(unknown, names) or f"expected one of {', '.join(names)}"
            raise TypeError(f"{cls.__name__} has no parameter {unknown!r}; {told}")
        return super().__new__(cls)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        fields: Any = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        return sorted(field.name for field in fields if field.init)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; ``deep``: also those of parameters that are estimators, as ``name__parameter``."""
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": of_inner for inner, of_inner in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``name__parameter`` sets one of a parameter that is an estimator."""
        names = self._get_param_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, inside, inner = key.partition("__")
            if name not in names:
                told = hint(name, names) or f"Valid parameters are: {names!r}."
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. {told}")
            if inside:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, settings in nested.items():
            getattr(self, name).set_params(**settings)
        return self

    def __repr__(self) -> str:
        defaults = {name: given.default for name, given in inspect.signature(type(self)).parameters.items()}
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults.get(name))
        ]
        text = f"{type(self).__name__}({', '.join(changed)})"
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("__") and "sklearn.base" in sys.modules and not hasattr(type(self), name):
                lent = inspect.getattr_static(_in_full(type(self)), name, None)
                if lent is not None:
                    return lent.__get__(self, type(self)) if hasattr(type(lent), "__get__") else lent
            return object.__getattribute__(self, name)  # raises, with the error of a property if it is one


@cache
def _in_full(kind: type) -> type:
    """The class with all that scikit-learn gives to an estimator."""
    from sklearn.base import BaseEstimator

    return type(f"_{kind.__name__}", (kind, BaseEstimator), {"__module__": BaseEstimator.__module__})


def check_is_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's error if an estimator lacks what ``fit`` gives it."""
    if attribute not in vars(estimator):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, attribute)
