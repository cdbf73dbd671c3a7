"""The table of causes: for each, the symptoms it needs, what it excludes, its hint and its fix."""
