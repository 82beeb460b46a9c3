"""Evaluation: the per-query table, runs against judgements, significance, comparison and rendering."""
