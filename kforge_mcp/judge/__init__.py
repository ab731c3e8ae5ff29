"""Is a candidate right, and is it faster? Statistics, requests to the evaluators, verdicts, holdout.

What runs beside the candidate lives in `runtime/` (referee, sides, checks); this layer asks it and concludes.
"""
