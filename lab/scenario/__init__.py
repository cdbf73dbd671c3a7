"""Scenarios: scripted faults with traffic, recorded, and judged from the recording only.

Start at ``api``, which is all that a scenario imports. ``library`` finds scenarios, ``runner`` runs one::

    scenario module -> runner -> stage (phases, traffic/, faults) -> recording -> judge (checks) -> verdicts
    challenges/: the same run, stopped while the fault is active, for a user to diagnose
"""
