"""FRR: configuration as a pure function of the plan, daemons, and what they report.

Start at ``frr_config.render`` for a switch's configuration, ``daemons`` to run it, ``wait.convergence`` for
convergence and ``paths.underlay_path`` for paths::

    Topology + plan -> frr_config/ -> daemons -> wait/ (expected routes against the kernel's) -> paths/, show, evpn

``lldp`` compares the cabling that lldpd sees with the topology.
"""
