"""Turn sums into results: facts with names and units, the timeline, and the verdict."""
