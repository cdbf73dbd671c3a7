"""Faults: break a running fabric on purpose, and restore it.

Start at ``fault`` (what a fault is) and ``fault_engine`` (inject and heal). ``kinds/`` holds every kind.
``catalogue`` lists them. ``diagnose`` never imports this room::

    fault_request, fault_place (what was asked for) -> fault_engine -> kinds/ ; ledger (what was there before) -> heal
"""
