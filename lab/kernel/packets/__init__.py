"""Packets through AF_PACKET: capture rings, capture filters, sending, ARP and path probes."""
