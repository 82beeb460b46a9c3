"""On the device: statistics, order, scores, and passes over data that does not fit."""

import pickle

import numpy as np
import scipy.sparse
import training_cases
from hinge_cases import asked, labels_of, oracle_of

from rankwright.data.dataset import RankingData, some_queries
from rankwright.data.places import place_of
from rankwright.gpu import scoring, training
from rankwright.gpu.device import download, upload
from rankwright.gpu.scoring import linear_scores
from rankwright.gpu.training import Arranged, CudaHinge, Streamed
from rankwright.maxmargin.order import LossData
from rankwright.models.linear import LinearModel


def hinge_of(arranged, given):
    labels = upload(labels_of("map", given["grades"]))
    every = range(arranged.n_docs)
    given = (given["indptr"], oracle_of("map"), given["cost"], given["scale"], given["blocks"])
    return CudaHinge(arranged, every, labels, *given)


def main(given):
    data, weights = training_cases.made()
    part = some_queries(data, np.array([1, 3, 4]))
    found = {}
    for name, one in (("all", data), ("part", part)):
        read = training.statistics_on(training.features_there(one), training._rows(one)[0], summed=True)
        found[f"{name} low"], found[f"{name} high"] = read.low, read.high
        found[f"{name} means"], found[f"{name} deviations"] = read.means, read.deviations
        place = place_of(one, "cuda")
        kept = place.statistics()
        found[f"{name} kept"] = np.array(
            all(np.array_equal(kept.means, other.means) for other in (read, place.statistics()))
        )
        found[f"{name} ranked"] = place.orders(LinearModel(weights))(slice(0, one.n_docs), one.indptr)
        found[f"{name} scores"] = place.scores(LinearModel(weights))
        ones = np.ones(one.n_queries)
        losses = LossData([one.labels.astype(np.float64)], [ones], ones, read.low, read.high)
        blocks = np.arange(one.n_queries + 1)
        hinge = training.hinges_there(one, [oracle_of("clicks")], losses, np.ones(5), blocks, 1)[0]
        found[f"{name} rows"], found[f"{name} indptr"] = hinge.X.rows.copy_to_host(), hinge.indptr
        found[f"{name} labels"] = hinge.labels.copy_to_host()
    copied = pickle.loads(pickle.dumps(data))
    found["copied"] = np.array(vars(copied)["_on_device"] is None and np.array_equal(copied.X, data.X))
    sparse = RankingData.from_arrays(scipy.sparse.csr_array(data.X), data.labels, group=data.sizes)
    found["sparse"] = np.array_equal(training.features_there(sparse).copy_to_host(), data.X)
    found["linear"] = linear_scores(LinearModel(weights), data.X)
    for at, (X, rows, of_columns) in enumerate(training_cases.scored(given["many_rows"], given["many_columns"])):
        scores = upload(np.full(len(rows), -1.0))
        scoring.launch_scores(0, upload(X), upload(rows), upload(of_columns), scores)
        found[f"scored {at}"] = download(scores)
    spread = np.array([[1.0, 1e-30], [1.0, 1.0]], np.float32)
    found["too fine"] = np.array(training.statistics_on(upload(spread), upload(np.arange(2)), summed=True) is None)
    kept = asked(
        hinge_of(Arranged(upload(given["X"]), upload(given["rows"]), given["indptr"]), given), given["weights"]
    )
    for name, X, room in (
        ("0", given["X"], 0),
        ("500", given["X"], 500),
        ("sparse", scipy.sparse.csr_array(given["X"]), 500),
    ):
        streamed = Streamed(X, given["rows"], given["indptr"], blocks=given["blocks"], room=room)
        values = asked(hinge_of(streamed, given), given["weights"])
        found[f"streamed {name}"] = np.array([np.array_equal(values[key], kept[key]) for key in kept])
        found[f"pieces {name}"] = np.array([piece.rows is None for piece in streamed._pieces])
    return found
