"""AF_PACKET: capture rings, capture filters, frame injection, ARP probes and path sweeps."""
