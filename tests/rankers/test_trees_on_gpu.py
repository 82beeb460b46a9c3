"""What trees refuse on a GPU: one line, before anything is trained."""

import numpy as np
import pytest

from rankwright import LambdaMART, McRank
from rankwright.errors import InputError
from rankwright.gpu import card


@pytest.fixture(autouse=True)
def any_card(monkeypatch):
    """A card is found; nothing is done on it."""
    monkeypatch.setattr(card, "_problem", lambda: "")


def fit(ranker, **given):
    X = np.arange(40.0).reshape(20, 2)
    ranker.fit(X, np.arange(20) % 3 == 0, qid=np.repeat([1, 2], 10), **given)


@pytest.mark.parametrize(
    ("ranker", "why"),
    [
        (McRank(device="cuda"), "McRank is trained on the CPU only"),
        (LambdaMART(device="cuda", categorical=[1]), "the feature 'f2' is categorical"),
        (LambdaMART(device="cuda", monotone={0: 1}), "monotone is set"),
        (LambdaMART(device="cuda", randomize_nodes=True), "randomize_nodes is set"),
    ],
)
def test_what_the_card_cannot_do_is_refused(ranker, why):
    with pytest.raises(InputError) as error:
        fit(ranker)
    assert str(error.value) == f"device is 'cuda', but {why}; expected device='cpu'"


def test_positions_are_refused():
    with pytest.raises(InputError, match=r"device is 'cuda', but positions are given to fit; expected device='cpu'"):
        fit(LambdaMART(device="cuda"), position=np.tile(np.arange(1, 11), 2), propensities=1.0 / np.arange(1, 11))
