"""Documents with numbers, and what an index should say about them."""

import math

import numpy as np

nan = math.nan
DOCUMENTS = [
    {"id": "a", "title": "Wings", "text": "lift of a wing", "price": 9.5, "clicks": "12", "day": "2024-05-31"},
    {"id": "b", "title": "Heat", "text": "heat of wings", "price": None, "clicks": 3, "day": "1969-12-31"},
    {"id": "c", "title": "Lift", "text": "an elevator is a lift", "price": 1e3, "day": "2024-05-31T12:00Z"},
    {"id": "d", "title": "Other", "text": "wing of a kind", "price": 0, "clicks": -1.5},
]
NUMBERS = {"price": [9.5, nan, 1e3, 0], "clicks": [12, 3, nan, -1.5], "day": [19874, -1, 19874.5, nan]}
QUERIES = {"1": "lift of wings", "2": "heat", "3": "wing elevator"}


def same(numbers, expected):
    assert list(numbers) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(numbers[name], values)
