"""Where training runs: parts of a data set, each loaded once somewhere, and objects that live beside them."""
