"""Where training runs: partitions of a data set on workers, and actors beside them."""
