"""The table of causes: the symptoms that each needs and excludes, its difference from its rival, and its fix."""
