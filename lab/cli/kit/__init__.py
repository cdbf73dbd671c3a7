"""Shared parts of the commands: output, progress, options, completion, access to a running fabric."""
