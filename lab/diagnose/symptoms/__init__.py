"""Symptoms: pure predicates over the facts of a window. Each yields signs: a place and the evidence for it."""
