"""Objectives: from scores to a value and one coefficient per document; only they know labels and queries."""
