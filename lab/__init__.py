"""rocelab: a packet-level emulation lab for RoCEv2 over leaf-spine fabrics on Linux network namespaces."""

__version__ = "0.2.0"
