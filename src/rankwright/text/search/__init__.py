"""Search: retrieval functions, the features they make, learned models, snippets."""
