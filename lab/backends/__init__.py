"""Backends create a fabric, run it and remove it.

Start at ``backend`` (the interface) and ``lifecycle`` (up and down). ``fabric_state`` is the journal on disk::

    Topology -> lifecycle -> netns_backend | containerlab_backend | adopted/ -> plumbing -> running fabric
"""
