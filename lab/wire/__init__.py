"""Bytes to headers and back: RoCEv2, its ICRC, and the pcapng file format. No sockets, no clocks.

Only ``rocev2``, ``ethernet``, ``build``, ``craft``, ``explain`` and ``meanings`` import scapy; everything that a
one-line summary needs does not.
"""
