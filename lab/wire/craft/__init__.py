"""Build frames: from typed values, or from a packet description as people write it."""
