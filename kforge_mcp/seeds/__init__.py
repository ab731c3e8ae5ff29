"""Parametrised starting kernels per operator family."""
