"""Methods by name (``svm-map``, ``dorm@5``, ``lambdamart``): one table says which estimator each one is.

The names are those of `rankwright train --method` and of experiment files. What can be set follows from the estimator's
own parameters. Estimators are imported when first needed.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwright.errors import InputError
from rankwright.training.other_methods import counterpart

__all__ = ["LISTED", "METHODS", "NAMES", "Method", "estimator_of", "parse_method"]


@dataclass(frozen=True)
class Method:
    """A method that can be trained.

    Attributes
    ----------
    name : str
        Without a cutoff.
    module, kind : str
        Where its estimator is, and what that is called.
    presets : dict
        The parameters that make the estimator this method.
    without : tuple of str
        Parameters of the estimator that mean nothing to this method.
    """

    name: str
    module: str
    kind: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def loss(self) -> str | None:
        """The loss that a structured SVM is trained for, cutoff included; None for all others and for svm-combo."""
        loss = self.presets.get("loss")
        return loss if isinstance(loss, str) else None

    @property
    def takes_cutoff(self) -> bool:
        """Whether the name may end in a cutoff, as in ``dorm@5``."""
        return "@" in (self.loss or "")

    @property
    def estimator(self) -> type:
        """The class of its estimator."""
        found: type = getattr(importlib.import_module(f"rankwright.rankers.{self.module}"), self.kind)
        return found

    def defaults(self) -> dict[str, Any]:
        """Everything that can be set, with its default: the estimator's parameters, and ``bins`` for linear methods.

        ``losses`` takes the place of ``loss`` where there may be several.
        """
        signature = inspect.signature(self.estimator).parameters
        known = {name: parameter.default for name, parameter in signature.items()} | dict(self.presets)
        known = {name: value for name, value in known.items() if name not in self.without}
        if "loss" in known:
            known["losses"] = known.pop("loss")
        if "C" in known:  # linear
            known["bins"] = None
        return known

    def make(self, **settings: Any) -> Any:
        """An estimator with these settings."""
        if "losses" in settings:
            settings["loss"] = settings.pop("losses")
        return self.estimator(**dict(self.presets) | settings)

    def at(self, cutoff: int) -> Method:
        """The method for the first ``cutoff`` ranks."""
        loss = f"{(self.loss or '').partition('@')[0]}@{cutoff}"
        return dataclasses.replace(self, presets={**self.presets, "loss": loss})


def _for_loss(name: str, loss: str, *without: str) -> Method:
    """A structured SVM for one loss."""
    return Method(name, "max_margin", "StructuredSVM", {"loss": loss}, ("loss", "loss_weights", "slack", *without))


METHODS = {
    method.name: method
    for method in (
        Method("auto", "auto", "AutoRanker"),
        _for_loss("svm-map", "map"),
        _for_loss("svm-auc", "auc"),
        _for_loss("svm-ndcg", "ndcg@10"),
        _for_loss("svm-ndcg-nc", "ndcg"),
        _for_loss("svm-mrr", "mrr@10"),
        _for_loss("dorm", "dorm@10", "relevant_from"),
        _for_loss("dorm-nc", "dorm", "relevant_from"),
        Method("svm-combo", "max_margin", "StructuredSVM", {"loss": ("map", "mrr@10", "ndcg@10")}),  # KDD'08's three
        Method("rank-svm", "ranking_svm", "RankingSVM"),
        Method("rsvm-ir", "ranking_svm", "RankingSVM", {"rank_weights": "ndcg@1", "query_weights": True}),
        Method("svm-acc", "accuracy", "AccuracySVM"),
        Method("svm-acc2", "accuracy", "AccuracySVM", {"balance": True}),
        Method("svm-acc3", "accuracy", "AccuracySVM", {"query_scaling": "percentile"}),
        Method("svm-acc4", "accuracy", "AccuracySVM", {"query_scaling": "minmax"}),
        Method("ranknet", "lambda_rank", "RankNet"),
        Method("lambdarank", "lambda_rank", "LambdaRank"),
        Method("lambdaboost", "lambda_boost", "LambdaBoost"),
        Method("lambdamart", "lambda_mart", "LambdaMART"),
        Method("mcrank", "mc_rank", "McRank"),
        Method("mcrank-ordinal", "mc_rank", "McRank", {"link": "ordinal"}),
    )
}
"""Every method, by its name without a cutoff."""

NAMES = tuple(METHODS)
LISTED = ", ".join(f"{name}, {name}@K" if METHODS[name].takes_cutoff else name for name in NAMES)


def parse_method(text: str) -> Method:
    """Look up a method by name.

    Examples
    --------
    >>> parse_method("svm-ndcg@5").loss, parse_method("lambdamart").kind
    ('ndcg@5', 'LambdaMART')
    """
    name, at, cutoff = text.strip().lower().partition("@")
    method = METHODS.get(name)
    if method is not None and not at:
        return method
    if method is not None and method.takes_cutoff:
        if not (cutoff.isdecimal() and int(cutoff) > 0):
            raise InputError(f"the cutoff of the method {text!r} is {cutoff!r}; expected a whole number from 1")
        return method.at(int(cutoff))
    theirs = counterpart(text)
    if theirs:
        raise InputError(f"unknown method {text!r}; {theirs}")
    near = difflib.get_close_matches(name.replace("_", "-"), NAMES, n=3, cutoff=0.55)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"unknown method {text!r}; {hint}methods: {LISTED}")


def estimator_of(text: str) -> str:
    """What an estimator of another library is called here, as the end of a message; empty if it is not known.

    Examples
    --------
    >>> estimator_of("XGBRanker")
    'XGBRanker of XGBoost is LambdaMART here'
    """
    return counterpart(text, {name: method.kind for name, method in METHODS.items()})
