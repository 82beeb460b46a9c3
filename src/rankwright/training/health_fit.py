"""One row of the health of training: the figures of a fit, against those at weights of 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["FitHealth"]


@dataclass(frozen=True)
class FitHealth:
    """One fit, of a loss and a C.

    Attributes
    ----------
    loss : str
        The loss trained for.
    C : float
        Weight of the losses.
    slack, slack_at_zero : float
        Mean hinge over the training queries, at the weights found and at weights of 0.
    objective : float
        ½‖w‖² + C · slack.
    norm : float
        ‖w‖ of the problem solved, which has standardised features unless standardising is off.
    passes : int
        Passes over the data.
    gap : float
        How far the objective may be above the optimum, relative to it.
    seconds : float
        Total time of the fit.
    seconds_oracle, seconds_products, seconds_planes, seconds_rest : float
        How the seconds split: most violated rankings, products with the features, the small problem over planes (the
        papers' QP), and preparation.
    own_measure : str
        The measure of the loss; nDCG@10 for pairs.
    own_training, own_validation : float
        Its mean on training and validation data; NaN without validation data.
    measures : tuple of (str, float)
        The measures asked for, as ``("training AP", 0.45)``.
    """

    loss: str
    C: float
    slack: float
    slack_at_zero: float
    objective: float
    norm: float
    passes: int
    gap: float
    seconds: float
    seconds_oracle: float
    seconds_products: float
    seconds_planes: float
    seconds_rest: float
    own_measure: str
    own_training: float
    own_validation: float = float("nan")
    measures: tuple[tuple[str, float], ...] = ()

    @property
    def objective_at_zero(self) -> float:
        """The objective at weights of 0."""
        return self.C * self.slack_at_zero

    @property
    def objective_ratio(self) -> float:
        """The objective relative to that at weights of 0."""
        return self.objective / self.objective_at_zero if self.objective_at_zero > 0 else 1.0

    @property
    def slack_ratio(self) -> float:
        """The average slack relative to that at weights of 0."""
        return self.slack / self.slack_at_zero if self.slack_at_zero > 0 else 1.0

    def _slack_error(self) -> float:
        """How far the average slack at the optimum can be from this one.

        P is strongly convex, so weights within a gap g are within √(2gP) of the optimum, and their ½‖w‖² and P with
        them.
        """
        room = self.gap * self.objective
        return (2.0 * room + math.sqrt(2.0 * room) * self.norm) / self.C
