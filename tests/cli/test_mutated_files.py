"""Whatever bytes a file holds: a result, or exit code 2 with one line; and never a file left behind."""

import gzip
import io
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright import RankingData, write_data
from rankwright.cli.main import main
from rankwright.data.categories import number_of

TEXTS = {
    "letor": b"2 qid:1 1:0.5 3:1e-3 # docid = a\n0 qid:1 2:NULL # docid = b\n1 qid:x 1:-7.25\n",
    "qrels": b"1 0 a 2\n1 0 b 0\n2 0 c 1\n",
    "run": b"1 Q0 a 1 0.9 x\n1 Q0 b 2 0.8 x\n2 Q0 d 1 0.7 x\n",
    "scores": b"0.9\n0.8\n-1e3\n",
}
BINARY = ["a.parquet", *(f"a.rank/{part}" for part in ("rankwright.json", "X.npy", "indptr.npy", "query_ids.npy"))]
NOISE = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"\0", b"\n", b" ", b"nan", b"inf", b"1:", b":1", b"qid:", b"#", b"-", b"e5", b"99999999999999999999"]
    ),
)


def outcome(*args):
    """Exit code, output and error lines of a command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        code = main(list(args))
    errors = [line for line in err.getvalue().splitlines() if not line.startswith(("warning: ", "wrote "))]
    return code, out.getvalue(), errors


def check(*args):
    code, out, errors = outcome(*args)
    assert (code, len(errors)) in ((0, 0), (2, 1)), errors
    if code:
        assert out == ""
        assert errors[0].startswith("rankwright: ")
    return code


@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30), NOISE), min_size=1, max_size=4), pack=st.booleans()
)
def test_mutated_text(tmp_path_factory, kind, cuts, pack):
    content = TEXTS[kind]
    for start, length, noise in cuts:
        content = content[:start] + noise + content[start + length :]
    folder = tmp_path_factory.mktemp("mutated")
    path = folder / "input.txt"
    path.write_bytes(gzip.compress(content)[: -3 if len(content) % 2 else None] if pack else content)
    (folder / "good.qrels").write_bytes(TEXTS["qrels"])
    (folder / "good.run").write_bytes(TEXTS["run"])
    check("info", str(path))
    check("evaluate", str(folder / "good.qrels"), str(path))
    check("evaluate", str(path), str(folder / "good.run"))
    target = folder / "out.qrels"
    code = check("convert", str(path), "-o", str(target))
    assert target.exists() == (code == 0)
    assert not [left for left in folder.iterdir() if left.name.startswith(".")]


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(BINARY), start=st.floats(0, 1), length=st.integers(0, 40), noise=NOISE)
def test_mutated_binary_files(tmp_path_factory, name, start, length, noise):
    folder = tmp_path_factory.mktemp("mutated")
    texts = ("de", "fr") if length % 2 else ()
    X = np.column_stack([np.arange(6.0), [number_of(text) for text in texts] * 3 or np.arange(6.0)])
    categories = {1: texts} if texts else {}
    data = RankingData.from_arrays(X, [0, 1, 0, 2, 0, 1], qid=[1, 1, 1, 2, 2, 2], categories=categories)
    write_data(data, folder / name.split("/")[0])
    content = (folder / name).read_bytes()
    at = int(start * len(content))
    (folder / name).write_bytes(content[:at] + noise + content[at + length :])
    check("info", str(folder / name.split("/")[0]))
