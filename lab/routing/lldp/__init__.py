"""LLDP (IEEE 802.1AB): lldpd in the namespace of each node, and the cabling that it sees.

Start at ``cabling.examine_cabling``, which compares the neighbours from ``lldp_daemons`` with a topology.
"""
