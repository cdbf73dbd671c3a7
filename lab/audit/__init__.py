"""The settings and state of all nodes of a fabric: one reader, one comparison.

Start at ``reader.audit`` for the state of all nodes, and ``difference.compare`` for the differences of two states::

    Fabric -> reader (readers/) -> FabricAudit (objects/) -> snapshot (JSON)
                                           |
    baseline (what ``up`` built) -> difference.compare      without_plan: comparisons/ (siblings, link_ends), rules/
                                           |                       |
                                       Difference <----------------+
"""
