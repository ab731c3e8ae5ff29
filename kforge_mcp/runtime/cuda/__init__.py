"""CUDA from the model interpreter: the driver's API by ctypes, and bound programs launched through it."""
