"""What the nodes of a tree draw: rows and features, by hashes of a salt.

A node's salt is made from its parent's, and a row is drawn by its key and the salt. So the order of nodes and rows does
not matter, nor where they are: in one place, in parts, or on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array

STEP = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def mixed(value: Any) -> Any:
    """An integer whose every bit depends on all bits of another one: the last steps of splitmix64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def child_salt(salt: Any, is_right: bool) -> Any:
    """The salt of a child."""
    return mixed(salt + (STEP if is_right else np.uint64(1)))


@njit(cache=True, nogil=True)
def is_drawn(key: Any, salt: Any, share: float) -> bool:
    """Whether a node draws a row; it does with the probability ``share``."""
    return float(mixed(key ^ salt) >> np.uint64(11)) * 2.0**-53 < share


@njit(cache=True, nogil=True)
def of_feature(place: int, salt: Any) -> Any:
    """What a node draws features by, which have places among those that vary: it takes the least of these numbers."""
    return mixed(~salt + np.uint64(place) * STEP)


def child_salts(salt: int, share: float) -> tuple[int, int]:
    """The salts of both children; 0 where nothing is drawn."""
    if share >= 1.0:
        return 0, 0
    one, two = (child_salt(np.uint64(salt), is_right) for is_right in (False, True))
    return int(one), int(two)


def salts_of(seed: int, number: int) -> tuple[int, int]:
    """What rows of a tree are drawn by, and the salt of its root."""
    tree, root = np.random.SeedSequence([seed, number]).generate_state(2, np.uint64).tolist()
    return tree, root


def drawn(keys: Array, salt: int, share: float) -> Array:
    """Whether a node draws the rows with these keys.

    Examples
    --------
    >>> bool(0.65 < drawn(np.arange(10_000), 5, 0.7).mean() < 0.75)
    True
    """
    mask = np.empty(len(keys), np.bool_)
    _draw(keys, np.uint64(salt), share, mask)
    return mask


@njit(cache=True, nogil=True)
def _draw(keys: Any, salt: Any, share: float, mask: Any) -> None:
    for k in range(keys.size):
        mask[k] = is_drawn(np.uint64(keys[k]), salt, share)


@njit(cache=True, nogil=True)
def _number(places: Any, salt: Any, numbers: Any) -> None:
    for k in range(places.size):
        numbers[k] = of_feature(places[k], salt)


def n_drawn(n_features: int, share: float) -> int:
    """How many of some features a node draws."""
    return min(max(1, round(share * n_features)), n_features)


def tree_features(varies: Array, share: float, rng: np.random.Generator) -> Array:
    """The features that a tree may use: a share of those that vary, or all of these; masks.

    Examples
    --------
    >>> int(tree_features(np.arange(12) > 1, 0.5, np.random.default_rng(0)).sum())
    5
    """
    features = varies.copy()
    if share < 1.0 and features.any():
        varying = np.flatnonzero(features)
        features[:] = False
        features[rng.choice(varying, n_drawn(len(varying), share), replace=False)] = True
    return features


def draw_features(features: Array, varies: Array, salt: int, share: float) -> Array:
    """The features that a node draws of those that its tree may use and that vary; all are masks.

    Examples
    --------
    >>> int(draw_features(np.ones(12, bool), np.arange(12) > 1, 5, 0.7).sum())
    7
    """
    places = np.flatnonzero(features & varies)
    numbers = np.empty(len(places), np.uint64)
    _number((np.cumsum(varies) - 1)[places], np.uint64(salt), numbers)
    allowed = np.zeros(len(features), np.bool_)
    allowed[places[np.argsort(numbers, kind="stable")[: n_drawn(len(places), share)]]] = True
    return allowed
