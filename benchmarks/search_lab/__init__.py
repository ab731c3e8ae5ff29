"""A laboratory for search policies: synthetic kernel landscapes with known optima, and policies that climb them."""
