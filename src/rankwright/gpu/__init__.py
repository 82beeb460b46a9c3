"""Training and scoring on an NVIDIA GPU: kernels in Python (numba-cuda), imported only where ``device="cuda"`` is."""
