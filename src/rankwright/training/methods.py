"""Methods by name (``svm-map``, ``dorm@5``, ``lambdamart``): one table says which estimator each one is.

The names are those of `rankwright train --method` and of experiment files. What can be set follows from the estimator's
own parameters. Estimators are imported when first needed. Also here: methods as other libraries call them, for hints in
errors: `LGBMRanker` is lightgbm here, and so is RankLib's 6.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwright.errors import InputError
from rankwright.measures import measure_class
from rankwright.plugins import PYTHON, ranker_named, ranker_names
from rankwright.rankers.parameters import LINEAR, NONE, Option, Parameter, declared, integer

BINS = Parameter(
    None,
    (integer(1), NONE),
    Option(
        LINEAR,
        "Cut every feature into up to N 0/1 features, value ≥ threshold, as SIGIR'07 did with 50; linear methods only.",
        after="standardize",
        metavar="N",
        alone=True,
    ),
)
"""Threshold bins per feature, of linear methods."""


@dataclass(frozen=True)
class Method:
    """A method that can be trained.

    `name`: without a cutoff. `kind`: the public name of its estimator. `presets`: the parameters that make the
    estimator this method. `without`: parameters of the estimator that mean nothing to this method. `is_open`: whether
    it takes any other parameter, too, as those of another library or of a user's class.
    """

    name: str
    kind: str
    presets: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    is_open: bool = False

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
        estimator: type = getattr(importlib.import_module("rankwright"), self.kind)
        return estimator

    def defaults(self) -> dict[str, Any]:
        """Everything that can be set, with its default: the estimator's parameters, and ``bins`` for linear methods.

        ``losses`` takes the place of ``loss`` where there may be several.
        """
        return {name: parameter.default for name, parameter in self.parameters().items()}

    def parameters(self) -> dict[str, Parameter]:
        """The declaration of everything that can be set, by name."""
        parameters = {
            name: parameter for name, parameter in declared(self.estimator).items() if name not in self.without
        }
        parameters |= {
            name: dataclasses.replace(parameters[name], default=value)
            for name, value in self.presets.items()
            if name in parameters
        }
        if "loss" in parameters:
            parameters["losses"] = dataclasses.replace(parameters.pop("loss"), instead="")
        if "C" in parameters:  # linear
            parameters["bins"] = BINS
        return parameters

    def make(self, **settings: Any) -> Any:
        """An estimator with these settings."""
        if "losses" in settings:
            settings["loss"] = settings.pop("losses")
        if self.is_open:
            known = declared(self.estimator)
            others = {name: settings.pop(name) for name in list(settings) if name not in known}
            settings["settings"] = others or None
        return self.estimator(**dict(self.presets) | settings)

    def at(self, cutoff: int) -> Method:
        """The method for the first ``cutoff`` ranks."""
        loss = f"{(self.loss or '').partition('@')[0]}@{cutoff}"
        return dataclasses.replace(self, presets={**self.presets, "loss": loss})


def _for_loss(name: str, loss: str, *without: str) -> Method:
    return Method(name, "StructuredSVM", {"loss": loss}, ("loss", "loss_weights", "slack", *without))


def _of_others(name: str, kind: str, preset: str) -> Method:
    return Method(name, kind, {preset: name}, (preset, "settings"), is_open=True)


METHODS = {
    method.name: method
    for method in (
        Method("auto", "AutoRanker"),
        _for_loss("svm-map", "map"),
        _for_loss("svm-auc", "auc"),
        _for_loss("svm-ndcg", "ndcg@10"),
        _for_loss("svm-ndcg-nc", "ndcg"),
        _for_loss("svm-mrr", "mrr@10"),
        _for_loss("dorm", "dorm@10", "relevant_from"),
        _for_loss("dorm-nc", "dorm", "relevant_from"),
        Method("svm-combo", "StructuredSVM", {"loss": ("map", "mrr@10", "ndcg@10")}),  # KDD'08's three
        Method("rank-svm", "RankingSVM"),
        Method("rsvm-ir", "RankingSVM", {"rank_weights": "ndcg@1", "query_weights": True}),
        Method("svm-acc", "AccuracySVM"),
        Method("svm-acc2", "AccuracySVM", {"balance": True}),
        Method("svm-acc3", "AccuracySVM", {"query_scaling": "percentile"}),
        Method("svm-acc4", "AccuracySVM", {"query_scaling": "minmax"}),
        Method("ranknet", "RankNet"),
        Method("lambdarank", "LambdaRank"),
        Method("lambdaboost", "LambdaBoost"),
        Method("lambdamart", "LambdaMART"),
        Method("mcrank", "McRank"),
        Method("mcrank-ordinal", "McRank", {"link": "ordinal"}),
        _of_others("lightgbm", "LibraryRanker", "library"),
        _of_others("xgboost", "LibraryRanker", "library"),
        _of_others("catboost", "LibraryRanker", "library"),
    )
}
"""Every method, by its name without a cutoff."""


def declared_options() -> dict[str, Parameter]:
    """The parameters of all methods that are options of `rankwright train`, by name, with the rules of all."""
    options: dict[str, Parameter] = {}
    for method in METHODS.values():
        for name, parameter in method.parameters().items():
            before = options.get(name)
            if before is None:
                options[name] = parameter
                continue
            rules = dict.fromkeys((*before.rules, *parameter.rules))
            first = parameter if before.option is None and parameter.option is not None else before
            options[name] = dataclasses.replace(first, rules=tuple(rules))
    return {name: parameter for name, parameter in options.items() if parameter.option is not None}


def set_elsewhere() -> dict[str, str]:
    """Parameters of estimators that are not set by name in experiment files, and what to write instead."""
    return {
        name: parameter.instead
        for method in METHODS.values()
        for name, parameter in declared(method.estimator).items()
        if parameter.instead
    }


NAMES = tuple(METHODS)
LISTED = ", ".join(f"{name}, {name}@K" if METHODS[name].takes_cutoff else name for name in NAMES)


def parse_method(text: str) -> Method:
    """Look up a method by name; code of users is not run here.

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
    own = _own_method(text.strip())
    if own is not None:
        return own
    theirs = counterpart(text)
    if theirs:
        raise InputError(f"unknown method {text!r}; {theirs}")
    near = difflib.get_close_matches(name.replace("_", "-"), NAMES, n=3, cutoff=0.55)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    others = "".join(f", {name}" for name in ranker_names())
    raise InputError(f"unknown method {text!r}; {hint}methods: {LISTED}{others}, {PYTHON}FILE.py:CLASS")


def _own_method(text: str) -> Method | None:
    """A ranker of the user's, by its file or by a registered name, or svm-LOSS for a measure of theirs; else None."""
    if text.startswith(PYTHON) or ranker_named(text) is not None:
        return _of_others(text, "PythonRanker", "ranker")
    start, _, loss = text.lower().partition("-")
    kind = measure_class(loss.partition("@")[0].removesuffix("-nc")) if start == "svm" else None
    is_own = kind is not None and not kind.__module__.startswith("rankwright.") and bool(kind.feature_maps)
    return _for_loss(text.lower(), loss) if is_own else None


def estimator_of(text: str) -> str:
    """What an estimator of another library is called here, as the end of a message; empty if it is not known.

    Examples
    --------
    >>> estimator_of("XGBRanker")
    'XGBRanker of XGBoost is LibraryRanker("xgboost") here'
    """
    calls = {name: f'{method.kind}("{name}")' if method.is_open else method.kind for name, method in METHODS.items()}
    return counterpart(text, calls)


_SAME = {
    "LightGBM": {"lightgbm": "lgbmranker lgbm gbdt"},
    "XGBoost": {"xgboost": "xgbranker xgb rankndcg rankmap"},
    "CatBoost": {"catboost": "catboostranker yetirank", "ranknet": "pairlogit"},
    "RankLib": {"ranknet": "1", "lambdarank": "5", "lambdamart": "6"},
    "SVMlight": {"rank-svm": "svmrank svmranklearn svmlight"},
    "TensorFlow Ranking": {"ranknet": "pairwiselogisticloss", "rank-svm": "pairwisehingeloss"},
    "pytorchltr": {"ranknet": "pairwiselogisticloss", "rank-svm": "pairwisehingeloss"},
    "scikit-learn": {"svm-acc": "linearsvc"},
}  # the same method, by our name; names are lower case, letters and digits only
_NEAREST = {
    "LightGBM": {"lambdamart": "rankxendcg dart goss", "mcrank": "lgbmregressor lgbmclassifier"},
    "XGBoost": {"lambdamart": "rankpairwise", "mcrank": "xgbregressor xgbclassifier"},
    "CatBoost": {
        "catboost": "yetirankpairwise querysoftmax stochasticrank",
        "mcrank": "queryrmse catboostregressor catboostclassifier",
    },
    "RankLib": {
        "mcrank": "0 mart 8 randomforests randomforest rf",
        "lambdaboost": "2 rankboost",
        "svm-map": "3 adarank 4 coordinateascent ca 7 listnet",
        "rank-svm": "9 linearregression",
    },
    "allRank": {"lambdarank": "allrank lambdaloss approxndcg approxndcgloss neuralndcg listmle pointwisermse"},
    "TensorFlow Ranking": {
        "lambdarank": "tensorflowranking tfranking tfr gumbelapproxndcgloss softmaxloss approxmrrloss"
    },
    "Rax": {"lambdarank": "rax"},
    "pyltr": {"lambdamart": "pyltr"},
    "scikit-learn": {
        "svm-acc": "svc svm logisticregression sgdclassifier",
        "mcrank": "histgradientboostingregressor gradientboostingregressor randomforestregressor "
        "histgradientboostingclassifier gradientboostingclassifier randomforestclassifier",
        "rank-svm": "ridge",
    },
}  # another method for the same kind of task and model
_OUR_CLASSES = {"autoranker": "auto", "structuredsvm": "svm-map", "rankingsvm": "rank-svm", "accuracysvm": "svm-acc"}
_RECOMMENDS = "{} recommends items to users; here rankers are trained on features of documents, the default is auto"
_OTHER = {
    "lightfm": _RECOMMENDS.format("LightFM"),
    "implicit": _RECOMMENDS.format("implicit"),
    "bm25": "bm25 is not trained: rankwright search INDEX QUERIES --function bm25",
    "rrf": "rrf is not trained: rankwright fuse RUN RUN",
}


def counterpart(text: str, called: Mapping[str, str] | None = None) -> str:
    """What a method of another library is called here, as the end of a message; empty if it is not known.

    ``called`` has other names for our methods.

    Examples
    --------
    >>> counterpart("LGBMRanker"), counterpart("6")
    ('LGBMRanker of LightGBM is lightgbm here', '6 of RankLib is lambdamart here')
    >>> counterpart("ListNet"), counterpart("StructuredSVM")
    ('ListNet of RankLib is not here, the nearest is svm-map', 'StructuredSVM is svm-map here')
    """
    text, called = text.strip(), called or {}
    name = re.sub(r"[\W_]+", "", text.rpartition(".")[2].partition("@")[0].lower())
    for table, words in ((_SAME, "{} is {} here"), (_NEAREST, "{} is not here, the nearest is {}")):
        for library, methods in table.items():
            ours = next((ours for ours, names in methods.items() if name in names.split()), None)
            if ours is not None:
                spelt = re.sub(r"\W+", "", library.lower()) == name
                return words.format(text if spelt else f"{text} of {library}", called.get(ours, ours))
    return f"{text} is {_OUR_CLASSES[name]} here" if name in _OUR_CLASSES else _OTHER.get(name, "")
