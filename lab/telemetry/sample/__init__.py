"""Sampling: one process reads all counters at a fixed rate and collects events of ports, kernel and routers."""
