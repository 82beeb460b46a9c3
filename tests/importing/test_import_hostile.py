"""Truncated, mutated and malicious files: one line, no hang, nothing half-written, nothing run."""

import gzip
import io
import json
import pickle
import struct
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from other_models import GROUP, made_data

import rankwright
from rankwright.cli.main import main
from rankwright.errors import InputError

RANKLIB = b"""## LambdaMART
<ensemble>
\t<tree id="1" weight="0.1">
\t\t<split>
\t\t\t<feature> 1 </feature>
\t\t\t<threshold> 0.5 </threshold>
\t\t\t<split pos="left"> <output> -2.0 </output> </split>
\t\t\t<split pos="right"> <output> 2.0 </output> </split>
\t\t</split>
\t</tree>
</ensemble>
"""
CATBOOST = {
    "features_info": {
        "float_features": [{"feature_index": 0, "flat_feature_index": 0, "nan_value_treatment": "AsIs"}],
    },
    "oblivious_trees": [
        {
            "leaf_values": [1.0, 2.0],
            "splits": [{"border": 0.5, "float_feature_index": 0, "split_type": "FloatFeature"}],
        }
    ],
    "scale_and_bias": [1.0, [0.0]],
}
NOISE = st.one_of(
    st.binary(max_size=8),
    st.sampled_from(
        [b"nan", b"-1", b"99999999999999999999", b"1e999", b"null", b"[", b"{", b"}", b'"', b"\n", b"<split>"]
    ),
)


@cache
def contents():
    """Small files of every format."""
    X, grades = made_data()
    data = lightgbm.Dataset(X, grades, group=GROUP)
    booster = lightgbm.train({"objective": "lambdarank", "num_leaves": 4, "verbose": -1, "num_threads": 1}, data, 2)
    other = xgboost.train({"max_depth": 2, "nthread": 1}, xgboost.DMatrix(X, grades), 2)
    dump = "[" + ",".join(other.get_dump(dump_format="json")) + "]"
    return {
        "lightgbm": booster.model_to_string().encode(),
        "lightgbm-json": json.dumps(booster.dump_model()).encode(),
        "xgboost": bytes(other.save_raw("json")),
        "xgboost-ubj": bytes(other.save_raw("ubj")),
        "xgboost-dump": dump.encode(),
        "catboost": json.dumps(CATBOOST).encode(),
        "ranklib": RANKLIB,
        "ranklib-linear": b"## Coordinate Ascent\n1:0.5 2:0.25\n",
        "liblinear": b"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n0.5\n0.25\n",
    }


def import_file(content, folder, *options):
    """Import a file by the command; what it says."""
    path, target = folder / "input", folder / "model.rkw"
    path.write_bytes(content)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        code = main(["import", str(path), "-o", str(target), *options])
    errors = [line for line in err.getvalue().splitlines() if not line.startswith(("warning: ", "wrote "))]
    assert out.getvalue() == ""
    assert (code, len(errors)) in ((0, 0), (2, 1)), errors
    assert [own.name for own in folder.iterdir() if own != path] == ([target.name] if code == 0 else [])
    if code == 0:
        saved = rankwright.load_model(target)
        assert np.isfinite(saved.predict(np.zeros((3, saved.model.n_features)))).all()
        target.unlink()
    return code, errors


@pytest.mark.parametrize("kind", list(contents()))
def test_every_file_is_understood_as_it_is(kind, tmp_path):
    assert import_file(contents()[kind], tmp_path)[0] == 0
    assert import_file(gzip.compress(contents()[kind]), tmp_path)[0] == 0


@pytest.mark.parametrize("kind", [kind for kind in contents() if kind not in ("liblinear", "ranklib-linear")])
def test_no_truncated_file_is_taken_for_a_model(kind, tmp_path):
    content = contents()[kind]
    end = content.index(b"end of trees") if kind == "lightgbm" else len(content.rstrip()) - 1
    for stop in [*range(0, end, max(1, end // 60)), end]:
        code, errors = import_file(content[:stop], tmp_path)
        assert code == 2, (stop, errors)
        assert errors[0].startswith(f"rankwright: {tmp_path / 'input'}:")


@pytest.mark.parametrize("kind", list(contents()))
@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), NOISE), min_size=1, max_size=4))
def test_mutated_files(tmp_path_factory, kind, cuts):
    content = contents()[kind]
    for place, length, noise in cuts:
        start = int(place * len(content))
        content = content[:start] + noise + content[start + length :]
    import_file(content, tmp_path_factory.mktemp("mutated"))


def ubjson_of(value):
    """Bytes of UBJSON for a few types."""
    if isinstance(value, dict):
        inside = b"".join(
            b"L" + struct.pack(">q", len(key)) + key.encode() + ubjson_of(own) for key, own in value.items()
        )
        return b"{" + inside + b"}"
    return b"S" + b"L" + struct.pack(">q", len(value)) + value.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"{L" + struct.pack(">q", 1 << 60),
        b"{L" + struct.pack(">q", -5) + b"abc",
        b"{L\0\0\0\0\0\0\0\x01a[$L#L" + struct.pack(">q", 1 << 60),
        b"{L\0\0\0\0\0\0\0\x01a[$Z#L" + struct.pack(">q", 1 << 60),
        b"{L\0\0\0\0\0\0\0\x01a[#L" + struct.pack(">q", 1 << 60) + b"ZZZZ",
        b"{i\x01a" * 100_000,
        b"{i\x01a" + b"[" * 100_000,
        b"[" * 1_000_000,
        b'{"learner":' * 100_000,
        ubjson_of({"learner": {"learner_model_param": "x"}}),
        b'{"learner": {"learner_model_param": {"num_feature": "99999999999"}, "objective": {"name": "rank:ndcg"}}}',
        b'{"tree_info": [], "feature_names": ["a"], "max_feature_idx": ' + b"9" * 5000 + b"}",
        b"## LambdaMART\n<ensemble>\n<tree>\n" + b"<split>" * 200_000,
        b"## LambdaMART\n" + b"<" * 1_000_000,
        b"## RankNet\n1 2\n1\n99999999999\n",
        b"## RankNet\n99999999999\n1\n1\n0 0 1\n0 1 1 1\n1 0 1\n",
        b"tree\nnum_class=1\nmax_feature_idx=99999999999999999\nfeature_names=a\n",
        json.dumps(CATBOOST).replace('"AsIs"', "[]").encode(),
    ],
    ids=range(18),
)
def test_sizes_that_no_file_has_are_refused_at_once(content, tmp_path):
    assert import_file(content, tmp_path)[0] == 2


def changed_xgboost(change):
    value = json.loads(contents()["xgboost"])
    change(value["learner"]["gradient_booster"]["model"]["trees"][0])
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree["left_children"].__setitem__(1, 0),
        lambda tree: tree["right_children"].__setitem__(0, tree["left_children"][0]),
        lambda tree: tree["right_children"].__setitem__(0, 10**15),
        lambda tree: tree["split_indices"].__setitem__(0, -7),
        lambda tree: tree["split_indices"].__setitem__(0, 1 << 40),
        lambda tree: tree["split_conditions"].__setitem__(0, float("nan")),
        lambda tree: tree["split_conditions"].__setitem__(-1, float("inf")),
        lambda tree: tree["default_left"].pop(),
        lambda tree: tree["split_type"].__setitem__(0, 1),
        lambda tree: tree.update(left_children=[]),
        lambda tree: tree.update(left_children=None),
        lambda tree: tree.update(split_indices=["0"] * len(tree["split_indices"])),
    ],
    ids=range(12),
)
def test_trees_that_are_no_trees_are_refused(change, tmp_path):
    code, errors = import_file(changed_xgboost(change), tmp_path)
    assert code == 2
    assert "tree 0 (from 0): " in errors[0] or "features; expected at most" in errors[0]


def test_nothing_is_run(tmp_path):
    class Harmful:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harmed",))

    code, errors = import_file(pickle.dumps(Harmful()), tmp_path)
    assert code == 2
    assert "is a pickle, which could run code" in errors[0]
    assert not (tmp_path / "harmed").exists()


def test_other_files(tmp_path):
    for content, message in {
        b"": "is empty; expected a model file of LightGBM",
        b" \n": "is empty; expected a model file of LightGBM",
        b"1 qid:1 1:0.5\n": "is of an unknown format; expected a model file of LightGBM",
        b"{}": "is JSON, but not a model file",
        b"[]": "is JSON, but not a model file",
        b"[[[]]]": "is JSON, but not a model file",
        b'{"a": 1,}': ":1: is not complete JSON",
        b"\xff\xfe\x00": "is of an unknown format",
        b"tree\n\xff": ":2: is not text in UTF-8",
    }.items():
        code, errors = import_file(content, tmp_path)
        assert code == 2
        assert message in errors[0]
    code, errors = import_file(contents()["ranklib"], tmp_path, "--from", "xgboost")
    assert (code, errors[0].endswith("is a model of RankLib; expected one of XGBoost")) == (2, True)
    with pytest.raises(InputError, match="kind is 'onnx'; expected one of: lightgbm"):
        rankwright.import_model(tmp_path / "input", kind="onnx")
    with pytest.raises(InputError, match="n_features is -1; expected a whole number"):
        rankwright.import_model(tmp_path / "input", n_features=-1)
    with pytest.raises(InputError, match="--features is 0; expected at least 1, which the model uses"):
        rankwright.import_model(tmp_path / "input", n_features=0)
