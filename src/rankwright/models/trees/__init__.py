"""Regression trees on binned features: binning, histograms, splits, growing, and models of many trees."""
