"""Models: what turns features into scores, and the files that keep them."""
