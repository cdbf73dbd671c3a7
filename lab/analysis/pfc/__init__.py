"""Pauses in a capture: how long each port was paused, and who paused whom first."""
