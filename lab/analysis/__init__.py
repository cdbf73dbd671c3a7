"""Analyse capture files as columns, in a stream, in bounded memory. Pure: no root, no processes.

Start at ``analyser``. It reads a file in batches, adds each batch to its sums and drops it. ``results.fact_builder``
turns the sums into the facts that ``rocelab analyze`` prints::

    file -> read (batches of packets) -> decode (columns) -> flows (one direction to one QP)
         -> transport (PSNs, losses, NAKs) and pfc (pauses) -> results (facts, verdict)
         -> views (ladder, plot, follow)
"""
