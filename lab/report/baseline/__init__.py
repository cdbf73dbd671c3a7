"""Baselines: normal ranges of values, learned from recordings, and the deviations of another recording from them.

Start at ``learned_baseline``, which has the statistics::

    recordings --> window_values --> learned_baseline --> a file
    another recording --> window_values ------------------> deviations
"""
