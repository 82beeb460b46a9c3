"""The ways to adapt, by name."""

__all__ = ["METHODS"]

METHODS = {
    "background": "the background ranker unchanged",
    "in-domain": "a linear ranker (RankingSVM) trained on the in-domain data alone",
    "interpolate": "background and in-domain ranker, interpolated",
    "augment": "a linear ranker trained on the in-domain data and its neighbours in the background data",
    "interpolate-3": "background, in-domain and augmented ranker, interpolated",
    "lambdaboost": "LambdaBoost starting from the background",
    "lambdamart": "LambdaMART starting from the background",
}
"""The ways to adapt, the simplest first."""
