"""A Dask cluster for the tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def client():
    """A client of a cluster of two workers on this machine, one for all tests: killed workers are started again."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as found,
    ):
        yield found
