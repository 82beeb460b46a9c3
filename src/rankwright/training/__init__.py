"""Training by name: the methods, one training of any of them, and the health of training."""
