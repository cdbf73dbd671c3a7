"""Convert bytes to headers and back: RoCEv2, its ICRC, PFC, VXLAN, and the pcapng format. No sockets, no clocks.

Start at ``layers``, the table of header rules, and ``walk``, which follows it. ``frame`` decodes one frame without
scapy. Only ``rocev2``, ``ethernet``, ``craft/`` and ``explain/`` import scapy, so that a summary starts fast::

    octets -> walk (by layers) -> frame (values) -> filter/ (match), explain/ (text)
    craft/ (packet description) -> scapy layers -> octets with ICRC
"""
