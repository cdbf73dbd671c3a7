"""Symptoms: pure predicates over the facts of a window. Each says where it is seen, and by which figures."""
