"""What the tests of partitions share: shuffled rows in every format, and parts made in memory to compare with."""

import gzip

import numpy as np

from rankwright import RankingData
from rankwright.data import sparse
from rankwright.io.partitions import read_manifest
from rankwright.io.partitions_write import InputSettings, inputs_of, partition_of, write_partitions


def shuffled(n_queries=40, n_docs=400, seed=0, **changes):
    """Rows of many queries, in no order, as keyword arguments of ``RankingData.from_arrays``."""
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, n_queries, n_docs)
    rows = {
        "X": rng.normal(size=(n_docs, 4)),
        "labels": rng.integers(0, 4, n_docs).astype(float),
        "qid": np.array([f"query é{number}" for number in qid]),
        "doc_ids": np.array([f"d{number * 7}" for number in range(n_docs)]),
        "feature_names": ["a", "b", "c", "d"],
    }
    return rows | changes


def write_partitioned(paths, n_partitions, target, dtype=np.float64, is_sparse=None, columns=None, **settings):
    """Write parts and read their manifest."""
    inputs = [one for path in paths for one in inputs_of(path, columns)]
    settings = InputSettings(np.dtype(dtype), is_only=len(inputs) == 1, **settings)
    write_partitions(inputs, n_partitions, target, settings, is_sparse=is_sparse)
    return read_manifest(target)


def in_memory(data, n_partitions):
    """The parts of data that is in memory, by name."""
    numbers = np.array([partition_of(query, n_partitions) for query in data.query_ids])
    return {
        f"partition-{part:04}.rank": data.select(numbers == part)
        for part in range(n_partitions)
        if (numbers == part).any()
    }


def dense(data):
    return data.X.toarray() if sparse.issparse(data.X) else data.X


def assert_same(found, expected):
    """The same documents in the same order, bit for bit."""
    np.testing.assert_array_equal(dense(found), dense(expected))
    assert found.X.dtype == expected.X.dtype
    assert found.is_sparse == expected.is_sparse
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    assert found.query_ids.tolist() == expected.query_ids.tolist()
    assert (found.doc_ids is None) == (expected.doc_ids is None)
    if expected.doc_ids is not None:
        assert found.doc_ids.tolist() == expected.doc_ids.tolist()
    assert found.feature_names == expected.feature_names
    assert {at: set(values) for at, values in found.categories.items()} == {
        at: set(values) for at, values in expected.categories.items()
    }


def assert_parts(manifest, data, n_partitions):
    """The parts are those of the data; each is mapped, not copied."""
    expected = in_memory(data, n_partitions)
    assert [part.name for part in manifest.partitions] == sorted(expected)
    for source in manifest.sources:
        found = source.load()
        assert_same(found, expected[source.name])
        values = found.X.data if found.is_sparse else found.X
        assert isinstance(values, np.ndarray)
        assert not values.flags.owndata


def files_of(folder):
    """All files of a folder, by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def made(**changes):
    return RankingData.from_arrays(**shuffled(**changes))


def write_text(path, rows):
    """Write rows as LETOR text, with names and ids."""
    lines = ["# features:\t" + "\t".join(rows["feature_names"])]
    for x, label, query, doc in zip(rows["X"], rows["labels"], rows["qid"], rows["doc_ids"], strict=True):
        values = " ".join(f"{at}:{float(value)!r}" for at, value in enumerate(x, 1))
        lines.append(f"{label} qid:{query.replace(' ', '_')} {values} # docid = {doc}")
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
