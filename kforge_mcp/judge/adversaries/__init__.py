"""Candidates that try to fool the judge, and honest ones that it must pass: for tests and for the user's machine."""
