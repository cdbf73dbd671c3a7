"""Build frames from typed values, or from a packet description in YAML or options."""
