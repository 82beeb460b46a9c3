"""From text to features: analysis, index, retrieval functions, candidates, features."""
