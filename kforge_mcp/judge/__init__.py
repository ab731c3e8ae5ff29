"""Whether a candidate is right and faster."""
