"""The ways to adapt, by name."""

__all__ = ["IN_DOMAIN", "METHODS", "NEED_DATA"]

METHODS = {
    "background": "the background ranker unchanged; of several, their interpolation",
    "in-domain": "a ranker trained on the in-domain data alone",
    "interpolate": "backgrounds and in-domain ranker, interpolated",
    "augment": "a ranker trained on the in-domain data and its neighbours in the background data",
    "interpolate-3": "backgrounds, in-domain and augmented ranker, interpolated",
    "lambdaboost": "LambdaBoost starting from the background",
    "lambdamart": "LambdaMART starting from the background",
}
"""The ways to adapt, the simplest first."""

NEED_DATA = ("augment", "interpolate-3")
"""Those that take neighbours from the background data."""

IN_DOMAIN = "rank-svm"
"""How the in-domain ranker is trained unless something else is asked for."""
