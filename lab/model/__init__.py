"""What exists: frozen, typed, no I/O beyond reading a YAML text."""
