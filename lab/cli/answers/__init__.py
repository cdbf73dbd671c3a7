"""Models of the ``--json`` answers of all commands, from which their JSON Schemas are generated."""
