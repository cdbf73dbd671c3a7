"""The kinds of faults, grouped by what they affect."""
