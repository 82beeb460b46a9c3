"""The methods ``adapt:…`` of an experiment: a background ranker brought to the training queries of a split.

What is done and chosen is :func:`rankwright.adapt`'s own; here it is given the data of a cell, and its facts become an
outcome like that of any other method. As everywhere, nothing here is given the test queries.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.folder import load_folder
from rankwright.errors import InputError
from rankwright.evaluation.table import evaluate
from rankwright.experiments.backgrounds import Background
from rankwright.experiments.config import ADAPT, MethodSpec
from rankwright.experiments.reading import widened
from rankwright.experiments.tuning import Outcome, scores_of
from rankwright.models.saving import load_model

if TYPE_CHECKING:
    from rankwright.adaptation.choice import Adapted

__all__ = ["run_adapt"]

_AUTO = "auto"


def run_adapt(
    spec: MethodSpec,
    train: RankingData,
    valid: RankingData | None,
    background: Background,
    *,
    seed: int = 0,
    threads: int = 1,
) -> Outcome:
    """Adapt a background ranker to the training queries of a split, and choose on its validation queries.

    Parameters
    ----------
    spec : MethodSpec
        Its method is ``adapt:`` and one of the ways to adapt, or auto.
    train, valid : RankingData
        The queries of the new domain.
    background : Background
        The ranker of the rich domain, and its data.
    seed, threads : int
        Of all that is drawn; the outcome does not depend on the threads.
    """
    name = spec.method.removeprefix(ADAPT)
    if valid is None:
        raise InputError(f"{spec.method} chooses on validation queries, and there are none")
    model = load_model(background.model).model
    rich = None if background.data is None else load_folder(background.data)
    width = max(train.n_features, 0 if rich is None else rich.n_features, model.n_features)
    train, valid, rich = _wide(train, width), _wide(valid, width), None if rich is None else _wide(rich, width)
    settings: dict[str, Any] = {**spec.parameters, "measure": spec.choose_by, "random_state": seed, "n_jobs": threads}
    shape = (train.n_features, str(train.X.dtype), train.is_sparse, rich is not None)
    _load_code(background.model, name, tuple(sorted(settings.items())), shape)
    began = time.perf_counter()
    found, notes = _adapted(model, train, valid, rich, name, settings)
    seconds = time.perf_counter() - began
    choice = {"method": found.chosen.name} if name == _AUTO else {}
    chosen = choice | found.chosen.facts
    tried = found.candidates if choice else (found.chosen,)
    path = [{"parameters": {"method": one.name} if choice else {}, "validation": one.value} for one in tried]
    training = next(iter(evaluate(train, scores_of(found.model, train), measures=[spec.choose_by]).means.values()))
    notes += [found.reason] if choice else []
    notes += [f"{way} could not be used: {why}" for way, why in found.failures.items()]
    return Outcome(
        found.model, None, chosen, found.chosen.value, training, found.chosen.seconds, seconds, path, notes=notes
    )


def _wide(data: RankingData, width: int) -> RankingData:
    """Text leaves out features that are 0; features with names are found by these."""
    return data if data.feature_names is not None else widened(data, width)


def _adapted(
    model: Any,
    train: RankingData,
    valid: RankingData,
    rich: RankingData | None,
    name: str,
    settings: Mapping[str, Any],
) -> tuple[Adapted, list[str]]:
    """What :func:`rankwright.adapt` finds; the warnings, each once."""
    from rankwright.adaptation.choice import adapt

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = adapt(model, train, valid, background_data=rich, method=name, **settings)
    texts = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return found, list(dict.fromkeys(texts))


@cache
def _load_code(
    path: Path, name: str, settings: tuple[tuple[str, Any], ...], shape: tuple[int, str, bool, bool]
) -> None:
    """Have everything compiled, or loaded from disk, on a few made-up queries: that time is not a method's own."""
    n_features, dtype, is_sparse, has_data = shape
    rng = np.random.default_rng(0)
    X: Any = rng.random((96, n_features)).astype(dtype)
    if is_sparse:
        from scipy import sparse

        X = sparse.csr_array(X)
    data = RankingData.from_arrays(X, np.arange(96) % 3, group=[12] * 8)
    try:
        _adapted(load_model(path).model, data, data, data if has_data else None, name, dict(settings))
    except Exception:  # the adaptation itself will say what is wrong
        return
