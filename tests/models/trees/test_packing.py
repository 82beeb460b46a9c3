import numpy as np

from rankwright.data.threads import Team
from rankwright.models.trees import histogram
from rankwright.models.trees.histogram import pack


def test_packing_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(histogram, "_ROWS_A_THREAD", 100)
    rng = np.random.default_rng(4)
    residuals, curves = rng.normal(size=1001), rng.random(1001)
    team = Team(3)
    for given in (None, curves):
        one, other = pack(residuals, given), pack(residuals, given, team)
        assert one.values.tobytes() == other.values.tobytes()
        assert (one.residual_unit, one.curve_unit, one.largest) == (
            other.residual_unit,
            other.curve_unit,
            other.largest,
        )
    team.close()
