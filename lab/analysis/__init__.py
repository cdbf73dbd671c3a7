"""Analyse capture files: columnar, streaming, in bounded memory. Pure; no root.

Start at ``analyser``. It reads a file in batches, sums each batch up and forgets it; ``results.fact_builder`` turns
the sums into the facts that ``rocelab analyze`` prints::

    file -> read (batches of packets) -> decode (columns) -> flows (one direction to one QP)
         -> transport (PSNs, losses, NAKs) and pfc (pauses) -> results (facts, verdict)
         -> views (ladder, plot, follow)
"""
