"""Rankwright learns to order search results for the measure you are judged by.

Names are loaded on first use, so that ``import rankwright`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from rankwright.caching import provide_cache as _provide_cache

_provide_cache()

__version__ = "0.1.0"

_HOMES = {
    "rankwright.errors": (
        "InputError",
        "InputWarning",
    ),
    "rankwright.adaptation.augment": (
        "Augmentation",
        "augment",
    ),
    "rankwright.adaptation.robustness": (
        "RobustnessReport",
        "learning_curve",
        "robustness",
    ),
    "rankwright.adaptation.ways": ("Adapted", "adapt"),
    "rankwright.boosting.lambda_boost": ("LambdaBoost",),
    "rankwright.boosting.tree_model": (
        "GradeModel",
        "TreeModel",
    ),
    "rankwright.boosting.tree_rankers": (
        "LambdaMART",
        "McRank",
    ),
    "rankwright.clicks.log": (
        "ClickLog",
        "ClickPages",
        "click_pages",
        "drop_sessions",
        "read_clicks",
    ),
    "rankwright.clicks.models": (
        "ClickEstimates",
        "Propensities",
        "click_model",
        "read_propensities",
    ),
    "rankwright.cluster.dataset": ("open_partitions",),
    "rankwright.committee.auto": ("AutoRanker",),
    "rankwright.committee.interpolation": ("Interpolation",),
    "rankwright.data.cleaning": (
        "Cleaner",
        "Cleaning",
    ),
    "rankwright.data.dataset": ("RankingData",),
    "rankwright.data.fusion": (
        "fuse",
        "runs_to_data",
    ),
    "rankwright.data.scaling": (
        "QueryScaler",
        "Standardizer",
    ),
    "rankwright.data.splits": (
        "QueryKFold",
        "QueryShuffleSplit",
        "QuerySplit",
        "QueryTrials",
        "letor_folds",
    ),
    "rankwright.data.summary": (
        "PairSummary",
        "pair_summary",
    ),
    "rankwright.data.trec_table": ("TrecTable",),
    "rankwright.evaluation.agreement": (
        "Agreement",
        "RunOverlap",
        "agreement",
        "cohen_kappa",
        "fleiss_kappa",
        "rank_biased_overlap",
    ),
    "rankwright.evaluation.comparison": (
        "Comparison",
        "QueryCurves",
        "compare",
        "curve_measures",
        "query_curves",
    ),
    "rankwright.evaluation.evaluate": (
        "ChosenK",
        "Evaluation",
        "choose_k",
        "evaluate",
        "evaluate_run",
    ),
    "rankwright.evaluation.importance": (
        "PermutationImportance",
        "permutation_importance",
        "plot_contributions",
    ),
    "rankwright.evaluation.significance": ("queries_needed",),
    "rankwright.exporting.export": (
        "Export",
        "export_model",
    ),
    "rankwright.importing.importer": ("import_model",),
    "rankwright.io.detect": (
        "read_data",
        "write_data",
    ),
    "rankwright.io.folder": (
        "load_folder",
        "save_folder",
    ),
    "rankwright.io.frames": (
        "from_frame",
        "to_frame",
    ),
    "rankwright.io.letor": (
        "read_letor",
        "write_letor",
    ),
    "rankwright.io.parquet": (
        "read_parquet",
        "write_parquet",
    ),
    "rankwright.io.trec": (
        "read_qrels",
        "read_run",
        "read_strata",
        "read_subtopics",
        "write_qrels",
        "write_run",
    ),
    "rankwright.maxmargin.accuracy": ("AccuracySVM",),
    "rankwright.maxmargin.bins": ("ThresholdBins",),
    "rankwright.maxmargin.losses": ("rank_pair_weights",),
    "rankwright.maxmargin.ranking_svm": ("RankingSVM",),
    "rankwright.maxmargin.structured_svm": ("StructuredSVM",),
    "rankwright.measures": (
        "Measure",
        "parse_measure",
    ),
    "rankwright.models.base": ("Model",),
    "rankwright.models.linear": ("BinnedModel", "LinearModel"),
    "rankwright.models.saving": (
        "SavedModel",
        "load_model",
        "save_model",
    ),
    "rankwright.models.sum": ("SumModel",),
    "rankwright.nets.lambda_rank": (
        "LambdaRank",
        "RankNet",
    ),
    "rankwright.nets.model": ("NetModel",),
    "rankwright.rankers.cross_validation": (
        "CrossValidation",
        "cross_validate",
    ),
    "rankwright.text.analysis": ("Analyzer",),
    "rankwright.text.features": (
        "Columns",
        "feature_set",
        "make_features",
        "read_document_table",
    ),
    "rankwright.text.functions": (
        "BM25",
        "Cosine",
        "Dirichlet",
        "JelinekMercer",
        "TFIDF",
    ),
    "rankwright.text.index": (
        "Index",
        "build_index",
    ),
    "rankwright.text.learned": ("LearnedSearch",),
    "rankwright.text.queries": ("read_queries",),
    "rankwright.text.search": ("search",),
    "rankwright.training.health": (
        "TrainingHealth",
        "training_health",
    ),
    "rankwright.training.pair_models": (
        "PairModels",
        "pair_models",
    ),
    "rankwright.training.train": (
        "Trained",
        "train",
    ),
}
_PACKAGES = ("datasets", "experiments")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), *_PACKAGES, "__version__"]  # noqa: PLE0604 - names come from _HOMES and _PACKAGES


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"rankwright.{name}")
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    measures = {} if name.startswith("_") else importlib.import_module("rankwright.measures").measure_classes()
    if name in measures:  # every registered measure: nDCG, AP, ...
        return measures[name]
    told = "" if name.startswith("_") else importlib.import_module("rankwright.training.methods").estimator_of(name)
    raise AttributeError(f"module 'rankwright' has no attribute {name!r}{told and '; '}{told}")


def __dir__() -> list[str]:
    return [*__all__, *importlib.import_module("rankwright.measures").measure_classes()]
