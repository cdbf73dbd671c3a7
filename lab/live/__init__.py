"""A running fabric in the browser: the report's player, fed with a stream instead of a recording.

Start at ``live_feed``, which turns the sampler's log into updates. ``update_ring`` keeps the last ones, and
``live_server`` serves them to pages that ask for what is new. ``live_page`` is the page, made of the player's scripts
and ``live.js``::

    sampler -> live_feed -> update_ring -> live_server -> live.js -> the model of the player
"""
