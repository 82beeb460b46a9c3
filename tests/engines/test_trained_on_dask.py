"""Training on a Dask cluster: the bits of one process, also where a worker is killed on the way."""

import os
import signal

import numpy as np
import pytest

from in_parts import Several, cut, in_parts, made_up
from rankwright import LambdaMART, StructuredSVM
from rankwright.engines.dask import DaskWorkers

pytest.importorskip("distributed")
RANKERS = {
    "svm-map": lambda callback: StructuredSVM("map", C=100.0, callback=callback),
    "lambdamart": lambda callback: LambdaMART(n_trees=5, min_rows=5, callback=callback),
}


@pytest.mark.parametrize("name", RANKERS)
def test_a_worker_is_killed_on_the_way(client, name):
    data = made_up(40)
    parts = cut(data, 4)
    expected = RANKERS[name](None).fit(in_parts(parts, Several(2))).predict(data)
    workers, seen = DaskWorkers(client), []
    parted = in_parts(parts, workers)
    at = int(np.random.default_rng().integers(1, 4))  # any pass or tree

    def kill(_):
        seen.append(1)
        if len(seen) == at:
            address = parted.X.fleet._home[0].address
            os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    found = RANKERS[name](kill).fit(parted).predict(data)
    assert len(seen) >= at, "trained before a worker was killed"
    assert parted.X.fleet.moves > 0
    assert found.tobytes() == expected.tobytes(), f"killed at {at}"
    workers.close()
