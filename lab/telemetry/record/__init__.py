"""Recorders: start, stop and finish a recording; snapshots of state at the start of each phase."""
