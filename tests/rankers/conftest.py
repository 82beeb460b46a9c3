"""Every ranker, for the tests of what all of them promise."""

import pytest
from contract import QUICK, all_rankers


@pytest.fixture(params=all_rankers(), ids=lambda cls: cls.__name__)
def ranker(request):
    return request.param(**QUICK.get(request.param.__name__, {}))
