"""Packages: kernels with guarded dispatch and the evidence for them, accepted inside the model."""
