"""What surrounds the hinges on the device: statistics, order by content, scores, and data that does not fit."""

import math

import hinge_cases
import numpy as np
import pytest
import training_cases
from on_device import has_gpu, run_on_device

from rankwright import LinearModel
from rankwright.data.dataset import some_queries, stored
from rankwright.data.order import rank_order
from rankwright.data.places import place_of
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team
from rankwright.maxmargin.order import canonical_order

DATA, WEIGHTS = training_cases.made()
MANY_ROWS, MANY_COLUMNS = (  # around the numbers of rows and columns that threads take at a time
    ((0, 1, 255, 256, 257, 900), (9, 1, 143, 144, 145, 700)) if has_gpu() else ((0, 1, 4, 5, 9), (3, 1, 6, 7, 20))
)
PARTS = {"all": DATA, "part": some_queries(DATA, np.array([1, 3, 4]))}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    given = hinge_cases.made()
    given["weights"] = given["weights"][:, : np.isfinite(given["scale"]).sum()]
    given |= {"many_rows": MANY_ROWS, "many_columns": MANY_COLUMNS}
    return run_on_device("training_script", tmp_path_factory.mktemp("device"), **given)


@pytest.mark.parametrize("name", PARTS)
def test_statistics_are_those_of_the_cpu_bit_for_bit(name, found):
    read = Statistics.of(PARTS[name])
    for key in ("low", "high", "means", "deviations"):
        assert np.array_equal(found[f"{name} {key}"], getattr(read, key)), key
    assert found[f"{name} kept"]


def test_values_of_too_many_powers_are_left_to_the_cpu(found):
    assert found["too fine"]


@pytest.mark.parametrize("name", PARTS)
def test_documents_and_queries_are_in_the_order_of_the_cpu(name, found):
    data, read = PARTS[name], Statistics.of(PARTS[name])
    X, starts = stored(data)
    labels = data.labels.astype(np.float64)
    order = canonical_order(X, starts, [labels], data.indptr, np.ones(data.n_queries), read.low, read.high, Team(1))
    assert np.array_equal(found[f"{name} rows"], order.rows)
    assert np.array_equal(found[f"{name} indptr"], order.indptr)
    assert np.array_equal(found[f"{name} labels"], labels[order.docs])


@pytest.mark.parametrize("name", PARTS)
def test_scores_and_ranks_are_those_of_the_cpu(name, found):
    data = PARTS[name]
    scores = place_of(data).scores(LinearModel(WEIGHTS))
    np.testing.assert_allclose(found[f"{name} scores"], scores, rtol=1e-12)
    assert np.array_equal(found[f"{name} ranked"], rank_order(scores, data.indptr, None))


def test_scores_of_rows_are_those_of_the_model(found):
    np.testing.assert_allclose(found["linear"], LinearModel(WEIGHTS).score(DATA.X), rtol=1e-12)


def test_scores_do_not_depend_on_features_without_a_weight(found):
    for at, (X, rows, weights) in enumerate(training_cases.scored(MANY_ROWS, MANY_COLUMNS)):
        kept = weights != 0.0
        wanted = [math.fsum(row) for row in X[rows][:, kept].astype(np.float64) * weights[kept]]
        np.testing.assert_allclose(found[f"scored {at}"], wanted, rtol=1e-12, atol=1e-13, err_msg=str(X.shape))


@pytest.mark.parametrize("room", ["0", "500", "sparse"])
def test_data_that_does_not_fit_gives_the_same_bits(room, found):
    assert found[f"streamed {room}"].all()
    assert found[f"pieces {room}"].any()
    if len(found[f"pieces {room}"]) > 1:  # a real device takes more at once
        assert found[f"pieces {room}"].all() == (room == "0")


def test_what_is_on_the_device_does_not_travel_with_the_data(found):
    assert found["copied"]


def test_sparse_features_are_filled_up(found):
    assert found["sparse"]
