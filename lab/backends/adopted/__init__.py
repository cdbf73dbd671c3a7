"""Adopted labs: containerlab labs that rocelab did not deploy, used as fabrics and restored on ``down``."""
