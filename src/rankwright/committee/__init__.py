"""Several rankers at once: the committee of `auto`, and interpolation."""
