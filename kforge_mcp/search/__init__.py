"""Monte Carlo tree search over candidates: which node to revise next, what was learnt, when to stop."""
