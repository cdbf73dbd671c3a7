"""Pauses in a capture: how long each port was paused, and which node began to pause."""
