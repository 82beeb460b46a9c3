"""Solvers: they move weights, and know neither features nor labels."""
