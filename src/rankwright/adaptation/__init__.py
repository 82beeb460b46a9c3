"""Adaptation of a ranker from a rich domain to one with few judgements."""
