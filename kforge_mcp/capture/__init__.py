"""From a workload to operator cards."""
