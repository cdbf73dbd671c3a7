"""Faults: break a running fabric on purpose, and restore it.

Start at ``fault`` (the base class) and ``fault_engine`` (inject and heal). ``kinds/`` holds every kind.
``catalogue`` lists them. ``diagnose`` never imports this room::

    fault_request, fault_place (parsed input) -> fault_engine -> kinds/ ; ledger (the state before) -> heal
"""
