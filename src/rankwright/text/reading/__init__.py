"""Documents and queries from files and from Python objects."""
