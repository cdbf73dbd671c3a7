"""The settings and state of all nodes of a fabric: one reader, one comparison.

Start at ``reader.audit`` for the state of all nodes, and ``difference.compare`` for the differences of two states::

    Fabric -> reader (kernel_reader, router_reader, device_reader) -> FabricAudit -> snapshot (JSON)
                                                                          |
                   baseline (what ``up`` built) -> difference.compare <---+---> siblings, link_ends, arithmetic
                                                          |                              |
                                                      Difference <-----------------------+
"""
