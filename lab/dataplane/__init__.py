"""The emulated port: 802.1Qbb PFC, ECN, a switch's buffer and a scheduler on every interface, in tc and BPF.

``bpf/`` has the programs, ``layout`` what they share with us, ``numbering`` which port is which, ``configure`` the
way from ``lab.model.qos`` to their maps, ``live`` that way while they run, ``port_maps`` the putting on and taking
off, ``counters`` and ``events`` what they saw, ``names`` what operators call it.
"""
