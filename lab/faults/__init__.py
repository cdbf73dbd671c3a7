"""What breaks a fabric on purpose, and mends it again.

``fault`` is what a fault is, ``kinds/`` has their kinds, ``catalogue`` lists these. ``place`` reads where, ``wish``
what and how; ``engine`` injects and heals by the ``ledger``, ``timing`` says when. Whoever diagnoses reads none
of it.
"""
