"""Tables for people: what commands print when --json is not given."""
