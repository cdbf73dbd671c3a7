"""The model of a fabric: topology, QoS, overlay and addressing.

All of it is frozen and typed. There is no I/O, except that ``load`` reads the YAML file.

Start at ``load.load_topology``::

    YAML -> values/ (parse, validate) -> spec -> generate -> rules -> Topology -> addressing, qos/, overlay/ (plans)
"""
