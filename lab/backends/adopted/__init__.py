"""Adopted labs: containerlab labs that somebody else deployed, used as fabrics and restored on ``down``."""
