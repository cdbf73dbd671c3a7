"""Convergence: the routes that a topology must have, compared with what each switch has."""
