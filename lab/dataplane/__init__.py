"""The emulated port: 802.1Qbb PFC, ECN, a switch's buffer and a scheduler on every interface, in tc and BPF.

Start at ``port_maps``, which loads the programs and opens their maps, and at ``counters``, which reads them::

    lab.model.qos -> configure -> port_maps (shared memory) -> counters, events -> pause_graph
                     reconfigure       |
                                  bpf/port.bpf.c on every interface (attach)

- ``port_layout``: the records that the programs and Python share; ``numbering``: the id of each port.
- ``reconfigure``: changes of the configuration while packets are forwarded.
- ``counter_names``: the counters by the names that operators know.
- ``disturb``, ``impair``: injected delay, reordering, loss and corruption.
"""
