"""Reports: a recording as a root cause analysis in Markdown and as an HTML page that plays it. Pure.

Start at ``run_facts``, which gathers everything once; ``markdown`` and ``page`` only render it::

    Recording -> run_facts (run_figures, ruled_out, steps, packet_picks) -> markdown | page (playback) | gallery
"""
