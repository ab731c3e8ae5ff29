"""The candidate file: metadata block, steps, size expressions, tunables, and what they bind to."""
