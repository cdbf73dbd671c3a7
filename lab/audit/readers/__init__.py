"""Readers of the parts of a node: kernel, files of its namespace, nftables, routing daemons, emulated devices."""
