"""Live terminal views of running fabrics and of recordings. The only package that uses Textual.

Start at ``top_app`` and ``replay_app``; ``viewer`` holds the tables that both show::

    samples or recording -> viewer (table, cells) ; history (one port), playhead (position in a replay)
"""
