"""Reports on a recording: a root cause analysis in Markdown, and an HTML page with a player.

The package only reads recordings. Start at ``run_facts``, which gathers everything once; ``markdown`` and ``page``
only render it::

    Recording -> run_facts (run_figures, ruled_out, steps, packet_picks) -> markdown | page (playback) | gallery
"""
