"""Compiled functions as values are made once: thousands of short trainings made the same ones again and again.

Each training of the lambda family loads two functions of its measure from disk, and numba keeps all it ever loaded.
Each call of a kernel that takes functions makes the types of their signatures again. Both took more time than training.
"""

from functools import cache


def remember_functions():
    """In this process."""
    from numba.core.types import FunctionType
    from numba.extending import typeof_impl

    from rankwright.boosting import lambdas
    from rankwright.models.products import FirstClass

    lambdas.compiled = cache(lambdas.compiled)
    type_of = cache(FunctionType)
    typeof_impl.register(FirstClass)(lambda function, _: type_of(function.signature()))
