"""What commands answer with ``--json``, as models of which JSON Schemas are made: all names told, and no others."""
