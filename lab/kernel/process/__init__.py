"""Processes and namespaces: programs, signals, threads, cgroups, locks, files and time sources."""
