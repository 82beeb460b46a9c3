"""Parameters as LightGBM and XGBoost call them, for hints in errors."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = {
    "n_trees": "n_estimators num_iterations num_iteration num_boost_round num_round num_trees max_iter iterations",
    "max_leaves": "num_leaves max_leaf_nodes max_leaf max_depth",
    "learning_rate": "eta shrinkage_rate shrinkage",
    "min_rows": "min_child_samples min_data_in_leaf min_samples_leaf min_child_weight min_sum_hessian_in_leaf",
    "tree_rows": "subsample bagging_fraction",
    "tree_features": "colsample_bytree feature_fraction",
    "randomize_nodes": "colsample_bynode feature_fraction_bynode",
    "max_bins": "max_bin",
    "patience": "early_stopping_rounds early_stopping_round early_stopping n_iter_no_change",
    "measure": "objective",
    "eval_measure": "metric eval_metric eval_at",
    "truncation": "lambdarank_truncation_level lambdarank_num_pair_per_sample",
    "random_state": "seed random_seed data_random_seed",
    "n_jobs": "num_threads nthread thread_count n_thread",
    "categorical": "categorical_feature categorical_features cat_features enable_categorical",
    "monotone": "monotone_constraints",
    "callback": "callbacks verbose verbosity verbose_eval",
    "background": "init_model xgb_model",
    "sample_weight": "weight",
    "eval_set": "valid_sets evals",
}  # fmt: skip
_OURS = {other: own for own, others in _NAMES.items() for other in others.split()}
_MORE = {
    "max_depth": " (trees grow best-first, their depth is not limited)",
    "min_child_weight": " (a number of documents)",
    "min_sum_hessian_in_leaf": " (a number of documents)",
    "objective": " (the class is the method)",
}


def hint(name: str, known: Iterable[str], elsewhere: Iterable[str] = (), where: str = "") -> str:
    """What a parameter of LightGBM or XGBoost is called here; empty if it has no counterpart among the known.

    Parameters
    ----------
    name : str
        The parameter that was given.
    known : iterable of str
        Those that could be given there.
    elsewhere : iterable of str
        Those that could be given at another place.
    where : str
        That place, in words.

    Examples
    --------
    >>> hint("num_leaves", ["n_trees", "max_leaves"])
    'num_leaves of LightGBM and XGBoost is max_leaves here'
    """
    own = _OURS.get(name)
    if own is None or own not in {*known, *elsewhere}:
        return ""
    place = "" if own in set(known) else f", {where}"
    return f"{name} of LightGBM and XGBoost is {own} here{place}{_MORE.get(name, '')}"
