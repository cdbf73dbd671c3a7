"""Comparisons of nodes with each other: siblings, the two ends of a link, and what one node may have by intent."""
