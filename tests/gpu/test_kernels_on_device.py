"""The device: arrays travel there and back; where there is none, one line says so."""

import numpy as np
import pytest
from on_device import has_gpu, run_on_device

from rankwright import LambdaMART, StructuredSVM
from rankwright.errors import InputError
from rankwright.gpu import device


def test_arrays_travel_and_launches_are_repeated(tmp_path):
    values = np.arange(99.0).reshape(3, 33)
    rng = np.random.default_rng(0)
    large = rng.normal(size=(40_003 if has_gpu() else 7, 55)).astype(np.float32)  # 8.8 MB, not a multiple of anything
    rows = rng.integers(0, len(large), 2 * len(large) + 1)
    found = run_on_device("device_script", tmp_path, values=values, large=large, rows=rows)
    for name in ("large", "in pieces"):
        assert np.array_equal(found[name], large), name
    for name in ("rows", "sparse rows"):
        assert np.array_equal(found[name], large[rows]), name
    assert np.array_equal(found["doubled"], 2 * values)
    assert not found["zeros"].any()
    assert found["zeros"].shape == (2, 3)
    assert found["free"] > 0
    assert (found["recorded"] == np.array([[35.0], [13.0]])).all()


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
@pytest.mark.parametrize("kind", [StructuredSVM, LambdaMART])
def test_without_a_gpu_one_line_says_so(kind):
    with pytest.raises(InputError, match=r"device is 'cuda', but .*; expected a GPU, or device='cpu'"):
        kind(device="cuda").fit([[1.0], [0.0]], [1, 0], qid=[1, 1])


def test_without_numba_cuda_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    device._problem.cache_clear()
    with pytest.raises(InputError, match=r"pip install 'rankwright\[gpu\]'"):
        device.check_device()
    device._problem.cache_clear()


def test_other_devices_are_refused():
    with pytest.raises(InputError, match="device is 'gpu'; expected cpu or cuda"):
        StructuredSVM(device="gpu").fit([[1.0], [0.0]], [1, 0], qid=[1, 1])
