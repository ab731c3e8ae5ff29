"""Where work runs: jobs, the engine that runs them, and the processes that they start."""
