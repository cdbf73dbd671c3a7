"""Live terminal views: a running fabric and recordings. The only room that uses Textual.

Start at ``top_app`` and ``replay_app``; ``viewer`` holds the tables that both show::

    samples or recording -> viewer (table, cells) ; history (one port), playhead (position in a replay)
"""
