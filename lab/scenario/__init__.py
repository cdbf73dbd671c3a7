"""Scenarios: a fabric breaks, is recorded, and is judged from the recording alone.

Start at ``api``, which is all that a scenario imports; ``library`` finds scenarios, ``runner`` runs one::

    scenario module -> runner -> stage (phases, traffic/, faults) -> recording -> judge (checks) -> verdicts
    challenges/: the same run, stopped where the fault is active, for somebody to diagnose
"""
