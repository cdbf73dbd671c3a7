"""Sums to results: facts with names and units, the timeline, and the verdict."""
