"""Trees on an NVIDIA GPU: bins, growing, scores."""
