"""Conservation: what enters a hop must leave it, be counted as dropped, or wait in it. The rest has a place.

Start at ``locations``. The accounts come from the samples of a recording::

    Recording -> accounts -> HopBalance of each link direction, switch and NIC -> locations -> places and effects
"""
