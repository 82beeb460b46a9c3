"""Methods as other libraries call them, for hints in errors: `LGBMRanker` is lambdamart here, and so is RankLib's 6."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["counterpart"]

_SAME = {
    "LightGBM": {"lambdamart": "lgbmranker lightgbm lgbm gbdt"},
    "XGBoost": {"lambdamart": "xgbranker xgboost xgb rankndcg rankmap"},
    "CatBoost": {"ranknet": "pairlogit"},
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
        "lambdamart": "catboostranker catboost yetirank yetirankpairwise querysoftmax stochasticrank",
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
    ('LGBMRanker of LightGBM is lambdamart here', '6 of RankLib is lambdamart here')
    >>> counterpart("ListNet"), counterpart("StructuredSVM")
    ('ListNet of RankLib is not here, the nearest is svm-map', 'StructuredSVM is svm-map here')
    """
    text, called = text.strip(), called or {}
    name = re.sub(r"[\W_]+", "", text.rpartition(".")[2].partition("@")[0].lower())
    for table, words in ((_SAME, "{} is {} here"), (_NEAREST, "{} is not here, the nearest is {}")):
        for library, methods in table.items():
            own = next((own for own, names in methods.items() if name in names.split()), None)
            if own is not None:
                spelt = re.sub(r"\W+", "", library.lower()) == name
                return words.format(text if spelt else f"{text} of {library}", called.get(own, own))
    return f"{text} is {_OUR_CLASSES[name]} here" if name in _OUR_CLASSES else _OTHER.get(name, "")
