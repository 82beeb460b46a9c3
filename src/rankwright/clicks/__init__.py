"""Clicks as judgements: logs of impressions and clicks, click models, grades."""
