"""A topology as output: a description for JSON, a summary of its figures, a commented template."""
