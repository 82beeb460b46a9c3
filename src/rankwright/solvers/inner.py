"""Inner products of cached planes, kept up to date, and the problem over the planes by means of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.solvers.gram import add_inner_products, minimise_over_planes

__all__ = ["InnerProducts"]

Array = npt.NDArray[Any]
_ROOM = 256  # planes for which there is space at first


class InnerProducts:
    """G = V Vᵀ of the planes in use, each with a number of its own.

    Parameters
    ----------
    n_blocks, capacity : int
        Those of the `rankwright.solvers.planes.PlaneBook`.
    """

    def __init__(self, n_blocks: int, capacity: int) -> None:
        self._slot = np.full((n_blocks, capacity), -1)
        self._places = np.empty((0, 2), np.int64)
        self._G, self._A = np.empty((_ROOM, _ROOM)), np.empty((0, 0))
        self._near = np.zeros((n_blocks, capacity))  # α of the last problem with a centre

    def update(self, vectors: Array, changed: Array) -> None:
        """Compute what the ``changed`` planes need, and clear the marks."""
        blocks, planes = np.nonzero(changed)
        fresh = self._slot[blocks, planes] < 0
        n = len(self._places)
        self._slot[blocks[fresh], planes[fresh]] = np.arange(n, n + int(fresh.sum()))
        self._places = np.concatenate([self._places, np.stack([blocks[fresh], planes[fresh]], axis=1)])
        n = len(self._places)
        if n > len(self._G):
            larger = np.empty((2 * n, 2 * n))
            larger[: len(self._G), : len(self._G)] = self._G
            self._G = larger
        self._near[changed] = 0.0
        add_inner_products(vectors, self._places, self._slot[blocks, planes], self._G)
        changed[:] = False

    def rescale(self, factor: float) -> None:
        """All planes were multiplied by ``factor``."""
        n = len(self._places)
        self._G[:n, :n] *= factor * factor

    def clear(self) -> None:
        """There are no planes any more."""
        self._slot[:] = -1
        self._places = self._places[:0]
        self._near[:] = 0.0

    def minimise(
        self, book: Any, w: Array, alpha: Array, centre: Array, curvature: float, levels: list[float], steps: int
    ) -> list[tuple[float, float, int]]:
        """What `rankwright.solvers.smoothed.minimise` does, for every smoothing of ``levels``.

        Returns α·ℓ, ‖Vᵀα‖² and the steps taken at each.
        """
        blocks, planes = self._places.T
        strength, given = 1.0 + curvature, alpha
        alpha = self._near if curvature > 0.0 else alpha
        origin = curvature / strength * centre
        in_use = int(book.counts.max())
        vectors, tilted = book.vectors[:, :in_use], book.losses[:, :in_use]
        if curvature > 0.0:
            tilted = tilted - np.einsum("bpj,j->bp", vectors, origin)
        losses, own, rest = tilted[blocks, planes], alpha[blocks, planes], 1.0 - alpha[:, 1:].sum(axis=1)
        coef = own / strength
        n = len(coef)
        slack = losses - np.einsum("ij,j->i", self._G[:n, :n], coef)
        if len(self._A) < n + 4:
            self._A = np.empty((len(self._G) + 4,) * 2)
        found, larger = [], 0.0
        for mu in levels:
            square, taken = minimise_over_planes(
                self._G, self._slot, book.counts, losses, coef, slack, own, rest, strength, mu, larger, steps, self._A
            )
            found.append((float(own @ book.losses[blocks, planes]), square, taken))
            larger = mu
        for kept in (alpha, given):
            kept[blocks, planes], kept[:, 0] = own, rest
        combination = np.zeros((len(rest), in_use))
        combination[blocks, planes] = coef
        w[:] = origin + np.einsum("bp,bpj->j", combination, vectors)
        book.put_slack(blocks, planes, slack)
        return found
