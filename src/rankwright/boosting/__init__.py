"""Boosted trees: binning, growing, lambda gradients, LambdaMART, McRank and LambdaBoost."""
