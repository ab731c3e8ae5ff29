"""CUDA candidates: from a plan to cubins by NVRTC, and what the cubins say of themselves. Needs no GPU or driver."""
