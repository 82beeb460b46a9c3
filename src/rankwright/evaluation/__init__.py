"""Evaluation: the per-query table, runs against judgements, significance, comparison and rendering.

The package is not called `evaluate`, so that `rankwright.evaluate` can be the function.
"""
