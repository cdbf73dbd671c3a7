"""Netlink: batched requests, dumps and events for links, addresses, routes, qdiscs and RDMA resources."""
