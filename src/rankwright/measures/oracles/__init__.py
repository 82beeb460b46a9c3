"""Most violated rankings, compiled: for one query, the ranking that maximises loss minus margin, and its coefficients.

An oracle is a function (scores, labels, order, parameters, coef, work) → loss. ``order`` sorts the scores, highest
first; ``coef`` receives one number per document such that the margin is Σ coef·score. Loaded only to train.
"""
