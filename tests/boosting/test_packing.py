import numpy as np

from rankwright.boosting import histograms as histogram
from rankwright.boosting.histograms import pack
from rankwright.data.threads import Team


def test_packing_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(histogram, "_ROWS_A_THREAD", 100)
    rng = np.random.default_rng(4)
    gradients, hessians = rng.normal(size=1001), rng.random(1001)
    team = Team(3)
    for given in (None, hessians):
        one, other = pack(gradients, given), pack(gradients, given, team)
        assert one.values.tobytes() == other.values.tobytes()
        assert (one.gradient_unit, one.hessian_unit, one.largest) == (
            other.gradient_unit,
            other.hessian_unit,
            other.largest,
        )
    team.close()
