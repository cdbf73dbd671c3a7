"""Probes: ARP, path sweeps and pings that diagnose an idle fabric; reads of overlay and ECMP state."""
