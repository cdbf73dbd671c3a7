"""Convergence: compare the routes that a topology requires with those of each switch."""
