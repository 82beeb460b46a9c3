"""Rankwright learns to order search results for the measure you are judged by.

Names are loaded on first use, so that ``import rankwright`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rankwright.caching import provide_cache as _provide_cache

if TYPE_CHECKING:  # the same names for type checkers, which see no table: `__all__` of a module is its row of it
    from rankwright import datasets as datasets
    from rankwright import experiments as experiments
    from rankwright.adaptation.augment import *
    from rankwright.adaptation.robustness import *
    from rankwright.adaptation.ways import *
    from rankwright.boosting.lambda_boost import *
    from rankwright.boosting.tree_model import *
    from rankwright.boosting.tree_rankers import *
    from rankwright.clicks.log import *
    from rankwright.clicks.models import *
    from rankwright.cluster.dataset import *
    from rankwright.committee.auto import *
    from rankwright.committee.interpolation import *
    from rankwright.data.cleaning import *
    from rankwright.data.dataset import *
    from rankwright.data.fusion import *
    from rankwright.data.scaling import *
    from rankwright.data.splits import *
    from rankwright.data.summary import *
    from rankwright.data.trec_table import *
    from rankwright.errors import *
    from rankwright.evaluation.agreement import *
    from rankwright.evaluation.comparison import *
    from rankwright.evaluation.evaluate import *
    from rankwright.evaluation.importance import *
    from rankwright.evaluation.significance import *
    from rankwright.exporting.export import *
    from rankwright.importing.importer import *
    from rankwright.io.detect import *
    from rankwright.io.folder import *
    from rankwright.io.frames import *
    from rankwright.io.letor import *
    from rankwright.io.parquet import *
    from rankwright.io.trec import *
    from rankwright.maxmargin.accuracy import *
    from rankwright.maxmargin.bins import *
    from rankwright.maxmargin.losses import *
    from rankwright.maxmargin.ranking_svm import *
    from rankwright.maxmargin.structured_svm import *
    from rankwright.measures import Measure as Measure
    from rankwright.measures import parse_measure as parse_measure
    from rankwright.measures.ap import AP as AP
    from rankwright.measures.ap import GMAP as GMAP
    from rankwright.measures.auc import AUC as AUC
    from rankwright.measures.best_accuracy import BestAccuracy as BestAccuracy
    from rankwright.measures.diversity import ERR_IA as ERR_IA
    from rankwright.measures.diversity import alpha_nDCG as alpha_nDCG
    from rankwright.measures.err import ERR as ERR
    from rankwright.measures.incomplete import Bpref as Bpref
    from rankwright.measures.incomplete import Judged as Judged
    from rankwright.measures.incomplete import infAP as infAP
    from rankwright.measures.incomplete import xinfAP as xinfAP
    from rankwright.measures.ndcg import AveNDCG as AveNDCG
    from rankwright.measures.ndcg import nDCG as nDCG
    from rankwright.measures.precision import IPrec as IPrec
    from rankwright.measures.precision import P as P
    from rankwright.measures.precision import R as R
    from rankwright.measures.precision import Rprec as Rprec
    from rankwright.measures.precision import Success as Success
    from rankwright.measures.rbp import RBP as RBP
    from rankwright.measures.rr import RR as RR
    from rankwright.measures.set_measures import SetAP as SetAP
    from rankwright.measures.set_measures import SetF as SetF
    from rankwright.measures.set_measures import SetP as SetP
    from rankwright.measures.set_measures import SetR as SetR
    from rankwright.models.base import *
    from rankwright.models.linear import *
    from rankwright.models.saving import *
    from rankwright.models.sum import *
    from rankwright.nets.lambda_rank import *
    from rankwright.nets.model import *
    from rankwright.rankers.cross_validation import *
    from rankwright.text.analysis import *
    from rankwright.text.features import *
    from rankwright.text.functions import *
    from rankwright.text.index import *
    from rankwright.text.learned import *
    from rankwright.text.queries import *
    from rankwright.text.search import *
    from rankwright.training.health import *
    from rankwright.training.pair_models import *
    from rankwright.training.train import *

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


if not TYPE_CHECKING:  # which would take any name

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
