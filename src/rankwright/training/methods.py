"""Methods by name (``svm-map``, ``dorm@5``, ``lambdamart``): which estimator each one is, and with which parameters.

The names are those of `rankwright train --method` and of experiment files. Estimators are imported when they are made.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.measures import Measure

__all__ = ["ACCURACY", "LISTED", "LOSSES", "NAMES", "PAIRS", "ROUNDS", "Method", "method_name", "parse_method"]

LISTED = (
    "svm-map, svm-auc, svm-ndcg, svm-ndcg@K, svm-ndcg-nc, svm-mrr, svm-mrr@K, dorm, dorm@K, dorm-nc, svm-combo, "
    "rank-svm, rsvm-ir, svm-acc, svm-acc2, svm-acc3, svm-acc4, ranknet, lambdarank, lambdaboost, lambdamart, mcrank, "
    "mcrank-ordinal"
)
LOSSES = {
    "svm-map": "map",
    "svm-auc": "auc",
    "svm-ndcg": "ndcg@10",
    "svm-ndcg-nc": "ndcg",
    "svm-mrr": "mrr@10",
    "dorm": "dorm@10",
    "dorm-nc": "dorm",
}
PAIRS: dict[str, dict[str, Any]] = {
    "rank-svm": {},
    "rsvm-ir": {"rank_weights": "ndcg@1", "query_weights": True},
}
ACCURACY: dict[str, dict[str, Any]] = {
    "svm-acc": {},
    "svm-acc2": {"balance": True},
    "svm-acc3": {"query_scaling": "percentile"},
    "svm-acc4": {"query_scaling": "minmax"},
}
ROUNDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ranknet": ("lambda_rank", "RankNet", {}),
    "lambdarank": ("lambda_rank", "LambdaRank", {}),
    "lambdaboost": ("lambda_boost", "LambdaBoost", {}),
    "lambdamart": ("lambda_mart", "LambdaMART", {}),
    "mcrank": ("mc_rank", "McRank", {}),
    "mcrank-ordinal": ("mc_rank", "McRank", {"link": "ordinal"}),
}
NAMES = (*LOSSES, "svm-combo", *PAIRS, *ACCURACY, *ROUNDS)
_WITH_CUTOFF = re.compile(r"(svm-ndcg|svm-mrr|dorm)@(.*)")


@dataclass(frozen=True)
class Method:
    """A method that can be trained.

    Attributes
    ----------
    name : str
        Without a cutoff.
    loss : str or None
        What a structured SVM is trained for, the cutoff included; None for all others, and for svm-combo.
    module, kind : str
        Where its estimator is, and what that is called.
    presets : dict
        The parameters that make the estimator this method.
    """

    name: str
    loss: str | None
    module: str
    kind: str
    presets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimator(self) -> type:
        """The class of its estimator."""
        found: type = getattr(importlib.import_module(f"rankwright.rankers.{self.module}"), self.kind)
        return found

    def defaults(self) -> dict[str, Any]:
        """All parameters of the estimator, with the values they have unless they are given."""
        signature = inspect.signature(self.estimator).parameters
        return {name: parameter.default for name, parameter in signature.items()} | dict(self.presets)

    def make(self, **parameters: Any) -> Any:
        """An estimator with these parameters."""
        return self.estimator(**dict(self.presets) | parameters)

    def measure(self, losses: Any = None, relevant_from: float | None = None) -> Measure:
        """The measure that a model is chosen by unless another is asked for: that of the (first) loss, or nDCG@10.

        Parameters
        ----------
        losses : list of str, optional
            Of svm-combo.
        relevant_from : float, optional
            Labels from here on are relevant.
        """
        from rankwright.measures import parse_measure

        loss = losses or self.loss
        if loss is None:
            return parse_measure("nDCG@10")
        from rankwright.rankers.losses import parse_losses

        return parse_losses(loss)[0].measure.with_relevant_from(relevant_from)


def parse_method(text: str) -> Method:
    """The method of a name.

    Examples
    --------
    >>> parse_method("svm-ndcg@5").loss, parse_method("lambdamart").kind
    ('ndcg@5', 'LambdaMART')
    """
    name = text.strip().lower()
    if name in LOSSES or name == "svm-combo":
        loss = LOSSES.get(name)
        return Method(name, loss, "max_margin", "StructuredSVM", {} if loss is None else {"loss": loss})
    if name in PAIRS:
        return Method(name, None, "ranking_svm", "RankingSVM", PAIRS[name])
    if name in ACCURACY:
        return Method(name, None, "accuracy", "AccuracySVM", ACCURACY[name])
    if name in ROUNDS:
        module, kind, presets = ROUNDS[name]
        return Method(name, None, module, kind, presets)
    match = _WITH_CUTOFF.fullmatch(name)
    if match is not None:
        if not (match[2].isdecimal() and int(match[2]) > 0):
            raise InputError(f"the cutoff of the method {text!r} is {match[2]!r}; expected a whole number from 1")
        loss = f"{match[1].removeprefix('svm-')}@{int(match[2])}"
        return Method(match[1], loss, "max_margin", "StructuredSVM", {"loss": loss})
    near = difflib.get_close_matches(name.replace("_", "-").partition("@")[0], NAMES, n=3, cutoff=0.55)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"unknown method {text!r}; {hint}methods: {LISTED}")


def method_name(ranker: Any, method: str) -> str:
    """The method with its cutoff written out."""
    name = parse_method(method).name
    return name if name in (*ACCURACY, *ROUNDS) else str(ranker.method_name())
