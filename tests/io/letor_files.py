"""What the tests of LETOR files share."""

import numpy as np
import pytest

from rankwright.errors import InputError
from rankwright.io.letor import read_letor


def put(folder, text, name="data.txt"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def dense(data):
    return data.X.toarray() if data.is_sparse else data.X


def fault(path, **options):
    with pytest.raises(InputError) as caught:
        read_letor(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))
    return caught.value


def same(a, b):
    assert np.array_equal(dense(a), dense(b))
    assert a.X.dtype == b.X.dtype
    assert np.array_equal(a.labels, b.labels)
    assert a.qid.astype(str).tolist() == b.qid.astype(str).tolist()
    assert (a.doc_ids is None) == (b.doc_ids is None)
    assert a.doc_ids is None or a.doc_ids.tolist() == b.doc_ids.tolist()


def naive(text):
    rows = []
    for line in text.split("\n"):
        content, _, comment = line.partition("#")
        fields = content.split()
        if fields:
            features = {int(key) - 1: float(value) for key, value in (field.split(":") for field in fields[2:])}
            words = comment.replace("=", " = ").split()
            doc = words[2] if words[:2] == ["docid", "="] else words[0] if len(words) == 1 else ""
            rows.append((features, float(fields[0]), fields[1].removeprefix("qid:"), doc))
    X = np.zeros((len(rows), max(max(features, default=-1) for features, *_ in rows) + 1))
    for row, (features, *_) in enumerate(rows):
        for column, value in features.items():
            X[row, column] = value
    return X, [row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows]
