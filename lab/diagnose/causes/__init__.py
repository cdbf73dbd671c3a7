"""The table of causes: the symptoms that each needs and excludes, how to tell it from its rival, and its fix."""
