"""The public estimators, in scikit-learn's style: they check input, join the parts and keep the results."""
