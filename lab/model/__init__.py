"""What exists: topology, QoS, overlay and addressing. Frozen, typed; no I/O besides reading a YAML text.

Start at ``load.load_topology``::

    YAML -> values/ (parse, validate) -> spec -> generate -> rules -> Topology -> addressing, qos/, overlay/ (plans)
"""
